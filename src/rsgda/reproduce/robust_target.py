"""What a figure of robust classification is made of: cells that are run and drawn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rsgda.reproduce.outcome import Outcome, Tell
from rsgda.reproduce.robust_cells import Cells, Curve
from rsgda.reproduce.robust_numbers import caption, curves_csv, described, summary_csv
from rsgda.reproduce.robust_setting import Cell, Scale


def outcome(
    name: str,
    scale: Scale,
    cells: list[Cell],
    *,
    draw: Callable[[list[Curve], str], tuple[bytes, bytes]],
    settings: dict[str, Any],
    tell: Tell,
    work: Path | None,
    client: Any,
) -> Outcome:
    """Run the cells of a figure and draw them."""
    curves = Cells(scale, work).run(cells, lambda done, what: tell(0.95 * done, what), client)
    tell(0.95, "drawing")
    png, pdf = draw(curves, caption(scale))
    return Outcome(
        files={
            f"{name}.csv": curves_csv(curves),
            "summary.csv": summary_csv(curves),
            f"{name}.png": png,
            f"{name}.pdf": pdf,
        },
        settings={**described(scale, curves), **settings},
    )
