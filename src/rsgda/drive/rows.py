"""The rows of a block on their way: stacked, moved on together, taken apart at their ends."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda._trees import PyTree, Static, thaw
from rsgda.drive import door, loop
from rsgda.drive.plan import Block
from rsgda.drive.result import COUNTERS, Result, Status, columns, message, own, shown
from rsgda.moves import State
from rsgda.problem import Problem

STOP_ASKED = 3  # beside the refusals of `moves`: the row's record function asked to stop


class Rows(NamedTuple):
    """A block on its way: the stacked state, and the step at which each row ended."""

    state: State
    ends: Array


def begin(problem: Problem, block: Block, theta: PyTree, v: PyTree) -> Rows:
    """Give each row its own copy of what it changes; what rows have in common stays single."""
    members = len(block.members)
    shape = (members,) if "key" in block.shared else (len(block.places), members)
    keys = [block.keys] if "key" in block.shared else list(block.keys)
    # Each key has a start of its own: an algorithm may draw minibatches before its first step.
    each = [block.first.init(problem, theta, v, key)._replace(key=None) for key in keys]

    def spread(*leaves: Array) -> Array:
        all_ = leaves[0] if "key" in block.shared else jnp.expand_dims(jnp.stack(leaves), 1)
        return jnp.broadcast_to(all_, (*shape, *leaves[0].shape))

    stacked = jax.tree.map(spread, *each)
    state = own(stacked._replace(key=block.keys, step=each[0].step))
    return Rows(state, jnp.zeros(shape, jnp.int32))


@functools.partial(jax.jit, donate_argnums=2)
def advance_to(
    problem: Problem, algorithm: Any, rows: Rows, end: Array, shared: Static
) -> tuple[Rows, Array]:
    """Run all rows up to step `end`; a row that has ended stays as it is."""
    step_rows, toss = _over_rows(problem, algorithm, rows.state.key, shared.value)

    def advance(rows: Rows, tossed: PyTree) -> Rows:
        ended, state = rows.state.refused != 0, step_rows(rows.state, tossed)
        # What moves count they count only if they are taken; an algorithm's own counts go on.
        state = state._replace(gradients=jnp.where(ended, rows.state.gradients, state.gradients))
        return Rows(state, jnp.where(state.refused == 0, state.step, rows.ends))

    rows = loop.run(
        rows,
        end,
        step=lambda rows: rows.state.step,
        unfinished=lambda rows, end: (rows.state.step < end) & jnp.any(rows.state.refused == 0),
        advance=advance,
        toss=toss,
    )
    return rows, jnp.any(rows.state.refused == 0)


def _over_rows(problem: Problem, algorithm: Any, key: Array, shared: tuple[str, ...]) -> Any:
    """Return `step(state, tossed)` of all rows, and `toss(k)` for all rows if coins are ahead.

    Algorithms with the same key see one key, so that their samples are drawn once. A coin that
    all of them have in common is tossed once, so that it stays a branch.
    """
    numbers, structure = jax.tree.flatten(algorithm)
    stacked = [0 if number.ndim else None for number in numbers]

    def build(numbers: list[Array]) -> Any:
        return thaw(jax.tree.unflatten(structure, numbers))

    def step(state: State, numbers: list[Array], tossed: PyTree) -> State:
        return build(numbers).step(problem, state, *([] if tossed is None else [tossed]))[0]

    def toss(key: Array, k: Array, numbers: list[Array]) -> PyTree:
        return build(numbers).toss(key, k)

    whole = build(numbers)
    names = [name for name in getattr(whole, "branches_on", ()) if name != "key"]
    # A field that is no number, and so part of the structure, is the same for all.
    common = all(getattr(getattr(whole, name), "ndim", 0) == 0 for name in names)
    axes = _axes(key=None)
    step = jax.vmap(step, (axes, stacked, None if common else 0), axes)
    toss = toss if common else jax.vmap(toss, (None, None, stacked))
    if "key" not in shared:
        axes = _axes(key=0)
        step = jax.vmap(step, (axes, None, 0), axes)
        toss = jax.vmap(toss, (0, None, None))
    ahead = loop.tosses_ahead(whole, key)
    return (
        lambda state, tossed: step(state, numbers, tossed),
        (lambda k: toss(key, k, numbers)) if ahead else None,
    )


def _axes(key: int | None) -> State:
    """Say what differs from row to row: all but the step, which is the same for all."""
    return State._make([0] * len(State._fields))._replace(key=key, step=None)  # pyright: ignore


def records_of(
    record: door.Record | None, problem: Problem, rows: Rows, block: Block
) -> dict[str, np.ndarray]:
    """Return one array over the rows per name."""
    counts = {name: np.asarray(getattr(rows.state, name)) for name in COUNTERS}
    counts["step"] = np.asarray(rows.ends)
    if record is None:
        return counts
    try:
        values = _recorded(
            Static(record, type(record)), problem, rows.state, Static(block.shared, tuple)
        )
    except jax.errors.JAXTypeError:
        # It wants host values: it is called for each row by itself.
        values: dict[str, Any] = {}
        for row in np.ndindex(rows.ends.shape):
            single = shown(_single(rows.state, row))
            for name, value in door.take_record(record, problem, single).items():
                values.setdefault(name, np.zeros(rows.ends.shape, type(value)))[row] = value
    return counts | {door.check_name(name): np.asarray(value) for name, value in values.items()}


@jax.jit
def _recorded(record: Static, problem: Problem, state: State, shared: Static) -> dict[str, Array]:
    def one(state: State) -> dict[str, Array]:
        return record.value(problem, shown(state))

    over_rows = jax.vmap(one, (_axes(key=None),))
    if "key" not in shared.value:
        over_rows = jax.vmap(over_rows, (_axes(key=0),))
    return over_rows(state)


def _single(state: State, row: tuple[int, ...]) -> State:
    return _taken(state, row)._replace(key=state.key[row[: state.key.ndim]], step=state.step)


def _taken(state: State, row: tuple[int, ...]) -> State:
    return jax.tree.map(lambda leaf: leaf[row], state._replace(key=None, step=None))  # pyright: ignore


def results_of(
    rows: Rows, records: list[dict[str, np.ndarray]], block: Block
) -> dict[tuple[int, int], Result]:
    """Return each row as a run by itself, by the places of its algorithm and key."""
    refused, ends = np.asarray(rows.state.refused), np.asarray(rows.ends)
    state = jax.device_get(rows.state._replace(key=None))  # pyright: ignore
    # Each key is taken once: JAX takes longer for that than NumPy for all the rest.
    keys = {at: rows.state.key[at] for at in np.ndindex(rows.state.key.shape)}
    results = {}
    for row in np.ndindex(ends.shape):
        member, place = block.members[row[-1]], block.places[row[0] if len(row) > 1 else 0]
        if member is None:  # a filler
            continue
        # The first record at or after the row's end is its last.
        before = sum(record["step"][row] < ends[row] for record in records)
        history = columns(
            [
                {name: values[row].item() for name, values in record.items()}
                for record in records[: before + 1]
            ]
        )
        status = Status.FINISHED
        if refused[row]:
            status = Status.STOPPED if refused[row] == STOP_ASKED else Status.DIVERGED
        last = _taken(state, row)._replace(key=keys[row[: len(row) - 1]], step=ends[row])
        told = message(status, int(ends[row]), int(refused[row]))
        results[member, place] = Result(last.theta, last.v, status, told, history, last)
    return results
