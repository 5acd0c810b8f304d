"""What these commands say of samples and of models."""

from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import Any

import numpy as np

from rsgda import cli_output as output
from rsgda._names import short
from rsgda.cli_robust.folder import Model
from rsgda.data.samples import Samples

HIDDEN = ("checkpoint", "progress")
AUTOMATIC = {
    "p": "0.25",
    "alpha": "0.1, divided by the mean square of the inputs where that is above one",
    "eta": "the size of a minibatch / (4 gamma)",
}
STEPS = ("p", "alpha", "eta")
STOPPING = ("validation_fraction", "n_iter_no_change")
MOST_CLASSES = 30
MOST_SINGLE = 5


def say_read(path: Path, samples: Samples) -> None:
    """Say what a file holds."""
    note = f" ({samples.note})" if samples.note else ""
    output.say(f"{path}: {size(samples.X, samples.y)}{note}")


def say_single(path: Path, y: np.ndarray) -> None:
    """Say which classes have one sample only, from which nothing is learnt: most are mistakes."""
    labels, places, counts = np.unique(y, return_index=True, return_counts=True)
    single = np.flatnonzero(counts == 1)
    if len(single):
        each = [f"{labels[i].item()!r} (sample {places[i] + 1:,})" for i in single[:MOST_SINGLE]]
        more = f" and {len(single) - len(each):,} more" if len(single) > len(each) else ""
        output.say(f"note: {path} has a single sample of class {', '.join(each)}{more}")


def size(X: np.ndarray, y: np.ndarray) -> str:
    """Describe samples in words."""
    shape = X.shape[1:]
    each = f"{shape[0]} features" if len(shape) == 1 else f"{'×'.join(map(str, shape))} pixels"
    return f"{len(X):,} samples, {each}, {len(np.unique(y))} classes"


def at_most(value: Any) -> str:
    """Return an upper bound in four digits, rounded up.

    >>> at_most(2.17901), at_most(2.179), at_most(float("inf"))
    ('2.180', '2.179', '–')
    """
    if not np.isfinite(value):
        return "–"
    return str(Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(float(value))))


def by_class(y: np.ndarray, right: np.ndarray, classes: np.ndarray) -> list[tuple[str, str, str]]:
    """Return how many samples of each class there are and which part is right."""
    rows = []
    for label in classes:
        of = y == label
        if np.any(of):
            rows.append((str(label), f"{np.sum(of):,}", output.percent(np.mean(right[of]))))
    return rows if len(rows) <= MOST_CLASSES else []


def settings(model: Model) -> dict[str, str]:
    """Return the settings of a model in words."""
    found, fitted = {}, model.classifier
    own = () if fitted.algorithm is None else STEPS  # which it has itself
    if fitted.finds_steps:
        own, found["steps"] = STEPS, "found by rsgda.Auto"
    for name, value in fitted.get_params(deep=False).items():
        if name in (*HIDDEN, *own) or (name in STOPPING and not fitted.early_stopping):
            continue
        if name == "eta" and np.isinf(fitted.gamma):
            continue  # there are no adversaries
        if value is None and name in AUTOMATIC:
            found[name] = AUTOMATIC[name]
        elif isinstance(value, bool):
            found[name] = "yes" if value else "no"
        elif value is not None:
            found[name] = short(value) if callable(value) else str(value)
    history = fitted.history_
    found["epochs"] = output.number(history["epoch"][-1])
    done = history["descents" if fitted.per_batch else "gradients"][-1]
    if done and np.isclose(history["epoch"][-1], done):
        found["batch_size"] = f"all samples, as there are no more than {fitted.batch_size:,}"
    found["network"] = fitted.network_name_
    found["inputs"] = units(model)
    return {name.replace("_", " "): value for name, value in found.items()}


def units(model: Model) -> str:
    """Say what distances are measured in."""
    if model.preparation.mean is not None:
        return "standardised: distances are in standard deviations of each feature"
    pixels = model.classifier.pixels
    if pixels is not None and tuple(pixels) != (0, 1):
        return f"mapped from [0, 1] to [{pixels[0]:g}, {pixels[1]:g}], where distances are measured"
    return "as they are: distances are in the units of the data"
