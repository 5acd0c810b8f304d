"""Draw how well cells of known pairs were matched."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rsgda import plots
from rsgda.reproduce.paired_setting import CHANCE, METHODS


def draw(groups: Sequence[Any]) -> tuple[bytes, bytes]:
    """Return a figure as PNG and PDF: FOSCTTM and labels, a row of panels for each set."""
    sets = list(dict.fromkeys(group.title for group in groups))
    figure = Figure(figsize=(9.5, 1.1 + 1.9 * len(sets)), layout="constrained")
    axes = figure.subplots(len(sets), 2, squeeze=False, sharey=True)
    for (left, right), title in zip(axes, sets, strict=True):
        mine = [group for group in groups if group.title == title]
        for place, group in enumerate(mine):
            colour = plots.COLOURS[place]
            for panel, values in (
                (left, group.measures["foscttm"]),
                (right, 100 * group.measures["labels"]),
            ):
                panel.plot(values, np.full(len(values), place), "o", color=colour, alpha=0.45)
                panel.plot(
                    [values.mean()] * 2, [place - 0.3, place + 0.3], color=colour, linewidth=2
                )
            chosen = group.measures["foscttm"][group.chosen]
            left.plot(chosen, place, "o", markersize=10, markerfacecolor="none", color=colour)
        left.axvline(CHANCE, color="0.6", linewidth=1)
        bar = mine[0].bar.foscttm
        if bar != CHANCE:
            left.axvline(bar, color="0.2", linewidth=1, linestyle=(0, (4, 3)))
        left.set_title(title, loc="left", fontsize="medium")
        left.set_yticks(range(len(METHODS)), [method.title for method in METHODS])
        left.set(xlim=(0, 1), ylim=(len(METHODS) - 0.4, -0.6))
        right.set(xlim=(0, 103))
        for panel in (left, right):
            plots.tidy(panel)
    published = {group.bar.whose for group in groups if group.bar.foscttm != CHANCE}
    dashed = "".join(f"; dashed: {whose}" for whose in published)
    axes[-1][0].set_xlabel(f"FOSCTTM (grey: chance{dashed}; ring: lowest loss)")
    axes[-1][1].set_xlabel("labels right, %")
    figure.suptitle("Cells whose true pairs are known; each dot is a seed")
    return plots.saved(figure, "png"), plots.saved(figure, "pdf")
