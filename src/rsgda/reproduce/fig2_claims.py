"""What the paper says of Figure 2, held against the runs."""

import itertools
from collections.abc import Callable

import numpy as np

from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN, PARTLY, Effect, Finding
from rsgda.reproduce.robust_cells import Curve
from rsgda.reproduce.robust_numbers import ERRORS, Group, above, groups, under_the_floor
from rsgda.reproduce.robust_setting import ETA, KEPT, OBJECTIVES, Cell

GRID = (0.2, 0.25, 0.3)  # the paper's alphas


def findings(curves: list[Curve]) -> list[Finding]:
    """Return one finding for each claim and objective."""
    claims: list[Callable[[str, list[Group]], Finding]] = [
        larger_alpha,
        best,
        too_rarely,
        still_larger,
        often,
        eta_matters_less,
        accuracy,
    ]
    there = {curve.cell.objective for curve in curves}
    found = []
    for objective in (name for name in OBJECTIVES if name in there):
        mine = groups(curves, objective=objective)
        found += [claim(objective, mine) for claim in claims]
        found += floor(objective, mine)
    return found


def best_of_each_p(curves: list[Curve]) -> list[Cell]:
    """Return, for each objective and p, the cell with the lowest phi that the filter keeps.

    Where it keeps none: the lowest phi of all that did not diverge.
    """
    best = []
    for objective in OBJECTIVES:
        mine = groups(curves, objective=objective)
        for p in sorted({group.cell.p for group in mine}):
            if (lowest := _lowest(mine, p)) is not None:
                best.append(lowest.cell)
    return best


def larger_alpha(objective: str, runs: list[Group]) -> Finding:
    """Hold "decreasing the descent probability allows to take larger step sizes".

    A step size is allowed if no other one of the grid, which all p have, ends surely lower.
    """
    about = f"smaller p allows larger alpha, {objective}"
    grid = _grid(runs)
    allowed = {}
    for p in sorted({group.cell.p for group in grid}):
        lowest = _lowest(grid, p, filtered=False)
        mine = [g for g in grid if g.cell.p == p and g.finished]
        if lowest is not None:
            allowed[p] = max(g.cell.alpha for g in mine if not _surely_above(grid, g, lowest))
    numbers = "the largest α that does not end surely higher than another: " + ", ".join(
        f"{alpha:g} at p = {p:g}" for p, alpha in allowed.items()
    )
    steps = [a - b for a, b in itertools.pairwise(allowed.values())]
    if not any(steps):
        return Finding(about, numbers, OPEN)
    if min(steps) < 0:
        return Finding(about, numbers, FAILS)
    # Where they agree the grid may be too narrow to tell.
    return Finding(about, numbers, HOLDS if min(steps) > 0 else PARTLY)


def best(objective: str, runs: list[Group]) -> Finding:
    """Hold "p = 0.25, alpha = 0.3 results in faster optimisation": the lowest phi of the grid."""
    about = f"p = 0.25 with alpha = 0.3 is best, {objective}"
    grid = _grid(runs)
    kept = [g for g in grid if g.kept] or [g for g in grid if g.finished]
    if not kept:
        return Finding(about, "no run finished", OPEN)
    theirs = _cell(runs, 0.25, 0.3)
    lowest = min(kept, key=_late)
    numbers = f"lowest: {_name(lowest)}, {lowest.told()}; theirs: {theirs.told()}"
    others = [g for g in kept if g is not theirs]
    effect = _over_the_best(theirs, others)
    if theirs not in kept or _surely_above(grid, theirs, lowest):
        return Finding(about, numbers, FAILS, effect)
    sure = all(_surely_above(grid, other, theirs) for other in others)
    return Finding(about, numbers, HOLDS if sure else OPEN, effect)


def _over_the_best(theirs: Group, others: list[Group]) -> Effect | None:
    rival = min(others, key=_late, default=None)
    if rival is None:
        return None
    return above(theirs, rival, f"{_name(theirs)} less the best other, {_name(rival)}, % of φ")


