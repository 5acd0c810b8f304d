"""Whose folder it is and whether it can hold a run: told before anything is written."""

import errno
import itertools
import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NOTE = "rsgda.json"
ASIDE = ".rsgda.json"
UNFINISHED = ".orbax-checkpoint-tmp"
START = "start"

logger = logging.getLogger(__name__)


class CheckpointMismatch(ValueError):
    """The folder holds something else than the run that was asked for."""


class CheckpointError(OSError):
    """The folder cannot be read or written."""


class CheckpointBusy(CheckpointError):
    """Another run has the folder."""


class Folder:
    """A folder of one run: marked with what the run is, and locked as long as it is open."""

    def __init__(self, path: Path, identity: dict[str, Any], size: int, kept: int) -> None:
        """Open or make the folder; a folder of another run is left as it is."""
        self.path, self._identity = path, identity
        self._lock: int | None = None
        with self._readable():
            if self.path.exists() and not self.path.is_dir():
                raise CheckpointMismatch(f"`checkpoint` must be a folder, {self.path} is a file.")
            if not self.path.exists():
                self._make_room(size, kept)
                self.path.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.path)
            try:
                self._check(identity)
                self.clear()
                self._make_room(size, kept)
                self._claim()
            except BaseException:
                self.release()
                raise

    def release(self) -> None:
        """Let others have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def clear(self) -> None:
        """Remove what a save that was cut off has left behind."""
        for path in self.path.glob(f"*{UNFINISHED}"):
            shutil.rmtree(path, ignore_errors=True)

    def bring_back(self) -> None:
        """Make the folder again if somebody has removed it; the run is still there to be saved."""
        if not (self.path / NOTE).exists():
            self.path.mkdir(parents=True, exist_ok=True)
            self._claim()

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except CheckpointError:
            raise
        except OSError as error:
            raise CheckpointError(
                f"`checkpoint` must be a folder that can be read and written, but {self.path} "
                f"cannot: {error.strerror or error}"
            ) from error

    def _check(self, identity: dict[str, Any]) -> None:
        note = self.path / NOTE
        if not note.exists():
            foreign = sorted(set(os.listdir(self.path)) - {ASIDE})
            if foreign:
                raise CheckpointMismatch(
                    f"`checkpoint` must be a new or empty folder or one of this run, but "
                    f"{self.path} holds {foreign[:3]} and no {NOTE}; choose another folder."
                )
            return
        try:
            saved = json.loads(note.read_text(encoding="utf-8"))
            if not isinstance(saved, dict):
                raise ValueError("it is not a table of names and values")
        except ValueError as error:
            raise CheckpointMismatch(
                f"checkpoint {self.path} does not say which run it holds, as its {NOTE} is "
                f"damaged ({error}); choose another folder."
            ) from error
        for name in identity | saved:
            was, wanted = saved.get(name), identity.get(name)
            if was != wanted and name == START:
                logger.warning(
                    "theta and v start elsewhere than those that began the run in %s, which "
                    "continues from where it was",
                    self.path,
                )
            elif was != wanted:
                was, wanted = _difference(was, wanted)
                raise CheckpointMismatch(
                    f"checkpoint {self.path} holds another run: its {name} is {was}, this run "
                    f"needs {wanted}; start a new folder or make the call that wrote it."
                )

    def _make_room(self, size: int, kept: int) -> None:
        """Refuse a disk that cannot hold the saves that are yet to come."""
        above = next(path for path in (self.path, *self.path.parents) if path.exists())
        if not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{above} is not a folder")
        held = sum(name.isdigit() for name in os.listdir(above)) if above == self.path else 0
        # A new save is finished before the oldest is removed, so there is one more for a moment.
        needed = max(1, kept + 1 - held) * size
        free = shutil.disk_usage(above).free
        if free < needed:
            raise CheckpointError(
                f"`checkpoint` {self.path} must have room for states of {size:,} bytes, {needed:,} "
                f"bytes in all, but only {free:,} are free there; make room or choose another "
                "folder."
            )

    def _claim(self) -> None:
        """Write down whose folder it is; where that is known, only try whether one can write."""
        aside, note = self.path / ASIDE, self.path / NOTE
        with open(aside, "w", encoding="utf-8") as file:
            json.dump(self._identity, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        if note.exists():
            aside.unlink()
        else:
            aside.replace(note)


def local(folder: str | os.PathLike[str]) -> Path:
    """Return where a folder is, also when the working directory has changed."""
    if not isinstance(folder, (str, os.PathLike)) or not str(folder):
        raise CheckpointMismatch(f"`checkpoint` must be the path of a folder, got {folder!r}.")
    if "://" in str(folder):
        raise CheckpointMismatch(f"`checkpoint` must be a folder of this machine, got {folder!r}.")
    return Path(folder).expanduser().absolute()


def _locked(path: Path) -> int | None:
    """Lock a folder against other runs; the lock ends with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return None
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise CheckpointBusy(
            f"`checkpoint` {path} is in use by another run that has not ended; wait for it, stop "
            "it, or choose another folder."
        ) from error
    except OSError:  # some network file systems have no locks
        with suppress(OSError):
            os.close(handle)
        return None
    return handle


def _difference(was: Any, wanted: Any) -> tuple[str, str]:
    """Show two values where they begin to differ."""
    if isinstance(was, list) and isinstance(wanted, list):
        pairs = itertools.zip_longest(was, wanted)
        was, wanted = next((pair for pair in pairs if pair[0] != pair[1]), (was, wanted))
    was, wanted = str(was), str(wanted)
    pairs = zip(was, wanted, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return _part(was, same), _part(wanted, same)


def _part(text: str, middle: int) -> str:
    first, last = max(0, middle - 80), middle + 80
    return f"{'...' * (first > 0)}{text[first:last]}{'...' * (last < len(text))}"
