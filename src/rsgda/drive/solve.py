"""The driver: a problem, an algorithm, a start, a key."""

import functools
import logging
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rsgda._trees import PyTree, freeze_numbers, thaw
from rsgda.algorithms.moves import State
from rsgda.drive import door
from rsgda.drive.checkpoint import Checkpoint
from rsgda.drive.identity import identity
from rsgda.drive.pace import Interrupts, Pacer
from rsgda.drive.progress import bar
from rsgda.drive.result import COUNTERS, Result, Status, columns, message, shown
from rsgda.problem import Problem

logger = logging.getLogger(__name__)


def solve(
    problem: Problem,
    algorithm: Any,
    theta: PyTree,
    v: PyTree,
    *,
    key: Array,
    steps: int,
    record: door.Record | None = None,
    every: int = 1_000,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Result:
    r"""Run an algorithm on a problem.

    Args:
        problem: what is being solved.
        algorithm: `RSGDA(...)`, `SGDA(...)`, `ESGDA(...)`, `SGDmax(...)` or one of your own.
        theta: where the minimised variable starts.
        v: where the maximised variable starts, inside V.
        key: all randomness; the same key gives the same run.
        steps: iterations of the algorithm's loop.
        record: `record(problem, state)` returns a dict of scalars for the history; a true value
            under "stop" ends the run.
        every: steps between two records.
        checkpoint: a folder. A run that was killed continues from it when the call is made again
            and ends where the uninterrupted run ends, bit for bit.
        progress: whether to show a progress bar.

    >>> import jax, jax.numpy as jnp, rsgda
    >>> def loss(theta, v):
    ...     return 1 - jnp.cos(theta) + theta * v - v**2
    >>> result = solve(
    ...     rsgda.Problem(loss), rsgda.RSGDA(p=0.5, alpha=0.1, eta=0.5),
    ...     jnp.asarray(2.0), jnp.asarray(0.0), key=jax.random.key(0), steps=1000,
    ... )
    >>> result.status.name, abs(round(float(result.theta), 3))
    ('FINISHED', 0.0)

    Source: the loop around all algorithms of the paper.
    """
    door.check_call(problem, [algorithm], theta, v, steps, every)
    door.check_key("key", key)
    door.check_sets(problem, theta, v)
    state = own(algorithm.init(problem, theta, v, key))
    door.check_loss(problem, state)
    door.check_record(record, problem, state)
    store, rows = None, []
    if checkpoint is not None:
        store = Checkpoint(checkpoint, identity(problem, algorithm, state), state)
        state, rows = _resume(store, state, steps)
    try:
        return _run(problem, algorithm, state, rows, steps, record, every, store, progress)
    finally:
        if store is not None:
            store.close()


def own(state: State) -> State:
    """Copy a state, so that its arrays may be given away and none stands for two fields."""
    return jax.tree.map(
        lambda leaf: (
            jnp.copy(leaf)
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            else jnp.array(leaf, dtype=leaf.dtype, copy=True)
        ),
        state,
    )


def _resume(store: Checkpoint, state: State, steps: int) -> tuple[State, list[dict[str, Any]]]:
    saved = store.restore(state)
    if saved is None:
        return state, []
    if int(saved[0].step) > steps:
        raise ValueError(
            f"`steps` must be at least the {int(saved[0].step)} that checkpoint {store.folder} "
            f"holds already, got {steps}."
        )
    return saved


def _run(
    problem: Problem,
    algorithm: Any,
    state: State,
    rows: list[dict[str, Any]],
    steps: int,
    record: door.Record | None,
    every: int,
    store: Checkpoint | None,
    progress: bool,
) -> Result:
    frozen, pacer, counts = freeze_numbers(algorithm), Pacer(), _counts(state)
    step, refused = int(state.step), 0
    if rows and rows[-1]["step"] == step and step < steps and step % every:
        rows = rows[:-1]  # it was the last step then, and is in the middle now
    stopped = bool(rows and rows[-1].get("stop"))
    with bar(progress, type(algorithm).__name__, step, steps) as shown_bar, Interrupts() as ctrl_c:
        while step < steps and not refused and not stopped:
            state, counts = _advance(
                problem, frozen, state, np.int32(pacer.end(step, steps, every))
            )
            *_, refused = seen = np.asarray(counts).tolist()
            pacer.saw(seen[0] - step)
            step = seen[0]
            if refused or step % every == 0 or step == steps:
                rows.append(_row(record, problem, state, seen))
                stopped = bool(rows[-1].get("stop"))
            shown_bar.update(step, rows[-1] if rows else {})
            if store is not None and not refused and (store.due() or ctrl_c.pending):
                store.save(state, rows)
            if ctrl_c.pending:
                raise KeyboardInterrupt(_interrupted(step, store))
    if not rows or rows[-1]["step"] != step:
        rows.append(_row(record, problem, state, np.asarray(counts).tolist()))
    status = Status.DIVERGED if refused else Status.STOPPED if stopped else Status.FINISHED
    if store is not None and not refused:
        store.save(state, rows)
    told = message(status, step, refused)
    if refused:
        logger.warning(told)
    last = shown(state)
    return Result(last.theta, last.v, status, told, columns(rows), last)


@functools.partial(jax.jit, donate_argnums=2)
def _advance(problem: Problem, algorithm: Any, state: State, end: Array) -> tuple[State, Array]:
    """Run up to step `end`, or to the step whose update was refused."""
    algorithm = thaw(algorithm)

    def advance(state: State) -> State:
        return algorithm.step(problem, state)[0]

    # The end is an argument: chunks of every length are one program.
    state = lax.while_loop(lambda at: (at.step < end) & (at.refused == 0), advance, state)
    state = state._replace(step=state.step - (state.refused != 0).astype(jnp.int32))
    return state, _counts(state)


def _counts(state: State) -> Array:
    return jnp.stack([getattr(state, name) for name in COUNTERS] + [state.refused])


def _row(
    record: door.Record | None, problem: Problem, state: State, counts: list[int]
) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(COUNTERS, counts, strict=False))
    return row | door.take_record(record, problem, shown(state))


def _interrupted(step: int, store: Checkpoint | None) -> str:
    if store is None:
        return f"interrupted at step {step}; nothing was saved, as no `checkpoint` was given."
    return f"interrupted at step {step}, which {store.folder} holds: the same call continues."
