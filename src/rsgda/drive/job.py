"""The blocks of a sweep, each run by itself, wherever that is, and kept in a folder of its own."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

from rsgda._names import qualified
from rsgda._trees import PyTree, Static
from rsgda.drive import door
from rsgda.drive.checkpoint import KEPT, Checkpoint
from rsgda.drive.folder import START, Folder
from rsgda.drive.identity import identity
from rsgda.drive.pace import Pacer
from rsgda.drive.plan import Block
from rsgda.drive.result import Result
from rsgda.drive.rows import STOP_ASKED, Rows, advance_to, begin, records_of, results_of
from rsgda.moves import State
from rsgda.problem import Problem

# Is told the step that a block has come to; what it raises ends the block, which is saved first.
TellStep = Callable[[float], None]
Records = list[dict[str, np.ndarray]]


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """A sweep that was checked and planned: all that a process needs to run a block of it.

    Attributes:
        plan: the blocks.
        folder: where blocks are kept, or None.
        identity: what makes it this sweep.
        The others are the arguments of `sweep`.
    """

    problem: Problem
    theta: PyTree
    v: PyTree
    algorithms: tuple[Any, ...]
    keys: Array
    steps: int
    record: door.Record | None
    every: int
    plan: tuple[Block, ...]
    folder: Path | None
    identity: dict[str, Any]

    @property
    def size(self) -> int:
        """The steps of all blocks."""
        return self.steps * len(self.plan)

    def place_of(self, place: int) -> tuple[Path, dict[str, Any]] | None:
        """Return the folder of a block, and what makes it this block."""
        if self.folder is None:
            return None
        block = self.plan[place]
        who = {"block": [list(block.members), list(block.places)]}
        return self.folder / f"block-{place:04d}", self.identity | who

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder of the sweep; one that is another sweep's is refused by name."""
        if self.folder is None:
            yield
            return
        # Whether there is room is each block's own question: some may have been saved before.
        folder = Folder(self.folder, self.identity, 0, KEPT)
        try:
            yield
        finally:
            folder.release()


def identity_of(
    problem: Problem,
    algorithms: tuple[Any, ...],
    first: State,
    keys: Array,
    steps: int,
    every: int,
    record: door.Record | None,
) -> dict[str, Any]:
    """Return what makes a sweep the same sweep: what makes the runs, and what is asked of them.

    Other than with `solve`, another start is another sweep: blocks that have not begun would start
    elsewhere than those that are done.
    """
    found = identity(problem, algorithms, first)
    return {
        **found,
        "algorithm": [qualified(algorithm) for algorithm in algorithms],
        "key": f"{jr.key_impl(keys)} {jr.key_data(keys).tolist()}",
        "steps": int(steps),
        "every": int(every),
        "record": qualified(record),
        "theta and v": found.pop(START),
        START: None,
    }


class Ended(NamedTuple):
    """A block at its end, as plain arrays that can travel.

    Attributes:
        leaves: of the rows, but for the keys, which no run changes.
        records: one array over the rows per name, for each time that records were taken.
    """

    leaves: list[np.ndarray]
    records: Records

    @classmethod
    def of(cls, rows: Rows, records: Records) -> "Ended":
        """Take the arrays out of a block."""
        return cls([np.asarray(leaf) for leaf in jax.tree.leaves(_keyless(rows))], records)

    def results(self, job: Job, place: int) -> dict[tuple[int, int], Result]:
        """Return the block's runs, by the places of their algorithm and key."""
        block = job.plan[place]
        like = begin(job.problem, block, job.theta, job.v)
        rows: Rows = jax.tree.unflatten(jax.tree.structure(_keyless(like)), self.leaves)
        rows = rows._replace(state=rows.state._replace(key=like.state.key))
        return results_of(rows, self.records, block)


def run_block(job: Job, place: int, tell: TellStep) -> tuple[Rows, Records]:
    """Run a block to its end, from where its folder says that it was."""
    rows, kept = begin(job.problem, job.plan[place], job.theta, job.v), job.place_of(place)
    if kept is None:
        return _run(job, job.plan[place], rows, None, tell)
    store = Checkpoint(*kept, rows)
    try:
        return _run(job, job.plan[place], rows, store, tell)
    finally:
        store.close()


def _run(
    job: Job, block: Block, rows: Rows, store: Checkpoint | None, tell: TellStep
) -> tuple[Rows, Records]:
    step, running, pacer = 0, True, Pacer()
    records: Records = []
    if store is not None and store.newest is not None:
        rows, saved = store.restore(rows)
        # Asked again, as a save that cannot be read gives way to the one before it.
        step, records = store.newest, [_from_json(record) for record in saved]
        running = bool(jnp.any(rows.state.refused == 0))
        tell(step)
    shared = Static(block.shared, tuple)
    while step < job.steps and running:
        end = pacer.end(step, job.steps, job.every)
        rows, still = advance_to(job.problem, block.algorithm, rows, np.int32(end), shared)
        running = bool(still)
        pacer.saw(end - step)
        step = end
        if step % job.every == 0 or step == job.steps or not running:
            records.append(records_of(job.record, job.problem, rows, block))
            if "stop" in records[-1]:
                asked = (rows.state.refused == 0) & jnp.asarray(records[-1]["stop"], bool)
                refused = jnp.where(asked, STOP_ASKED, rows.state.refused)
                rows = Rows(rows.state._replace(refused=refused), rows.ends)
                running = bool(jnp.any(refused == 0))
        try:
            tell(step)
        except BaseException:
            _save(store, step, rows, records)
            raise
        if store is not None and store.due():
            _save(store, step, rows, records)
    if not records:
        records.append(records_of(job.record, job.problem, rows, block))
    _save(store, step, rows, records)
    return rows, records


def _save(store: Checkpoint | None, step: int, rows: Rows, records: Records) -> None:
    if store is not None:
        store.save(step, rows, lambda first: map(_as_json, records[first:]))


def _as_json(record: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the records of a time with their dtypes, which numbers in a file do not have."""
    plain = {
        # NumPy's own kinds become Python's numbers and come back; bfloat16 is none of them.
        name: values if values.dtype.kind in "biuf" else values.astype(np.float32)
        for name, values in record.items()
    }
    return {name: [values.dtype.name, values.tolist()] for name, values in plain.items()}


def _from_json(record: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.array(values, dtype) for name, (dtype, values) in record.items()}


def _keyless(rows: Rows) -> Rows:
    return rows._replace(state=rows.state._replace(key=None))  # pyright: ignore
