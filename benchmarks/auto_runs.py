"""Runs of any algorithm with the average beside the last iterate, one by one or side by side."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rsgda._trees import PyTree, freeze, freeze_numbers, thaw
from rsgda.drive import door
from rsgda.moves import State
from rsgda.problems import Task

LATE = 8.0  # the average weighs step k by about its eighth power, so that the start is forgotten


class Track(NamedTuple):
    """A run on its way: its state, and the averages of what the merit looks at."""

    state: State
    theta: PyTree
    v: PyTree  # None where v is separable: an average of all rows would cost more than a step


class Curve(NamedTuple):
    """What a run looked like: gradients spent, and the merits of the last and the averaged."""

    gradients: np.ndarray
    last: np.ndarray
    averaged: np.ndarray
    diverged: bool


def begin(task: Task, algorithm: Any, key: Array) -> Track:
    """Return a run before its first step."""
    state = algorithm.init(task.problem, task.theta, task.v, key)
    return Track(state, freeze(task.theta), None if task.problem.separable else freeze(task.v))


def known(task: Task, algorithm: Any) -> Any:
    """Return an algorithm whose relative steps are numbers."""
    return door.with_steps(task.problem, algorithm)


def step(problem: Any, algorithm: Any, track: Track) -> Track:
    """Take a step of the algorithm, and of the averages."""
    state = algorithm.step(problem, track.state)[0]
    k = state.step.astype(jnp.float32)
    weight = (1 + LATE) / (k + LATE)
    mix = lambda old, new: old + weight.astype(old.dtype) * (new - old)  # noqa: E731
    v = None if track.v is None else jax.tree.map(mix, track.v, state.v)
    return Track(state, jax.tree.map(mix, track.theta, state.theta), v)


# One by one: any algorithm, whatever its steps cost.


@functools.partial(jax.jit, donate_argnums=2)
def advance(problem: Any, algorithm: Any, track: Track, end: Array) -> Track:
    """Run on until so many gradients are spent, or a step is refused."""
    algorithm = thaw(algorithm)
    return lax.while_loop(
        lambda track: (track.state.gradients < end) & (track.state.refused == 0),
        lambda track: step(problem, algorithm, track),
        track,
    )


@jax.jit
def merits(merit: Any, track: Track) -> tuple[Array, Array]:
    """Return the merit of the last iterate and of the average."""
    v = track.state.v if track.v is None else track.v
    last = thaw(merit)(thaw(track.state.theta), thaw(track.state.v))
    return last, thaw(merit)(thaw(track.theta), thaw(v))


def curve(
    task: Task,
    algorithm: Any,
    key: Array,
    *,
    every: int,
    most: int,
    targets: tuple[float, float] | None = None,
    least: int = 0,
) -> Curve:
    """Run an algorithm until both targets are reached, a step is refused or all is spent.

    Args:
        task: what to run on.
        algorithm: of the contract.
        key: of the run.
        every: gradients between two looks.
        most: gradients of the run.
        targets: of the last iterate and of the average; None to go on to the end.
        least: gradients that are spent in any case.
    """
    algorithm = known(task, algorithm)
    track = jax.tree.map(jnp.array, begin(task, algorithm, key))  # its own copies, to be donated
    frozen, merit = freeze_numbers(algorithm), freeze_numbers(task.merit)
    rows: list[tuple[int, float, float]] = []
    for end in range(every, most + 1, every):
        track = advance(task.problem, frozen, track, jnp.int32(end))
        last, averaged = (float(value) for value in merits(merit, track))
        spent, refused = int(track.state.gradients), bool(track.state.refused)
        if not rows or spent > rows[-1][0]:
            rows.append((spent, last, averaged))
        if refused or not np.isfinite(last):
            return _curve(rows, diverged=True)
        lowest = np.min(np.array(rows), axis=0)
        if targets is not None and lowest[1] <= targets[0] and lowest[2] <= targets[1]:
            there = spent >= least
        else:
            there = spent >= most
        if there:
            break
    return _curve(rows, diverged=False)


def _curve(rows: list[tuple[int, float, float]], *, diverged: bool) -> Curve:
    gradients, last, averaged = np.array(rows, float).reshape(-1, 3).T
    return Curve(gradients, last, averaged, diverged)


# Side by side: plain RSGDA with one key and one p, so that the coin stays a branch.


def axes() -> Track:
    """Say what differs from run to run: all but the key and the step."""
    state = State._make([0] * len(State._fields))._replace(key=None, step=None)  # pyright: ignore
    return Track(state, 0, 0)


@functools.partial(jax.jit, donate_argnums=2)
def advance_all(problem: Any, algorithm: Any, tracks: Track, end: Array) -> Track:
    """Run all up to step `end`; `alpha` and `eta` have one number for each."""
    whole = thaw(algorithm)

    def one(alpha: Array, eta: Array, track: Track) -> Track:
        return step(problem, dataclasses.replace(whole, alpha=alpha, eta=eta), track)

    one = jax.vmap(one, (0, 0, axes()), axes())
    return lax.while_loop(
        lambda tracks: (tracks.state.step < end) & jnp.any(tracks.state.refused == 0),
        lambda tracks: one(whole.alpha, whole.eta, tracks),
        tracks,
    )


@jax.jit
def merits_all(merit: Any, tracks: Track) -> tuple[Array, Array]:
    """Return the merits of all, computed one after the other: some are large."""
    state = tracks.state._replace(key=None, step=None)  # pyright: ignore
    return lax.map(lambda track: merits(merit, track), tracks._replace(state=state))
