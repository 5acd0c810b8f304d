"""Samples for a model: read, put in its order and units, and labelled with its classes."""

import contextlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rsgda.data.samples import NoNames, Samples, read_samples


class Source(NamedTuple):
    """Where samples are: a file, for IDX that of the labels, for .csv the column of them."""

    path: Path
    labels: Path | None = None
    label: str | None = None

    def read(self) -> Samples:
        """Read it."""
        return read_samples(self.path, labels=self.labels, label=self.label)


class Preparation(NamedTuple):
    """What is done to samples before a model sees them.

    Attributes:
        names: the features in the order of the model, where they have names.
        label: the column of the labels, likewise.
        mean: what is subtracted from each feature, or None.
        scale: what each is divided by then.
    """

    names: tuple[str, ...] | None = None
    label: str | None = None
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return samples in the units of the model."""
        return X if self.mean is None else (X - self.mean) / self.scale

    def same_units(self, other: "Preparation") -> bool:
        """Say whether distances mean the same after both."""
        if self.scale is None or other.scale is None:
            return self.scale is other.scale
        return self.scale.shape == other.scale.shape and bool(np.all(self.scale == other.scale))


class Known(NamedTuple):
    """What a model knows of its samples.

    Attributes:
        whose: how messages call the model.
        preparation: what is done to samples.
        shape: of one sample, images with their channels.
        classes: the labels.
    """

    whose: str
    preparation: Preparation
    shape: tuple[int, ...]
    classes: np.ndarray

    def read(self, source: Source) -> Samples:
        """Read samples; the column of the labels is that of the fit if there is no other wish."""
        label = self.preparation.label
        if source.label is None and label is not None and source.path.suffix.lower() == ".csv":
            with contextlib.suppress(NoNames):
                return source._replace(label=label).read()
        return source.read()

    def fitted(self, samples: Samples, path: Path) -> tuple[np.ndarray, np.ndarray]:
        """Return samples and labels as the model takes them."""
        X = self._ordered(samples, path)
        shape = (*X.shape[1:], 1) if X.ndim == 3 else X.shape[1:]
        if shape != self.shape:
            raise ValueError(
                f"{path} has {_shape(shape)} a sample, and {self.whose} takes {_shape(self.shape)}."
            )
        return self.preparation.apply(X), self._labels(samples.y, path)

    def _ordered(self, samples: Samples, path: Path) -> np.ndarray:
        wanted, come = self.preparation.names, samples.names
        if wanted is None or come is None or wanted == come:
            return samples.X
        for some, others, verb in ((wanted, come, "lacks"), (come, wanted, "has, unlike the fit,")):
            apart = [name for name in some if name not in others]
            if apart:
                more = f" and {len(apart) - 5} more" if len(apart) > 5 else ""
                names = ", ".join(repr(name) for name in apart[:5])
                raise ValueError(
                    f"{path} {verb} the column{'s' * (len(apart) > 1)} {names}{more}; "
                    f"{self.whose} takes {len(wanted)} features by their names."
                )
        return samples.X[:, [come.index(name) for name in wanted]]

    def _labels(self, y: np.ndarray, path: Path) -> np.ndarray:
        """Return labels as the model writes them; text and numbers that read alike are equal."""
        places = {_text(label): i for i, label in enumerate(self.classes.tolist())}
        codes = [places.get(_text(label), -1) for label in y.tolist()]
        if -1 in codes:
            first = codes.index(-1)
            known = ", ".join(repr(label) for label in self.classes.tolist()[:10])
            more = ", ..." if len(self.classes) > 10 else ""
            raise ValueError(
                f"{path} has a label that {self.whose} does not know, {y[first].item()!r} of "
                f"sample {first + 1}; it knows {known}{more}. Name the column of the "
                "labels (--label), or leave such samples out."
            )
        return self.classes[codes]


def some(n: int, most: int, seed: int) -> np.ndarray:
    """Return the places of at most so many of n samples, drawn without replacement."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def apart(X: np.ndarray, y: np.ndarray, norm: str, most: int = 500) -> float:
    """Return the median distance of a sample to the nearest one of another class.

    An attack of this radius can turn half of the samples into one of another class, so that no
    classifier withstands it. Where all samples are of one class it is the size of a sample.
    """
    from scipy.spatial.distance import cdist

    places = some(len(X), most, 0)
    rows, labels = X[places].reshape(len(places), -1).astype(float), y[places]
    distances = cdist(rows, rows, "chebyshev" if norm == "linf" else "euclidean")
    distances[labels[:, None] == labels] = np.inf
    nearest = distances.min(axis=1)
    nearest = nearest[np.isfinite(nearest) & (nearest > 0)]
    if not len(nearest):
        sizes = np.abs(rows).max(axis=1) if norm == "linf" else np.linalg.norm(rows, axis=1)
        return float(np.median(sizes)) or 1.0
    return float(np.median(nearest))


def grid(end: float, count: int = 8) -> list[float]:
    """Return round numbers from 0 to about `end`.

    >>> grid(0.83)
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    """
    step = max(end, 1e-6) / count
    unit = 10.0 ** math.floor(math.log10(step))
    step = min((1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10), key=lambda m: abs(m * unit - step)) * unit
    return [float(f"{i * step:.6g}") for i in range(count + 1)]


def _text(label: Any) -> str:
    whole = isinstance(label, float) and label.is_integer()
    return str(int(label)) if whole else str(label)


def _shape(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} features" if len(shape) == 1 else "×".join(map(str, shape)) + " pixels"
