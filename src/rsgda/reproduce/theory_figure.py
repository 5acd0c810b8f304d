"""The figure of the theory: runs under their bounds, the growth with kappa, what p does."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from rsgda.plots import COLOURS, GREY, saved, tidy
from rsgda.reproduce.theory_runs import CASES, PS, REACHED, RULES, Curve, Reach

DEEPEST = 1e-3  # of a panel, relative to the smallest bound in it
DASHED = (0, (4, 2))
MARKS = ("o", "s", "^", "D")


def draw(curves: list[Curve], scaling: list[Reach], along_p: list[Reach]) -> tuple[bytes, bytes]:
    """Return the figure as PNG and as PDF."""
    figure = Figure(figsize=(10.5, 13), layout="constrained")
    panels = figure.subplots(4, 3).ravel()
    for panel, name in zip(panels, CASES, strict=False):
        draw_curves(panel, name, [curve for curve in curves if curve.corollary == name])
    for panel in panels[0:10:3]:
        panel.set_ylabel("E‖∇φ‖², smallest so far")
    # Where a corollary is slow there is room.
    panels[2].legend(*_key(), loc="lower left", ncols=2, frameon=False, fontsize="small")
    draw_scaling(panels[10], scaling)
    draw_along_p(panels[11], along_p)
    figure.suptitle("The theory on toy problems: runs under their bounds, and what κ and p do")
    figure.supxlabel(
        f"First ten panels: one for each corollary, κ = {CASES['exact'].toy.kappa:g}. Last two: "
        "RGDA with the steps of `exact`; dashed: the iterations that it prescribes.",
        fontsize="small",
        color=GREY,
    )
    return saved(figure, "png"), saved(figure, "pdf")


def _key() -> tuple[list[Line2D], list[str]]:
    """Return the lines of the panels of corollaries, with what they mean."""
    lines = [Line2D([], [], color=colour, linewidth=1.8) for colour in COLOURS[: len(PS)]]
    lines += [Line2D([], [], color=GREY, linestyle=dashes) for dashes in ("-", DASHED)]
    return lines, [*(f"p = {p:g}" for p in PS), "measured", "bound"]


def draw_curves(panel: Axes, name: str, curves: list[Curve]) -> None:
    """Draw the runs of one corollary and their bounds."""
    for curve, colour in zip(curves, COLOURS, strict=False):
        panel.plot(curve.k[1:], curve.smallest[1:], color=colour, linewidth=1.8)
        panel.plot(curve.k[1:], curve.bound[1:], color=colour, linestyle=DASHED, linewidth=1.2)
    bounds = np.concatenate([curve.bound[1:] for curve in curves])
    panel.set(xscale="log", yscale="log", title=name)
    panel.set_xlim(1, float(curves[0].k[-1]))
    panel.set_ylim(DEEPEST * bounds.min(), 3 * bounds.max())
    panel.set_xlabel("k, iterations")
    for eps in {curve.eps for curve in curves if curve.eps}:
        panel.axhline(eps**2, color=GREY, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
        panel.annotate(
            "ε²",
            (0.0, eps**2),
            xycoords=("axes fraction", "data"),
            xytext=(4, -3),
            textcoords="offset points",
            va="top",
            color=GREY,
        )
    tidy(panel)


def draw_scaling(panel: Axes, reaches: list[Reach]) -> None:
    """Draw iterations against kappa, one line for each way of choosing p."""
    for rule, colour, mark in zip(RULES, COLOURS, MARKS, strict=False):
        some = [reach for reach in reaches if reach.rule == rule]
        kappas = [reach.kappa for reach in some]
        label = "p = " + rule.replace("kappa^-2", "1/κ²").replace("kappa", "κ")
        counts = [reach.iterations.mean() for reach in some]
        panel.plot(kappas, counts, color=colour, marker=mark, markersize=5, label=label)
    kappas = np.array(sorted({reach.kappa for reach in reaches}))
    first = min(reach.iterations.mean() for reach in reaches if reach.kappa == kappas[0])
    panel.plot(kappas, 0.5 * first * (kappas / kappas[0]) ** 2, color=GREY, linestyle=(0, (1, 2)))
    panel.annotate(
        "slope 2",
        (float(kappas[-1]), float(0.5 * first * (kappas[-1] / kappas[0]) ** 2)),
        xytext=(0, -24),
        textcoords="offset points",
        ha="right",
        va="top",
        color=GREY,
    )
    panel.set(xscale="log", yscale="log", title="growth with κ, exact gradients")
    panel.set_xticks(kappas)
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("κ, condition number")
    panel.set_ylabel(f"iterations to ‖∇φ‖ ≤ {REACHED:g}")
    panel.legend(frameon=False, loc="upper left", fontsize="small")
    tidy(panel)


def draw_along_p(panel: Axes, reaches: list[Reach]) -> None:
    """Draw iterations against p at one kappa."""
    kappa = reaches[0].kappa
    ps = [reach.p for reach in reaches]
    counts = [reach.iterations.mean() for reach in reaches]
    planned = [reach.planned for reach in reaches]
    panel.axvspan(1 / kappa, 0.5, color=COLOURS[2], alpha=0.13, linewidth=0, zorder=0)
    panel.plot(ps, planned, color=COLOURS[0], linestyle=DASHED, label="prescribed")
    panel.plot(ps, counts, color=COLOURS[0], marker="o", markersize=5, label="measured")
    panel.set(xscale="log", yscale="log", title=f"effect of p, κ = {kappa:g}, exact gradients")
    panel.annotate(
        "1/κ ≤ p ≤ 1/2",
        ((0.5 / kappa) ** 0.5, 0.5),
        xycoords=("data", "axes fraction"),
        ha="center",
        color=COLOURS[2],
        fontsize="small",
    )
    panel.set_xlabel("p, probability of a descent")
    panel.set_ylabel(f"iterations to ‖∇φ‖ ≤ {REACHED:g}")
    panel.legend(frameon=False, loc="center left", fontsize="small")
    tidy(panel)
