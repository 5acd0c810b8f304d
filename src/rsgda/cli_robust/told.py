"""What a command shows and writes: lines and tables on the terminal, files, words for a report."""

import importlib.metadata
import platform
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rsgda import plots
from rsgda._names import short
from rsgda.cli_robust.folder import Model
from rsgda.data.samples import Samples
from rsgda.reproduce.runner import write_aside

PACKAGES = ("rsgda", "jax", "numpy", "scikit-learn")
HIDDEN = ("checkpoint", "progress")
AUTOMATIC = {
    "alpha": "0.1, divided by the mean square of the inputs where that is above one",
    "eta": "the size of a minibatch / (4 gamma)",
}
STOPPING = ("validation_fraction", "n_iter_no_change")
MOST_CLASSES = 30
MOST_SINGLE = 5


def say(text: str) -> None:
    """Print a line as it is."""
    Console().print(text, soft_wrap=True, highlight=False, markup=False)


def is_watched() -> bool:
    """Say whether somebody sees a progress bar."""
    return Console(stderr=True).is_terminal


def show(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: int = 1) -> None:
    """Print a table."""
    table = Table()
    for place, column in enumerate(columns):
        side = "left" if place < right else "right"
        table.add_column(Text(column), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def say_read(path: Path, samples: Samples) -> None:
    """Say what a file holds."""
    note = f" ({samples.note})" if samples.note else ""
    say(f"{path}: {size(samples.X, samples.y)}{note}")


def say_single(path: Path, y: np.ndarray) -> None:
    """Say which classes have one sample only, from which nothing is learnt: most are mistakes."""
    labels, places, counts = np.unique(y, return_index=True, return_counts=True)
    single = np.flatnonzero(counts == 1)
    if len(single):
        each = [f"{labels[i].item()!r} (sample {places[i] + 1:,})" for i in single[:MOST_SINGLE]]
        more = f" and {len(single) - len(each):,} more" if len(single) > len(each) else ""
        say(f"note: {path} has a single sample of class {', '.join(each)}{more}")


def size(X: np.ndarray, y: np.ndarray) -> str:
    """Describe samples in words."""
    shape = X.shape[1:]
    each = f"{shape[0]} features" if len(shape) == 1 else f"{'×'.join(map(str, shape))} pixels"
    return f"{len(X):,} samples, {each}, {len(np.unique(y))} classes"


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Write files and say so."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_aside(folder / name, content)
    say(f"{folder}: {', '.join(files)}")


def svg(figure: Any) -> bytes:
    """Return a figure for a page."""
    return plots.saved(figure, "svg")


def percent(part: Any, digits: int = 1) -> str:
    """Return a part as percents; what is left out of a hundred is not rounded away."""
    unit = 10.0 ** -(digits + 2)
    part = float(part)
    if part < 1:
        part = min(part, 1 - unit)
    if part > 0:
        part = max(part, unit)
    return f"{100 * part:.{digits}f} %"


def number(value: Any) -> str:
    """Return a number that is to be read, not computed with.

    >>> number(3000.0), number(49.96), number(0.25)
    ('3,000', '50', '0.25')
    """
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


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
            rows.append((str(label), f"{np.sum(of):,}", percent(np.mean(right[of]))))
    return rows if len(rows) <= MOST_CLASSES else []


def settings(model: Model) -> dict[str, str]:
    """Return the settings of a model in words."""
    found, fitted = {}, model.classifier
    own = () if fitted.algorithm is None else ("p", "alpha", "eta")  # which it has itself
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
    found["epochs"] = number(history["epoch"][-1])
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


def versions() -> str:
    """Return the versions of all that has a part in the numbers."""
    each = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    return ", ".join([*each, f"Python {platform.python_version()}"])
