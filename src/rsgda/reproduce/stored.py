"""Tables as the files of a target hold them, which is all that verdicts are read off."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

Row = dict[str, str]
Tables = Mapping[str, Sequence[Row]]


class Lacking(Exception):
    """The stored numbers do not suffice for the verdicts."""


def tables(files: Mapping[str, bytes]) -> dict[str, list[Row]]:
    r"""Read those of the files that are tables.

    >>> tables({"a.csv": b"x,y\n1,2\n", "a.png": b""})
    {'a.csv': [{'x': '1', 'y': '2'}]}
    """
    return {
        name: list(csv.DictReader(io.StringIO(content.decode())))
        for name, content in files.items()
        if name.endswith(".csv")
    }


def table(found: Tables, name: str, columns: Iterable[str]) -> Sequence[Row]:
    """Return a table that must be there and have some columns."""
    if not found.get(name):
        raise Lacking(f"there is no {name}, or nothing is in it")
    if missing := [column for column in columns if found[name][0].get(column) is None]:
        raise Lacking(f"{name} lacks {', '.join(missing)}")
    return found[name]


def grouped(rows: Iterable[Row], names: Sequence[str]) -> dict[tuple[str, ...], list[Row]]:
    """Return rows that agree in some columns together, in the order they come."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def columns(rows: Sequence[Row], names: Iterable[str]) -> dict[str, np.ndarray]:
    """Return columns as numbers."""
    return {name: np.array([float(row[name]) for row in rows]) for name in names}
