"""What the runs say of the theory: ratios, exponents, verdicts, and the files that hold them."""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from rsgda.report import as_csv
from rsgda.reproduce.effects import around, over_seeds, ratio_over_seeds
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN, Effect, Finding
from rsgda.reproduce.stored import Row, grouped
from rsgda.reproduce.theory_runs import CASES, REACHED, RULES, Curve, Reach

# A mean over seeds is held against a bound with so many standard errors on the unsafe side.
ERRORS = 2.0
TOLERANCE = 0.15  # of an exponent, which is measured at finite kappa
OF_CURVE = ("corollary", "p", "eps", "steps", "falls")
SAME_ORDER = 3.0  # what the iterations may vary by over a range of p of one order


def findings(curves: list[Curve], reaches: list[Reach], seeds: int) -> list[Finding]:
    """Return what is to be said of bounds, rates, growth and p."""
    by_name = {name: [c for c in curves if c.corollary == name] for name in CASES}
    found = [bound_finding(name, some, seeds) for name, some in by_name.items() if some]
    for name, some in by_name.items():
        rate = CASES[name].rate
        if some and rate is not None:
            found.append(rate_finding(name, some, rate))
    found += scaling_findings([reach for reach in reaches if reach.rule])
    return found + p_findings([reach for reach in reaches if not reach.rule])


def bound_finding(name: str, curves: list[Curve], seeds: int = 1) -> Finding:
    """Hold the smallest mean so far against the bound, and eps against the prescribed steps."""
    worst, violated = {}, False
    for curve in curves:
        ratio = curve.smallest[1:] / curve.bound[1:]
        worst[curve.p] = float(ratio.max())
        unsafe = np.minimum.accumulate(curve.mean + ERRORS * curve.error)[:-1]
        violated |= bool(np.any(unsafe > curve.bound[1:]))
    said = [f"largest measured/bound {_each(worst)}"]
    verdict = FAILS if violated else HOLDS
    if all(curve.steps for curve in curves):
        shares = {curve.p: reached_at(curve) for curve in curves}
        late = [curve for curve in curves if shares[curve.p] is None]
        early = {p: 100 * share for p, share in shares.items() if share is not None}
        if early:
            said.append(f"eps reached after {_each(early, ' %')} of the prescribed k")
        if late:
            said.append(f"not reached at p = {', '.join(f'{curve.p:g}' for curve in late)}")
            whole = any(curve.k[-1] >= (curve.steps or 0) for curve in late)
            verdict = FAILS if violated or whole else OPEN
    about = f"{name}: E|grad phi|^2 stays under the bound"
    return Finding(about, "; ".join(said), verdict, _nearest(curves, seeds))


def _nearest(curves: list[Curve], seeds: int) -> Effect | None:
    """Return measured/bound where it is largest, of all p."""
    curve = max(curves, key=lambda curve: np.max(curve.smallest[1:] / curve.bound[1:]))
    at = 1 + int(np.argmax(curve.smallest[1:] / curve.bound[1:]))
    of = int(np.argmin(curve.mean[:at]))
    value, error = (float(x[of] / curve.bound[at]) for x in (curve.mean, curve.error))
    return around(value, error, seeds, f"largest measured/bound (p = {curve.p:g})")


def rate_finding(name: str, curves: list[Curve], rate: float) -> Finding:
    """Say whether k^rate times the smallest |grad phi|^2 falls along every run."""
    falls = {curve.p: curve.falls for curve in curves if curve.falls is not None}
    power = "k" if rate == 1 else f"k^{rate:g}"
    return Finding(
        f"{name}: {power} min |grad phi|^2 tends to 0 along every run",
        f"ends at {_each(falls)} of its highest, worst seed, after {curves[0].k[-1]:,} iterations",
        # A limit that is not in sight after finitely many iterations is not refuted.
        HOLDS if max(falls.values()) < 1 else OPEN,
    )


def reached_at(curve: Curve) -> float | None:
    """Return after which part of the prescribed steps the mean is below eps^2, if it is."""
    below = curve.mean <= (curve.eps or 0.0) ** 2
    if not below.any() or not curve.steps:
        return None
    share = float(curve.k[np.argmax(below)]) / curve.steps
    return share if share < 1 else None


def _each(values: dict[float, float], unit: str = "") -> str:
    numbers = ", ".join(f"{value:.2g}" for value in values.values())
    return f"{numbers}{unit} (p = {', '.join(f'{p:g}' for p in values)})"


def exponents(reaches: list[Reach]) -> np.ndarray:
    """Fit iterations ~ kappa^x for each seed, and return all x."""
    logs = np.log([reach.iterations for reach in reaches])
    kappas = np.log([reach.kappa for reach in reaches])
    return np.polyfit(kappas, logs, 1)[0]


