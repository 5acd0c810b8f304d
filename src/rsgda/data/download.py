"""Where the files of a set are: in the user's folder, in the cache, or at a mirror."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

VARIABLE = "RSGDA_DATA"
TIMEOUT = (10, 30)  # seconds to connect, and between two arrivals of bytes
CHUNK = 2**14

Tell = Callable[[int], None]  # of the bytes that have come so far

logger = logging.getLogger(__name__)


class File(NamedTuple):
    """A file as it was published; one whose name ends in .gz may also lie there unpacked."""

    name: str
    size: int
    sha256: str


class Source(NamedTuple):
    """A set's files, and the addresses of folders that have them, in the order of trying.

    Where there is no such address, `origin` says in words where the files come from.
    """

    title: str
    folder: str
    mirrors: tuple[str, ...]
    files: tuple[File, ...]
    origin: str = ""


def locate(source: Source, *, progress: bool = False) -> list[Path]:
    """Return the paths of the source's files, and fetch those into the cache that are nowhere.

    Files in the folder that `RSGDA_DATA` names are taken as they are: they may be the user's own.
    Files in the cache are those that were published, or they are fetched again.
    """
    return _own(source) or _cached(source, progress)


def _own(source: Source) -> list[Path] | None:
    root = _root()
    if root is None:
        return None
    folder = root / source.folder
    if not root.is_dir():
        raise ValueError(
            f"the environment variable {VARIABLE} must name a folder, got '{root}'. Put the files "
            f"of {source.title}{_names(source)}\ninto {folder}"
            + (", or unset the variable to have them fetched." if source.mirrors else ".")
        )
    found = [_either(folder / file.name) for file in source.files]
    paths = [path for path in found if path is not None]
    if not paths:
        return None
    if len(paths) < len(found):
        # The rest is not taken from elsewhere: it need not belong to these.
        pairs = zip(source.files, found, strict=True)
        missing = ", ".join(file.name for file, path in pairs if path is None)
        raise FileNotFoundError(f"{folder} has {paths[0].name}, but not {missing}.")
    return paths


def _root() -> Path | None:
    """Return the user's folder, if there is to be one."""
    root = os.environ.get(VARIABLE)
    return Path(os.path.expanduser(root)) if root else None


def _names(source: Source) -> str:
    return "".join(f"\n    {file.name}" for file in source.files)


def _either(packed: Path) -> Path | None:
    """Return the path with or without .gz, whichever is there."""
    unpacked = packed.with_suffix("") if packed.suffix == ".gz" else packed
    return next((path for path in (packed, unpacked) if path.exists()), None)


def _cached(source: Source, progress: bool) -> list[Path]:
    import pooch

    folder = Path(pooch.os_cache("rsgda"), source.folder)
    mirrors = list(source.mirrors)
    for file in source.files:
        if not _is_sound(folder / file.name, file):
            label = f"{source.title} {file.name}"
            with _bar(progress, label, file.size) as tell, _quiet(pooch.get_logger()):
                failures = _fetch(file, folder, mirrors, tell)
            if failures is not None:
                if (folder / file.name).exists():
                    failures.insert(0, f"{folder / file.name}: is not the file as published")
                raise FileNotFoundError(_advice(source, folder, failures))
    return [folder / file.name for file in source.files]


def _is_sound(path: Path, file: File) -> bool:
    import pooch

    same_size = path.is_file() and path.stat().st_size == file.size
    return same_size and pooch.file_hash(str(path), alg="sha256") == file.sha256


def _fetch(file: File, folder: Path, mirrors: list[str], tell: Tell) -> list[str] | None:
    """Fetch from the first mirror that has the file, or return what went wrong at each of them.

    pooch writes aside, compares the sums and renames: the cache never has a part of a file, and
    several processes may do this at a time. The mirror that worked comes first from now on.
    """
    import pooch

    failures = []
    for mirror in mirrors:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            pooch.retrieve(
                mirror + file.name,
                known_hash=f"sha256:{file.sha256}",
                fname=file.name,
                path=folder,
                downloader=_downloader(file.size, tell),
            )
        except (OSError, ValueError) as error:  # `requests` raises kinds of OSError
            failures.append(f"{mirror}{file.name}: {error}")
            logger.info("%s", failures[-1])
            tell(0)
            continue
        mirrors.remove(mirror)
        mirrors.insert(0, mirror)
        return None
    return failures


def _downloader(size: int, tell: Tell) -> Any:
    """Return a downloader for pooch that gives up as soon as the size is wrong."""
    import pooch

    # A server must not unpack what is to arrive packed.
    fetch = pooch.HTTPDownloader(
        timeout=TIMEOUT, chunk_size=CHUNK, headers={"Accept-Encoding": "identity"}
    )

    def download(url: str, output_file: str, caller: Any) -> None:
        with open(output_file, "wb") as file:
            sink = _Sink(file, size, tell)
            fetch(url, sink, caller)
        if sink.came < size:
            raise ValueError(f"only {sink.came:,} of {size:,} bytes came")

    return download


class _Sink:
    """A file that takes no more than `size` bytes."""

    def __init__(self, file: BinaryIO, size: int, tell: Tell) -> None:
        self._file, self._size, self._tell = file, size, tell
        self.came = 0

    def write(self, chunk: bytes) -> None:
        self.came += len(chunk)
        if self.came > self._size:
            raise ValueError(f"more than {self._size:,} bytes came")
        self._file.write(chunk)
        self._tell(self.came)

    def flush(self) -> None:
        """Leave it to the file, which knows best when."""


def _advice(source: Source, folder: Path, failures: list[str]) -> str:
    root = _root()
    if root is not None:
        own = f"{root / source.folder} (the environment variable {VARIABLE})"
    else:
        own = (
            f"the folder {source.folder} of a folder of your choice, and name the latter in the "
            f"environment variable {VARIABLE}"
        )
    reasons = "".join(f"\n    {failure}" for failure in failures)
    if not source.mirrors:
        return (
            f"{source.title} is not on this machine. Put its files{_names(source)}\ninto {folder}, "
            f"or into {own}. They come from {source.origin}.{reasons}"
        )
    return (
        f"{source.title} is not on this machine, and fetching it failed. Put its files"
        f"{_names(source)}\ninto {folder}, or into {own}. What was tried:{reasons}"
    )


@contextmanager
def _quiet(loud: logging.Logger) -> Iterator[None]:
    """Turn what pooch logs, by default to standard error, into messages of this package."""
    divert = _Divert()
    loud.addFilter(divert)
    try:
        yield
    finally:
        loud.removeFilter(divert)


class _Divert(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Let nothing pass, but keep it."""
        logger.info("%s", record.getMessage())
        return False


def _bar(wanted: bool, label: str, total: int) -> AbstractContextManager[Tell]:
    """Return a context that shows how much of `total` bytes has come, or nothing."""
    return _rich_bar(label, total) if wanted else nullcontext(lambda came: None)


@contextmanager
def _rich_bar(label: str, total: int) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),  # what a program prints as its result stays free of it
    ) as progress:
        task = progress.add_task(label, total=total)
        yield lambda came: progress.update(task, completed=came)
