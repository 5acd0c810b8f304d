"""Values that no phi can have: by the authors' acceptance rule, beside a certified phi.

The authors' loss, a cross-entropy of softmaxes, is at least log(1 + 9/e), and so is phi; their
figures have lower values. Dense layers make 200 epochs cheap; all else is as in their grid.
"""

from pathlib import Path
from typing import Any

from rsgda.reproduce.fig2_claims import floor
from rsgda.reproduce.outcome import Finding, Outcome, Tell
from rsgda.reproduce.robust_cells import Curve
from rsgda.reproduce.robust_figure import draw_floor
from rsgda.reproduce.robust_numbers import curves_of, groups
from rsgda.reproduce.robust_setting import Budget, Cell, Scale, seeded
from rsgda.reproduce.robust_target import outcome
from rsgda.reproduce.stored import Tables

CELL = Cell("authors", 0.9, 0.3)

SCALES = {
    "quick": Scale("digits", 64, {"authors": Budget(2_400, 240, 1)}, dense=True),
    "standard": Scale("mnist", 256, {"authors": Budget(93_600, 4_680, 2)}, dense=True),
    "paper": Scale("mnist", 2_000, {"authors": Budget(93_600, 4_680, 5)}, dense=True),
}


def run(scale: str, tell: Tell, work: Path | None = None, client: Any = None) -> Outcome:
    """Run the cell, count such values and draw at a named scale."""
    return outcome(
        "floor", SCALES[scale], cells(SCALES[scale]), draw=draw_floor, settings={},
        tell=tell, work=None if work is None else work / "floor", client=client,
    )  # fmt: skip


def cells(scale: Scale) -> list[Cell]:
    """Return what is run: of the authors' grid, the cell that descends most."""
    return seeded([CELL], scale)


def judge(tables: Tables, settings: dict[str, Any]) -> list[Finding]:
    """Say what the curves of a file say."""
    return findings(curves_of(tables, "floor.csv", settings))


def findings(curves: list[Curve]) -> list[Finding]:
    """Say whether there are values that phi cannot have."""
    return floor(CELL.objective, groups(curves))
