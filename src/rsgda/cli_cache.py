"""Compiled programs are kept between commands, so that the next one need not compile them again."""

import contextlib
import hashlib
import os
import platform
import time
from pathlib import Path

FOLDER = "JAX_COMPILATION_CACHE_DIR"  # JAX's own setting; a user's value stands
SHORTEST = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
SECONDS = "0.2"  # that compiling takes at least: what is sooner done again is not kept
OLDEST = 30 * 24 * 3600.0  # seconds after which a program that nobody wrote again goes


def keep_programs() -> None:
    """Tell JAX, before it is imported, to keep what it compiles.

    `JAX_COMPILATION_CACHE_DIR` says where; an empty value keeps nothing.
    """
    if FOLDER in os.environ:
        return
    import platformdirs

    folder = Path(platformdirs.user_cache_dir("rsgda"), "compiled", _processor())
    with contextlib.suppress(OSError):  # a home that cannot be written to keeps nothing
        folder.mkdir(parents=True, exist_ok=True)
        _forget(folder)
        os.environ[FOLDER] = str(folder)
        os.environ.setdefault(SHORTEST, SECONDS)


def _processor() -> str:
    """Return a name of this kind of processor: another one cannot run its programs."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else [platform.processor()]
    able = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    return hashlib.sha256("\n".join([platform.machine(), *sorted(able)]).encode()).hexdigest()[:16]


def _forget(folder: Path) -> None:
    """Remove what is old, and what a full disk has left empty, which JAX would not write again."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another command may have removed it, or it is a folder
            found = path.stat()
            if time.time() - found.st_mtime > OLDEST or found.st_size == 0:
                path.unlink()
