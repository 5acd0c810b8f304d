"""Train generators: tune each way to do it, run it with its seeds, keep what it found."""

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import optax

from rsgda._trees import thaw
from rsgda.algorithms.rsgda import RSGDA
from rsgda.drive.result import Status
from rsgda.drive.solve import solve
from rsgda.moves import State
from rsgda.problem import Problem
from rsgda.reproduce import kept
from rsgda.reproduce.astray import astray
from rsgda.reproduce.generation_setting import (
    BATCH,
    EPSILON,
    HIDDEN,
    LATENT,
    SEED,
    Cell,
    Images,
    Scale,
    generator,
    noise,
    run_key,
)
from rsgda.reproduce.minibatch_sinkhorn import Descents, minibatch_sinkhorn
from rsgda.reproduce.outcome import Tell
from rsgda.transport.divergence import divergence
from rsgda.transport.generation import generation
from rsgda.transport.sinkhorn_descent import SinkhornDescent
from rsgda.transport.steps import relative

TUNING = 1_000  # a seed that no curve has
TOL = 1e-2  # of the marginals where the divergence is evaluated
SHEET = 20  # images of a run that are drawn
P = 0.5


@dataclasses.dataclass(frozen=True)
class Curve:
    """What a cell found: one entry of each array for each look, the start among them.

    Attributes:
        cell: what was run.
        status: how it ended.
        looks: by name. `steps`; `gradients`, an iteration of Sinkhorn counted as one; `low` and
            `high`, between which the held-out divergence lies; `sheet`, images that it makes.
        seconds: how long it took.
    """

    cell: Cell
    status: str
    looks: dict[str, np.ndarray]
    seconds: float

    @property
    def finished(self) -> bool:
        """Whether the run came to its end without overflowing."""
        return self.status == Status.FINISHED.name and bool(np.isfinite(self.looks["low"][-1]))


