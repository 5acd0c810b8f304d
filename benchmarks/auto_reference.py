"""The best cell of a grid of plain RSGDA on a task, computed once and kept.

The grid is 4 values of p by 8 of alpha by 8 of eta, over six decades about 1/L of either player,
which is measured at the start, so that a task in other units has the same cells. A run is given
the task's number of gradients, T.

1. The whole grid with 2 seeds. At T/8, T/4 and T/2 only the better half of what is left goes on,
   by the merit of the last iterate or by that of the average (not on toys, where all is cheap).
2. The 8 cells that are best at T by either merit, with 5 seeds, looked at 50 times.
3. The target is the smallest median merit at T of these, and not below the task's floor. A cell
   needs the median, over its seeds, of the gradients at which a run first gets there; the reference
   is the cell that needs least. Last iterates and averages have a target and a reference each.
"""

import functools
import hashlib
import itertools
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import auto_runs
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

import rsgda
from rsgda._flat import norm
from rsgda._trees import freeze, freeze_numbers, is_float_array
from rsgda.problems import Task
from rsgda.reproduce.runner import write_aside

VERSION = 1  # of what is computed here: another one computes all anew
PS = (0.1, 0.25, 0.5, 0.75)
ALPHAS = tuple(float(x) for x in np.logspace(-4, 2, 8))  # in units of 1/L of theta
ETAS = tuple(float(x) for x in np.logspace(-4, 2, 8))  # of v
SEEDS, MORE_SEEDS, BEST = 2, 5, 8
LOOKS = 50
HALVINGS = (8, 4, 2)  # parts of T after which the worse half is dropped
POWERS, BATCHES = 20, 4  # iterations, and minibatches, that L is measured with
KINDS = ("last", "averaged")


class Cell(NamedTuple):
    """A cell of the grid: p, and steps in units of 1/L."""

    p: float
    alpha: float
    eta: float


GRID = tuple(itertools.starmap(Cell, itertools.product(PS, ALPHAS, ETAS)))


class Reference(NamedTuple):
    """What a run is held against: a target, and what the best cell needs to get there."""

    target: float
    gradients: float
    cell: Cell
    edge: str  # of which sides of the grid the cell is


def seed_key(seed: int) -> Array:
    """Return the key of a seed; contestants have others."""
    return jr.fold_in(jr.key(0), seed)


