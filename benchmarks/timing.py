"""Contestants in turn on a noisy machine, and what came out."""

import dataclasses
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Line:
    """One measured number: its median over the rounds, and its quartiles.

    Attributes:
        name: what was measured.
        against: the rival, if it is a ratio to one; it then comes into the chart.
        values: of all rounds.
        unit: "x" for a ratio.
        most: what is asked of the median; or `least`.
        note: what else there is to say.
        growth: sizes, and times of all rounds, if it is a slope.
    """

    name: str
    values: tuple[float, ...]
    against: str = ""
    unit: str = "x"
    most: float | None = None
    least: float | None = None
    note: str = ""
    growth: dict[str, Any] | None = None

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """The lower quartile, the median, the upper quartile."""
        low, median, high = np.quantile(self.values, [0.25, 0.5, 0.75])
        return float(low), float(median), float(high)

    @property
    def goal(self) -> str:
        """What is asked, in words."""
        if self.most is not None:
            return f"at most {self.most:g} {self.unit}"
        return "" if self.least is None else f"at least {self.least:g} {self.unit}"

    @property
    def verdict(self) -> str:
        """Whether the median is as asked."""
        median = self.quartiles[1]
        if self.most is not None:
            return "met" if median <= self.most else "missed"
        if self.least is not None:
            return "met" if median >= self.least else "missed"
        return ""


def line(name: str, values: Iterable[float], **rest: Any) -> Line:
    """Make a line of the values of all rounds, to five digits."""
    return Line(name, tuple(float(f"{value:.5g}") for value in values), **rest)


def interleave(
    contestants: dict[str, Callable[[], object]], rounds: int, *, compiled: bool = False
) -> dict[str, np.ndarray]:
    """Return the seconds of each contestant in each round; each is compiled first, if need be.

    Contestants take turns, so that a round's times are close together and what else the machine
    does falls on all of them; every other round goes backwards, so that none is always first.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for contestant in () if compiled else contestants.values():
        contestant()
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


def in_new_process(script: Path, *arguments: str) -> Any:
    """Run a script of its own and return what it printed as JSON on its last line."""
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def show(lines: list[Line], *, verdicts: bool = True) -> None:
    """Print a table."""
    names = [f"{one.name} / {one.against}" if one.against else one.name for one in lines]
    width = max(map(len, names))
    print(f"{'':{width}}  {'median':>9}  {'quartiles':>17}  {'goal':>16}  ")
    for name, one in zip(names, lines, strict=True):
        low, median, high = one.quartiles
        quartiles = f"{short(low)} to {short(high)}"
        print(
            f"{name:{width}}  {short(median):>7} {one.unit:1}  {quartiles:>17}  "
            f"{one.goal:>16}  {one.verdict if verdicts else '':6}  {one.note}".rstrip()
        )


def microseconds(seconds: Iterable[float], steps: int) -> str:
    """Say what a step takes, at the median."""
    return f"{statistics.median(seconds) / steps * 1e6:.3g} us a step"


def short(value: float) -> str:
    """Return a number as tables show it."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