def too_rarely(objective: str, runs: list[Group]) -> Finding:
    """Hold "decreasing p too much (p = 0.1) leads to a slow algorithm"."""
    about = f"p = 0.1 is slower than p = 0.25, {objective}"
    grid = _grid(runs)
    rare, more = _lowest(grid, 0.1), _lowest(grid, 0.25)
    if rare is None or more is None:
        return Finding(about, "no run finished", OPEN)
    numbers = f"best at p = 0.1: {rare.told()}; best at p = 0.25: {more.told()}"
    effect = above(rare, more, f"{_name(rare)} less {_name(more)}, % of φ")
    if _surely_above(grid, rare, more):
        return Finding(about, numbers, HOLDS, effect)
    return Finding(about, numbers, FAILS if _surely_above(grid, more, rare) else OPEN, effect)


def still_larger(objective: str, runs: list[Group]) -> Finding:
    """Hold "further increasing the step size when p = 0.1 makes RSGDA diverge"."""
    about = f"p = 0.1 with a larger alpha diverges, {objective}"
    mine = [g for g in runs if g.cell.p == 0.1 and g.cell.alpha not in GRID]
    if not mine:
        return Finding(about, "no larger alpha was run", OPEN)
    lost = sum(not g.finished for g in mine)
    numbers = "; ".join(f"α = {g.cell.alpha:g}: {g.told()}" for g in mine)
    verdict = HOLDS if lost == len(mine) else PARTLY if lost else FAILS
    return Finding(about, numbers, verdict)


def often(objective: str, runs: list[Group]) -> Finding:
    """Hold "for p >= 0.5, alpha > 0.25 led the model to diverge or to a low accuracy".

    A low accuracy counts where a smaller alpha has a high one: else the runs were too short.
    """
    about = f"p >= 0.5 with alpha > 0.25 diverges or falls under {KEPT:.0%}, {objective}"
    grid = [g for g in _grid(runs) if g.cell.p >= 0.5]
    failed: list[bool] = []
    for group in (g for g in grid if g.cell.alpha > 0.25):
        others = [g for g in grid if g.cell.p == group.cell.p and g.cell.alpha <= 0.25]
        if group.kept or not group.finished or any(g.kept for g in others):
            failed.append(not group.kept)
    numbers = "; ".join(f"{_name(g)}: {g.told()}" for g in grid)
    if not failed:
        return Finding(about, numbers, OPEN)
    return Finding(about, numbers, HOLDS if all(failed) else PARTLY if any(failed) else FAILS)


def eta_matters_less(objective: str, runs: list[Group]) -> Finding:
    """Hold "tuning eta had less impact than alpha and p": ranges of phi at the end."""
    about = f"eta matters less than alpha and p, {objective}"
    etas = [g for g in runs if (g.cell.p, g.cell.alpha) == (0.25, 0.3)]
    alphas = [g for g in _grid(runs) if g.cell.p == 0.25]
    ps = [g for g in _grid(runs) if g.cell.alpha == 0.3]
    if not all(g.finished for g in etas):
        return Finding(about, "a run with another eta diverged", FAILS)
    finished = [g for g in runs if g.finished]
    ranges = [_range(finished, [g for g in each if g.finished]) for each in (etas, alphas, ps)]
    (of_eta, unsure), *others = ranges
    numbers = (
        f"phi ranges over {of_eta:.3g} for η in 5, 10, 20, over {others[0][0]:.3g} for α and "
        f"over {others[1][0]:.3g} for p, from p = 0.25, α = 0.3, η = 10"
    )
    verdicts = []
    for other, also in others:
        enough = abs(other - of_eta) > ERRORS * np.hypot(unsure, also)
        verdicts.append(OPEN if not enough else HOLDS if other > of_eta else FAILS)
    if len({*verdicts}) == 1:
        return Finding(about, numbers, verdicts[0])
    return Finding(about, numbers, PARTLY if HOLDS in verdicts else OPEN)


