"""Run the cells of Figures 4 and 5: tune each method, run it with its seeds, keep what it found."""

import dataclasses
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from rsgda._trees import thaw
from rsgda.drive.result import Status
from rsgda.drive.solve import solve
from rsgda.moves import State
from rsgda.problem import Problem
from rsgda.reproduce import kept
from rsgda.reproduce.astray import astray
from rsgda.reproduce.match_setting import (
    BATCH,
    EPSILON,
    ETA,
    HIDDEN,
    SEED,
    Cell,
    Clouds,
    Method,
    Scale,
    network,
    run_key,
)
from rsgda.reproduce.outcome import Tell
from rsgda.transport.matching import matching
from rsgda.transport.sinkhorn import sinkhorn

MOST = 300  # passes over x at most, in an evaluation
COARSE = 4  # one in so many rows of the subset is enough to choose an alpha
ENDS = 0.3  # of the time of a run at standard scale, about, that its last evaluation takes
TUNING = 1_000  # a seed that no curve has
LOOKED = ("W", "gap", "error", "off")


@dataclasses.dataclass(frozen=True)
class Curve:
    """What a cell found: one entry of each array for each look, the start among them.

    Attributes:
        cell: what was run.
        status: how it ended.
        looks: by name. `gradients`; `epoch`, of x; on the subset `W` (a lower bound of W_eps),
            `gap` (what it can be above that), `error` (the standard error of a mean over the
            subset's rows), `off` (of the marginal). The last entries of `W_all` and `gap_all` are
            of all rows, the others are not a number.
        seconds: how long it took.
    """

    cell: Cell
    status: str
    looks: dict[str, np.ndarray]
    seconds: float

    @property
    def finished(self) -> bool:
        """Whether the run came to its end without overflowing."""
        return self.status == Status.FINISHED.name and bool(np.isfinite(self.looks["W"][-1]))


