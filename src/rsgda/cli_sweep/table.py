"""The table of a sweep: one line for each problem, algorithm, seed and record."""

import importlib
import io
import json
from collections.abc import Sequence
from typing import Any

from rsgda.cli_sweep.grid import Grid
from rsgda.drive.result import COUNTERS
from rsgda.drive.sweep import Table
from rsgda.report import as_csv

Columns = dict[str, list[Any]]


def columns(grid: Grid, tables: Sequence[Table]) -> Columns:
    """Return all columns, tidy: what a problem or an algorithm does not have is None.

    What a problem was made with stands under `problem.` and its name, what an algorithm was made
    with under its name.
    """
    lines = []
    for setting, table in zip(grid.settings, tables, strict=True):
        made = {f"problem.{name}": _cell(value) for name, value in setting.fields.items()}
        for (i, j), status, history in table.runs():
            choice = grid.choices[i]
            who = {"problem": setting.name, **made, "algorithm": choice.name}
            who |= {name: _cell(value) for name, value in choice.numbers.items()}
            who["seed"] = grid.seeds[j]
            names = [*COUNTERS, *(name for name in history if name not in COUNTERS)]
            for place in range(len(history["step"])):
                seen = {_free(name, who): history[name][place].item() for name in names}
                lines.append((who, seen, status.name))
    first = _all(who for who, _, _ in lines)
    first = [
        *(n for n in first if n.startswith("problem")),
        "algorithm",
        *(n for n in first if not n.startswith("problem") and n not in ("algorithm", "seed")),
        "seed",
    ]
    rest = _all(seen for _, seen, _ in lines)
    found: Columns = {name: [who.get(name) for who, _, _ in lines] for name in first}
    found |= {name: [seen.get(name) for _, seen, _ in lines] for name in rest}
    return found | {"status": [status for _, _, status in lines]}


def written(found: Columns, kind: str) -> bytes:
    """Return the table as a file."""
    if kind == "csv":
        return as_csv(list(found), zip(*found.values(), strict=True))
    arrow = pyarrow()
    file = io.BytesIO()
    arrow.parquet.write_table(
        arrow.table({name: _alike(column) for name, column in found.items()}), file
    )
    return file.getvalue()


def pyarrow() -> Any:
    """Return the library that writes Parquet."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise ValueError(
            "--format parquet needs pyarrow, which is not installed: pip install pyarrow, or take "
            "--format csv."
        ) from error


def _free(name: str, taken: dict[str, Any]) -> str:
    """Keep what is recorded apart from what was given."""
    return f"record.{name}" if name in taken or name == "status" else name


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def _all(lines: Any) -> list[str]:
    return list(dict.fromkeys(name for line in lines for name in line))


def _alike(column: list[Any]) -> list[Any]:
    """Return a column of one type: numbers beside texts become texts."""
    texts = [isinstance(value, str) for value in column if value is not None]
    if any(texts) and not all(texts):
        return [None if value is None else str(value) for value in column]
    return column
