"""A folder that holds a run: written aside and renamed by Orbax, refused if it is another's."""

import json
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np

from rsgda.algorithms.moves import State

IDENTITY = "rsgda.json"
KEPT = 2
# A save costs time; waiting this many times as long between saves keeps it under five per cent.
PATIENCE = 20.0

logger = logging.getLogger(__name__)


class CheckpointMismatch(ValueError):
    """The folder holds something else than the run that was asked for."""


class CheckpointError(OSError):
    """The folder cannot be read or written."""


class Checkpoint:
    """Saves and restores one run in one folder."""

    def __init__(self, folder: str | os.PathLike[str], identity: dict[str, Any], state: State):
        """Open or make the folder; nothing is written if it holds another run."""
        self.folder = Path(folder).absolute()
        self._saved_at, self._cost = time.perf_counter(), 0.0
        self._check(identity)
        self._claim(identity, state)
        self._manager = self._open()

    def _check(self, identity: dict[str, Any]) -> None:
        if not self.folder.exists():
            return
        if not self.folder.is_dir():
            raise CheckpointMismatch(f"`checkpoint` must be a folder, {self.folder} is a file.")
        note = self.folder / IDENTITY
        if not note.exists():
            foreign = [name for name in os.listdir(self.folder) if not name.startswith(".rsgda")]
            if foreign:
                raise CheckpointMismatch(
                    f"`checkpoint` must be a new or empty folder or one of this run, but "
                    f"{self.folder} holds {sorted(foreign)[:3]} and no {IDENTITY}; "
                    "choose another folder."
                )
            return
        try:
            saved = json.loads(note.read_text())
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{note} cannot be read: {error}") from error
        for name in identity | saved:
            if saved.get(name) != identity.get(name):
                raise CheckpointMismatch(
                    f"checkpoint {self.folder} holds another run: its {name} is "
                    f"{saved.get(name)!r}, this run needs {identity.get(name)!r}; start a new "
                    "folder or make the call that wrote it."
                )

    def _claim(self, identity: dict[str, Any], state: State) -> None:
        """Write who owns the folder, and find out whether it can hold the run."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            needed = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
            free = shutil.disk_usage(self.folder).free
            handle, aside = tempfile.mkstemp(prefix=".rsgda", dir=self.folder)
            with os.fdopen(handle, "w") as file:
                json.dump(identity, file, indent=1)
            if (self.folder / IDENTITY).exists():
                os.unlink(aside)
            else:
                os.replace(aside, self.folder / IDENTITY)
        except OSError as error:
            raise CheckpointError(
                f"`checkpoint` must be a folder that can be written to, but {self.folder} cannot: "
                f"{error.strerror or error}"
            ) from error
        # A save is finished before an older one is removed.
        if free < KEPT * needed:
            raise CheckpointError(
                f"`checkpoint` {self.folder} has {free:,} bytes free, and {KEPT} states of "
                f"{needed:,} bytes must fit; free some space or choose another folder."
            )

    def _open(self) -> Any:
        import orbax.checkpoint as ocp

        options = ocp.CheckpointManagerOptions(
            max_to_keep=KEPT, enable_async_checkpointing=False, cleanup_tmp_directories=True
        )
        return ocp.CheckpointManager(self.folder, options=options)

    def restore(self, state: State) -> tuple[State, list[dict[str, Any]]] | None:
        """Return the newest saved state and its history, or None if nothing was saved yet."""
        import orbax.checkpoint as ocp

        newest = self._manager.latest_step()
        if newest is None:
            return None
        leaves = jax.tree.leaves(_plain(state))
        wanted = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
        try:
            saved = self._manager.restore(
                newest,
                args=ocp.args.Composite(
                    state=ocp.args.StandardRestore(wanted), history=ocp.args.JsonRestore()
                ),
            )
        except Exception as error:
            raise CheckpointError(
                f"the checkpoint of step {newest} in {self.folder} cannot be read: {error}"
            ) from error
        plain = jax.tree.unflatten(jax.tree.structure(_plain(state)), saved["state"])
        key = jr.wrap_key_data(plain.key, impl=jr.key_impl(state.key))
        logger.info("continuing from step %d of %s", newest, self.folder)
        return plain._replace(key=key), saved["history"]["rows"]

    def due(self) -> bool:
        """Say whether it is time to save again."""
        return time.perf_counter() - self._saved_at > max(1.0, PATIENCE * self._cost)

    def save(self, state: State, rows: list[dict[str, Any]]) -> None:
        """Save a state with the history up to it; the last save stays until this one is done."""
        import orbax.checkpoint as ocp

        step, began = int(state.step), time.perf_counter()
        if self._manager.latest_step() == step:
            return
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(_plain(state))]
        try:
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(leaves), history=ocp.args.JsonSave({"rows": rows})
                ),
                force=True,
            )
        except Exception as error:
            raise CheckpointError(
                f"step {step} could not be saved in {self.folder}: {error}. The last good "
                f"checkpoint there is of step {self._manager.latest_step()}; make room and call "
                "again to continue from it."
            ) from error
        self._saved_at = time.perf_counter()
        self._cost = self._saved_at - began
        logger.info("saved step %d in %s", step, self.folder)

    def close(self) -> None:
        """Let go of the folder."""
        self._manager.close()


def _plain(state: State) -> State:
    return state._replace(key=jr.key_data(state.key))
