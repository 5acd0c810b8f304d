"""Many runs at once: algorithms x keys, one compiled program per class of algorithm."""

import contextlib
import dataclasses
import functools
import logging
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda._trees import PyTree
from rsgda.drive import door
from rsgda.drive.folder import local
from rsgda.drive.job import Ended, Job, TellStep, identity_of, run_block
from rsgda.drive.pace import Interrupts
from rsgda.drive.plan import blocks
from rsgda.drive.progress import bar
from rsgda.drive.result import COUNTERS, Result, Status, own, shown
from rsgda.drive.rows import results_of
from rsgda.problem import Problem

logger = logging.getLogger(__name__)

Results = dict[tuple[int, int], Result]


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

    def runs(self) -> Iterator[tuple[tuple[int, int], Status, dict[str, np.ndarray]]]:
        """Give the place of each run, how it ended, and its history as it was recorded."""
        for i, j in np.ndindex(self.status.shape):
            result = self._results[i, j]
            yield (i, j), result.status, result.history

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
    keys: Array | None = None,
    steps: int,
    record: door.Record | None = None,
    every: int = 1_000,
    checkpoint: str | os.PathLike[str] | None = None,
    client: Any = None,
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
        checkpoint: a folder. A sweep that was interrupted or killed continues from it when the
            call is made again, and ends bit for bit where the undisturbed one ends.
        client: a `distributed.Client` of Dask, whose workers run the rows that share a program as
            one task each. With `checkpoint`, in a folder that all of them see, a task whose worker
            was killed goes on elsewhere from where it was.
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
    if client is not None:
        from rsgda.drive import cluster

        cluster.check(client)
    job = planned(
        problem, algorithms, theta, v, keys=keys, steps=steps, record=record, every=every,
        checkpoint=checkpoint,
    )  # fmt: skip
    with bar(progress, "sweep", 0, job.size) as shown_bar:
        (table,) = tables(
            [job], client=client, paths=(), tell=lambda done: shown_bar.update(int(done), {})
        )
    return table


def planned(
    problem: Problem,
    algorithms: Sequence[Any],
    theta: PyTree,
    v: PyTree,
    *,
    keys: Array | None = None,
    steps: int,
    record: door.Record | None,
    every: int,
    checkpoint: str | os.PathLike[str] | None,
) -> Job:
    """Check the arguments of a sweep and arrange its rows; nothing is written yet."""
    if not isinstance(algorithms, Sequence):
        raise ValueError(f"`algorithms` must be a list of algorithms, got {algorithms!r}.")
    given = tuple(algorithms)
    if not given:
        raise ValueError("`algorithms` must hold at least one algorithm, got none.")
    door.check_call(problem, given, theta, v, steps, every)
    known = tuple(door.with_steps(problem, one) for one in given)
    keys = door.check_key("keys", keys, dimensions=1)
    folder = None if checkpoint is None else local(checkpoint)
    door.check_sets(problem, theta, v)
    first = own(known[0].init(problem, theta, v, keys[0]))
    door.check_loss(problem, first)
    door.check_record(record, problem, first)
    whose: dict[str, Any] = {}
    if folder is not None:
        whose = identity_of(problem, known, first, keys, steps, every, record)
    plan = tuple(blocks(problem, known, keys, first))
    return Job(problem, theta, v, given, keys, steps, record, every, plan, folder, whose)


def tables(
    jobs: Sequence[Job], *, client: Any, paths: tuple[str, ...], tell: Callable[[float], None]
) -> list[Table]:
    """Run all blocks of some sweeps, here or where a client sends them.

    Args:
        jobs: the sweeps.
        client: a `distributed.Client`, or None.
        paths: where else the workers find the modules of the problems.
        tell: is told how many steps are done, of all that the blocks have.
    """
    calls = [(i, place) for i, job in enumerate(jobs) for place in range(len(job.plan))]
    with contextlib.ExitStack() as stack:
        for job in jobs:
            stack.enter_context(job.held())
        try:
            if client is None:
                found = _run_here(jobs, calls, tell)
            else:
                found = _run_there(jobs, calls, tell, client, paths)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(_interrupted(jobs)) from interrupt
    results: list[Results] = [{} for _ in jobs]
    for (i, _), each in zip(calls, found, strict=True):
        results[i] |= each
    return [_table(job.algorithms, job.keys, runs) for job, runs in zip(jobs, results, strict=True)]


def _run_here(
    jobs: Sequence[Job], calls: list[tuple[int, int]], tell: Callable[[float], None]
) -> list[Results]:
    found, before = [], 0
    with Interrupts() as ctrl_c:

        def told(step: float) -> None:
            tell(before + step)
            if ctrl_c.pending:
                raise KeyboardInterrupt

        for i, place in calls:
            rows, records = run_block(jobs[i], place, told)
            found.append(results_of(rows, records, jobs[i].plan[place]))
            before += jobs[i].steps
            tell(before)
    return found


def _run_there(
    jobs: Sequence[Job],
    calls: list[tuple[int, int]],
    tell: Callable[[float], None],
    client: Any,
    paths: tuple[str, ...],
) -> list[Results]:
    from rsgda.drive import cluster

    run = functools.partial(_run_call, tuple(jobs))
    sizes = [float(jobs[i].steps) for i, _ in calls]
    ended = cluster.run_all(client, run, calls, sizes=sizes, paths=paths, tell=tell)
    return [each.results(jobs[i], place) for (i, place), each in zip(calls, ended, strict=True)]


def _run_call(jobs: Sequence[Job], call: tuple[int, int], tell: TellStep) -> Ended:
    """Run a block somewhere else; how far it is is told as a share of it."""
    i, place = call
    return Ended.of(*run_block(jobs[i], place, lambda step: tell(step / jobs[i].steps)))


def _interrupted(jobs: Sequence[Job]) -> str:
    folders = ", ".join(str(job.folder) for job in jobs if job.folder is not None)
    if not folders:
        return "interrupted; nothing was saved, as no `checkpoint` was given."
    return f"interrupted; {folders} holds what was done: the same call continues."


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
