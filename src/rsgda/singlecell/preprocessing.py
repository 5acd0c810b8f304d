"""Preprocessing in the terms of the field: steps that are asked for, fitted, and recorded."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.utils.sparsefuncs import mean_variance_axis

from rsgda import _checks
from rsgda.singlecell.tables import Table

BINS = 20  # of genes by their mean, in which dispersions are compared


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of preprocessing. `fitted` learns from cells what `apply` and `undo` need.

    `undo` takes points back to the units before the step, as far as that can be.
    """

    counts: ClassVar[bool] = False  # whether it wants counts, which are not negative

    @property
    def name(self) -> str:
        """Return the name of the step."""
        return type(self).__name__

    def fitted(self, cells: Any, names: np.ndarray) -> dict[str, np.ndarray]:
        """Return what is learnt from cells."""
        del cells, names
        return {}

    def apply(self, cells: Any, learnt: dict[str, np.ndarray]) -> Any:
        """Return the cells after the step."""
        raise NotImplementedError

    def undo(self, points: np.ndarray, learnt: dict[str, np.ndarray]) -> np.ndarray:
        """Return points in the units before the step."""
        del learnt
        return points

    def renamed(self, names: np.ndarray, learnt: dict[str, np.ndarray]) -> np.ndarray:
        """Return the names of the features after the step."""
        del learnt
        return names


@dataclasses.dataclass(frozen=True)
class normalize_total(Step):
    r"""Library-size normalisation: each cell's counts are brought to one sum.

    $$ x_{ij} \leftarrow s\, x_{ij} / \textstyle\sum_k x_{ik} $$

    Args:
        target_sum: $s$.

    >>> normalize_total(10.0).apply(np.array([[1.0, 3.0]]), {}).tolist()
    [[2.5, 7.5]]
    """

    target_sum: float = 1e4
    counts: ClassVar[bool] = True

    def __post_init__(self):
        _checks.positive("target_sum", self.target_sum)

    def apply(self, cells: Any, learnt: dict[str, np.ndarray]) -> Any:
        """Divide each row by its sum; a cell without counts stays as it is."""
        total = np.asarray(cells.sum(axis=1), float).reshape(-1, 1)
        by = self.target_sum / np.where(total > 0, total, 1)
        return cells.multiply(by).tocsr() if sp.issparse(cells) else cells * by


@dataclasses.dataclass(frozen=True)
class log1p(Step):
    r"""The logarithm of one more, $x \leftarrow \log(1 + x)$.

    >>> log1p().apply(np.array([[0.0, np.e - 1]]), {}).tolist()
    [[0.0, 1.0]]
    """

    counts: ClassVar[bool] = True

    def apply(self, cells: Any, learnt: dict[str, np.ndarray]) -> Any:
        """Take the logarithm."""
        return cells.log1p() if sp.issparse(cells) else np.log1p(cells)

    def undo(self, points: np.ndarray, learnt: dict[str, np.ndarray]) -> np.ndarray:
        """Take the exponential."""
        return np.expm1(points)


@dataclasses.dataclass(frozen=True)
class arcsinh(Step):
    r"""The scale of cytometry, $x \leftarrow \operatorname{arcsinh}(x / c)$.

    Args:
        cofactor: $c$; 5 for mass cytometry, about 150 for fluorescence.

    >>> round(arcsinh(5.0).apply(np.array([[5.0]]), {}).item(), 4)
    0.8814
    """

    cofactor: float = 5.0

    def __post_init__(self):
        _checks.positive("cofactor", self.cofactor)

    def apply(self, cells: Any, learnt: dict[str, np.ndarray]) -> Any:
        """Take the inverse of the hyperbolic sine."""
        by = 1 / self.cofactor
        return (cells * by).arcsinh() if sp.issparse(cells) else np.arcsinh(cells * by)

    def undo(self, points: np.ndarray, learnt: dict[str, np.ndarray]) -> np.ndarray:
        """Take the hyperbolic sine."""
        return self.cofactor * np.sinh(points)


