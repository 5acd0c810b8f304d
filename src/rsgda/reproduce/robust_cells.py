"""Run the cells of Figures 1 and 2, keep what each found, and take up where a run was cut off."""

import dataclasses
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

from rsgda._search import Best
from rsgda._trees import PyTree, thaw
from rsgda.drive.result import Status
from rsgda.drive.solve import solve
from rsgda.inner import numbers, search_rows
from rsgda.moves import State
from rsgda.problem import Problem
from rsgda.reproduce import kept
from rsgda.reproduce.outcome import Tell
from rsgda.reproduce.robust_authors import authors_phi
from rsgda.reproduce.robust_setting import (
    BATCH,
    GAMMA,
    OBJECTIVES,
    SEED,
    Cell,
    Images,
    Scale,
    load,
    network,
    run_key,
    start_key,
)
from rsgda.robust.wrm import wrm
from rsgda.whole import Whole

TOL = 1e-3  # of the certified phi; differences in the figures are larger
MOST = 300  # gradients a row at most; rows that are not concave never come to an end

Look = dict[str, float]
LOOKED = ("objective", "phi", "gap", "certified", "error", "authors", "authors_slope")


@dataclasses.dataclass(frozen=True)
class Curve:
    """What a cell found: one entry of each array for each look, the start among them.

    Attributes:
        cell: what was run.
        data: the name of the images.
        status: how it ended.
        looks: by name. `gradients`, `epoch`; `objective` (F at the adversaries that training
            keeps); `phi`, `gap` (of the rows that are certified), `certified` (their share),
            `error` (the standard error of a mean over the rows of the subset); `authors` and
            `authors_slope` (phi by the authors' rule, and the mean square of its gradient);
            `accuracy` on the validation set.
        seconds: how long it took, since it was last taken up.
    """

    cell: Cell
    data: str
    status: str
    looks: dict[str, np.ndarray]
    seconds: float

    @property
    def finished(self) -> bool:
        """Whether the run came to its end without overflowing, theta or the loss."""
        return self.status == Status.FINISHED.name and bool(np.isfinite(self.looks["phi"][-1]))


class Cells:
    """Runs cells at one scale; what a folder holds already is not run again."""

    def __init__(self, scale: Scale, work: Path | None):
        """Load the data; `work` is the folder to keep cells in."""
        self.scale, self.work = scale, work
        self.images: Images = load(scale.data)
        self.rows = np.sort(
            np.random.default_rng(SEED).choice(len(self.images.X), scale.rows, replace=False)
        )

    def run(self, cells: list[Cell], tell: Tell, client: Any = None) -> list[Curve]:
        """Run cells one after the other, or where a client sends them."""
        return kept.one_by_one(
            cells, self.one, size=self._gradients, name=lambda cell: cell.name, work=self.work,
            tell=tell, client=client,
        )  # fmt: skip

    def one(self, cell: Cell, tell: Callable[[float], None]) -> Curve:
        """Run one cell, or read what it found before."""
        path = None if self.work is None else self.work / f"{cell.name}.json"
        settings = self._settings(cell)
        found = kept.read(path, settings)
        if found is None:
            # A run of seconds is sooner done again than kept half way.
            long = self.scale.data == "mnist"
            checkpoint = path.with_suffix("") if path is not None and long else None
            began = time.perf_counter()
            status, looks = self._train(cell, checkpoint, tell)
            found = kept.Found(status, looks, time.perf_counter() - began)
            kept.keep(path, settings, found)
            if checkpoint is not None:
                # The run itself has n adversaries; what it found is a few numbers.
                shutil.rmtree(checkpoint, ignore_errors=True)
        return Curve(cell, self.scale.data, *found)

    def _train(
        self, cell: Cell, checkpoint: Path | None, tell: Callable[[float], None]
    ) -> tuple[str, dict[str, np.ndarray]]:
        objective, budget = OBJECTIVES[cell.objective], self.scale.budgets[cell.objective]
        problem, theta, v = self._problem(cell.objective, start_key(cell))
        subset, _, _ = wrm(
            theta,
            problem.data["x"][self.rows],
            self.images.y[self.rows],
            gamma=GAMMA,
            batch_size=len(self.rows),  # it is only ever looked at as a whole
            loss=objective.loss,
        )
        valid = jnp.asarray(_scaled(self.images.X_valid, objective.pixels))

        def look(problem: Problem, state: State) -> Look:
            del problem
            tell(int(state.gradients) / budget.gradients)
            net = thaw(state.theta)
            return {
                **looked(subset, net, state.v[self.rows], len(self.images.X)),
                "accuracy": float(
                    np.mean(np.asarray(predicted(net, valid)) == self.images.y_valid)
                ),
            }

        start = look(problem, cell.algorithm().init(problem, theta, v, run_key(cell)))
        with kept.diverging_is_no_news():
            result = solve(
                problem,
                cell.algorithm(),
                theta,
                v,
                key=run_key(cell),
                steps=budget.gradients // cell.cost,
                record=look,
                every=budget.every // cell.cost,
                checkpoint=checkpoint,
            )
        looks = {
            name: np.r_[start[name], np.asarray(result.history[name], float)] for name in start
        }
        looks["gradients"] = np.r_[0.0, np.asarray(result.history["gradients"], float)]
        looks["epoch"] = looks["gradients"] * BATCH / len(self.images.X)
        return result.status.name, looks

    def _problem(self, name: str, key: Array) -> tuple[Problem, PyTree, Array]:
        objective = OBJECTIVES[name]
        return wrm(
            network(self.scale, key, objective=name),
            _scaled(self.images.X, objective.pixels),
            self.images.y,
            gamma=GAMMA,
            batch_size=BATCH,
            loss=objective.loss,
        )

    def _gradients(self, cell: Cell) -> int:
        return self.scale.budgets[cell.objective].gradients

    def _settings(self, cell: Cell) -> dict[str, Any]:
        """Return all that the numbers of a cell depend on."""
        scale = self.scale
        return {
            **cell._asdict(),
            **OBJECTIVES[cell.objective]._asdict(),
            "data": scale.data,
            "authors_network": scale.authors_network,
            "dense": scale.dense,
            "gradients": scale.budgets[cell.objective].gradients,
            "every": scale.budgets[cell.objective].every,
            "rows": scale.rows,
            "gamma": GAMMA,
            "batch_size": BATCH,
            "tol": TOL,
            "most": MOST,
        }


