"""Many runs at once: algorithms x keys, one compiled program per class of algorithm."""

import dataclasses
import functools
import logging
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda._trees import PyTree, Static, thaw
from rsgda.drive import door, loop
from rsgda.drive.pace import Interrupts, Pacer
from rsgda.drive.plan import Block, blocks
from rsgda.drive.progress import bar
from rsgda.drive.result import COUNTERS, Result, Status, columns, message, own, shown
from rsgda.moves import State
from rsgda.problem import Problem

logger = logging.getLogger(__name__)

STOP_ASKED = 3  # beside the refusals of `moves`: the row's record function asked to stop


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """The runs of a sweep, algorithms by keys.

    `table[i, j]` is the `Result` of algorithm i with key j, as `solve` would have returned it.

    Attributes:
        algorithms: the algorithms, in the order they were given.
        keys: the keys, likewise.
        history: one array per name, of shape algorithms x keys x records; the values that
            `record` would return after a run has ended are NaN.
        status: how each run ended, algorithms x keys.
    """

    algorithms: tuple[Any, ...]
    keys: Array
    history: dict[str, np.ndarray]
    status: np.ndarray
    _results: dict[tuple[int, int], Result] = dataclasses.field(repr=False)

    def __getitem__(self, row: tuple[int, int]) -> Result:
        """Return one run."""
        try:
            i, j = (operator.index(number) for number in row)
        except (TypeError, ValueError) as error:
            raise IndexError(f"a run of a table is table[i, j], got {row!r}.") from error
        result = self._results[range(len(self.algorithms))[i], range(len(self.keys))[j]]
        state = jax.tree.map(jnp.asarray, result.state._replace(key=None))  # pyright: ignore
        state = state._replace(key=result.state.key)
        return dataclasses.replace(
            result, theta=shown(state).theta, v=shown(state).v, state=shown(state)
        )

    def __repr__(self) -> str:
        """Show the size and how the runs ended."""
        ends = {status.name: int(np.sum(self.status == status)) for status in Status}
        return f"Table({len(self.algorithms)} algorithms x {len(self.keys)} keys, {ends})"


def sweep(
    problem: Problem,
    algorithms: Sequence[Any],
    theta: PyTree,
    v: PyTree,
    *,
    keys: Array,
    steps: int,
    record: door.Record | None = None,
    every: int = 1_000,
    progress: bool = False,
) -> Table:
    """Run each algorithm with each key, many rows in one compiled program.

    Each row has the coins and samples of the single run with that algorithm and key. Rows whose
    coins agree (the same key and p) share a branch. Where coins differ, both gradients are
    computed for rows side by side, or the rows run one group after the other; the cheaper plan
    is chosen from the size of the problem.

    Args:
        problem: what is being solved.
        algorithms: algorithms of any classes.
        theta: where the minimised variable starts, in all rows.
        v: where the maximised variable starts, in all rows.
        keys: a vector of keys, such as `jax.random.split(jax.random.key(0), 20)`.
        steps: iterations of each run.
        record: as in `solve`; it is compiled and mapped over the rows if it can be traced, and
            called row by row if not.
        every: steps between two records.
        progress: whether to show a progress bar.

    >>> import jax, rsgda
    >>> toy = rsgda.problems.Toy(kinds="B", kappa=5.0)
    >>> theta, v = toy.start()
    >>> table = sweep(
    ...     toy.problem, [rsgda.RSGDA(p=p, alpha=0.1, eta=0.5) for p in (0.25, 0.5)], theta, v,
    ...     keys=jax.random.split(jax.random.key(0), 3), steps=100,
    ...     record=lambda problem, state: {"phi": toy.phi(state.theta)}, every=50,
    ... )
    >>> table.history["phi"].shape
    (2, 3, 2)

    Source: the grids of steps, p and seeds of the paper's Section 5.
    """
    if not isinstance(algorithms, Sequence):
        raise ValueError(f"`algorithms` must be a list of algorithms, got {algorithms!r}.")
    algorithms = tuple(algorithms)
    if not algorithms:
        raise ValueError("`algorithms` must hold at least one algorithm, got none.")
    door.check_call(problem, algorithms, theta, v, steps, every)
    given, algorithms = algorithms, tuple(door.with_steps(problem, one) for one in algorithms)
    door.check_key("keys", keys, dimensions=1)
    door.check_sets(problem, theta, v)
    first = own(algorithms[0].init(problem, theta, v, keys[0]))
    door.check_loss(problem, first)
    door.check_record(record, problem, first)
    plan = blocks(problem, algorithms, keys, first)
    results: dict[tuple[int, int], Result] = {}
    total = steps * len(plan)
    with bar(progress, "sweep", 0, total) as shown_bar, Interrupts() as ctrl_c:
        for done, block in enumerate(plan):
            told = functools.partial(_tell, shown_bar, ctrl_c, done * steps)
            results |= _run_block(problem, block, theta, v, steps, record, every, told)
    return _table(given, keys, results)