@dataclasses.dataclass(frozen=True)
class highly_variable(Step):
    r"""Keep the features that vary most for their mean.

    The dispersion $\log(\operatorname{var} / \operatorname{mean})$ of each feature is compared with
    those of 20 classes of features by their mean, in standard deviations ("seurat" in scanpy). It
    wants logarithms of counts, which it takes back for this.

    Args:
        n_top: how many features to keep.
    """

    n_top: int = 2_000

    def __post_init__(self):
        _checks.whole("n_top", self.n_top, 1)

    def fitted(self, cells: Any, names: np.ndarray) -> dict[str, np.ndarray]:
        """Choose features."""
        del names
        # e^700 is next to the largest number there is.
        if least(cells) < 0 or float(cells.max()) > 700:
            raise ValueError(
                "`highly_variable` wants logarithms of counts, as log1p makes them, got values "
                f"from {least(cells):g} to {float(cells.max()):g}."
            )
        cells = cells.astype(float)
        mean, variance = _moments(cells.expm1() if sp.issparse(cells) else np.expm1(cells))
        score = normalized_dispersion(mean, variance)
        kept = np.argsort(-score, kind="stable")[: self.n_top]
        return {"kept": np.sort(kept).astype(np.int64)}

    def apply(self, cells: Any, learnt: dict[str, np.ndarray]) -> Any:
        """Leave the others out."""
        return cells[:, learnt["kept"]]

    def renamed(self, names: np.ndarray, learnt: dict[str, np.ndarray]) -> np.ndarray:
        """Return the names that are kept."""
        return names[learnt["kept"]]


@dataclasses.dataclass(frozen=True)
class scale(Step):
    r"""Features of mean zero and variance one, $x_j \leftarrow (x_j - m_j) / s_j$.

    A constant feature becomes zero.

    Args:
        max_value: larger values, of either sign, are cut off there.
    """

    max_value: float | None = None

    def __post_init__(self):
        if self.max_value is not None:
            _checks.positive("max_value", self.max_value)

    def fitted(self, cells: Any, names: np.ndarray) -> dict[str, np.ndarray]:
        """Return means and standard deviations."""
        del names
        mean, variance = _moments(cells)
        spread = np.sqrt(variance)
        tiny = 1e-6 * np.abs(mean)  # what rounding makes of a constant
        return {"mean": mean, "spread": np.where(spread > tiny, spread, 1.0)}

    def apply(self, cells: Any, learnt: dict[str, np.ndarray]) -> Any:
        """Subtract and divide."""
        made = (dense(cells) - learnt["mean"]) / learnt["spread"]
        return made if self.max_value is None else np.clip(made, -self.max_value, self.max_value)

    def undo(self, points: np.ndarray, learnt: dict[str, np.ndarray]) -> np.ndarray:
        """Multiply and add."""
        return points * learnt["spread"] + learnt["mean"]


@dataclasses.dataclass(frozen=True)
class pca(Step):
    r"""The scores of the largest principal components, $x \leftarrow C (x - m)$.

    Args:
        n_comps: how many.
        seed: of the randomised solver, which is used for many features.
    """

    n_comps: int = 50
    seed: int = 0

    def __post_init__(self):
        _checks.whole("n_comps", self.n_comps, 1)
        _checks.whole("seed", self.seed, 0)

    def fitted(self, cells: Any, names: np.ndarray) -> dict[str, np.ndarray]:
        """Find the components."""
        del names
        most = min(cells.shape)
        if self.n_comps > most:
            raise ValueError(
                f"`n_comps` must be at most {most} for {cells.shape[0]:,} cells × "
                f"{cells.shape[1]:,} features, got {self.n_comps}."
            )
        found = PCA(self.n_comps, random_state=self.seed).fit(dense(cells))
        return {"mean": np.asarray(found.mean_), "components": np.asarray(found.components_)}

    def apply(self, cells: Any, learnt: dict[str, np.ndarray]) -> Any:
        """Return the scores."""
        return (dense(cells) - learnt["mean"]) @ learnt["components"].T

    def undo(self, points: np.ndarray, learnt: dict[str, np.ndarray]) -> np.ndarray:
        """Return the points of the components' span that have these scores."""
        return points @ learnt["components"] + learnt["mean"]

    def renamed(self, names: np.ndarray, learnt: dict[str, np.ndarray]) -> np.ndarray:
        """Return PC1, PC2, and so on."""
        return np.array([f"PC{i + 1}" for i in range(len(learnt["components"]))])


