"""The drawings of Figures 4 and 5."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from rsgda.plots import COLOURS, GREY, saved, tidy
from rsgda.reproduce.match_cells import Curve
from rsgda.reproduce.match_numbers import ERRORS, Group
from rsgda.reproduce.match_setting import BATCH, Method

DASHED = (0, (4, 2))
COLOUR_OF = dict(zip((0.25, 0.5, 0.9, 0.95, 0.99), COLOURS, strict=False))
OF_SINKHORN = {1: COLOURS[6], 5: COLOURS[1], 10: COLOURS[0]}


def draw(title: str, runs: list[Group], tuned: list[Curve], caption: str) -> tuple[bytes, bytes]:
    """Draw W over epochs and over gradients, how it ended on all rows, and the tuning."""
    figure = Figure(figsize=(11, 8), layout="constrained")
    (epochs, gradients), (ends, tuning) = figure.subplots(2, 2)
    draw_curves(epochs, runs, "epoch", "epochs of x")
    draw_curves(gradients, runs, "gradients", f"gradients, of {BATCH} samples each")
    # Methods that count more gradients for a minibatch go on; what is compared ends here.
    gradients.set_xlim(0, min(group.of("gradients")[0, -1] for group in runs))
    handles, labels = epochs.get_legend_handles_labels()
    epochs.legend(handles, labels, framealpha=0.7, edgecolor="none", fontsize="small")
    draw_ends(ends, runs)
    draw_tuning(tuning, tuned, runs)
    figure.suptitle(title)
    figure.supxlabel(textwrap.fill(caption, 150), fontsize="small", color=GREY)
    return saved(figure, "png"), saved(figure, "pdf")


def draw_curves(panel: Axes, runs: Sequence[Group], over: str, label: str) -> None:
    """Draw W of the subset: means over seeds, and bands of all that it can be."""
    lowest, highest = [], []
    for group in runs:
        at, (low, high), style = group.of(over)[0], group.band, style_of(group.method)
        middle = (group.of("W") + group.of("gap") / 2).mean(axis=0)
        panel.plot(at, middle, linewidth=1.6, label=group.name, **style)
        panel.fill_between(at, low, high, color=style["color"], alpha=0.15, linewidth=0)
        if not group.finished:
            panel.plot(at[-1], middle[-1], "x", color=style["color"], markersize=8)
        # From the first look on: before it nothing was learnt.
        lowest.append(np.nanmin(low[1:], initial=np.inf))
        highest.append(np.nanmax(high[1:], initial=-np.inf))
    bottom, top = min(lowest), max(highest)
    room = 0.05 * (top - bottom)
    error = ERRORS * float(np.nanmean(runs[0].of("error")[:, -1]))
    panel.set_ylim(bottom - room, top + room)
    panel.errorbar(
        0.97, bottom + error, error, transform=panel.get_yaxis_transform(), color=GREY, capsize=3,
        linewidth=1,
    )  # fmt: skip
    panel.set_xlabel(label)
    panel.set_ylabel("$W_ε$ on the subset")
    tidy(panel)


def draw_ends(panel: Axes, runs: Sequence[Group]) -> None:
    """Draw how each method ended on all rows of x: every seed, and the mean."""
    for place, group in enumerate(runs):
        end, colour = group.end(), style_of(group.method)["color"]
        panel.plot(end.W + end.gap / 2, [place] * len(end.W), "o", color=colour, alpha=0.4)
        if np.isfinite(end.mean):
            panel.errorbar(end.mean, place, xerr=end.half, color=colour, marker="|", capsize=3)
    panel.set_yticks(range(len(runs)), [group.name for group in runs], fontsize="small")
    panel.invert_yaxis()
    panel.set_xlabel(f"$W_ε$ on all rows at the end; bars: {ERRORS:g} standard errors and the gap")
    tidy(panel)


def draw_tuning(panel: Axes, tuned: Sequence[Curve], runs: Sequence[Group]) -> None:
    """Draw W at the end of the tuning against alpha; what was chosen is full, × diverged."""
    chosen = {group.method: group.alpha for group in runs}
    for method in chosen:
        mine = sorted((c for c in tuned if c.cell.method == method), key=lambda c: c.cell.alpha)
        style, ended = style_of(method), [curve for curve in mine if curve.finished]
        panel.plot(
            [c.cell.alpha for c in ended], [c.looks["W"][-1] for c in ended], linewidth=1, **style
        )
        for curve in ended:
            full = curve.cell.alpha == chosen[method]
            panel.plot(
                curve.cell.alpha, curve.looks["W"][-1], "o", color=style["color"],
                markerfacecolor=style["color"] if full else "white", markersize=5,
            )  # fmt: skip
        lost = [curve.cell.alpha for curve in mine if not curve.finished]
        panel.plot(
            lost, [0.97] * len(lost), "x", color=style["color"],
            transform=panel.get_xaxis_transform(),
        )  # fmt: skip
    panel.set_xscale("log")
    alphas = sorted({curve.cell.alpha for curve in tuned})
    panel.set_xticks(alphas, [f"{alpha:g}" for alpha in alphas])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel("α (full: chosen, ×: diverged)")
    panel.set_ylabel("$W_ε$ at the end of the tuning")
    tidy(panel)


def style_of(method: Method) -> dict[str, Any]:
    """Return the colour and the dashes of a method."""
    if method.p is not None:
        return {"color": COLOUR_OF[method.p], "linestyle": "-"}
    colour = OF_SINKHORN.get(method.m_sin or 0, GREY)
    return {"color": colour, "linestyle": "-" if method.warm else DASHED}
