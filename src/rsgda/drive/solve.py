"""The driver: a problem, an algorithm, a start, a key."""

import functools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from rsgda._split import free, without_mesh
from rsgda._trees import PyTree, freeze_numbers, thaw
from rsgda.algorithms.auto import Auto
from rsgda.drive import causes, door, loop, processes
from rsgda.drive.checkpoint import Checkpoint
from rsgda.drive.folder import local
from rsgda.drive.history import History
from rsgda.drive.identity import identity
from rsgda.drive.pace import Interrupts, Pacer
from rsgda.drive.progress import bar
from rsgda.drive.result import (
    COUNTERS,
    Result,
    Status,
    message,
    own,
    shown,
    to_keep,
)
from rsgda.moves import State, over, settled, start
from rsgda.problem import Problem

logger = logging.getLogger(__name__)


def solve(
    problem: Problem,
    algorithm: Any = None,
    theta: PyTree = None,
    v: PyTree = None,
    *,
    key: Array | None = None,
    steps: int,
    record: door.Record | None = None,
    every: int = 1_000,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
    mesh: Mesh | None = None,
) -> Result:
    r"""Run an algorithm on a problem.

    Args:
        problem: what is being solved.
        algorithm: `RSGDA(...)`, `SGDA(...)`, `ESGDA(...)`, `SGDmax(...)` or one of your own. Left
            out it is `Auto()`, which finds its steps: `solve(problem, theta=theta, v=v, ...)`.
        theta: where the minimised variable starts.
        v: where the maximised variable starts, inside V.
        key: all randomness, such as `jax.random.key(0)`; the same key gives the same run. There
            is none unless you give it.
        steps: iterations of the algorithm's loop.
        record: `record(problem, state)` returns a dict of scalars for the history; a true value
            under "stop" ends the run. It is called once more at the start, to check what it
            returns. It may keep what it is given, but for the v of a separable problem.
        every: steps between two records.
        checkpoint: a folder. A run that was killed continues from it when the call is made again
            and ends where the uninterrupted run ends, bit for bit.
        progress: whether to show a progress bar.
        mesh: devices to share out rows of data, minibatches and a separable v among, such as
            `jax.make_mesh((jax.device_count(),), ("rows",))`; all else is on each of them. They
            may belong to several processes, all of which make the same call.

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
    with without_mesh():
        if algorithm is None:
            algorithm = Auto()
        door.check_call(problem, [algorithm], theta, v, steps, every)
        root = door.check_key("key", key)
        problem, algorithm, theta, v, root = free((problem, algorithm, theta, v, root))
        algorithm = door.with_steps(problem, algorithm)
        folder = None if checkpoint is None else local(checkpoint)
        door.check_mesh(mesh, problem, folder)
        door.check_sets(problem, theta, v)
        # Before `init`, which may look at the loss itself.
        door.check_loss(problem, start(problem, theta, v, root, 1.0, 1.0))
        state = own(algorithm.init(problem, theta, v, root))
        door.check_record(record, problem, state)
        whose = None if folder is None else identity(problem, algorithm, state)

        def seen(problem: Problem = problem) -> str:
            return causes.seen_at_start(problem, algorithm, algorithm.init(problem, theta, v, root))

        asked = Asked(problem, record, steps, every, progress and processes.is_first(), seen)
        if mesh is not None:
            problem = problem.over(mesh)
            state = over(problem, state)
        store = None
        try:
            with processes.noticing_losses(lambda: _safe(folder, store)):
                if mesh is not None:
                    processes.meet()
                if folder is None or whose is None:
                    return _run(problem, algorithm, state, History(), asked, None)
                store = Checkpoint(folder, whose, state)
                state, history = _resume(store, state, steps)
                return _run(problem, algorithm, state, history, asked, store)
        finally:
            if store is not None:
                store.close()


class Asked(NamedTuple):
    """What was asked for: the problem as it was given, what to record how often, what to say."""

    problem: Problem
    record: door.Record | None
    steps: int
    every: int
    progress: bool
    seen: Callable[[], str]

    def row(self, problem: Problem, state: State, counts: list[int]) -> dict[str, Any]:
        """Return the counts of a state with what is recorded of it."""
        row: dict[str, Any] = dict(zip(COUNTERS, counts, strict=False))
        if self.record is None:
            return row
        return row | door.take_record(self.record, self.problem, to_keep(problem, state))


def _resume(store: Checkpoint, state: State, steps: int) -> tuple[State, History]:
    if store.newest is None:
        return state, History()
    if store.newest > steps:
        raise ValueError(
            f"`steps` must be at least the {store.newest} that checkpoint {store.where} holds "
            f"already, got {steps}."
        )
    state, rows = store.restore(state)
    return state, History(rows)


def _run(
    problem: Problem,
    algorithm: Any,
    state: State,
    history: History,
    asked: Asked,
    store: Checkpoint | None,
) -> Result:
    _, _, steps, every, progress, _ = asked
    frozen, pacer, counts = freeze_numbers(algorithm), Pacer(), _counts(state)
    shared = problem.split is not None  # other processes may do something else than this run
    if problem.split is not None:
        frozen = problem.split.place(frozen)
    step, refused = int(state.step), 0
    if step and step % every == 0 and not _recorded(history, step):
        history.append(asked.row(problem, state, np.asarray(counts).tolist()))
    # A record of the last step then may be of one in between now, where nobody asks.
    asks = step % every == 0 or step == steps
    # The record function that was given is asked, which may be another than before.
    stopped = asks and _recorded(history, step) and bool(asked.row(problem, state, []).get("stop"))
    with bar(progress, type(algorithm).__name__, step, steps) as shown_bar, Interrupts() as ctrl_c:
        while step < steps and not refused and not stopped:
            end = pacer.end(step, steps, every)
            end = processes.of_first(end) if shared else end
            state, counts = _advance(problem, frozen, state, np.int32(end))
            *_, refused = seen = np.asarray(counts).tolist()
            pacer.saw(seen[0] - step)
            step = seen[0]
            # A refused step goes back to the one before, which may have been recorded already.
            if (refused or step % every == 0 or step == steps) and not _recorded(history, step):
                history.append(asked.row(problem, state, seen))
                stopped = bool(history.last.get("stop"))
            shown_bar.update(step, history.last)
            pending = ctrl_c.pending  # asked once: later ones wait
            interrupted = processes.in_any(pending) if shared else pending
            if store is not None and not refused and (interrupted or store.due()):
                store.save(step, state, history.since)
            if interrupted and not refused:
                raise KeyboardInterrupt(_interrupted(step, store))
        if not _recorded(history, step):
            history.append(asked.row(problem, state, np.asarray(counts).tolist()))
        if store is not None and not refused:
            store.save(step, state, history.since)
    status = Status.DIVERGED if refused else Status.STOPPED if stopped else Status.FINISHED
    told = message(status, step, refused, asked.seen() if refused else "")
    if refused and processes.is_first():
        logger.warning(told)
    last = shown(state if problem.split is None else problem.split.local(state))
    return Result(last.theta, last.v, status, told, history.columns(every, step), last)


@functools.partial(jax.jit, donate_argnums=2)
def _advance(problem: Problem, algorithm: Any, state: State, end: Array) -> tuple[State, Array]:
    """Run up to step `end`, or to the step whose update was refused."""
    algorithm = thaw(algorithm)

    def advance(state: State, tossed: PyTree) -> State:
        new = algorithm.step(problem, state, *([] if tossed is None else [tossed]))[0]
        return settled(problem, new)

    # The end is an argument: chunks of every length are one program.
    state = loop.run(
        state,
        end,
        step=lambda state: state.step,
        unfinished=lambda state, end: (state.step < end) & (state.refused == 0),
        advance=advance,
        toss=(
            functools.partial(algorithm.toss, state.key)
            if loop.tosses_ahead(algorithm, state.key)
            else None
        ),
    )
    refused = state.refused != 0
    state = state._replace(step=state.step - refused.astype(jnp.int32))
    if state.prepared is not None:
        # It may be what was not finite, and can be computed again.
        blank = jax.tree.map(
            lambda leaf: jnp.where(refused, jnp.zeros_like(leaf), leaf), state.prepared
        )
        state = state._replace(prepared=blank)
    return state, _counts(state)


def _counts(state: State) -> Array:
    return jnp.stack([getattr(state, name) for name in COUNTERS] + [state.refused])


def _recorded(history: History, step: int) -> bool:
    return history.last.get("step") == step


def _safe(folder: Path | None, store: Checkpoint | None) -> str:
    if folder is None:
        return "nothing was saved, as no `checkpoint` was given."
    if store is None:
        return f"what {folder} holds is safe; start all processes again."
    return store.safe


def _interrupted(step: int, store: Checkpoint | None) -> str:
    if store is None:
        return f"interrupted at step {step}; nothing was saved, as no `checkpoint` was given."
    return f"interrupted at step {step}, which {store.where} holds: the same call continues."
