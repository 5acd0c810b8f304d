r"""Figure 2: what $\alpha$ and p do to RSGDA on distributionally robust classification."""

from pathlib import Path
from typing import Any

from rsgda.reproduce.fig2_claims import best_of_each_p, findings
from rsgda.reproduce.outcome import Finding, Outcome, Tell
from rsgda.reproduce.robust_cells import Curve
from rsgda.reproduce.robust_figure import draw_fig2
from rsgda.reproduce.robust_numbers import curves_of
from rsgda.reproduce.robust_setting import ETA, Budget, Cell, Scale, seeded
from rsgda.reproduce.robust_target import outcome
from rsgda.reproduce.stored import Tables

PS = (0.1, 0.25, 0.5, 0.9)
ALPHAS = (0.2, 0.25, 0.3)
FEWER = (0.25, 0.3)  # what the paper's claims are about; all a smaller scale has time for
LARGER = (0.6, 1.2)  # of alpha: beyond the paper's grid, for p = 0.1
ETAS = (5.0, 20.0)  # beside 10, where the paper found the best: p = 0.25, alpha = 0.3

SCALES = {
    "quick": Scale("digits", 64, {"logits": Budget(900, 300, 1), "authors": Budget(900, 300, 1)}),
    "standard": Scale(
        "mnist", 256, {"logits": Budget(4_680, 780, 2), "authors": Budget(2_820, 940, 1)}
    ),
    "paper": Scale(
        "mnist",
        2_000,
        {"logits": Budget(93_600, 4_680, 5), "authors": Budget(93_600, 4_680, 5)},
        authors_network=True,
    ),
}


def run(scale: str, tell: Tell, work: Path | None = None, client: Any = None) -> Outcome:
    """Run the cells, judge and draw at a named scale."""
    planned = cells(SCALES[scale])
    settings = {
        "p": list(PS),
        "alpha": sorted({cell.alpha for cell in planned} - {*LARGER}),
        "larger_alpha": list(LARGER),
        "eta": [ETA, *ETAS],
    }
    return outcome(
        "fig2", SCALES[scale], planned, draw=_draw, settings=settings, tell=tell,
        work=work, client=client,
    )  # fmt: skip


def judge(tables: Tables, settings: dict[str, Any]) -> list[Finding]:
    """Say what the curves of a file say."""
    return findings(curves_of(tables, "fig2.csv", settings))


def _draw(curves: list[Curve], caption: str) -> tuple[bytes, bytes]:
    return draw_fig2(curves, best_of_each_p(curves), caption)


def cells(scale: Scale) -> list[Cell]:
    """Return what is run: the paper's grid; with one seed also larger alphas and other etas."""
    grid, more = [], []
    alphas = ALPHAS if scale is SCALES["paper"] else FEWER
    for objective in scale.budgets:
        grid += [Cell(objective, p, alpha) for p in PS for alpha in alphas]
        more += [Cell(objective, 0.1, alpha) for alpha in LARGER]
        more += [Cell(objective, 0.25, 0.3, eta) for eta in ETAS]
    return [*seeded(grid, scale), *more]
