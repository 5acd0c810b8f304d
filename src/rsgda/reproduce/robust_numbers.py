"""Curves of Figures 1 and 2 over seeds: bands, files, and sentences about them."""

from typing import Any, NamedTuple

import numpy as np

from rsgda.report import as_csv
from rsgda.reproduce.effects import over_seeds
from rsgda.reproduce.outcome import Effect
from rsgda.reproduce.robust_authors import TOLERANCE
from rsgda.reproduce.robust_cells import Curve
from rsgda.reproduce.robust_setting import BATCH, GAMMA, KEPT, OBJECTIVES, SEED, Cell, Scale
from rsgda.reproduce.stored import Tables, columns, grouped, table

LATER = 0.5  # of the looks: where curves are compared, past the first fall
ERRORS = 2.0  # standard errors of the mean over the subset's rows, to each side
CELL = ("objective_name", "algorithm", "p", "m", "alpha", "eta")
COLUMNS = (
    "gradients",
    "epoch",
    "objective",
    "phi",
    "gap",
    "certified",
    "error",
    "authors",
    "authors_slope",
    "accuracy",
)


class Group(NamedTuple):
    """The runs of one cell that differ in their seeds only."""

    cell: Cell  # of the first seed
    curves: list[Curve]

    @property
    def epoch(self) -> np.ndarray:
        """The epochs of the looks that all seeds came to."""
        return min((curve.looks["epoch"] for curve in self.curves), key=len)

    def of(self, name: str) -> np.ndarray:
        """Return one quantity, seeds x looks."""
        return np.array([curve.looks[name][: len(self.epoch)] for curve in self.curves])

    @property
    def phi(self) -> np.ndarray:
        """The mean over seeds."""
        return self.of("phi").mean(axis=0)

    @property
    def band(self) -> tuple[np.ndarray, np.ndarray]:
        """Where phi lies for all seeds: gap, and sampling error to both sides, included."""
        error = ERRORS * self.of("error")
        with np.errstate(invalid="ignore"):  # a run that diverged has no band
            low, high = self.of("phi") - error, self.of("phi") + self.of("gap") + error
        return low.min(axis=0), high.max(axis=0)

    @property
    def data(self) -> str:
        """What it was trained on."""
        return self.curves[0].data

    @property
    def end(self) -> float:
        """The mean of phi over seeds at the last look."""
        return float(self.phi[-1])

    @property
    def late(self) -> np.ndarray:
        """The mean of phi over the later looks of each seed, which scatters less than one look."""
        return self.of("phi")[:, int(LATER * len(self.epoch)) :].mean(axis=1)

    @property
    def accuracy(self) -> float:
        """The worst seed's validation accuracy at the last look."""
        return float(self.of("accuracy")[:, -1].min())

    @property
    def finished(self) -> bool:
        """Whether no seed diverged."""
        return all(curve.finished for curve in self.curves)

    @property
    def kept(self) -> bool:
        """Whether the paper would show it: it did not diverge, and classifies well."""
        return self.finished and self.accuracy > KEPT

    def told(self) -> str:
        """Say how it ended, in words."""
        if not self.finished:
            return "diverged"
        phi = f"phi {self.late.mean():.4g} over the later half, {self.end:.4g} at the end"
        worst = " at worst" if len(self.curves) > 1 else ""
        return f"{phi}, accuracy {self.accuracy:.2%}{worst}"


def groups(
    curves: list[Curve], *, objective: str | None = None, p: float | None = None
) -> list[Group]:
    """Return the runs by cell, in the order they come; all, or those of an objective or a p."""
    found: dict[Cell, list[Curve]] = {}
    for curve in curves:
        if objective in (None, curve.cell.objective) and p in (None, curve.cell.p):
            found.setdefault(curve.cell._replace(seed=0), []).append(curve)
    return [Group(cell, runs) for cell, runs in found.items()]


def curves_csv(curves: list[Curve]) -> bytes:
    """Return one row for each look of each run."""
    head = [*CELL, "seed", "status", *COLUMNS]

    def rows(curve: Curve) -> list[list[str]]:
        start = [*_cell(curve.cell), f"{curve.cell.seed}", curve.status]
        looks = zip(*(curve.looks[name] for name in COLUMNS), strict=True)
        return [[*start, *(f"{value:.6g}" for value in look)] for look in looks]

    return as_csv(head, [row for curve in curves for row in rows(curve)])


def curves_of(found: Tables, name: str, settings: dict[str, Any]) -> list[Curve]:
    """Return the curves that a file holds."""
    rows = table(found, name, [*CELL, "seed", "status", *COLUMNS])
    curves = []
    for (objective, _, p, m, alpha, eta, seed, status), some in grouped(
        rows, (*CELL, "seed", "status")
    ).items():
        loop = int(m) if m else None
        often = float(p) if loop is None else 1 / (loop + 1)
        cell = Cell(objective, often, float(alpha), float(eta), loop, int(seed))
        curves.append(Curve(cell, settings["data"], status, columns(some, COLUMNS), 0.0))
    return curves


