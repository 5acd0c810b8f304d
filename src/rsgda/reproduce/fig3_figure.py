"""Draw Figure 3: one embedding, four times of a run; as in the paper, and by cell type."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rsgda import plots

OF_X, OF_Y = plots.COLOURS[4], plots.COLOURS[1]


def draw(
    x: np.ndarray,
    mapped: Sequence[np.ndarray],
    stages: Sequence[Any],
    types: tuple[np.ndarray, np.ndarray] | None,
    name: str,
    foot: str,
) -> dict[str, bytes]:
    """Return the files of both figures; the second only where types are known.

    Args:
        x: places of the cells of mu in the plane.
        mapped: those of the cells that are mapped, at each stage.
        stages: the times.
        types: of the cells of both.
        name: of the run.
        foot: a line below.
    """
    plain = _figure(f"Figure 3: mu and nu_theta along {name}", stages, foot)
    for axis, points in zip(plain.axes, mapped, strict=True):
        _dots(axis, x, OF_X, "mu", size=4)
        _dots(axis, points, OF_Y, "nu_theta", size=6)
    _legend(plain)
    found = {"fig3.png": plots.saved(plain, "png"), "fig3.pdf": plots.saved(plain, "pdf")}
    if types is None:
        return found
    coloured = _figure(f"By cell type: mu pale, nu_theta full; {name}", stages, foot)
    of_x, of_y = types
    kinds = [*np.unique(of_y), *(kind for kind in np.unique(of_x) if kind not in of_y)]
    for axis, points in zip(coloured.axes, mapped, strict=True):
        for place, kind in enumerate(kinds):
            other = kind in ("", "other")
            colour = "0.8" if other else plots.COLOURS[place % len(plots.COLOURS)]
            title = {"": "type not known", "other": "other types"}.get(kind) or kind
            _dots(axis, x[of_x == kind], colour, title, size=4, alpha=0.3)
        for place, kind in enumerate(kinds):
            colour = plots.COLOURS[place % len(plots.COLOURS)]
            _dots(axis, points[of_y == kind], colour, kind, size=7)
    _legend(coloured)
    return found | {
        "fig3-types.png": plots.saved(coloured, "png"),
        "fig3-types.pdf": plots.saved(coloured, "pdf"),
    }


def _figure(title: str, stages: Sequence[Any], foot: str) -> Figure:
    figure = Figure(figsize=(11, 3.9), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(stages), sharex=True, sharey=True))
    for axis, stage in zip(axes, stages, strict=True):
        axis.set_title(stage.title, fontsize="medium")
        axis.set(xticks=[], yticks=[])
        for spine in axis.spines.values():
            spine.set_color("0.85")
    figure.suptitle(title)
    figure.supxlabel(foot, fontsize="x-small", color=plots.GREY)
    return figure


def _dots(
    axis: Axes, points: np.ndarray, colour: str, label: str, *, size: float, alpha: float = 0.8
) -> None:
    if len(points):
        axis.scatter(
            points[:, 0], points[:, 1], s=size, color=colour, alpha=alpha, linewidths=0,
            label=label, rasterized=True,
        )  # fmt: skip


def _legend(figure: Figure) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    one_each = dict(zip(labels, handles, strict=True))
    figure.legend(
        one_each.values(), one_each.keys(), loc="outside right upper", frameon=False,
        fontsize="small", markerscale=2.5,
    )  # fmt: skip
