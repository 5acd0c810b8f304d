"""The drawings of Figures 1 and 2."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from rsgda.plots import COLOURS, GREY, saved, tidy
from rsgda.reproduce.robust_cells import Curve
from rsgda.reproduce.robust_numbers import Group, accepted_slope, groups
from rsgda.reproduce.robust_setting import BATCH, ETA, KEPT, OBJECTIVES, Cell

DASHED = (0, (4, 2))
COLOUR_OF = dict(zip((0.1, 0.25, 0.5, 0.9), COLOURS, strict=False))
BESIDE = {1: COLOURS[0], 3: COLOURS[3]}  # ESGDA, apart from RSGDA of the same p


def draw_fig1(curves: list[Curve], caption: str) -> tuple[bytes, bytes]:
    """Draw ESGDA(m) beside RSGDA(1/(m + 1)): phi for each m, and accuracies."""
    objectives = _objectives(curves)
    loops = sorted({curve.cell.m for curve in curves if curve.cell.m is not None})
    figure, panels = _panels(len(objectives), len(loops) + 1)
    for row, objective in zip(panels, objectives, strict=True):
        for panel, m in zip(row, loops, strict=False):
            pair = groups(curves, objective=objective, p=1 / (m + 1))
            for group in pair:
                draw_phi(panel, group)
            panel.set_title(f"m = {m}, p = 1/{m + 1}", fontsize="medium", loc="left")
            _finish_phi(panel, pair)
        draw_accuracies(row[-1], groups(curves, objective=objective))
        row[-1].legend(framealpha=0.85, edgecolor="none", fontsize="small", loc="lower right")
        row[0].set_ylabel(f"φ(θ)\n{OBJECTIVES[objective].title}", fontsize="small")
    figure.suptitle("Figure 1: a coin in place of a loop, robust classification")
    return _finished(figure, caption)


def draw_fig2(curves: list[Curve], shown: list[Cell], caption: str) -> tuple[bytes, bytes]:
    """Draw phi for each p at its best alpha, accuracies, and how all cells ended."""
    objectives = _objectives(curves)
    figure, panels = _panels(len(objectives), 4)
    for row, objective in zip(panels, objectives, strict=True):
        mine = groups(curves, objective=objective)
        best = sorted((g for g in mine if g.cell in shown), key=lambda g: g.cell.p)
        for group in best:
            draw_phi(row[0], group)
        row[0].set_ylabel(f"φ(θ)\n{OBJECTIVES[objective].title}", fontsize="small")
        _finish_phi(row[0], best)
        draw_accuracies(row[1], best)
        draw_ends(row[2], mine)
        draw_rule(row[3], mine, OBJECTIVES[objective].floor)
        titles = ("φ, each p at its best α", "validation accuracy, %", "φ at the end, all α")
        for panel, title in zip(row, (*titles, "φ by the authors' evaluation"), strict=True):
            panel.set_title(title, fontsize="medium", loc="left")
    figure.suptitle("Figure 2: what α and p do, robust classification with RSGDA")
    return _finished(figure, caption)


def draw_floor(curves: list[Curve], caption: str) -> tuple[bytes, bytes]:
    """Draw phi as it is certified and as the authors evaluate it, for each seed."""
    figure = Figure(figsize=(5.2 * len(curves) + 1.5, 4.6), layout="constrained")
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    limit, cell = OBJECTIVES[curves[0].cell.objective].floor, curves[0].cell
    for panel, curve in zip(panels, curves, strict=True):
        # The start is far above.
        looks = {name: column[1:] for name, column in curve.looks.items()}
        phi, theirs = looks["phi"], looks["authors"]
        fill = {"color": COLOURS[0], "alpha": 0.18, "linewidth": 0}
        panel.plot(looks["epoch"], phi, color=COLOURS[0], linewidth=1.8, label="φ, maximised")
        panel.fill_between(looks["epoch"], phi, phi + looks["gap"], **fill)
        panel.plot(looks["epoch"], theirs, color=COLOURS[1], linestyle=DASHED, linewidth=1.2)
        taken = looks["authors_slope"] <= accepted_slope(curve.looks)
        for which, face, told in ((taken, COLOURS[1], ""), (~taken, "white", ", not accepted")):
            label = f"as the authors evaluate it{told}"
            panel.plot(
                looks["epoch"][which], theirs[which], "o", color=COLOURS[1], markersize=5,
                markerfacecolor=face, label=label if which.any() else None,
            )  # fmt: skip
        panel.axhline(limit, color=GREY, linewidth=1, linestyle=":")
        panel.annotate(
            f"no φ can be below {limit:.5g}", (0.02, limit), xycoords=("axes fraction", "data"),
            va="bottom", fontsize="x-small", color=GREY,
        )  # fmt: skip
        panel.set_xlabel("epochs")
        panel.set_title(f"seed {curve.cell.seed}", fontsize="medium", loc="left")
        panel.legend(framealpha=0.7, edgecolor="none", fontsize="small", loc="upper right")
        tidy(panel)
    low, high = panels[0].get_ylim()
    panels[0].set_ylim(low, high + 0.25 * (high - low))  # room for the legends
    panels[0].set_ylabel(f"φ(θ), {OBJECTIVES[cell.objective].title}", fontsize="small")
    figure.suptitle(f"Values that no φ can have: dense layers, p = {cell.p:g}, α = {cell.alpha:g}")
    return _finished(figure, caption)


def draw_phi(panel: Axes, group: Group) -> None:
    """Draw phi over epochs: the mean over seeds, and a band of all that it can be."""
    (low, high), style = group.band, _style(group.cell)
    panel.plot(group.epoch, group.phi, linewidth=1.8, **style)
    panel.fill_between(group.epoch, low, high, color=style["color"], alpha=0.18, linewidth=0)
    if not group.finished:
        panel.plot(group.epoch[-1], group.phi[-1], "x", color=style["color"], markersize=8)
    panel.set_xlabel("epochs")
    tidy(panel)


def certified_share(runs: Sequence[Group]) -> str | None:
    """Say for which share of samples phi is certified at the end."""
    shares = np.concatenate(
        [group.of("certified")[:, -1] for group in runs if group.finished] or [[]]
    )
    if not shares.size:
        return None
    low, high = f"{shares.min():.0%}", f"{shares.max():.0%}"
    return f"certified at the end: {low if low == high else f'{low} to {high}'}"


def draw_accuracies(panel: Axes, runs: Sequence[Group]) -> None:
    """Draw validation accuracies, and what the filter asks for."""
    for group in runs:
        accuracy, style = group.of("accuracy"), _style(group.cell)
        panel.plot(group.epoch, 100 * accuracy.mean(axis=0), linewidth=1.5, **style)
        panel.fill_between(
            group.epoch,
            100 * accuracy.min(axis=0),
            100 * accuracy.max(axis=0),
            color=style["color"],
            alpha=0.18,
            linewidth=0,
        )
    panel.axhline(100 * KEPT, color=GREY, linewidth=0.8, linestyle=":")
    panel.annotate(
        f"filter: {KEPT:.0%}", (0.01, 100 * KEPT), xycoords=("axes fraction", "data"), va="bottom",
        fontsize="small", color=GREY,
    )  # fmt: skip
    # From the first look on: before it a network guesses.
    lowest = min(float(np.nanmin(group.of("accuracy")[:, 1:])) for group in runs)
    panel.set_ylim(max(50, 10 * int(10 * lowest)), 100)
    panel.set_xlabel("epochs")
    panel.set_title("validation accuracy, %", fontsize="medium", loc="left")
    tidy(panel)


def draw_ends(panel: Axes, runs: Sequence[Group]) -> None:
    """Draw phi at the end against alpha: full marks are kept by the filter, crosses diverged."""
    for p, colour in COLOUR_OF.items():
        mine = [(g.cell.alpha, g) for g in runs if g.cell.p == p and g.cell.eta == ETA]
        line = sorted(mine, key=lambda pair: pair[0])
        if not line:
            continue
        ended = [(alpha, group) for alpha, group in line if group.finished]
        panel.plot([a for a, _ in ended], [g.end for _, g in ended], color=colour, linewidth=1)
        for alpha, group in ended:
            (low, high), kept = group.band, group.kept
            panel.plot([alpha, alpha], [low[-1], high[-1]], color=colour, linewidth=1)
            fill = colour if kept else "white"
            panel.plot(alpha, group.end, "o", color=colour, markerfacecolor=fill, markersize=6)
        lost = [alpha for alpha, group in line if not group.finished]
        top = panel.get_xaxis_transform()
        panel.plot(lost, [0.97] * len(lost), "x", color=colour, transform=top, markersize=8)
    # The larger ones are far off.
    alphas = sorted({g.cell.alpha for g in runs})
    panel.set_xscale("log")
    panel.set_xticks(alphas, [f"{alpha:g}" for alpha in alphas], fontsize="small")
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_ylim(top=panel.get_ylim()[1] + 0.2 * np.ptp(panel.get_ylim()))
    panel.set_xlabel("α")
    panel.annotate(
        f"full: over {KEPT:.0%}, hollow: below, ×: diverged", (0.98, 0.92), va="top", ha="right",
        xycoords="axes fraction", fontsize="x-small", color=GREY,
    )  # fmt: skip
    tidy(panel)


def draw_rule(panel: Axes, runs: Sequence[Group], floor: float) -> None:
    """Draw what the authors' evaluation takes for phi against what phi is."""
    found = [curve.looks for group in runs for curve in group.curves]
    ours = np.concatenate([looks["phi"] for looks in found])
    theirs = np.concatenate([looks["authors"] for looks in found])
    good = np.isfinite(theirs) & np.isfinite(ours)
    under = good & (theirs < floor - 1e-5)
    panel.plot(ours[good & ~under], theirs[good & ~under], ".", color=COLOURS[0], markersize=4)
    panel.plot(ours[under], theirs[under], ".", color=COLOURS[1], markersize=6)
    ends = [np.min(ours[good]), np.max(ours[good])]
    panel.plot(ends, ends, color=GREY, linewidth=0.8)
    panel.axhline(floor, color=COLOURS[1], linewidth=0.8, linestyle=":")
    panel.annotate(
        f"no φ can be below {floor:.5g}", (0.98, floor), xycoords=("axes fraction", "data"),
        ha="right", va="bottom", fontsize="x-small", color=COLOURS[1],
    )  # fmt: skip
    panel.set_xlabel("φ, maximised")
    panel.set_ylabel("φ, as the authors evaluate it", fontsize="small")
    tidy(panel)


