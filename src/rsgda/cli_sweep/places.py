"""The folder of a sweep: which grid it holds, and how far that is."""

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from rsgda.reproduce.runner import MANIFEST, prepare, write_aside

CHECKPOINTS = "checkpoints"
UNFINISHED, FINISHED = "unfinished", "finished"


class Place:
    """The folder that a sweep is written to."""

    def __init__(self, folder: Path, kind: str, what: dict[str, Any]):
        """Say where, and what a sweep must have in common to be this one."""
        self.folder, self.what = folder, what
        self.table = folder / f"table.{kind}"
        self.checkpoints = (folder / CHECKPOINTS).absolute()

    def enter(self, force: bool) -> bool:
        """Make the folder, and say whether the sweep is done already."""
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"--out must be a folder, {self.folder} is a file.")
        if force:
            self._remove()
        found = self._manifest()
        if found is None and self.folder.exists() and os.listdir(self.folder):
            held = sorted(os.listdir(self.folder))[:3]
            raise ValueError(
                f"--out must be a new or empty folder or one of this sweep, but {self.folder} "
                f"holds {held} and no {MANIFEST} of a sweep."
            )
        if found is not None:
            self._check(found)
            if found["status"] == FINISHED:
                self._check_table(found)
                return True
        prepare(self.folder)
        if found is None:
            self.note({"status": UNFINISHED})
        return False

    def note(self, manifest: dict[str, Any]) -> None:
        """Write down what the folder holds."""
        content = json.dumps({**manifest, **self.what}, indent=2) + "\n"
        write_aside(self.folder / MANIFEST, content.encode())

    def finish(self, table: bytes, manifest: dict[str, Any]) -> None:
        """Write the table, then what it is, and only then forget how it came about."""
        write_aside(self.table, table)
        digest = hashlib.sha256(table).hexdigest()
        self.note(
            {"status": FINISHED, **manifest, "table": {"file": self.table.name, "sha256": digest}}
        )
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _manifest(self) -> dict[str, Any] | None:
        try:
            found = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
            return found if "grid" in found and "status" in found else None
        except (OSError, ValueError, TypeError):
            return None

    def _check(self, found: dict[str, Any]) -> None:
        for name, wanted in self.what.items():
            if found.get(name) == wanted:
                continue
            was, key = found.get(name), name
            if isinstance(was, dict) and isinstance(wanted, dict):
                key = next(key for key in (*wanted, *was) if was.get(key) != wanted.get(key))
                was, wanted = was.get(key), wanted.get(key)
            raise ValueError(
                f"{self.folder} holds another sweep: its {key} is {was!r}, this one needs "
                f"{wanted!r}; choose another --out, or replace it with --force."
            )

    def _check_table(self, found: dict[str, Any]) -> None:
        name, digest = (found.get("table", {}).get(key) for key in ("file", "sha256"))
        if name != self.table.name:
            raise ValueError(
                f"{self.folder} holds this sweep as {name}; choose another --out for "
                f"{self.table.name}, or run it again with --force."
            )
        with contextlib.suppress(OSError):
            if hashlib.sha256(self.table.read_bytes()).hexdigest() == digest:
                return
        raise ValueError(
            f"{self.table} is not what {MANIFEST} beside it says; restore it, or run the sweep "
            "again with --force."
        )

    def _remove(self) -> None:
        """Remove a sweep that is there, and nothing else."""
        found = self._manifest()
        if found is not None:
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            for name in ("table.csv", "table.parquet", MANIFEST):
                (self.folder / name).unlink(missing_ok=True)