class Cells:
    """Runs cells at one scale; what a folder holds already is not run again."""

    def __init__(self, scale: Scale, images: Images, work: Path | None):
        """Draw the noise that all evaluations have in common."""
        self.scale, self.images, self.work = scale, images, work
        self.noise = jax.vmap(noise)(jr.split(jr.key(SEED), scale.rows))

    def run(self, tell: Tell, client: Any = None) -> tuple[list[Curve], list[Curve]]:
        """Tune all methods, then run each kind at its best with all seeds.

        Returns:
            The curves, and those of the tuning.
        """
        scale = self.scale
        grid = [Cell(method, alpha, TUNING) for method in scale.methods for alpha in scale.alphas]
        # Where there is one cell of a kind, there is nothing to choose.
        grid = grid if len(grid) > len(scale.numbers) else []
        share = len(grid) / (len(grid) + scale.seeds * len(scale.numbers))
        tuned = self._all(grid, lambda done, what: tell(share * done, what), client)
        if tuned:
            best = [best_of(tuned, kind) for kind in scale.numbers]
        else:
            best = [Cell(method, scale.alphas[0], 0) for method in scale.methods]
        cells = [cell._replace(seed=seed) for cell in best for seed in range(scale.seeds)]
        curves = self._all(cells, lambda done, what: tell(share + (1 - share) * done, what), client)
        return curves, tuned

    def _all(self, cells: list[Cell], tell: Tell, client: Any) -> list[Curve]:
        return kept.one_by_one(
            cells, self.one, size=lambda cell: 1.0, name=lambda cell: cell.name, work=self.work,
            tell=tell, client=client,
        )  # fmt: skip

    def one(self, cell: Cell, tell: Callable[[float], None]) -> Curve:
        """Run one cell, or read what it found before."""
        path = None if self.work is None else self.work / f"{cell.name}.json"
        found = kept.read(path, settings := self._settings(cell))
        if found is None:
            began = time.perf_counter()
            status, looks = self._train(cell, tell)
            found = kept.Found(status, looks, time.perf_counter() - began)
            kept.keep(path, settings, found)
        return Curve(cell, *found)

    def _train(
        self, cell: Cell, tell: Callable[[float], None]
    ) -> tuple[str, dict[str, np.ndarray]]:
        problem, theta, v, algorithm = self._problem(cell)
        steps, every = plan(self.scale, cell)

        def look(problem: Problem, state: State) -> dict[str, float]:
            del problem
            tell(int(state.step) / steps)
            return self.evaluated(thaw(state.theta))

        start = look(problem, algorithm.init(problem, theta, v, run_key(cell.seed)))
        with kept.diverging_is_no_news():
            result = solve(
                problem, algorithm, theta, v, key=run_key(cell.seed), steps=steps, record=look,
                every=every,
            )  # fmt: skip
        looks = {name: np.r_[start[name], np.asarray(result.history[name])] for name in start}
        looks["steps"] = np.r_[0.0, np.asarray(result.history["step"], float)]
        looks["gradients"] = looks["steps"] * cell.method.cost
        looks["sheet"] = np.asarray(_made(result.theta, self.noise[:SHEET]), float).ravel()
        return result.status.name, looks

    def _problem(self, cell: Cell) -> tuple[Problem, Any, Any, Any]:
        """Return the problem of a cell, its start and its algorithm."""
        kind, number = cell.method
        y, epsilon = self.images.y, EPSILON[self.scale.data]
        network = generator(y.shape[1], cell.seed)
        alpha = optax.adam(cell.alpha)
        if kind == "minibatch":
            given = minibatch_sinkhorn(
                jax.numpy.asarray(y), network, epsilon=epsilon, iterations=int(number),
                batch_size=BATCH,
            )  # fmt: skip
            return *given, Descents(alpha=alpha)
        given = generation(noise, y, network, epsilon=epsilon, batch_size=BATCH)
        if kind == "sinkhorn":
            return *given, SinkhornDescent(m_sin=int(number), alpha=alpha)
        return *given, RSGDA(p=P, alpha=alpha, eta=relative(number))

    def evaluated(self, network: Any) -> dict[str, float]:
        """Return the divergence of generated from held-out images, by its certificate."""
        made = np.asarray(_made(network, self.noise))
        if astray(made):
            return dict.fromkeys(("low", "high"), float("nan"))
        found = divergence(made, self.images.held_out, epsilon=EPSILON[self.scale.data], tol=TOL)
        return {"low": found.low, "high": found.high}

    def _settings(self, cell: Cell) -> dict[str, Any]:
        """Return all that the numbers of a cell depend on."""
        scale = self.scale
        return {
            **cell._asdict(),
            "data": scale.data,
            "targets": len(self.images.y),
            "gradients": scale.gradients,
            "looks": scale.looks,
            "rows": [scale.rows, len(self.images.held_out)],
            **described(scale),
        }


def described(scale: Scale) -> dict[str, Any]:
    """Return what all cells have in common."""
    return {
        "p": P,
        "epsilon": EPSILON[scale.data],
        "batch_size": BATCH,
        "latent": LATENT,
        "hidden": list(HIDDEN),
        "tol": TOL,
        "seed": SEED,
    }


def plan(scale: Scale, cell: Cell) -> tuple[int, int]:
    """Return the steps of a cell, and those between two looks.

    W_eps between minibatches goes on until it has made as many steps as RSGDA, so that it can be
    compared at equal gradients, and also as if its iterations, which are cheap, cost nothing.
    """
    if cell.method.kind == "minibatch":
        cost = cell.method.cost
        return scale.gradients, scale.gradients // (cost * math.ceil(scale.looks / cost))
    steps = scale.gradients // cell.method.cost
    return steps, steps // scale.looks


def best_of(tuned: list[Curve], kind: str) -> Cell:
    """Return the cell of a kind that ended lowest in the tuning."""
    mine = [curve for curve in tuned if curve.cell.method.kind == kind]
    ended = [curve for curve in mine if curve.finished]
    return min(ended or mine, key=lambda curve: curve.looks["low"][-1]).cell


@eqx.filter_jit
def _made(network: Any, z: Any) -> Any:
    return jax.vmap(network)(z)
