"""Figure 3: where the cells of the best run of Figure 4 lie, from its start to its end."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rsgda._trees import thaw
from rsgda.drive.solve import solve
from rsgda.moves import State
from rsgda.problem import Problem
from rsgda.report import as_csv
from rsgda.reproduce import kept
from rsgda.reproduce.fig3_figure import draw
from rsgda.reproduce.fig4 import METHODS
from rsgda.reproduce.match_cells import Cells, Curve, mapped_by
from rsgda.reproduce.match_numbers import curves_of, described
from rsgda.reproduce.match_setting import BATCH, EPSILON, SEED, Cell, Clouds, load, network, run_key
from rsgda.reproduce.match_target import SCALES as SCALES
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN, Finding, Outcome, Tell
from rsgda.reproduce.runner import MANIFEST
from rsgda.reproduce.stored import Tables, columns, table, tables
from rsgda.singlecell.embedding import some, tsne
from rsgda.singlecell.scores import label_transfer, mixing
from rsgda.transport.matching import matching
from rsgda.transport.sinkhorn import sinkhorn

DRAWN = {"quick": (600, 200), "standard": (3_000, 1_000), "paper": (6_000, 2_000)}  # of x, of y
SCORES = ("W at the start", "W at the end", "gap at the end", "right")
RUNS = 0.9  # of the time, that the runs of Figure 4 take if they are not there already


class Stage(NamedTuple):
    """Where the cells are at a time of the run.

    Attributes:
        title: when.
        epoch: of x.
        mapped: what the network makes of y.
    """

    title: str
    epoch: float
    mapped: np.ndarray


class Passed(NamedTuple):
    """A run that was gone along.

    Attributes:
        stages: its start, half an epoch, an epoch and the end.
        start: the network and the potentials at the start,
        end: and at the end.
    """

    stages: list[Stage]
    start: tuple[Any, Any]
    end: tuple[Any, Any]


def run(
    scale: str,
    tell: Tell,
    work: Path | None = None,
    files: tuple[Path, Path] | None = None,
    client: Any = None,
) -> Outcome:
    """Take the best run of Figure 4, go along it once more, embed what it passes, and draw it."""
    setting = SCALES[scale]
    clouds = load(setting.data, files)
    curves = None if work is None else written(work.parents[1], described(setting, clouds))
    if curves is None:
        curves, _ = Cells(setting, clouds, work).run(
            METHODS, lambda done, what: tell(RUNS * done, what), client
        )
    best = best_run(curves)
    tell(RUNS, f"once more: {best.cell.name}")
    along = passed(best.cell, clouds, setting.steps)
    stages = along.stages
    tell(0.95, "embedding")
    of_x, of_y = (
        some(len(points), most, seed=SEED)
        for points, most in zip((clouds.x, clouds.y), DRAWN[scale], strict=True)
    )
    x = clouds.x[of_x]
    points = tsne([x, *(stage.mapped[of_y] for stage in stages)], seed=SEED)
    types = (
        None
        if clouds.x_types is None or clouds.y_types is None
        else (clouds.x_types[of_x], clouds.y_types[of_y])
    )
    name = f"{best.cell.method.title}, α = {best.cell.alpha:g}, seed {best.cell.seed}"
    pictures = draw(points[0], points[1:], stages, types, name, placed(clouds))
    mixed = [mixing(stage.mapped[of_y], x, most=1_000).mean for stage in stages]
    right = transferred(clouds, stages[-1].mapped)
    scores = scores_of(Cells(setting, clouds, None), along, right)
    rows = [[stage.title, stage.epoch, mix] for stage, mix in zip(stages, mixed, strict=True)]
    return Outcome(
        files={
            "fig3.csv": as_csv(["stage", "epoch", "mixing"], rows),
            "scores.csv": as_csv(["score", "value"], scores.items()),
            **pictures,
        },
        settings={
            **described(setting, clouds),
            "run": name,
            "drawn": DRAWN[scale],
            "sha256_of_end": hashlib.sha256(stages[-1].mapped.tobytes()).hexdigest(),
        },
    )


def judge(found: Tables, settings: dict[str, Any]) -> list[Finding]:
    """Say what the rows of the files say."""
    del settings  # the files have all there is to say
    mixed = columns(table(found, "fig3.csv", ("stage", "mixing")), ["mixing"])["mixing"]
    rows = table(found, "scores.csv", ("score", "value"))
    return findings({row["score"]: float(row["value"]) for row in rows}, mixed.tolist())


def written(out: Path, settings: dict[str, Any]) -> list[Curve] | None:
    """Return the runs of Figure 4 that a folder has the table of, if their settings are these."""
    try:
        manifest = json.loads((out / "fig4" / MANIFEST).read_text(encoding="utf-8"))
        content = (out / "fig4" / "fig4.csv").read_bytes()
        same = kept.as_json(settings).items() <= manifest["settings"].items()
        whole = manifest["sha256"]["fig4.csv"] == hashlib.sha256(content).hexdigest()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return curves_of(tables({"fig4.csv": content}), "fig4.csv") if same and whole else None


def scores_of(cells: Cells, along: Passed, right: float) -> dict[str, float]:
    """Return the numbers of a run that the figure does not show.

    Of the run that is drawn: on another processor it ends elsewhere than it did in Figure 4.
    """
    start, _ = cells.evaluated(cells.subset, *along.start)
    end, _ = cells.evaluated(cells.subset, *along.end)
    return dict(zip(SCORES, (start["W"], end["W"], end["gap"], right), strict=True))


def best_run(curves: list[Curve]) -> Curve:
    """Return the run that ended lowest, on all rows."""
    ended = [curve for curve in curves if curve.finished]
    if not ended:
        raise ValueError("every run of Figure 4 diverged on these files; there is none to draw.")
    return min(ended, key=lambda curve: curve.looks["W_all"][-1])


def passed(cell: Cell, clouds: Clouds, steps: int) -> Passed:
    """Run a cell again, and return what it passes."""
    problem, theta, v = matching(
        clouds.x, clouds.y, network(clouds, cell.seed), epsilon=EPSILON, batch_size=BATCH
    )
    half = max(1, round(len(clouds.x) / BATCH / 2))
    seen = {0: np.asarray(mapped_by(theta, clouds.y))}

    def look(problem: Problem, state: State) -> dict[str, float]:
        del problem
        step = int(state.step)
        if step in (half, 2 * half):
            seen[step] = np.asarray(mapped_by(thaw(state.theta), clouds.y))
        return {"seen": float(step)}

    result = solve(
        problem, cell.algorithm(), theta, v, key=run_key(cell.seed), steps=steps, record=look,
        every=min(half, steps),
    )  # fmt: skip
    seen[steps] = np.asarray(mapped_by(result.theta, clouds.y))
    per_epoch = len(clouds.x) / BATCH
    stages = [
        Stage(_when(step / per_epoch, step, steps), step / per_epoch, seen[step])
        for step in sorted(seen)
    ]
    return Passed(stages, (theta, v), (result.theta, result.v))


def placed(clouds: Clouds) -> str:
    """Say what is drawn."""
    (N, d), (n, D) = clouds.x.shape, clouds.y.shape
    return (
        f"{clouds.name}: {n:,} × {D:,} mapped onto {N:,} × {d}. t-SNE of some cells of mu and of "
        "the same cells of nu at all four times, in one embedding."
    )


def _when(epoch: float, step: int, steps: int) -> str:
    if step == 0:
        return "iteration 0"
    if step == steps:
        return f"the end, {epoch:.3g} epochs"
    return "half an epoch" if epoch < 0.75 else "one epoch"


def transferred(clouds: Clouds, mapped: np.ndarray) -> float:
    """Return the share of cells of y that get their type back from those of x, or NaN."""
    if clouds.x_types is None or clouds.y_types is None:
        return float("nan")
    shared = np.flatnonzero(np.isin(clouds.x_types, np.unique(clouds.y_types)))
    chosen = shared[some(len(shared), 10_000, seed=SEED)]
    found = sinkhorn(clouds.x[chosen], mapped, epsilon=EPSILON, tol=0.05, max_iterations=300)
    kinds = np.unique(clouds.y_types)
    known = (clouds.x_types[chosen][:, None] == kinds).astype(np.float32)
    given: Any = found.turned().barycentric(mapped, known)
    return label_transfer(clouds.y_types, kinds[np.argmax(given, axis=1)]).accuracy


def findings(scores: dict[str, float], mixed: list[float]) -> list[Finding]:
    """Judge what the paper shows."""
    start, end, gap, right = (scores[name] for name in SCORES)
    falls = HOLDS if end + gap < start else FAILS
    told = ", ".join(f"{each:.2f}" for each in mixed)
    found = [
        Finding(
            "the mapped cells come to lie on mu",
            f"W_eps {start:.4g} to {end:.4g} on the subset; mixing {told}",
            falls if mixed[-1] > mixed[0] else (OPEN if falls == HOLDS else FAILS),
        )
    ]
    if np.isfinite(right):
        found.append(
            Finding(
                "cells of one type come together (ours)",
                f"{100 * right:.1f} % of the cells get their own type from mu",
                "for information",
            )
        )
    return found