def above(one: Group, other: Group, what: str, *, against: float | None = 0.0) -> Effect | None:
    """Return how much higher one is than another in the later half, in % of the other.

    Of phi above what no phi can be below; cells of one seed start alike, so that seeds are pairs.
    """
    if not (one.finished and other.finished):
        return None
    floor = OBJECTIVES[other.cell.objective].floor
    both = min(len(one.late), len(other.late))
    apart = 100 * (one.late[:both] - other.late[:both]) / (other.late[:both].mean() - floor)
    return over_seeds(apart, what, paired=True, against=against)


def summary_csv(curves: list[Curve]) -> bytes:
    """Return one row for each cell: how its seeds ended."""
    head = [*CELL, "seeds", "diverged", "mean_phi", "low", "high", "least_certified"]
    head += ["worst_accuracy", "kept"]
    rows = []
    for group in groups(curves):
        low, high = group.band
        diverged = sum(not curve.finished for curve in group.curves)
        row = [*_cell(group.cell), f"{len(group.curves)}", f"{diverged}", f"{group.end:.6g}"]
        row += [f"{low[-1]:.6g}", f"{high[-1]:.6g}", f"{group.of('certified')[:, -1].min():.4g}"]
        rows.append([*row, f"{group.accuracy:.4g}", "yes" if group.kept else "no"])
    return as_csv(head, rows)


def _cell(cell: Cell) -> list[str]:
    who, m = ("RSGDA", "") if cell.m is None else ("ESGDA", f"{cell.m}")
    return [cell.objective, who, f"{cell.p:g}", m, f"{cell.alpha:g}", f"{cell.eta:g}"]


class Under(NamedTuple):
    """Looks at an objective with values that no phi can have.

    Attributes:
        looks: how many there were.
        authors: how many had such a value by the authors' evaluation,
        accepted: of these, how many met their rule; the others were as far as their ascents came,
        certified: and how many had one by the certified evaluation.
        lowest_authors: the lowest value by the authors' evaluation,
        lowest: and by the certified one.
    """

    looks: int
    authors: int
    accepted: int
    certified: int
    lowest_authors: float
    lowest: float


def under_the_floor(runs: list[Group]) -> Under:
    """Count them; what is not finite is under no floor, but no value either."""
    found = [curve.looks for group in runs for curve in group.curves]
    ours, theirs = (np.concatenate([looks[name] for looks in found]) for name in ("phi", "authors"))
    enough = np.concatenate([looks["authors_slope"] <= accepted_slope(looks) for looks in found])
    both = np.isfinite(ours) & np.isfinite(theirs)
    ours, theirs, enough = ours[both], theirs[both], enough[both]
    # Float32 rounds a mean of values at the floor a little to either side of it.
    limit = OBJECTIVES[runs[0].cell.objective].floor - 1e-5
    return Under(
        looks=len(ours),
        authors=int(np.sum(theirs < limit)),
        accepted=int(np.sum((theirs < limit) & enough)),
        certified=int(np.sum(ours < limit)),
        lowest_authors=float(np.min(theirs, initial=np.inf)),
        lowest=float(np.min(ours, initial=np.inf)),
    )


def accepted_slope(looks: dict[str, np.ndarray]) -> float:
    """Return the mean squared gradient up to which the authors' rule takes a value for phi."""
    samples = looks["gradients"][-1] * BATCH / looks["epoch"][-1]
    return TOLERANCE * float(samples)


def caption(scale: Scale) -> str:
    """Say what the bands are and how much was run."""
    data = {"digits": "scikit-learn's digits", "mnist": "MNIST"}[scale.data]
    seeds = {name: f"{b.seeds} seed{'s' * (b.seeds > 1)}" for name, b in scale.budgets.items()}
    told = ", ".join(f"{count} ({name})" for name, count in seeds.items())
    told = told if len({*seeds.values()}) > 1 else next(iter(seeds.values()))
    if scale.dense:
        return (
            f"{data}, γ = {GAMMA:g}, b = {BATCH}, {scale.rows} samples in place of all. Band: the "
            "gap of φ. Full marks: values that the authors' rule accepts."
        )
    return (
        f"{data}, γ = {GAMMA:g}, b = {BATCH}; lines: means of {told}. Bands: all seeds, with the "
        f"gap of φ where it is certified and {ERRORS:g} standard errors for {scale.rows} samples "
        "in place of all. Where a sample is not certified, its part of φ is the best value found."
    )


def described(scale: Scale, curves: list[Curve]) -> dict[str, Any]:
    """Return what all cells have in common, as JSON can hold it."""
    return {
        **scale._asdict(),
        "budgets": {name: budget._asdict() for name, budget in scale.budgets.items()},
        "objectives": {name: each._asdict() for name, each in OBJECTIVES.items()},
        "gamma": GAMMA,
        "batch_size": BATCH,
        "kept_above_accuracy": KEPT,
        "seed": SEED,
        "precision": "float32",
        "seconds_of_cells": round(sum(curve.seconds for curve in curves), 1),
    }