def looked(subset: Problem, net: PyTree, v: Array, n: int) -> Look:
    """Return phi of a subset, certified and by the authors' rule, beside F at the kept v.

    All are not a number where theta is so large that the loss overflows.
    """
    if not np.isfinite(float(jnp.mean(row_values(subset, net, subset.data["x"])))):
        return dict.fromkeys(LOOKED, float("nan"))
    # From the samples, not from the kept v: F there is a lower bound that must not be lost.
    best = maximised(subset, net, subset.data["x"])
    # In float64: sums of squares of a run that diverges overflow in float32.
    value, gap = np.asarray(best.value, float), np.asarray(best.gap, float)
    authors = authors_phi(subset, net, v, n=n, batch_size=BATCH)
    at_v = np.asarray(row_values(subset, net, v), float)
    # Where an adversary is known that does better than a certificate allows, there is none.
    better = np.fmax(at_v, np.asarray(row_values(subset, net, authors.v)))
    certified = np.isfinite(gap) & ~(better > value + gap + TOL)
    high = np.where(certified, value + gap, 0)
    value = np.fmax(value, better)
    return {
        "objective": float(at_v.mean()),
        "phi": float(value.mean()),
        "gap": float(np.mean(np.where(certified, np.maximum(high - value, 0), 0))),
        "certified": float(certified.mean()),
        "error": float(value.std(ddof=1) / np.sqrt(len(value))),
        "authors": authors.value,
        "authors_slope": authors.slope,
    }


@jax.jit
def maximised(subset: Problem, net: PyTree, v: Array) -> Best:
    """Return the certified maximum of each row, as `rsgda.phi` finds it."""
    wanted = numbers(TOL, None, MOST)
    return search_rows(Whole(subset, None, 1), net, v, wanted, jr.key(SEED))[0]


@jax.jit
def row_values(subset: Problem, net: PyTree, v: Array) -> Array:
    """Return what each row adds to F, times the number of rows."""

    def one(v: Array, row: PyTree) -> Array:
        return subset.loss(net, v[None], jax.tree.map(lambda leaf: leaf[None], row))

    return jax.vmap(one)(v, subset.data)


@jax.jit
def predicted(net: Any, X: Array) -> Array:
    """Return the likeliest class of each sample."""
    return jax.lax.map(lambda x: jnp.argmax(net(x)), X, batch_size=min(500, len(X)))


def _scaled(X: np.ndarray, pixels: tuple[float, float]) -> np.ndarray:
    low, high = pixels
    return (low + (high - low) * X).astype(np.float32)
