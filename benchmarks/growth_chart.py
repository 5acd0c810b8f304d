"""The picture and the table of growth: what was measured at each size, and theory's slope."""

import csv
import textwrap
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")

from chart import ticks_between
from matplotlib import pyplot as plt

IN_A_ROW = 4
Curve = dict[str, Any]  # a `growth.Axis`, with the values of all rounds


def draw(curves: list[Curve], file: Path, *, caption: str) -> None:
    """Draw what was measured, and the slope that theory has through the largest size."""
    deep = -(-len(curves) // IN_A_ROW)
    figure, places = plt.subplots(
        deep, min(IN_A_ROW, len(curves)), figsize=(11, 2.9 * deep), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for place in places.flat[len(curves) :]:
        place.set_visible(False)
    for place, curve in zip(places.flat, curves, strict=False):
        _curve(place, curve)
    figure.suptitle("How the cost grows: measured, and the slope that theory has", weight="bold")
    figure.supxlabel(caption, fontsize=7, color="grey", x=0.99, ha="right")
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _curve(place: Any, curve: Curve) -> None:
    sizes, values = np.array(curve["sizes"]), np.array(curve["values"])
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
    expected = curve["expected"]
    line = median[-1] * (sizes / sizes[-1]) ** expected
    found = np.median([np.polyfit(np.log(sizes), np.log(row), 1)[0] for row in values])
    place.plot(sizes, line, "--", color="grey", label=f"theory: {expected:g}")
    place.plot(sizes, median, "o-", color="#1f6fb2", label=f"measured: {found:.2f}")
    place.fill_between(sizes, low, high, color="#1f6fb2", alpha=0.25, linewidth=0)
    place.set(xscale="log", yscale="log", xlabel=curve["title"], ylabel=curve["cost"])
    # As wide as it is high in decades, or nearly: a slope of 0 then looks like one.
    decades = np.log10(sizes[-1] / sizes[0])
    middle = np.sqrt(line.min() * line.max())
    half = max(10 ** (decades / 2), 1.3 * max(line.max(), high.max()) / middle)
    place.set_ylim(middle / half, middle * half)
    place.set_title("\n".join(textwrap.wrap(curve["why"], 34)), fontsize=8, color="grey")
    place.set_xticks(sizes, [_short(size) for size in sizes])
    ticks = ticks_between(*place.get_ylim())
    place.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
    place.minorticks_off()
    place.legend(title="exponent", fontsize=8, title_fontsize=8, frameon=False)


def _short(size: int) -> str:
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit:
            return f"{size / unit:g}{name}"
    return f"{size}"


def table(curves: list[Curve], file: Path) -> None:
    """Write what was measured in each round."""
    with file.open("w", newline="") as opened:
        rows = csv.writer(opened, lineterminator="\n")
        rows.writerow(["axis", "size", "round", "value", "unit", "exponent_in_theory"])
        for curve in curves:
            for (turn, place), value in np.ndenumerate(curve["values"]):
                size, unit, theory = curve["sizes"][place], curve["cost"], curve["expected"]
                rows.writerow([curve["title"], size, turn, f"{value:.4g}", unit, theory])
