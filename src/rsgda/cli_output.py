"""What commands show and write: lines and tables on the terminal, files, words for a report."""

import importlib.metadata
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rsgda import plots
from rsgda.reproduce.runner import write_aside

PACKAGES = ("rsgda", "jax", "numpy", "scikit-learn")


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


def versions() -> str:
    """Return the versions of all that has a part in the numbers."""
    each = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    return ", ".join([*each, f"Python {platform.python_version()}"])
