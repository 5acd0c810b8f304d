"""What the runs say of the theory: ratios, exponents, verdicts, and the files that hold them."""

import itertools
import math
from collections.abc import Iterable

import numpy as np

from rsgda.report import as_csv
from rsgda.reproduce.outcome import Finding
from rsgda.reproduce.theory_claims import FAILS, HOLDS, OPEN
from rsgda.reproduce.theory_runs import REACHED, RULES, Curve, Reach

# A mean over seeds is held against a bound with so many standard errors on the unsafe side.
ERRORS = 2.0
TOLERANCE = 0.15  # of an exponent, which is measured at finite kappa
SAME_ORDER = 3.0  # what the iterations may vary by over a range of p of one order


def bound_finding(name: str, curves: list[Curve]) -> Finding:
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
    return Finding(f"{name}: E|grad phi|^2 stays under the bound", "; ".join(said), verdict)


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


def exponent(reaches: list[Reach]) -> tuple[float, float]:
    """Fit iterations ~ kappa^x for each seed, and return the mean x with its standard error."""
    logs = np.log([reach.iterations for reach in reaches])
    kappas = np.log([reach.kappa for reach in reaches])
    slopes = np.polyfit(kappas, logs, 1)[0]
    return float(slopes.mean()), float(slopes.std(ddof=1) / math.sqrt(len(slopes)))


def scaling_findings(reaches: list[Reach]) -> list[Finding]:
    """Say how iterations grow with kappa, for each way of choosing p."""
    found = []
    for rule in RULES:
        some = [reach for reach in reaches if reach.rule == rule]
        slope, error = exponent(some)
        inside = rule != "kappa^-2"
        if inside:
            about = f"RGDA takes O(kappa^2) iterations at p = {rule}, inside [1/kappa, 1/2]"
            holds = slope - ERRORS * error <= 2 + TOLERANCE
        else:
            about = f"another factor kappa at p = {rule}, outside the range"
            holds = abs(slope - 3) <= TOLERANCE + ERRORS * error
        low, high = some[0].kappa, some[-1].kappa
        numbers = f"exponent {slope:.2f} ± {error:.2f} for kappa {low:g} to {high:g}"
        found.append(Finding(about, numbers, HOLDS if holds else FAILS))
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
    to = f"iterations to |grad phi| <= {REACHED:g} at kappa = {kappa:g}"
    return [
        Finding(
            "the same order of complexity for all p in [1/kappa, 1/2]",
            f"{to} vary by {spread:.3g} in the range, and are at most {100 * share:.2g} % of what "
            "the corollary prescribes",
            HOLDS if spread <= SAME_ORDER and share <= 1 else FAILS,
        ),
        Finding(
            "p below 1/kappa costs 1/(p kappa)",
            f"{to}: p = {least:.3g} takes {below:.3g} times as many as the dearest p in the range, "
            f"1/(p kappa) is {1 / (least * kappa):.3g}",
            HOLDS if below >= 1 / (least * kappa) / SAME_ORDER else FAILS,
        ),
        Finding(
            "p above 1/2 converges, slower the larger it is",
            f"{to}: {', '.join(f'{n:,.0f}' for n in above)} at p = "
            f"{', '.join(f'{p:g}' for p in sorted(counts) if p >= 0.5)}",
            HOLDS if all(a < b for a, b in itertools.pairwise(above)) else FAILS,
        ),
    ]


def curves_csv(curves: Iterable[Curve]) -> bytes:
    """One row for each corollary, p and k."""
    head = ["corollary", "p", "eps", "steps", "k", "mean_square", "error", "smallest", "bound"]
    rows = [
        [
            c.corollary,
            f"{c.p:g}",
            "" if c.eps is None else f"{c.eps:g}",
            "" if c.steps is None else c.steps,
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


def claims_csv(findings: Iterable[Finding]) -> bytes:
    """One row for each claim."""
    return as_csv(
        ["claim", "numbers", "verdict"], [[f.about, f.numbers, f.verdict] for f in findings]
    )