STEPS = {
    step.__name__: step for step in (normalize_total, log1p, arcsinh, highly_variable, scale, pca)
}


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """Steps with what each has learnt.

    Attributes:
        steps: in their order.
        learnt: by each.
        names: of the features before the first step,
        after: and after the last.
    """

    steps: tuple[Step, ...]
    learnt: tuple[dict[str, np.ndarray], ...]
    names: np.ndarray
    after: np.ndarray

    def apply(self, cells: Any) -> np.ndarray:
        """Return cells, features as they were in the data, after all steps."""
        for step, learnt in zip(self.steps, self.learnt, strict=True):
            _check_counts("cells", step, cells)
            cells = step.apply(cells, learnt)
        return np.ascontiguousarray(dense(cells), np.float32)

    def named(self, cells: Any) -> Any:
        """Return cells after the steps that leave each feature what it is: no choice, no PCA."""
        for step, learnt in zip(self.steps, self.learnt, strict=True):
            if isinstance(step, highly_variable | pca):
                break
            cells = step.apply(cells, learnt)
        return cells

    def undo(self, points: np.ndarray) -> np.ndarray:
        """Return points in the units of the data, as far as the steps can be undone."""
        points = np.asarray(points, float)
        for step, learnt in zip(reversed(self.steps), reversed(self.learnt), strict=True):
            points = step.undo(points, learnt)
        return points.astype(np.float32)

    @property
    def undone(self) -> np.ndarray:
        """The names of the features that `undo` returns."""
        names = self.names
        for step, learnt in zip(self.steps, self.learnt, strict=True):
            if isinstance(step, highly_variable):
                names = step.renamed(names, learnt)
        return names


def fit(which: str, steps: Any, table: Table) -> tuple[Preprocessing, np.ndarray]:
    """Fit steps to cells, one after the other; return them and the cells after all."""
    steps = tuple(steps) if isinstance(steps, tuple | list) else (steps,)
    wrong = [step for step in steps if not isinstance(step, Step)]
    if wrong:
        raise ValueError(
            f"`{which}` must be a list of steps, such as [log1p(), scale()], got {wrong[0]!r:.80}."
        )
    cells, names, learnt = table.matrix, table.features, []
    for i, step in enumerate(steps):
        if isinstance(step, highly_variable) and any(
            isinstance(before, scale | pca) for before in steps[:i]
        ):
            raise ValueError(f"`{which}`: highly_variable must come before scale and pca.")
        _check_counts(which, step, cells)
        try:
            learnt.append(step.fitted(cells, names))
        except ValueError as error:
            raise ValueError(f"`{which}`: {error}") from error
        cells = step.apply(cells, learnt[-1])
        names = step.renamed(names, learnt[-1])
    made = np.ascontiguousarray(dense(cells), np.float32)
    return Preprocessing(steps, tuple(learnt), table.features, names), made


def _check_counts(which: str, step: Step, cells: Any) -> None:
    if step.counts and least(cells) < 0:
        raise ValueError(
            f"`{which}`: {step.name} wants counts, which are not negative, got {least(cells):g}; "
            "leave it out if the data are prepared already."
        )


def normalized_dispersion(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return how far the dispersion of each feature is above those of like mean."""
    safe = np.where(mean > 0, mean, 1e-12)
    with np.errstate(divide="ignore"):
        dispersion = np.log(np.where(variance > 0, variance, np.nan) / safe)
    level = np.log1p(mean)
    edges = np.linspace(level.min(), level.max(), BINS + 1)
    place = np.clip(np.digitize(level, edges[1:-1]), 0, BINS - 1)
    score = np.full(len(mean), -np.inf)
    for each in np.unique(place):
        mine = (place == each) & np.isfinite(dispersion)
        values = dispersion[mine]
        if len(values) == 1:
            score[mine] = 1.0  # alone in its class: scanpy's way
        elif len(values):
            spread = values.std(ddof=1)
            score[mine] = (values - values.mean()) / (spread if spread > 0 else 1.0)
    return score


def least(cells: Any) -> float:
    """Return the smallest value of a matrix."""
    return float(cells.min())


def dense(cells: Any) -> np.ndarray:
    """Return a matrix as an array."""
    return np.asarray(cells.toarray() if sp.issparse(cells) else cells)


def _moments(cells: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the variance of each column, in float64."""
    if sp.issparse(cells):
        moments: Any = mean_variance_axis(cells.tocsr().astype(float), axis=0)
        return moments
    cells = np.asarray(cells, float)
    return cells.mean(axis=0), cells.var(axis=0)