def _style(cell: Cell) -> dict[str, Any]:
    if cell.m is not None:
        label = f"ESGDA(m = {cell.m}), α = {cell.alpha:g}"
        return {"color": BESIDE[cell.m], "linestyle": DASHED, "label": label}
    label = f"RSGDA(p = {cell.p:g}), α = {cell.alpha:g}"
    return {"color": COLOUR_OF[cell.p], "linestyle": "-", "label": label}


def _objectives(curves: list[Curve]) -> list[str]:
    there = {curve.cell.objective for curve in curves}
    return [name for name in OBJECTIVES if name in there]


def _panels(rows: int, columns: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(3.4 * columns, 3.3 * rows + 0.6), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _finish_phi(panel: Axes, runs: Sequence[Group]) -> None:
    """Give a panel with curves of phi its axes and its legend."""
    low = min(float(np.nanmin(group.band[0])) for group in runs)
    high = max(float(np.nanmax(group.band[1])) for group in runs)
    if low > 0 and high > 3 * low:
        # The first fall would else leave no room for what comes after.
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        panel.yaxis.set_minor_locator(NullLocator())
    panel.set_ylim(top=high * (high / low) ** 0.35 if panel.get_yscale() == "log" else None)
    legend = panel.legend(
        framealpha=0.7, edgecolor="none", fontsize="small", loc="upper right",
        title=certified_share(runs), title_fontsize="x-small", alignment="left",
    )  # fmt: skip
    legend.get_title().set_color(GREY)
    _with_gradients(panel, runs)


def _with_gradients(panel: Axes, runs: Sequence[Group]) -> None:
    """Show gradient counts along the top."""
    looks = runs[0].curves[0].looks
    per_epoch = looks["gradients"][-1] / looks["epoch"][-1]
    top = panel.secondary_xaxis("top", functions=(lambda e: e * per_epoch, lambda g: g / per_epoch))
    top.set_xlabel(f"gradients, of {BATCH} samples each", fontsize="small", color=GREY)
    top.tick_params(labelsize="small", colors=GREY)


def _finished(figure: Figure, caption: str) -> tuple[bytes, bytes]:
    figure.supxlabel(
        textwrap.fill(caption, round(14 * figure.get_figwidth())), fontsize="small", color=GREY
    )
    return saved(figure, "png"), saved(figure, "pdf")
