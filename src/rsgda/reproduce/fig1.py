r"""Figure 1: ESGDA(m) and RSGDA(p = 1/(m + 1)) on distributionally robust classification.

Both with the same $\alpha$, from the same networks, at equal gradient counts. phi is maximised
anew at each look, on a fixed subset of the training set.
"""

from pathlib import Path
from typing import Any

import numpy as np

from rsgda.reproduce.fig2_claims import floor
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN, Finding, Outcome, Tell
from rsgda.reproduce.robust_cells import Curve
from rsgda.reproduce.robust_figure import draw_fig1
from rsgda.reproduce.robust_numbers import ERRORS, Group, above, curves_of, groups
from rsgda.reproduce.robust_setting import OBJECTIVES, Budget, Cell, Scale, seeded
from rsgda.reproduce.robust_target import outcome
from rsgda.reproduce.stored import Tables

LOOPS = (1, 3)
ALPHA = 0.25
# Of phi above what it is at least: what the paper's curves of a pair are apart, as far as one can
# read it off.
ALIKE = 0.1

SCALES = {
    "quick": Scale("digits", 64, {"logits": Budget(900, 300, 2), "authors": Budget(900, 300, 2)}),
    "standard": Scale(
        "mnist", 256, {"logits": Budget(4_680, 780, 3), "authors": Budget(2_820, 940, 2)}
    ),
    "paper": Scale(
        "mnist",
        2_000,
        {"logits": Budget(93_600, 4_680, 5), "authors": Budget(93_600, 4_680, 5)},
        authors_network=True,
    ),
}


def run(scale: str, tell: Tell, work: Path | None = None, client: Any = None) -> Outcome:
    """Run the cells, compare and draw at a named scale."""
    return outcome(
        "fig1", SCALES[scale], cells(SCALES[scale]), draw=draw_fig1,
        settings={"m": list(LOOPS), "alpha": ALPHA}, tell=tell, work=work, client=client,
    )  # fmt: skip


def cells(scale: Scale) -> list[Cell]:
    """Return what is run: for each objective and m both algorithms."""
    pairs = [
        Cell(objective, 1 / (m + 1), ALPHA, m=loop)
        for objective in scale.budgets
        for m in LOOPS
        for loop in (None, m)
    ]
    return seeded(pairs, scale)


def judge(tables: Tables, settings: dict[str, Any]) -> list[Finding]:
    """Say what the curves of a file say."""
    return findings(curves_of(tables, "fig1.csv", settings))


def findings(curves: list[Curve]) -> list[Finding]:
    """Say of each pair whether it is alike, and whether phi has values that it cannot have."""
    found = []
    for objective in OBJECTIVES:
        for m in LOOPS:
            pair = groups(curves, objective=objective, p=1 / (m + 1))
            if len(pair) == 2:
                found.append(alike(objective, m, *pair))
        if runs := groups(curves, objective=objective):
            found += floor(objective, runs)
    return found


def alike(objective: str, m: int, rsgda: Group, esgda: Group) -> Finding:
    """Compare a pair over the later looks; few seeds that scatter much decide nothing."""
    about = f"ESGDA({m}) and RSGDA(1/{m + 1}) perform similarly, {objective}"
    if not (rsgda.finished and esgda.finished):
        return Finding(about, f"RSGDA {rsgda.told()}; ESGDA {esgda.told()}", OPEN)
    # One number for each seed: a mean over looks scatters less than a single one.
    floor = OBJECTIVES[objective].floor
    one, other = (group.late - floor for group in (rsgda, esgda))
    apart = abs(one.mean() - other.mean()) / other.mean()
    variance = one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other)
    error = np.sqrt(variance) / other.mean()
    numbers = (
        f"over the later half phi{f' - {floor:.5g}' if floor else ''} is {apart:.1%} apart in the "
        f"mean, with a standard error of {error:.1%} (alike: up to {ALIKE:.0%}); RSGDA: "
        f"{rsgda.told()}; ESGDA: {esgda.told()}"
    )
    effect = above(rsgda, esgda, "RSGDA less ESGDA, % of φ", against=None)
    if apart > ALIKE + ERRORS * error:
        return Finding(about, numbers, FAILS, effect)
    return Finding(about, numbers, HOLDS if apart + ERRORS * error <= ALIKE else OPEN, effect)