def _tell(shown_bar: Any, ctrl_c: Interrupts, before: int, step: int) -> None:
    shown_bar.update(before + step, {})
    if ctrl_c.pending:
        raise KeyboardInterrupt("interrupted; a sweep keeps nothing.")


class _Rows(NamedTuple):
    """A block on its way: the stacked state, and the step at which each row ended."""

    state: State
    ends: Array


def _run_block(
    problem: Problem,
    block: Block,
    theta: PyTree,
    v: PyTree,
    steps: int,
    record: door.Record | None,
    every: int,
    tell: Any,
) -> dict[tuple[int, int], Result]:
    rows = _begin(problem, block, theta, v)
    step, pacer, records = 0, Pacer(), []
    shared = Static(block.shared, tuple)
    while step < steps:
        end = pacer.end(step, steps, every)
        rows, running = _advance(problem, block.algorithm, rows, np.int32(end), shared)
        running = bool(running)
        pacer.saw(end - step)
        step = end
        if step % every == 0 or step == steps or not running:
            records.append(_records(record, problem, rows, block))
            if "stop" in records[-1]:
                asked = (rows.state.refused == 0) & jnp.asarray(records[-1]["stop"], bool)
                refused = jnp.where(asked, STOP_ASKED, rows.state.refused)
                rows = _Rows(rows.state._replace(refused=refused), rows.ends)
                running = bool(jnp.any(refused == 0))
        tell(step)
        if not running:
            break
    if not records:
        records.append(_records(record, problem, rows, block))
    return _results(rows, records, block)


def _begin(problem: Problem, block: Block, theta: PyTree, v: PyTree) -> _Rows:
    """Give each row its own copy of what it changes; what rows have in common stays single."""
    key = block.keys if "key" in block.shared else block.keys[0]
    one = block.first.init(problem, theta, v, key)._replace(key=block.keys)
    shape = (len(block.members),)
    if "key" not in block.shared:
        shape = (len(block.places), *shape)
    stacked = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*shape, *leaf.shape)), one)
    state = own(stacked._replace(key=one.key, step=one.step))
    return _Rows(state, jnp.zeros(shape, jnp.int32))


@functools.partial(jax.jit, donate_argnums=2)
def _advance(
    problem: Problem, algorithm: Any, rows: _Rows, end: Array, shared: Static
) -> tuple[_Rows, Array]:
    """Run all rows up to step `end`; a row that has ended stays as it is."""
    step_rows, toss = _over_rows(problem, algorithm, rows.state.key, shared.value)

    def advance(rows: _Rows, tossed: PyTree) -> _Rows:
        ended, state = rows.state.refused != 0, step_rows(rows.state, tossed)
        # What moves count they count only if they are taken; an algorithm's own counts go on.
        state = state._replace(gradients=jnp.where(ended, rows.state.gradients, state.gradients))
        return _Rows(state, jnp.where(state.refused == 0, state.step, rows.ends))

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


def _records(
    record: door.Record | None, problem: Problem, rows: _Rows, block: Block
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


def _results(
    rows: _Rows, records: list[dict[str, np.ndarray]], block: Block
) -> dict[tuple[int, int], Result]:
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


def _table(
    algorithms: tuple[Any, ...], keys: Array, results: dict[tuple[int, int], Result]
) -> Table:
    shape = (len(algorithms), len(keys))
    longest = max(len(result.history["step"]) for result in results.values())
    names = list(dict.fromkeys(name for result in results.values() for name in result.history))
    history = {}
    for name in names:
        series = {
            place: result.history.get(name, np.full(len(result.history["step"]), np.nan))
            for place, result in results.items()
        }
        dtype = np.result_type(*series.values())
        if name not in COUNTERS:
            dtype = np.result_type(dtype, np.float32)
        history[name] = np.zeros((*shape, longest), dtype)
        for place, column in series.items():
            rest = column[-1] if name in COUNTERS else np.nan
            history[name][place] = np.concatenate([column, [rest] * (longest - len(column))])
    status = np.empty(shape, object)
    for place, result in results.items():
        status[place] = result.status
    diverged = int(np.sum(status == Status.DIVERGED))
    if diverged:
        logger.warning("%d of %d runs diverged", diverged, status.size)
    return Table(algorithms, keys, history, status, results)
