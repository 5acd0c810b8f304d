"""Curves of Figures 4 and 5 over seeds: bands, files, and comparisons."""

from typing import Any, NamedTuple

import numpy as np

from rsgda.report import as_csv
from rsgda.reproduce.effects import over_seeds
from rsgda.reproduce.match_cells import COARSE, MOST, Curve
from rsgda.reproduce.match_setting import (
    BATCH,
    EPSILON,
    ETA,
    HIDDEN,
    SEED,
    Cell,
    Clouds,
    Method,
    Scale,
)
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN, Effect
from rsgda.reproduce.stored import Tables, columns, grouped, table

ERRORS = 2.0  # standard errors, to each side
METHOD = ("algorithm", "p", "m_sin", "start", "alpha")
COLUMNS = ("gradients", "epoch", "W", "gap", "error", "off", "W_all", "gap_all")


class Group(NamedTuple):
    """The runs of one method, which differ in their seeds."""

    method: Method
    alpha: float
    curves: list[Curve]

    def of(self, name: str) -> np.ndarray:
        """Return one quantity, seeds × looks, as far as all seeds came."""
        looks = min(len(curve.looks["W"]) for curve in self.curves)
        return np.array([curve.looks[name][:looks] for curve in self.curves])

    @property
    def band(self) -> tuple[np.ndarray, np.ndarray]:
        """Where W_eps of the subset lies for all seeds, its gap included."""
        return self.of("W").min(axis=0), (self.of("W") + self.of("gap")).max(axis=0)

    @property
    def finished(self) -> bool:
        """Whether no seed diverged."""
        return all(curve.finished for curve in self.curves)

    @property
    def name(self) -> str:
        """Return a name for figures and sentences."""
        return f"{self.method.title}, α = {self.alpha:g}"

    def end(self) -> "Ends":
        """Return how the seeds ended, on all rows of x."""
        return Ends(*(self.of(name)[:, -1] for name in ("W_all", "gap_all")))

    def at_gradients(self, count: float) -> "Ends":
        """Return W of the subset at a count of gradients, between two looks."""
        at = self.of("gradients")[0]
        return Ends(
            *(
                np.array([np.interp(count, at, row) for row in self.of(name)])
                for name in ("W", "gap")
            )
        )


class Ends(NamedTuple):
    """One W for each seed, and its gap."""

    W: np.ndarray
    gap: np.ndarray

    @property
    def mean(self) -> float:
        """The mean over seeds, of the middle of what W can be."""
        return float(np.mean(self.W + self.gap / 2))

    @property
    def rank(self) -> float:
        """The mean, to order by: what diverged comes last."""
        return self.mean if np.isfinite(self.mean) else float("inf")

    @property
    def half(self) -> float:
        """Half of what is not known of it: standard errors over seeds, and the gap."""
        scatter = np.std(self.W, ddof=1) / np.sqrt(len(self.W)) if len(self.W) > 1 else 0.0
        return float(ERRORS * scatter + np.mean(self.gap) / 2)

    def told(self) -> str:
        """Say what it is."""
        return f"{self.mean:.4g} ± {self.half:.2g}"


def below(one: Ends, other: Ends) -> str:
    """Say whether W is lower for one than for the other; scatter or gaps may leave it open."""
    apart = other.mean - one.mean
    unsure = float(np.hypot(one.half, other.half))
    if not np.isfinite(one.mean):
        return FAILS
    if not np.isfinite(other.mean):
        return HOLDS
    if abs(apart) <= unsure:
        return OPEN
    return HOLDS if apart > 0 else FAILS


def less(one: Ends, other: Ends, what: str) -> Effect | None:
    """Return how much higher W is for one than for another, seed by seed.

    In the middle of what each can be; runs of one seed start alike.
    """
    if len(one.W) != len(other.W):
        return None
    apart = one.W + one.gap / 2 - other.W - other.gap / 2
    return over_seeds(apart, what, paired=True, against=0.0)


