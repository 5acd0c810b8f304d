"""What a figure of matching is made of: methods that are tuned, run and drawn."""

from pathlib import Path
from typing import Any

from rsgda.reproduce.match_cells import Cells
from rsgda.reproduce.match_figure import draw
from rsgda.reproduce.match_numbers import caption, curves_csv, described, groups, tuning_csv
from rsgda.reproduce.match_setting import Method, Scale, load
from rsgda.reproduce.outcome import Outcome, Tell

SCALES = {
    "quick": Scale("simulated", 240, 60, 1_000, (0.005, 0.02), 2, 5e-3),
    "standard": Scale("blood", 2_000, 500, 10_000, (0.002, 0.005, 0.02, 0.05, 0.1), 3, 1e-2),
    "paper": Scale("blood", 498_800, 12_470, 10_000, (0.002, 0.005, 0.02, 0.05, 0.1), 5, 2e-3),
}


def outcome(
    name: str,
    title: str,
    scale: str,
    methods: list[Method],
    *,
    tell: Tell,
    work: Path | None,
    files: tuple[Path, Path] | None,
    client: Any,
) -> Outcome:
    """Run the methods of a figure and draw them."""
    setting = SCALES[scale]
    clouds = load(setting.data, files)
    curves, tuned = Cells(setting, clouds, work).run(
        methods, lambda done, what: tell(0.97 * done, what), client
    )
    tell(0.97, "drawing")
    png, pdf = draw(title, groups(curves), tuned, caption(setting, clouds))
    return Outcome(
        files={
            f"{name}.csv": curves_csv(curves),
            "tuning.csv": tuning_csv(tuned),
            f"{name}.png": png,
            f"{name}.pdf": pdf,
        },
        settings={
            **described(setting, clouds),
            "seconds_of_cells": round(sum(curve.seconds for curve in [*curves, *tuned]), 1),
        },
    )
