"""The states of a run on disk: written aside and renamed by Orbax, checked when they are read."""

import itertools
import json
import logging
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array
from jax.sharding import NamedSharding

from rsgda._split import placed
from rsgda._trees import PyTree
from rsgda.drive import processes
from rsgda.drive.folder import CheckpointError, Folder
from rsgda.drive.quiet import let_go, quiet

KEPT = 2
# What a save of nothing takes on disk.
OVERHEAD = 2**17
# A save costs time; waiting this many times as long between saves keeps it under five per cent.
PATIENCE = 20.0
# Bytes of an array that are hashed at once, and what tells arrays from rows there.
CHUNK, SALT = 2**22, 0x9E3779B97F4A7C15

logger = logging.getLogger(__name__)

HISTORY = "history.jsonl"

# The records of a run from a place on: those before it are on disk already.
Since = Callable[[int], Iterable[dict[str, Any]]]


class Written(NamedTuple):
    """How much of the history is on disk: records, bytes, and their checksum."""

    records: int = 0
    size: int = 0
    checksum: int = 0


class Checkpoint:
    """Saves and restores one run in one folder: a tree of arrays, and records."""

    def __init__(self, folder: Path, identity: dict[str, Any], state: PyTree):
        """Open or make the folder; nothing is written if it holds another run."""
        size = OVERHEAD + sum(leaf.nbytes for leaf in jax.tree.leaves(state))
        self._path = folder
        # The first process has the folder; the others write their part into it.
        self._folder = processes.by_first(lambda: Folder(folder, identity, size, KEPT))
        self._saved_at, self._cost, self._written = time.perf_counter(), 0.0, Written()
        try:
            with quiet():
                self._manager = self._open()
        except BaseException:
            self._release()
            raise

    def _open(self) -> Any:
        import orbax.checkpoint as ocp

        options = ocp.CheckpointManagerOptions(max_to_keep=KEPT, enable_async_checkpointing=False)
        try:
            return ocp.CheckpointManager(self._path, options=options)
        except Exception as error:
            raise CheckpointError(f"checkpoint {self._path} cannot be opened: {error}") from error

    @property
    def where(self) -> str:
        """The folder, for messages."""
        return str(self._path)

    @property
    def safe(self) -> str:
        """What is left if the run ends now, for messages."""
        if self.newest is None:
            return "nothing was saved before; start all processes again."
        return f"step {self.newest} is safe in {self.where}: start all processes again to continue."

    @property
    def newest(self) -> int | None:
        """The step of the newest save, or None if nothing was saved yet."""
        return self._manager.latest_step()

    def restore(self, state: PyTree) -> tuple[PyTree, Iterator[dict[str, Any]]]:
        """Return the newest state that can be read, and the history up to it.

        The given state says what to expect. Its arrays are given up, so that a large v is not in
        memory twice.
        """
        leaves, structure = jax.tree.flatten(state)
        expected = [_Expected.like(leaf) for leaf in leaves]
        for leaf in leaves:
            leaf.delete()
        failures: dict[int, Exception] = {}
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                with quiet():
                    leaves, rows, self._written = self._read(step, expected)
            except Exception as error:
                let_go(error)
                failures[step] = error
                continue
            self._discard(failures, step)
            logger.info("continuing from step %d of %s", step, self.where)
            return jax.tree.unflatten(structure, leaves), rows
        newest, error = next(iter(failures.items()))
        raise CheckpointError(
            f"checkpoint {self.where} cannot be read, neither its save of step {newest} "
            f"({_brief(error)}) nor an older one; restore the folder from a copy, or remove it to "
            "begin again."
        ) from error

    def _read(
        self, step: int, expected: "list[_Expected]"
    ) -> tuple[list[Array], Iterator[dict[str, Any]], Written]:
        import orbax.checkpoint as ocp

        kinds = [ocp.RestoreArgs(restore_type=np.ndarray) for one in expected if not one.empty]
        saved = self._manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.PyTreeRestore(item=kinds, restore_args=kinds),
                history=ocp.args.JsonRestore(),
            ),
        )
        arrays, note = saved["state"], saved["history"]
        if note["checksum"] != _checksum(arrays):
            raise ValueError("its checksum is wrong")
        written = Written(*note["written"])
        rows = _lines(self._path / HISTORY, written)
        arrays.reverse()
        # Taken from the list one by one, so that each is let go once its copy is made.
        return [one.take(arrays) for one in expected], rows, written

    def _discard(self, failures: dict[int, Exception], step: int) -> None:
        """Remove saves that cannot be read, now that an older one has proved good."""
        for damaged, error in failures.items():
            logger.warning(
                "the save of step %d in %s is damaged and was removed (%s); the run continues from "
                "step %d",
                damaged, self.where, _brief(error), step,
            )  # fmt: skip
            with quiet():
                self._manager.delete(damaged)

    def due(self) -> bool:
        """Say whether it is time to save again."""
        late = time.perf_counter() - self._saved_at > max(1.0, PATIENCE * self._cost)
        return bool(processes.of_first(late))

    def save(self, step: int, state: PyTree, since: Since) -> None:
        """Save a state with the history up to it; the last save stays until this one is done."""
        began = time.perf_counter()
        if self.newest == step:
            return
        try:
            processes.by_first(lambda: self._folder and self._folder.bring_back())
            with quiet():
                self._write(step, state, since)
        except Exception as error:
            if processes.is_loss(error):
                raise
            let_go(error)
            if self._folder is not None:
                self._folder.clear()
            last = "nothing was saved before"
            if self.newest is not None:
                last = f"step {self.newest}, saved before, is safe there"
            raise CheckpointError(
                f"step {step} could not be saved in {self.where}: {_brief(error)}. But {last}; "
                "make room and make the same call to continue."
            ) from error
        self._saved_at = time.perf_counter()
        self._cost = self._saved_at - began
        logger.info("saved step %d in %s", step, self.where)

    def _write(self, step: int, state: PyTree, since: Since) -> None:
        import orbax.checkpoint as ocp

        written = processes.by_first(lambda: _append(self._path / HISTORY, self._written, since))
        # Orbax takes no arrays without elements, and they hold nothing.
        arrays = [_data(leaf) for leaf in jax.tree.leaves(state) if leaf.size]
        history = {"checksum": _checksum(arrays), "written": list(written or Written())}
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.PyTreeSave(arrays), history=ocp.args.JsonSave(history)
            ),
            force=True,
        )
        self._written = written or self._written

    def close(self) -> None:
        """Let go of the folder."""
        try:
            with quiet():
                self._manager.close()
        finally:
            self._release()

    def _release(self) -> None:
        if self._folder is not None:
            self._folder.release()


