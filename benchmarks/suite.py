"""A suite: contests of one subject, each by itself, the numbers of each in the file at once."""

import argparse
import dataclasses
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import timing

# Packages that rivals are in: benchmarks do without those that are not there, and install none.
RIVALS = {"torch": "PyTorch", "ott": "OTT", "ot": "POT"}
FAILED = 3  # exit status: all is written down, but a contest failed
PACKAGES = ("rsgda", "jax", "jaxlib", "numpy", "optax", "equinox", "torch", "ott-jax", "POT")


class Contest(NamedTuple):
    """Something to measure, with the packages that its rivals are in."""

    run: Callable[[Any], Iterable[timing.Line]]
    rivals: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """The rivals that are not installed."""
        return [RIVALS[name] for name in self.rivals if importlib.util.find_spec(name) is None]


def main(doc: str | None, contests: dict[str, Contest], *, full: Any, quick: Any) -> int:
    """Run what the command line asks for, print it and write it down; return the exit status."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that it runs")
    parser.add_argument("--only", nargs="+", choices=contests)
    parser.add_argument(
        "--json", type=Path, help="a file for the numbers; contests that it has are not run again"
    )
    asked = parser.parse_args()
    found = Numbers(asked.json, about(quick=asked.quick))
    begun = [name for name in asked.only or contests if asked.only or not found.has(name)]
    for name in begun:
        print(f"  {name}", flush=True)
        size = quick if asked.quick else full
        found.put(name, outcome(contests[name], size, verdicts=not asked.quick))
        found.save(list(contests))
    return FAILED if any("failed" in found.contests[name] for name in begun) else 0


def outcome(contest: Contest, size: Any, *, verdicts: bool = True) -> dict[str, Any]:
    """Run a contest; return its lines, or why there are none."""
    if contest.missing:
        print(f"    left out, not installed: {', '.join(contest.missing)} (extra `bench`)")
        return {"missing": contest.missing}
    began = time.perf_counter()
    try:
        lines = list(contest.run(size))
    except (Exception, SystemExit) as error:  # the others are still worth running
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
    if lines:
        timing.show(lines, verdicts=verdicts)
    return {
        "day": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(time.perf_counter() - began, 1),
        "lines": [dataclasses.asdict(line) for line in lines],
    }


class Numbers:
    """The numbers of a suite, in a file if there is one."""

    def __init__(self, file: Path | None, about: dict[str, Any]):
        """Go on with what the file has, unless it was measured with something else."""
        self.file, self.about, self.contests = file, about, {}
        if file is None or not file.exists():
            return
        kept = json.loads(file.read_text())
        if kept["about"] == about:
            self.contests = kept["contests"]
        else:
            print(f"  {file} was measured with other sizes, versions or hardware: from the start")

    def has(self, name: str) -> bool:
        """Say whether a contest was finished."""
        return "lines" in self.contests.get(name, {})

    def put(self, name: str, outcome: dict[str, Any]) -> None:
        """Add what came out."""
        self.contests[name] = outcome

    def save(self, order: list[str]) -> None:
        """Write the file aside and rename it."""
        if self.file is None:
            return
        contests = {name: self.contests[name] for name in order if name in self.contests}
        aside = self.file.with_suffix(".part")
        aside.write_text(json.dumps({"about": self.about, "contests": contests}, indent=1) + "\n")
        os.replace(aside, self.file)


def about(*, quick: bool) -> dict[str, Any]:
    """Say what numbers are measured with and on."""
    file = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in (file.read_text().splitlines() if file.exists() else [])
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "quick": quick,  # then fixed costs weigh too much, and no verdict counts
        "hardware": {
            "processor": models[0] if models else platform.processor(),
            "cores": os.cpu_count(),
            "memory_gb": round(memory / 1e9),
        },
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