def all_hold(verdicts: list[str]) -> str:
    """Return one verdict for a claim that is several."""
    if FAILS in verdicts:
        return FAILS
    return OPEN if OPEN in verdicts else HOLDS


def groups(curves: list[Curve]) -> list[Group]:
    """Return the runs by method, in the order they come."""
    found: dict[tuple[Method, float], list[Curve]] = {}
    for curve in curves:
        found.setdefault((curve.cell.method, curve.cell.alpha), []).append(curve)
    return [Group(method, alpha, runs) for (method, alpha), runs in found.items()]


def curves_csv(curves: list[Curve]) -> bytes:
    """Return one row for each look of each run."""
    rows = []
    for curve in curves:
        start = [*_method(curve.cell.method, curve.cell.alpha), f"{curve.cell.seed}", curve.status]
        for look in zip(*(curve.looks[name] for name in COLUMNS), strict=True):
            rows.append([*start, *(f"{value:.6g}" for value in look)])
    return as_csv([*METHOD, "seed", "status", *COLUMNS], rows)


def curves_of(found: Tables, name: str) -> list[Curve]:
    """Return the curves that a file holds."""
    rows = table(found, name, [*METHOD, "seed", "status", *COLUMNS])
    curves = []
    for (_, p, m, start, alpha, seed, status), some in grouped(
        rows, (*METHOD, "seed", "status")
    ).items():
        method = Method(p=float(p)) if p else Method(m_sin=int(m), warm=start == "warm")
        cell = Cell(method, float(alpha), int(seed))
        curves.append(Curve(cell, status, columns(some, COLUMNS), 0.0))
    return curves


def tuning_csv(tuned: list[Curve]) -> bytes:
    """Return one row for each run of the tuning."""
    rows = [
        [
            *_method(curve.cell.method, curve.cell.alpha),
            curve.status,
            f"{curve.looks['W'][-1]:.6g}",
            f"{curve.looks['gap'][-1]:.4g}",
        ]
        for curve in tuned
    ]
    return as_csv([*METHOD, "status", "W", "gap"], rows)


def _method(method: Method, alpha: float) -> list[str]:
    who = "RSGDA" if method.m_sin is None else "SinkhornDescent"
    p = "" if method.p is None else f"{method.p:g}"
    m, start = ("", "") if method.m_sin is None else (f"{method.m_sin}", _start(method))
    return [who, p, m, start, f"{alpha:g}"]


def _start(method: Method) -> str:
    return "warm" if method.warm else "cold"


def caption(scale: Scale, clouds: Clouds) -> str:
    """Say what was run and what the bands are."""
    (N, d), (n, D) = clouds.x.shape, clouds.y.shape
    return (
        f"{clouds.name}: {n:,} × {D:,} mapped onto {N:,} × {d}; ε = {EPSILON:g}, b = {BATCH}, "
        f"η = {ETA:g}; each method at its best α of {', '.join(f'{a:g}' for a in scale.alphas)}. "
        f"Curves: $W_ε$ on {min(scale.rows, N):,} rows of x, mean of {scale.seeds} seeds; bands: "
        f"all seeds and the gap. The bar at the side: {ERRORS:g} standard errors for so many rows "
        "in place of all, the same rows for all curves. Ends: on all rows."
    )


def described(scale: Scale, clouds: Clouds) -> dict[str, Any]:
    """Return what all cells have in common, as JSON can hold it."""
    return {
        **scale._asdict(),
        "clouds": clouds.name,
        "x": list(clouds.x.shape),
        "y": list(clouds.y.shape),
        "sha256_of_clouds": clouds.sha256,
        "epsilon": EPSILON,
        "batch_size": BATCH,
        "eta": ETA,
        "hidden": list(HIDDEN),
        "passes_at_most": MOST,
        "tuned_on_one_row_in": COARSE,
        "seed": SEED,
        "precision": "float32",
    }
