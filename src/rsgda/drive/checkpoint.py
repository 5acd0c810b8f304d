"""The states of a run on disk: written aside and renamed by Orbax, checked when they are read."""

import json
import logging
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

from rsgda._trees import PyTree
from rsgda.drive.folder import CheckpointError, Folder
from rsgda.drive.quiet import let_go, quiet

KEPT = 2
# What a save of nothing takes on disk.
OVERHEAD = 2**17
# A save costs time; waiting this many times as long between saves keeps it under five per cent.
PATIENCE = 20.0

logger = logging.getLogger(__name__)

Rows = list[dict[str, Any]]


class Checkpoint:
    """Saves and restores one run in one folder: a tree of arrays, and records."""

    def __init__(self, folder: Path, identity: dict[str, Any], state: PyTree):
        """Open or make the folder; nothing is written if it holds another run."""
        size = OVERHEAD + sum(leaf.nbytes for leaf in jax.tree.leaves(state))
        self._folder = Folder(folder, identity, size, KEPT)
        self._saved_at, self._cost = time.perf_counter(), 0.0
        try:
            with quiet():
                self._manager = self._open()
        except BaseException:
            self._folder.release()
            raise

    def _open(self) -> Any:
        import orbax.checkpoint as ocp

        options = ocp.CheckpointManagerOptions(max_to_keep=KEPT, enable_async_checkpointing=False)
        try:
            return ocp.CheckpointManager(self._folder.path, options=options)
        except Exception as error:
            raise CheckpointError(
                f"checkpoint {self._folder.path} cannot be opened: {error}"
            ) from error

    @property
    def where(self) -> str:
        """The folder, for messages."""
        return str(self._folder.path)

    @property
    def newest(self) -> int | None:
        """The step of the newest save, or None if nothing was saved yet."""
        return self._manager.latest_step()

    def restore(self, state: PyTree) -> tuple[PyTree, Rows]:
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
                    leaves, rows = self._read(step, expected)
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

    def _read(self, step: int, expected: "list[_Expected]") -> tuple[list[Array], Rows]:
        import orbax.checkpoint as ocp

        kinds = [ocp.RestoreArgs(restore_type=np.ndarray) for one in expected if not one.empty]
        saved = self._manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.PyTreeRestore(item=kinds, restore_args=kinds),
                history=ocp.args.JsonRestore(),
            ),
        )
        arrays, history = saved["state"], saved["history"]
        if history["checksum"] != _checksum(arrays, history["rows"]):
            raise ValueError("its checksum is wrong")
        arrays.reverse()
        # Taken from the list one by one, so that each is let go once its copy is made.
        return [one.take(arrays) for one in expected], history["rows"]

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
        return time.perf_counter() - self._saved_at > max(1.0, PATIENCE * self._cost)

    def save(self, step: int, state: PyTree, rows: Rows) -> None:
        """Save a state with the history up to it; the last save stays until this one is done."""
        began = time.perf_counter()
        if self.newest == step:
            return
        try:
            self._folder.bring_back()
            with quiet():
                self._write(step, state, rows)
        except Exception as error:
            let_go(error)
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

    def _write(self, step: int, state: PyTree, rows: Rows) -> None:
        import orbax.checkpoint as ocp

        # Orbax takes no arrays without elements, and they hold nothing.
        arrays = [_data(leaf) for leaf in jax.tree.leaves(state) if leaf.size]
        history = {"rows": rows, "checksum": _checksum(arrays, rows)}
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.PyTreeSave(arrays), history=ocp.args.JsonSave(history)
            ),
            force=True,
        )

    def close(self) -> None:
        """Let go of the folder."""
        try:
            with quiet():
                self._manager.close()
        finally:
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
        # A copy: chunks write into their arrays, which must not be NumPy's.
        placed = jax.device_put(data, self.device, may_alias=False)
        return placed if self.random is None else jr.wrap_key_data(placed, impl=self.random)


def _brief(error: Exception) -> str:
    """Return the first line; TensorStore goes on for pages."""
    return str(error).partition("\n")[0][:500]


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _data(leaf: Array) -> Array:
    return jr.key_data(leaf) if _is_key(leaf) else leaf


def _checksum(arrays: Iterable[Any], rows: Rows) -> int:
    """Return a number that changes with any bit; Orbax does not notice a bit that has changed."""
    total = zlib.crc32(json.dumps(rows).encode())
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        total = zlib.crc32(flat.view(np.uint8).data, total)
    return total