@functools.partial(jax.jit, static_argnames="player")
def curvature(problem: Any, theta: Any, v: Any, key: Array, player: str) -> Array:
    """Return the norm of a minibatch's Hessian in one player, by power iterations."""
    batch = problem.draw(key)
    seen = problem.look(v, batch)
    slope = {
        "theta": lambda x: problem.slope_theta(x, seen, batch)[1],
        "v": lambda x: jax.grad(lambda v: problem.slope_theta(theta, v, batch)[0])(x),
    }[player]
    at = theta if player == "theta" else seen
    leaves, structure = jax.tree.flatten(at)
    keys = jr.split(key, len(leaves))
    u = jax.tree.unflatten(
        structure, [jr.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
    )

    def again(_: Array, u: Any) -> Any:
        size = jnp.maximum(norm(u), 1e-30)
        return jax.jvp(slope, (at,), (jax.tree.map(lambda x: x / size.astype(x.dtype), u),))[1]

    return norm(jax.lax.fori_loop(0, POWERS, again, u))


def curvatures(task: Task) -> tuple[float, float]:
    """Return L of theta and of v at the start, the largest of a few minibatches."""
    keys = jr.split(jr.key(1), BATCHES)
    L = [
        max(
            float(curvature(task.problem, freeze(task.theta), freeze(task.v), key, player))
            for key in keys
        )
        for player in ("theta", "v")
    ]
    return L[0], L[1]


class Search:
    """The grid on one task."""

    def __init__(self, task: Task, tell: Any = print):
        self.task, self.tell = task, tell
        self.L = curvatures(task)
        # Prepared values are computed anew for each run when its own theta has changed: side by
        # side that would be at every step.
        self.together = task.problem.prepare is None
        self.merit = freeze_numbers(task.merit)

    def algorithm(self, cell: Cell) -> rsgda.RSGDA:
        """Return plain RSGDA with the steps of a cell."""
        return rsgda.RSGDA(p=cell.p, alpha=cell.alpha / self.L[0], eta=cell.eta / self.L[1])

    def whole_grid(self) -> dict[Cell, tuple[float, float]]:
        """Return the median merits at T of the cells that got there."""
        T = self.task.gradients
        ends = [] if self.task.family == "toy" else [T // part for part in HALVINGS]
        groups = {
            (p, seed): ([cell for cell in GRID if cell.p == p], None)
            for p in PS for seed in range(SEEDS)
        }  # fmt: skip
        found: dict[Cell, tuple[float, float]] = {}
        for end in [*ends, T]:
            merits: dict[Cell, list[tuple[float, float]]] = {}
            for (p, seed), (cells, tracks) in groups.items():
                if not cells:
                    continue
                tracks, values = self._on(cells, tracks, p, seed, end)
                groups[p, seed] = (cells, tracks)
                for cell, value in zip(cells, values, strict=True):
                    merits.setdefault(cell, []).append(value)
            found = {cell: tuple(np.median(np.array(m), axis=0)) for cell, m in merits.items()}  # type: ignore[misc]
            if end != T:
                left = self._better_half(found)
                groups = {
                    key: self._only(cells, tracks, left) for key, (cells, tracks) in groups.items()
                }
            self.tell(f"    {end} gradients, {len(found)} cells")
        return found

    def _on(
        self, cells: list[Cell], tracks: Any, p: float, seed: int, end: int
    ) -> tuple[Any, list[tuple[float, float]]]:
        task, key = self.task, seed_key(seed)
        if not self.together:
            if tracks is None:
                tracks = [self._own(self.algorithm(cell), key) for cell in cells]
            values = []
            for i, cell in enumerate(cells):
                algorithm = freeze_numbers(self.algorithm(cell))
                tracks[i] = auto_runs.advance(task.problem, algorithm, tracks[i], jnp.int32(end))
                values.append(self._value(auto_runs.merits(self.merit, tracks[i]), tracks[i]))
            return tracks, values
        if tracks is None:
            one = auto_runs.begin(task, self.algorithm(cells[0]), key)
            spread = jax.tree.map(
                lambda leaf: jnp.broadcast_to(leaf, (len(cells), *leaf.shape)),
                one._replace(state=one.state._replace(key=None, step=None)),
            )
            state = spread.state._replace(key=key, step=one.state.step)
            tracks = jax.tree.map(jnp.array, spread._replace(state=state))
        filled = cells + [cells[0]] * (tracks.state.refused.shape[0] - len(cells))
        algorithm = rsgda.RSGDA(
            p=p,
            alpha=jnp.array([cell.alpha / self.L[0] for cell in filled]),
            eta=jnp.array([cell.eta / self.L[1] for cell in filled]),
        )
        tracks = auto_runs.advance_all(
            task.problem, freeze_numbers(algorithm), tracks, jnp.int32(end)
        )
        last, averaged = (np.array(x, float) for x in auto_runs.merits_all(self.merit, tracks))
        bad = np.asarray(tracks.state.refused) != 0
        last, averaged = (np.where(bad | ~np.isfinite(x), np.inf, x) for x in (last, averaged))
        return tracks, list(zip(last.tolist(), averaged.tolist(), strict=True))[: len(cells)]

    def _own(self, algorithm: Any, key: Array) -> auto_runs.Track:
        return jax.tree.map(jnp.array, auto_runs.begin(self.task, algorithm, key))

    def _value(self, values: Any, track: auto_runs.Track) -> tuple[float, float]:
        if int(track.state.refused):
            return float("inf"), float("inf")
        last, averaged = (float(x) if np.isfinite(x) else float("inf") for x in values)
        return last, averaged

    def _better_half(self, found: dict[Cell, tuple[float, float]]) -> set[Cell]:
        count = len(found) // 2
        left: set[Cell] = set()
        for kind in range(2):
            ranked = sorted(found, key=lambda cell: found[cell][kind])
            left |= {cell for cell in ranked[:count] if np.isfinite(found[cell][kind])}
        return left

    def _only(self, cells: list[Cell], tracks: Any, left: set[Cell]) -> tuple[list[Cell], Any]:
        places = [i for i, cell in enumerate(cells) if cell in left]
        kept = [cells[i] for i in places]
        if not places or not self.together:
            return kept, [tracks[i] for i in places] if places else None
        filled = np.array(places + [places[0]] * (-len(places) % 16))  # few programs
        state = tracks.state._replace(key=None, step=None)
        taken = jax.tree.map(lambda leaf: leaf[filled], tracks._replace(state=state))
        state = taken.state._replace(key=tracks.state.key, step=tracks.state.step)
        return kept, taken._replace(state=state)

    def best(self, found: dict[Cell, tuple[float, float]]) -> dict[str, Reference]:
        """Run the best cells with more seeds; return what to hold runs against."""
        T, every = self.task.gradients, max(1, self.task.gradients // LOOKS)
        chosen = {
            kind: sorted(found, key=lambda cell: found[cell][i])[:BEST]
            for i, kind in enumerate(KINDS)
        }
        curves = {
            cell: [
                auto_runs.curve(
                    self.task, self.algorithm(cell), seed_key(seed), every=every,
                    most=every * LOOKS,
                )
                for seed in range(MORE_SEEDS)
            ]
            for cell in dict.fromkeys(itertools.chain(*chosen.values()))
        }  # fmt: skip
        self.tell(f"    {len(curves)} cells with {MORE_SEEDS} seeds to {T}")
        return {
            kind: reference({cell: curves[cell] for cell in chosen[kind]}, kind, self.task.floor)
            for kind in KINDS
        }


def reference(curves: dict[Cell, list[auto_runs.Curve]], kind: str, floor: float) -> Reference:
    """Choose the target by rule 3, and the cell that needs least to reach it."""
    end = {
        cell: float(np.median([np.inf if c.diverged else getattr(c, kind)[-1] for c in runs]))
        for cell, runs in curves.items()
    }
    target = max(min(end.values()), floor)
    needs = {cell: median_to(runs, kind, target) for cell, runs in curves.items()}
    cell = min(needs, key=lambda cell: needs[cell])
    sides = {"p": PS, "alpha": ALPHAS, "eta": ETAS}
    edge = " ".join(
        name for name, values in sides.items() if getattr(cell, name) in (values[0], values[-1])
    )
    return Reference(target, needs[cell], cell, edge)


def median_to(runs: list[auto_runs.Curve], kind: str, target: float) -> float:
    """Return the median of the gradients that runs need to the target."""
    return float(np.median([gradients_to(run, kind, target) for run in runs]))


def gradients_to(run: auto_runs.Curve, kind: str, target: float) -> float:
    """Return the gradients at which a merit is first at most the target; infinity if never."""
    there = np.flatnonzero(getattr(run, kind) <= target)
    return float(run.gradients[there[0]]) if len(there) else float("inf")


# What is kept.


def settings(task: Task) -> dict[str, Any]:
    """Return all that a reference depends on, the task by its numbers."""
    leaves = [
        np.asarray(leaf)
        for leaf in jax.tree.leaves((task.theta, task.v, task.problem.data))
        if is_float_array(leaf) or isinstance(leaf, np.ndarray | jax.Array)
    ]
    total = hashlib.sha256()
    for leaf in leaves:
        total.update(np.ascontiguousarray(leaf).tobytes())
    return {
        "version": VERSION, "task": task.name, "sha256": total.hexdigest(),
        "gradients": task.gradients, "floor": task.floor, "seeds": [SEEDS, MORE_SEEDS],
        "best": BEST, "looks": LOOKS, "halvings": HALVINGS, "p": PS, "alpha": ALPHAS, "eta": ETAS,
        "late": auto_runs.LATE,
    }  # fmt: skip


def kept(path: Path, task: Task) -> dict[str, Reference] | None:
    """Return the references of a file, if they are of this task at these settings."""
    try:
        content = json.loads(path.read_text())
        if content["settings"] != json.loads(json.dumps(settings(task))):
            return None
        return read(path)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read(path: Path) -> dict[str, Reference]:
    """Return the references of a file."""
    content = json.loads(path.read_text())
    return {
        kind: Reference(
            float(content[kind]["target"]), float(content[kind]["gradients"]),
            Cell(**content[kind]["cell"]), content[kind]["edge"],
        )
        for kind in KINDS
    }  # fmt: skip


def compute(task: Task, path: Path, tell: Any = print) -> dict[str, Reference]:
    """Search the grid of a task, and write down what was found."""
    began = time.perf_counter()
    search = Search(task, tell)
    found = search.whole_grid()
    best = search.best(found)
    start = float(jax.jit(lambda merit: merit(task.theta, task.v))(task.merit))
    content = {
        "settings": settings(task),
        "start": start,
        "L_theta": search.L[0],
        "L_v": search.L[1],
        **{
            kind: {**ref._asdict(), "cell": ref.cell._asdict()} for kind, ref in best.items()
        },
        "grid": [
            [*cell, *(None if not np.isfinite(x) else float(f"{x:.4g}") for x in merits)]
            for cell, merits in found.items()
        ],
        "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, (json.dumps(content) + "\n").encode())
    return best
