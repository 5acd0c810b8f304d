"""How well cells are matched where the true pairs are known, alone and guided."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rsgda.report import as_csv
from rsgda.reproduce import kept
from rsgda.reproduce.effects import over_seeds
from rsgda.reproduce.match_numbers import ERRORS
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN, Finding, Outcome, Tell
from rsgda.reproduce.paired_figure import draw
from rsgda.reproduce.paired_setting import (
    BARS,
    CHANCE,
    MEASURES,
    METHODS,
    PAIRS,
    SCALES,
    Bar,
    Method,
    Set,
    known,
)
from rsgda.reproduce.stored import Tables, columns, grouped, table, tables
from rsgda.singlecell import scores
from rsgda.singlecell.match import match

OF_ROW = ("set", "method", "seed")


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
        title: of the set.
        method: of the way, in words.
        measures: by name, one number for each seed.
    """

    title: str
    method: str
    measures: dict[str, np.ndarray]

    @property
    def bar(self) -> Bar:
        """What to compare with."""
        return BARS.get(self.title, Bar(CHANCE, "chance"))

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
    rows = [
        [cell.given.title, cell.method.title, cell.seed, *(found.looks[m][0] for m in MEASURES)]
        for cell, found in zip(cells, ran, strict=True)
    ]
    written = as_csv([*OF_ROW, *MEASURES], rows)
    png, pdf = draw(groups_of(tables({"paired.csv": written})))
    return Outcome(
        files={
            "paired.csv": written,
            "paired.png": png,
            "paired.pdf": pdf,
        },
        settings={
            "sets": {cell.given.title: cell.given.sha256 for cell in cells},
            "steps": setting.steps,
            "seeds": setting.seeds,
            "pairs": PAIRS,
            "precision": "float32",
            "seconds_of_cells": round(sum(found.seconds for found in ran), 1),
        },
    )


def judge(found: Tables, settings: dict[str, Any]) -> list[Finding]:
    """Say what the rows of a file say."""
    del settings  # the file has all there is to say
    return [_finding(group) for group in groups_of(found)]


def groups_of(found: Tables) -> list[Group]:
    """Return what a file holds, by set and way."""
    rows = table(found, "paired.csv", [*OF_ROW, *MEASURES])
    return [
        Group(title, method, columns(some, MEASURES))
        for (title, method), some in grouped(rows, OF_ROW[:2]).items()
    ]


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


def _finding(group: Group) -> Finding:
    """Say how good it is, and whether FOSCTTM is below what it is compared with."""
    values, right = group.measures["foscttm"], 100 * group.measures["labels"]
    mean, half = float(np.mean(values)), _half(values)
    verdict = OPEN
    bar, whose = group.bar
    if abs(mean - bar) > half:
        verdict = HOLDS if mean < bar else FAILS
    return Finding(
        f"{group.title}, {group.method}: FOSCTTM below {bar:g} ({whose})",
        f"{mean:.3f} ± {half:.2g}, {values.min():.3f} to {values.max():.3f}; the seed of the "
        f"lowest W_eps: {values[group.chosen]:.3f}; labels right: {right.mean():.1f} ± "
        f"{_half(right):.2g} %",
        verdict,
        over_seeds(values, "FOSCTTM", against=bar),
    )


def _half(values: np.ndarray) -> float:
    """Return standard errors over seeds."""
    return float(ERRORS * np.std(values, ddof=1) / np.sqrt(len(values)))
