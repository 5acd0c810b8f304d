"""How well cells are matched where the true pairs are known, alone and guided."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rsgda.report import as_csv
from rsgda.reproduce import kept
from rsgda.reproduce.match_numbers import ERRORS, FAILS, HOLDS, OPEN
from rsgda.reproduce.outcome import Finding, Outcome, Tell
from rsgda.reproduce.paired_figure import draw
from rsgda.reproduce.paired_setting import (
    MEASURES,
    METHODS,
    PAIRS,
    SCALES,
    Method,
    Set,
    known,
)
from rsgda.singlecell import scores
from rsgda.singlecell.match import match


class Cell(NamedTuple):
    """One match."""

    given: Set
    method: Method
    seed: int
    steps: int

    @property
    def name(self) -> str:
        """Return a name that is fit for a file."""
        word = self.given.title.split(",")[0].lower()
        return f"paired-{word}-{self.method.name}-seed{self.seed}"


class Group(NamedTuple):
    """All seeds of a way to match a set.

    Attributes:
        given: the set.
        method: the way.
        measures: by name, one number for each seed.
    """

    given: Set
    method: Method
    measures: dict[str, np.ndarray]

    @property
    def chosen(self) -> int:
        """The seed with the lowest loss, which is known without the truth."""
        return int(np.argmin(self.measures["W"]))


def run(scale: str, tell: Tell, work: Path | None = None, client: Any = None) -> Outcome:
    """Match all sets in all ways, score and draw it."""
    setting = SCALES[scale]
    cells = [
        Cell(given, method, seed, setting.steps)
        for given in (make() for make in setting.sets)
        for method in METHODS
        for seed in range(setting.seeds)
    ]
    ran = kept.one_by_one(
        cells, lambda cell, tell: one(cell, work, tell), size=lambda cell: len(cell.given.types),
        name=lambda cell: cell.name, work=work, tell=lambda done, what: tell(0.97 * done, what),
        client=client,
    )  # fmt: skip
    tell(0.97, "drawing")
    groups = _groups(cells, ran)
    png, pdf = draw(groups)
    rows = [
        [cell.given.title, cell.method.title, cell.seed, *(found.looks[m][0] for m in MEASURES)]
        for cell, found in zip(cells, ran, strict=True)
    ]
    return Outcome(
        files={
            "paired.csv": as_csv(["set", "method", "seed", *MEASURES], rows),
            "paired.png": png,
            "paired.pdf": pdf,
        },
        settings={
            "sets": {group.given.title: group.given.sha256 for group in groups},
            "steps": setting.steps,
            "seeds": setting.seeds,
            "pairs": PAIRS,
            "precision": "float32",
            "seconds_of_cells": round(sum(found.seconds for found in ran), 1),
        },
        findings=tuple(_finding(group) for group in groups),
    )


def one(cell: Cell, work: Path | None, tell: Callable[[float], None]) -> kept.Found:
    """Match and score, or read what was found before."""
    path = None if work is None else work / f"{cell.name}.json"
    found = kept.read(path, settings := _settings(cell))
    if found is None:
        tell(0.0)
        began = time.perf_counter()
        measures = measured(cell)
        looks = {name: np.array([value]) for name, value in measures.items()}
        found = kept.Found("FINISHED", looks, time.perf_counter() - began)
        kept.keep(path, settings, found)
    return found


def measured(cell: Cell) -> dict[str, float]:
    """Match a set with all defaults, and score what was not known beforehand."""
    given = cell.given
    told = known(cell.method, given, cell.seed)
    matcher = match(
        given.source, given.target, source_steps=given.source_steps,
        target_steps=given.target_steps, steps=cell.steps, seed=cell.seed, **told.arguments,
    )  # fmt: skip
    made = matcher.mapped(np.asarray(matcher.points(given.source)))
    there = matcher.outputs.enter(matcher.target.apply(given.target))
    closer = scores.foscttm(made[told.cells], there[told.cells])
    label, _, _ = matcher.transfer(told.labels)
    right = scores.label_transfer(given.types[told.labelled], label[told.labelled])
    return {
        "foscttm": closer.mean,
        "foscttm_source": closer.source,
        "foscttm_target": closer.target,
        "labels": right.accuracy,
        "W": matcher.scores["W_eps"],
        "gap": matcher.scores["W_eps_gap"],
        "mixing": matcher.scores["mixing"],
    }


def _settings(cell: Cell) -> dict[str, Any]:
    return {
        "set": cell.given.title,
        "sha256": cell.given.sha256,
        "source_steps": repr(cell.given.source_steps),
        "target_steps": repr(cell.given.target_steps),
        "method": cell.method.name,
        "pairs": PAIRS,
        "seed": cell.seed,
        "steps": cell.steps,
    }


def _groups(cells: list[Cell], ran: list[kept.Found]) -> list[Group]:
    found: dict[tuple[str, str], Group] = {}
    for cell, each in zip(cells, ran, strict=True):
        place = cell.given.title, cell.method.name
        group = found.setdefault(place, Group(cell.given, cell.method, {}))
        for name, values in each.looks.items():
            so_far = group.measures.get(name, np.array([]))
            group.measures[name] = np.r_[so_far, values]
    return list(found.values())


def _finding(group: Group) -> Finding:
    """Say how good it is, and whether FOSCTTM is below what it is compared with."""
    values, right = group.measures["foscttm"], 100 * group.measures["labels"]
    mean, half = float(np.mean(values)), _half(values)
    verdict = OPEN
    if abs(mean - group.given.bar) > half:
        verdict = HOLDS if mean < group.given.bar else FAILS
    return Finding(
        f"{group.given.title}, {group.method.title}: FOSCTTM below {group.given.bar:g} "
        f"({group.given.whose})",
        f"{mean:.3f} ± {half:.2g}, {values.min():.3f} to {values.max():.3f}; the seed of the "
        f"lowest W_eps: {values[group.chosen]:.3f}; labels right: {right.mean():.1f} ± "
        f"{_half(right):.2g} %",
        verdict,
    )


def _half(values: np.ndarray) -> float:
    """Return standard errors over seeds."""
    return float(ERRORS * np.std(values, ddof=1) / np.sqrt(len(values)))