def accuracy(objective: str, runs: list[Group]) -> Finding:
    """Hold "higher than 98 % validation accuracy"; on MNIST, by runs that have come to rest."""
    grid = _grid(runs)
    kept = sum(g.kept for g in grid)
    highest = max((g.accuracy for g in grid if g.finished), default=float("nan"))
    numbers = f"{kept} of {len(grid)} cells of the grid, all seeds; highest {highest:.2%}"
    rests = all(np.diff(g.of("accuracy").mean(axis=0)[-2:]) <= 0 for g in grid if g.finished)
    verdict = HOLDS if kept else FAILS if rests and runs[0].data == "mnist" else OPEN
    return Finding(f"more than {KEPT:.0%} accuracy can be had, {objective}", numbers, verdict)


def floor(objective: str, runs: list[Group]) -> list[Finding]:
    """Say whether values of phi appear that no phi can have."""
    under = under_the_floor(runs)
    limit = f"{OBJECTIVES[objective].floor:.6g}"
    seen = "none appeared"
    if under.authors:
        seen = "they appear" if under.accepted else "reported, not accepted"
    return [
        Finding(
            f"the authors' evaluation has values under {limit}, which phi cannot have, {objective}",
            f"{under.authors} of {under.looks} looks, the lowest {under.lowest_authors:.4f}; "
            f"{under.accepted} of them met its rule, the others are as far as its ascents came",
            seen,
        ),
        Finding(
            f"the certified evaluation has no value under {limit}, {objective}",
            f"{under.certified} of {under.looks} looks, the lowest {under.lowest:.6g}",
            HOLDS if not under.certified else FAILS,
        ),
    ]


def _grid(runs: list[Group]) -> list[Group]:
    return [g for g in runs if g.cell.alpha in GRID and g.cell.eta == ETA]


def _lowest(runs: list[Group], p: float, *, filtered: bool = True) -> Group | None:
    mine = [g for g in runs if g.cell.p == p and g.cell.eta == ETA and g.finished]
    kept = [g for g in mine if g.kept and filtered] or mine
    return min(kept, key=_late, default=None)


def _cell(runs: list[Group], p: float, alpha: float) -> Group:
    (found,) = (g for g in runs if (g.cell.p, g.cell.alpha, g.cell.eta) == (p, alpha, ETA))
    return found


def _late(group: Group) -> float:
    return float(group.late.mean())


def _surely_above(runs: list[Group], one: Group, other: Group) -> bool:
    """Say whether a cell is above another by more than two standard errors, in the later half."""
    unsure = np.hypot(_error(runs, one), _error(runs, other))
    return bool(_late(one) - _late(other) > ERRORS * unsure)


def _error(runs: list[Group], group: Group) -> float:
    """Return the standard error of a cell's phi.

    How far seeds scatter, relative to what phi is above its floor, is taken from all cells: single
    ones have few seeds. Where all have one, the error of the subset of samples stands in.
    """
    floor = OBJECTIVES[group.cell.objective].floor
    many = [g.late - floor for g in runs if g.finished and len(g.curves) > 1]
    if not many:
        return float(group.of("error")[0, -1])
    scatter = np.mean([late.var(ddof=1) / late.mean() ** 2 for late in many])
    return float((_late(group) - floor) * np.sqrt(scatter / len(group.curves)))


def _range(runs: list[Group], each: list[Group]) -> tuple[float, float]:
    """Return what phi ranges over between cells, and the standard error of that."""
    low, high = min(each, key=_late), max(each, key=_late)
    return _late(high) - _late(low), float(np.hypot(_error(runs, low), _error(runs, high)))


def _name(group: Group) -> str:
    return f"p = {group.cell.p:g}, α = {group.cell.alpha:g}"
