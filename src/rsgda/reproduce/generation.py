"""Generators of digits: a semi-discrete loss by RSGDA, and two rivals, at equal gradients."""

from pathlib import Path
from typing import Any

import numpy as np

from rsgda.report import as_csv
from rsgda.reproduce.generation_cells import Cells, Curve, described
from rsgda.reproduce.generation_figure import draw
from rsgda.reproduce.generation_setting import Cell, Method, Scale, load
from rsgda.reproduce.match_numbers import Ends, below, less
from rsgda.reproduce.outcome import Finding, Outcome, Tell
from rsgda.reproduce.stored import Tables, columns, grouped, table

SCALES = {
    "quick": Scale(
        "digits", 2_000, 2_400, 6, 1_000, (1e-3,),
        {"rsgda": (1.0,), "sinkhorn": (1,), "minibatch": (5,)}, 2,
    ),
    "standard": Scale(
        "mnist", 5_000, 4_200, 7, 1_000, (3e-4, 1e-3, 3e-3),
        {"rsgda": (0.1, 1.0), "sinkhorn": (1, 5), "minibatch": (5, 20)}, 3,
    ),
    "paper": Scale(
        "mnist", 60_000, 42_000, 20, 5_000, (3e-4, 1e-3, 3e-3),
        {"rsgda": (0.1, 1.0), "sinkhorn": (1, 5), "minibatch": (5, 20)}, 5,
    ),
}  # fmt: skip
COLUMNS = ("steps", "gradients", "low", "high")


def run(scale: str, tell: Tell, work: Path | None = None, client: Any = None) -> Outcome:
    """Tune, train and draw at a named scale."""
    setting = SCALES[scale]
    images = load(setting)
    curves, tuned = Cells(setting, images, work).run(
        lambda done, what: tell(0.97 * done, what), client
    )
    tell(0.97, "drawing")
    png, pdf = draw(curves, images, setting)
    return Outcome(
        files={
            "generation.csv": as_csv(*_table(curves)),
            "tuning.csv": as_csv(*_table(tuned)),
            "generation.png": png,
            "generation.pdf": pdf,
        },
        settings={
            **setting._asdict(),
            **described(setting),
            "precision": "float32",
            "seconds_of_cells": round(sum(curve.seconds for curve in [*curves, *tuned]), 1),
        },
    )


def judge(tables: Tables, settings: dict[str, Any]) -> list[Finding]:
    """Say what the curves of a file say."""
    return findings(curves_of(tables), settings["gradients"])


def findings(curves: list[Curve], gradients: int) -> list[Finding]:
    """Say how far the divergence fell, and whether it is lower than the rivals'."""
    ours, sinkhorn, minibatch = (
        [curve for curve in curves if curve.cell.method.kind == kind]
        for kind in ("rsgda", "sinkhorn", "minibatch")
    )
    start, end = at(ours, "gradients", 0), at(ours, "gradients", gradients)
    found = [
        Finding(
            "RSGDA lowers the divergence from held-out images",
            f"from {start.told()} to {end.told()}, by {1 - end.mean / start.mean:.1%}",
            below(end, start),
            less(end, start, "divergence, end less start"),
        )
    ]
    rivals = (
        ("Sinkhorn on all targets, at equal gradients", sinkhorn, "gradients"),
        ("W_eps between minibatches, at equal gradients", minibatch, "gradients"),
        ("W_eps between minibatches, its iterations for free", minibatch, "steps"),
    )
    for about, rival, over in rivals:
        other = at(rival, over, gradients)
        found.append(
            Finding(
                f"RSGDA ends below {about}",
                f"{_name(ours)}: {end.told()}; {_name(rival)}: {other.told()}",
                below(end, other),
                less(end, other, f"divergence, RSGDA less {_name(rival)}"),
            )
        )
    return found


def at(curves: list[Curve], over: str, count: float) -> Ends:
    """Return the divergence at a count, between two looks, for each seed."""
    low, high = (
        np.array([np.interp(count, c.looks[over], c.looks[name]) for c in curves])
        for name in ("low", "high")
    )
    return Ends(low, high - low)


def _name(curves: list[Curve]) -> str:
    cell = curves[0].cell
    return f"{cell.method.title}, Adam {cell.alpha:g}"


def curves_of(found: Tables) -> list[Curve]:
    """Return the curves that a file holds; what they made is not in it."""
    names = ("method", "number", "alpha", "seed", "status")
    rows = table(found, "generation.csv", [*names, *COLUMNS])
    return [
        Curve(
            Cell(Method(kind, float(number)), float(alpha), int(seed)), status,
            columns(some, COLUMNS), 0.0,
        )
        for (kind, number, alpha, seed, status), some in grouped(rows, names).items()
    ]  # fmt: skip


def _table(curves: list[Curve]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            curve.cell.method.kind, f"{curve.cell.method.number:g}", f"{curve.cell.alpha:g}",
            f"{curve.cell.seed}", curve.status, *(f"{value:.6g}" for value in look),
        ]
        for curve in curves
        for look in zip(*(curve.looks[name] for name in COLUMNS), strict=True)
    ]  # fmt: skip
    return ["method", "number", "alpha", "seed", "status", *COLUMNS], rows