class Cells:
    """Runs cells at one scale; what a folder holds already is not run again."""

    def __init__(self, scale: Scale, clouds: Clouds, work: Path | None):
        """Choose the subset; `work` is the folder to keep cells in."""
        self.scale, self.clouds, self.work = scale, clouds, work
        self.sha256 = clouds.sha256
        count = min(scale.rows, len(clouds.x))
        chosen = np.random.default_rng(SEED).choice(len(clouds.x), count, replace=False)
        self.subset = clouds.x[np.sort(chosen)]

    def run(
        self, methods: list[Method], tell: Tell, client: Any = None
    ) -> tuple[list[Curve], list[Curve]]:
        """Tune all methods, then run each at its best alpha with all seeds.

        Returns:
            The curves, and those of the tuning.
        """
        scale = self.scale
        grid = [
            Cell(method, alpha, TUNING, tuning=True) for method in methods for alpha in scale.alphas
        ]
        size = sum(cell.method.descents for cell in grid)
        more = sum(method.descents + ENDS for method in methods) * scale.seeds
        share = size / (size + more)
        tuned = self._all(grid, lambda done, what: tell(share * done, what), client)
        best = [best_of(tuned, method) for method in methods]
        cells = [cell._replace(seed=s, tuning=False) for cell in best for s in range(scale.seeds)]
        curves = self._all(cells, lambda done, what: tell(share + (1 - share) * done, what), client)
        return curves, tuned

    def _all(self, cells: list[Cell], tell: Tell, client: Any) -> list[Curve]:
        return kept.one_by_one(
            cells, self.one, size=lambda cell: cell.method.descents + ENDS * (not cell.tuning),
            name=lambda cell: cell.name, work=self.work, tell=tell,
            client=client,
        )  # fmt: skip

    def one(self, cell: Cell, tell: Callable[[float], None]) -> Curve:
        """Run one cell, or read what it found before."""
        path = None if self.work is None else self.work / f"{cell.name}.json"
        found = kept.read(path, settings := self._settings(cell))
        if found is None:
            # A run of seconds is sooner done again than kept half way.
            long = self.scale.data != "simulated"
            checkpoint = path.with_suffix("") if path is not None and long else None
            began = time.perf_counter()
            status, looks = self._train(cell, checkpoint, tell)
            found = kept.Found(status, looks, time.perf_counter() - began)
            kept.keep(path, settings, found)
            if checkpoint is not None:
                shutil.rmtree(checkpoint, ignore_errors=True)
        return Curve(cell, *found)

    def _train(
        self, cell: Cell, checkpoint: Path | None, tell: Callable[[float], None]
    ) -> tuple[str, dict[str, np.ndarray]]:
        clouds, scale = self.clouds, self.scale
        problem, theta, v = matching(
            clouds.x, clouds.y, network(clouds, cell.seed), epsilon=EPSILON, batch_size=BATCH
        )
        every = scale.steps if cell.tuning else scale.every
        subset = self.subset[:: COARSE if cell.tuning else 1]
        solved, looked = v, None

        def look(problem: Problem, state: State) -> dict[str, float]:
            nonlocal solved, looked
            del problem
            looked = int(state.step)
            tell(int(state.step) / scale.steps)
            numbers, solved = self.evaluated(subset, thaw(state.theta), state.v)
            return numbers

        algorithm = cell.algorithm()
        start = look(problem, algorithm.init(problem, theta, v, run_key(cell.seed)))
        with kept.diverging_is_no_news():
            result = solve(
                problem, algorithm, theta, v, key=run_key(cell.seed), steps=scale.steps,
                record=look, every=every, checkpoint=checkpoint,
            )  # fmt: skip
        history = {name: np.asarray(result.history[name], float) for name in (*start, "gradients")}
        looks = {name: np.r_[start.get(name, 0.0), history[name]] for name in history}
        per_step = 1 if cell.method.m_sin is None else cell.method.m_sin + 1
        looks["epoch"] = looks["gradients"] / per_step * BATCH / len(clouds.x)
        whole = dict.fromkeys(LOOKED, float("nan"))
        if not cell.tuning and np.isfinite(looks["W"][-1]):
            if result.state.step != looked:  # it had ended before, and was not looked at again
                look(problem, result.state)
            # Potentials that solve the subset nearly solve all of it.
            whole, _ = self.evaluated(clouds.x, result.theta, solved)
        for name in ("W", "gap"):
            looks[f"{name}_all"] = np.full(len(looks["W"]), np.nan)
            looks[f"{name}_all"][-1] = whole[name]
        return result.status.name, looks

    def evaluated(self, x: np.ndarray, net: Any, v: Any) -> tuple[dict[str, float], Any]:
        """Return W_eps of rows of x with its certificate, and what potentials it has.

        Where y went astray it is not a number.
        """
        mapped = np.asarray(mapped_by(net, self.clouds.y))
        if astray(mapped) or astray(np.asarray(v)):
            return dict.fromkeys(LOOKED, float("nan")), v
        found = sinkhorn(x, mapped, epsilon=EPSILON, v=v, tol=self.scale.tol, max_iterations=MOST)
        scatter = float(np.std(np.asarray(found.u), ddof=1)) / np.sqrt(len(x))
        numbers = {"W": found.value, "gap": found.gap, "error": scatter, "off": found.error}
        return numbers, found.v

    def _settings(self, cell: Cell) -> dict[str, Any]:
        """Return all that the numbers of a cell depend on."""
        scale = self.scale
        return {
            **cell._asdict(),
            "sha256": self.sha256,
            "steps": scale.steps,
            "every": scale.steps if cell.tuning else scale.every,
            "rows": len(self.subset[:: COARSE if cell.tuning else 1]),
            "tol": scale.tol,
            "most": MOST,
            "epsilon": EPSILON,
            "batch_size": BATCH,
            "eta": ETA,
            "hidden": HIDDEN,
        }


def best_of(tuned: list[Curve], method: Method) -> Cell:
    """Return the cell of the tuning that ended lowest; the smallest alpha if all diverged."""
    mine = [curve for curve in tuned if curve.cell.method == method]
    ended = [curve for curve in mine if curve.finished]
    if not ended:
        return min((curve.cell for curve in mine), key=lambda cell: cell.alpha)
    return min(ended, key=lambda curve: curve.looks["W"][-1]).cell


@eqx.filter_jit
def mapped_by(net: Any, y: Any) -> Any:
    """Return what a network makes of all y."""
    return jax.vmap(net)(y)