def scaling_findings(reaches: list[Reach]) -> list[Finding]:
    """Say how iterations grow with kappa, for each way of choosing p."""
    found = []
    for rule in RULES:
        some = [reach for reach in reaches if reach.rule == rule]
        slopes = exponents(some)
        slope, error = float(slopes.mean()), float(slopes.std(ddof=1) / math.sqrt(len(slopes)))
        inside = rule != "kappa^-2"
        if inside:
            about = f"RGDA takes O(kappa^2) iterations at p = {rule}, inside [1/kappa, 1/2]"
            holds = slope - ERRORS * error <= 2 + TOLERANCE
        else:
            about = f"another factor kappa at p = {rule}, outside the range"
            holds = abs(slope - 3) <= TOLERANCE + ERRORS * error
        low, high = some[0].kappa, some[-1].kappa
        numbers = f"exponent {slope:.2f} ± {error:.2f} for kappa {low:g} to {high:g}"
        effect = over_seeds(slopes, "exponent of kappa")
        found.append(Finding(about, numbers, HOLDS if holds else FAILS, effect))
    return found


def p_findings(reaches: list[Reach]) -> list[Finding]:
    """Say what p does at one kappa, inside the range and on both sides of it."""
    kappa = reaches[0].kappa
    counts = {reach.p: float(reach.iterations.mean()) for reach in reaches}
    inside = {p: n for p, n in counts.items() if 1 / kappa <= p * (1 + 1e-9) and p <= 0.5}
    spread = max(inside.values()) / min(inside.values())
    least = min(counts)
    below = counts[least] / max(inside.values())
    above = [counts[p] for p in sorted(counts) if p >= 0.5]
    planned = {reach.p: reach.planned for reach in reaches}
    share = max(counts[p] / planned[p] for p in counts)
    # The coins of a seed come from one key, whatever p is.
    each = {reach.p: reach.iterations for reach in reaches}
    top = max(each)
    most, fewest = max(inside, key=inside.__getitem__), min(inside, key=inside.__getitem__)
    to = f"iterations to |grad phi| <= {REACHED:g} at kappa = {kappa:g}"
    return [
        Finding(
            "the same order of complexity for all p in [1/kappa, 1/2]",
            f"{to} vary by {spread:.3g} in the range, and are at most {100 * share:.2g} % of what "
            "the corollary prescribes",
            HOLDS if spread <= SAME_ORDER and share <= 1 else FAILS,
            _times(each[most], each[fewest], f"times as many at p = {most:.3g} as at {fewest:.3g}"),
        ),
        Finding(
            "p below 1/kappa costs 1/(p kappa)",
            f"{to}: p = {least:.3g} takes {below:.3g} times as many as the dearest p in the range, "
            f"1/(p kappa) is {1 / (least * kappa):.3g}",
            HOLDS if below >= 1 / (least * kappa) / SAME_ORDER else FAILS,
            _times(each[least], each[most], f"times as many at p = {least:.3g} as at {most:.3g}"),
        ),
        Finding(
            "p above 1/2 converges, slower the larger it is",
            f"{to}: {', '.join(f'{n:,.0f}' for n in above)} at p = "
            f"{', '.join(f'{p:g}' for p in sorted(counts) if p >= 0.5)}",
            HOLDS if all(a < b for a, b in itertools.pairwise(above)) else FAILS,
            _times(each[top], each[0.5], f"times as many at p = {top:g} as at 0.5", 1.0),
        ),
    ]


def _times(
    one: np.ndarray, other: np.ndarray, what: str, against: float | None = None
) -> Effect | None:
    return ratio_over_seeds(one / other, what, paired=True, against=against)


def curves_csv(curves: Iterable[Curve]) -> bytes:
    """One row for each corollary, p and k."""
    head = [*OF_CURVE, "k", "mean_square", "error", "smallest", "bound"]
    rows = [
        [
            c.corollary,
            f"{c.p:g}",
            "" if c.eps is None else f"{c.eps:g}",
            "" if c.steps is None else c.steps,
            "" if c.falls is None else c.falls,
            *line,
        ]
        for c in curves
        for line in zip(
            c.k.tolist(),
            *([f"{x:.6g}" for x in y] for y in (c.mean, c.error, c.smallest, c.bound)),
            strict=True,
        )
    ]
    return as_csv(head, rows)


def reaches_csv(reaches: Iterable[Reach]) -> bytes:
    """One row for each kappa, p and seed."""
    rows = [
        [f"{r.kappa:g}", r.rule, f"{r.p:.6g}", seed, count, r.planned]
        for r in reaches
        for seed, count in enumerate(r.iterations.tolist())
    ]
    return as_csv(["kappa", "rule", "p", "seed", "iterations", "planned"], rows)


def curves_of(rows: Sequence[Row]) -> list[Curve]:
    """Return the curves that a file holds."""
    found = []
    for (name, p, eps, steps, falls), some in grouped(rows, OF_CURVE).items():
        mean, error, bound = (
            np.array([float(row[of]) for row in some]) for of in ("mean_square", "error", "bound")
        )
        k = np.array([int(row["k"]) for row in some])
        found.append(
            Curve(
                name, float(p), float(eps) if eps else None, int(steps) if steps else None, k, mean,
                error, bound, float(falls) if falls else None,
            )
        )  # fmt: skip
    return found


def reaches_of(rows: Sequence[Row]) -> list[Reach]:
    """Return the counts that a file holds."""
    return [
        Reach(
            float(kappa), rule, float(p), int(some[0]["planned"]),
            np.array([int(row["iterations"]) for row in some]),
        )
        for (kappa, rule, p), some in grouped(rows, ("kappa", "rule", "p")).items()
    ]  # fmt: skip
