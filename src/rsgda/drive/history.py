"""The records of a run in memory: columns of numbers, a tenth of what as many dicts take."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

TRUTHS, WHOLE, REAL, OTHER = "bqd "  # type codes of `array`, and what it has no type for


class History:
    """Records one after the other, none of which changes any more.

    Attributes:
        last: the newest record, empty before the first.
    """

    def __init__(self, rows: Iterable[dict[str, Any]] = ()):
        """Begin with these records."""
        self.last: dict[str, Any] = {}
        self._stretches: list[_Stretch] = []
        self._length = 0
        for row in rows:
            self.append(row)

    def __len__(self) -> int:
        """How many there are."""
        return self._length

    def append(self, row: dict[str, Any]) -> None:
        """Add a record of plain numbers."""
        kinds = tuple((name, _kind(value)) for name, value in row.items())
        if not self._stretches or self._stretches[-1].kinds != kinds:
            self._stretches.append(_Stretch.begin(kinds))
        for column, value in zip(self._stretches[-1].columns, row.values(), strict=True):
            column.append(value)
        self.last = row
        self._length += 1

    def since(self, first: int) -> Iterator[dict[str, Any]]:
        """Return the records from a place on, as they were given."""
        begins = 0
        for stretch in self._stretches:
            yield from map(stretch.row, range(max(0, first - begins), stretch.length))
            begins += stretch.length

    def columns(self, every: int, last: int) -> dict[str, np.ndarray]:
        """Return one array per name for the multiples of `every` and the last step.

        What a record lacks is NaN.
        """
        parts = [stretch.arrays(every, last) for stretch in self._stretches]
        parts = [part for part in parts if len(part["step"])]
        names = dict.fromkeys(name for part in parts for name in part)
        return {
            name: np.concatenate(
                [part.get(name, np.full(len(part["step"]), np.nan)) for part in parts]
            )
            for name in names
        }


class _Stretch(NamedTuple):
    """Records that have the same names and kinds of numbers."""

    kinds: tuple[tuple[str, str], ...]
    columns: list[Any]

    @classmethod
    def begin(cls, kinds: tuple[tuple[str, str], ...]) -> "_Stretch":
        return cls(kinds, [[] if kind == OTHER else array(kind) for _, kind in kinds])

    @property
    def length(self) -> int:
        return len(self.columns[0])

    def row(self, place: int) -> dict[str, Any]:
        return {
            name: bool(column[place]) if kind == TRUTHS else column[place]
            for (name, kind), column in zip(self.kinds, self.columns, strict=True)
        }

    def arrays(self, every: int, last: int) -> dict[str, np.ndarray]:
        whole = {
            name: np.array(column, bool) if kind == TRUTHS else np.array(column)
            for (name, kind), column in zip(self.kinds, self.columns, strict=True)
        }
        asked = (whole["step"] % every == 0) | (whole["step"] == last)
        return whole if asked.all() else {name: column[asked] for name, column in whole.items()}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return TRUTHS
    if isinstance(value, float):
        return REAL
    return WHOLE if -(2**63) <= value < 2**63 else OTHER
