"""Run a target and leave its files behind, with a manifest that says how they came about."""

import contextlib
import dataclasses
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import tempfile
import time
from pathlib import Path
from typing import Any

from rsgda.reproduce.outcome import Finding, Outcome, Tell
from rsgda.reproduce.registry import TARGETS, check_scale, chosen

MANIFEST = "manifest.json"
CELLS = "cells"  # what long targets keep of runs that are done, a folder for each scale
PACKAGES = ("rsgda", "jax", "jaxlib", "numpy", "matplotlib")


@dataclasses.dataclass(frozen=True)
class Report:
    """What was written where, and what it says.

    Attributes:
        target: the target's name.
        folder: where the files are.
        files: their names, the manifest last.
        findings: the headline numbers.
        seconds: how long it took.
    """

    target: str
    folder: Path
    files: tuple[str, ...]
    findings: tuple[Finding, ...]
    seconds: float


def reproduce(
    target: str,
    *,
    scale: str,
    out: Path,
    tell: Tell,
    files: tuple[Path, Path] | None = None,
    client: Any = None,
) -> Report:
    """Run one target and write its files into `out/target`.

    Args:
        target: a name in `TARGETS`.
        scale: a name in `SCALES`.
        out: the folder for all targets.
        tell: is told how far the run has come.
        files: two clouds of cells to match, in place of those of the scale.
        client: a `distributed.Client` whose workers do the runs of a target that has a grid; they
            must see `out`.
    """
    (target,) = chosen([target])
    check_scale(scale)
    folder = out / target
    prepare(folder)
    began, started = time.perf_counter(), datetime.datetime.now(datetime.UTC)
    given: dict[str, Any] = {"files": files} if TARGETS[target].matches else {}
    work = out / CELLS / scale
    if client is not None and TARGETS[target].spreads:
        given["client"] = client
        work = work.absolute()  # workers have working directories of their own
    outcome = TARGETS[target].load()(scale, tell, work, **given)
    tell(1.0, "writing")
    # From what the manifest will hold, so that it can be done again from there.
    settings = json.loads(json.dumps(outcome.settings))
    findings = TARGETS[target].judge(outcome.files, settings)
    manifest = {
        "target": target,
        "scale": scale,
        "command": shlex.join(
            ["rsgda", "reproduce", target, "--scale", scale, "--out", str(out)]
            + (["--match", *map(str, files)] if files and TARGETS[target].matches else [])
        ),
        "settings": settings,
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "sha256": _checksums(outcome),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "hardware": hardware(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - began, 3),
    }
    write(folder, outcome, manifest)
    written = (*outcome.files, MANIFEST)
    return Report(target, folder, written, findings, manifest["seconds"])


def hardware() -> str:
    """Say what it runs on: processor, cores and memory, as far as the system tells."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line for line in lines if line.startswith("model name")).partition(": ")[2]
    told = f"{name}, {os.cpu_count()} cores"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        told += f", {memory / 2**30:.0f} GiB"
    return told


def prepare(folder: Path) -> None:
    """Make the folder, and raise now rather than after the run if it cannot be written to."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def write(folder: Path, outcome: Outcome, manifest: dict[str, Any]) -> None:
    """Write all files, the manifest last: where there is one, it is about the files beside it."""
    (folder / MANIFEST).unlink(missing_ok=True)
    for name, content in outcome.files.items():
        write_aside(folder / name, content)
    write_aside(folder / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())


def write_aside(path: Path, content: bytes) -> None:
    """Write a file under another name and rename it, so that it is never seen half written."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(content)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _checksums(outcome: Outcome) -> dict[str, str]:
    return {
        name: hashlib.sha256(content).hexdigest()
        for name, content in outcome.files.items()
        if name.endswith(".csv")
    }