class _Expected(NamedTuple):
    """An array that a save must hold."""

    shape: tuple[int, ...]  # of the data, if it is a key
    dtype: Any
    device: Any  # None: JAX chooses, as it did for the array at the start
    random: Any  # the kind of key, or None

    @classmethod
    def like(cls, leaf: Array) -> "_Expected":
        random = jr.key_impl(leaf) if _is_key(leaf) else None
        data = _data(leaf)
        return cls(data.shape, data.dtype, leaf.sharding if leaf.committed else None, random)

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    def take(self, arrays: list[np.ndarray]) -> Array:
        """Take the array from the end of a list and put it where it belongs."""
        if self.empty:
            return jnp.zeros(self.shape, self.dtype)
        data = arrays.pop()
        if (data.shape, data.dtype) != (self.shape, self.dtype):
            raise ValueError(
                f"it holds {data.dtype}{list(data.shape)} where {self.dtype}{list(self.shape)} "
                "was expected"
            )
        if isinstance(self.device, NamedSharding):
            array = placed(data, self.device)
        else:
            # A copy: chunks write into their arrays, which must not be NumPy's.
            array = jax.device_put(data, self.device, may_alias=False)
        return array if self.random is None else jr.wrap_key_data(array, impl=self.random)


def _brief(error: Exception) -> str:
    """Return the first line; TensorStore goes on for pages."""
    return str(error).partition("\n")[0][:500]


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _data(leaf: Array) -> Array:
    return jr.key_data(leaf) if _is_key(leaf) else leaf


def _append(file: Path, written: Written, since: Since) -> Written:
    """Write what a history has that its file lacks; what a save that failed has left goes."""
    if not file.exists() or file.stat().st_size < written.size:
        written = Written()  # somebody has removed it
    records, size, checksum = written
    with open(file, "r+b" if file.exists() else "wb") as opened:
        opened.truncate(size)
        opened.seek(size)
        for row in since(records):
            line = f"{json.dumps(row)}\n".encode()
            opened.write(line)
            records, size = records + 1, size + len(line)
            checksum = zlib.crc32(line, checksum)
        opened.flush()
        os.fsync(opened.fileno())
    return Written(records, size, checksum)


def _lines(file: Path, written: Written) -> Iterator[dict[str, Any]]:
    """Return the records of a save; the file may go on with those of a later one."""
    checksum, left = 0, written.size
    with open(file, "rb") as opened:
        while left and (part := opened.read(min(left, CHUNK))):
            checksum, left = zlib.crc32(part, checksum), left - len(part)
    if left or checksum != written.checksum:
        raise ValueError(f"the checksum of {file.name} is wrong")
    return _parsed(file, written.records)


def _parsed(file: Path, count: int) -> Iterator[dict[str, Any]]:
    with open(file, "rb") as opened:
        yield from map(json.loads, itertools.islice(opened, count))


def _checksum(arrays: Iterable[Any]) -> int:
    """Return a number that changes with any bit; Orbax does not notice a bit that has changed.

    It is a sum over rows, so that each process adds what it has, however rows are shared out.
    """
    mine = 0
    for place, array in enumerate(arrays):
        for start, part in _parts(array):
            mine += _hash(part, start, place)
    return processes.total(mine)


def _parts(array: Any) -> list[tuple[int, np.ndarray]]:
    """Return what this process has to answer for, with the place of the first row."""
    if not isinstance(array, jax.Array):
        return [(0, array)] if processes.is_first() or not processes.several() else []
    return [
        ((shard.index[0].start or 0) if shard.index else 0, np.asarray(shard.data))
        for shard in array.addressable_shards
        if shard.replica_id == 0
    ]


def _hash(part: np.ndarray, start: int, place: int) -> int:
    """Return the sum of the hashes of rows, which depend on where they are."""
    rows = part.reshape(part.shape[0] if part.ndim else 1, -1)
    total = 0
    size = max(1, CHUNK // max(1, rows[:1].nbytes))
    for first in range(0, len(rows), size):
        chunk = np.ascontiguousarray(rows[first : first + size]).view(np.uint8)
        words = np.pad(chunk, ((0, 0), (0, -chunk.shape[1] % 8))).view(np.uint64)
        # An odd factor for each word: no bit can change without the sum of its row.
        odd = _mixed(np.arange(words.shape[1], dtype=np.uint64)) | np.uint64(1)
        where = np.arange(start + first, start + first + len(words), dtype=np.uint64)
        salt = _mixed(where * np.uint64(SALT) + np.uint64(place))
        total += int(np.sum(_mixed((words * odd).sum(axis=1) ^ salt)))
    return total


def _mixed(words: np.ndarray) -> np.ndarray:
    """Scramble 64-bit words one to one (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
