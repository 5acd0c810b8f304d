"""Contestants in turn on a noisy machine, and a table of what came out."""

import argparse
import dataclasses
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Line:
    """One measured number: its median over the rounds, its quartiles, and what is asked of it."""

    name: str
    median: float
    low: float
    high: float
    unit: str = "x"
    most: float | None = None
    least: float | None = None
    note: str = ""

    @property
    def goal(self) -> str:
        """What is asked, in words."""
        if self.most is not None:
            return f"at most {self.most:g} {self.unit}"
        return "" if self.least is None else f"at least {self.least:g} {self.unit}"

    @property
    def verdict(self) -> str:
        """Whether the median is as asked."""
        if self.most is not None:
            return "met" if self.median <= self.most else "MISSED"
        if self.least is not None:
            return "met" if self.median >= self.least else "MISSED"
        return ""


def line(name: str, values: Iterable[float], **asked: object) -> Line:
    """Sum up the values of all rounds."""
    low, median, high = np.quantile(list(values), [0.25, 0.5, 0.75])
    return Line(name, float(median), float(low), float(high), **asked)  # type: ignore[arg-type]


def interleave(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, np.ndarray]:
    """Return the seconds of each contestant in each round.

    Contestants take turns, so that a round's times are close together and what else the machine
    does falls on all of them; every other round goes backwards, so that none is always first.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for contestant in contestants.values():
        contestant()  # compiles
    collecting = gc.isenabled()
    gc.disable()
    try:
        for i in range(rounds):
            gc.collect()
            for name in list(contestants)[:: -1 if i % 2 else 1]:
                began = time.perf_counter()
                contestants[name]()
                seconds[name].append(time.perf_counter() - began)
    finally:
        if collecting:
            gc.enable()
    return {name: np.array(values) for name, values in seconds.items()}


def commands(command: list[str], rounds: int) -> list[float]:
    """Return the seconds that a command takes, files being in the cache."""
    seconds = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def in_new_process(script: Path, *arguments: str) -> dict[str, float]:
    """Run a script of its own and return what it printed as JSON on its last line."""
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main(
    about: str, benchmarks: dict[str, Callable[[Any], Iterator[Line]]], *, full: Any, quick: Any
) -> None:
    """Run the benchmarks that the command line asks for and print the table."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that it runs")
    parser.add_argument("--only", nargs="+", choices=benchmarks, default=list(benchmarks))
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    size = quick if arguments.quick else full
    lines = [entry for name in arguments.only for entry in benchmarks[name](size)]
    if lines:
        show(lines)
    if arguments.json:
        save(lines, arguments.json)


def show(lines: list[Line]) -> None:
    """Print the table."""
    width = max(len(entry.name) for entry in lines)
    print(f"{'':{width}}  {'median':>9}  {'quartiles':>17}  {'goal':>16}  ")
    for entry in lines:
        quartiles = f"{_short(entry.low)} to {_short(entry.high)}"
        print(
            f"{entry.name:{width}}  {_short(entry.median):>7} {entry.unit:1}  {quartiles:>17}  "
            f"{entry.goal:>16}  {entry.verdict:6}  {entry.note}".rstrip()
        )


def save(lines: list[Line], file: Path) -> None:
    """Write the numbers."""
    rows = [
        dataclasses.asdict(entry) | {"goal": entry.goal, "verdict": entry.verdict}
        for entry in lines
    ]
    file.write_text(json.dumps(rows, indent=1) + "\n")


def microseconds(seconds: Iterable[float], steps: int) -> str:
    """Say what a step takes, at the median."""
    return f"{statistics.median(seconds) / steps * 1e6:.3g} us a step"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
