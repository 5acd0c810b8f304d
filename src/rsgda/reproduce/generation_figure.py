"""The drawing of generated digits: divergences over gradients, and a sheet of samples."""

import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, StrMethodFormatter

from rsgda.plots import COLOURS, GREY, saved, tidy
from rsgda.reproduce.generation_cells import SHEET, Curve, P
from rsgda.reproduce.generation_setting import BATCH, EPSILON, Images, Scale

COLOUR_OF = {"rsgda": COLOURS[0], "sinkhorn": COLOURS[2], "minibatch": COLOURS[1]}
DASHED = (0, (4, 2))


def draw(curves: list[Curve], images: Images, scale: Scale) -> tuple[bytes, bytes]:
    """Draw the divergences on the left, images of the first seed of each method on the right."""
    figure = Figure(figsize=(11.5, 5.4), layout="constrained")
    kinds = {curve.cell.method.kind: None for curve in curves}
    parts: Any = figure.subfigures(1, 2, width_ratios=(1, 1.1))
    left, right = parts
    draw_divergence(left.subplots(), curves, scale)
    panels = right.subplots(len(kinds) + 1, 1)
    draw_sheet(panels[0], images.held_out[:SHEET], images.side, "held-out images")
    for panel, kind in zip(panels[1:], kinds, strict=True):
        first = next(curve for curve in curves if curve.cell.method.kind == kind)
        draw_sheet(panel, first.looks["sheet"], images.side, first.cell.method.title)
    data = {"digits": "scikit-learn's digits", "mnist": "MNIST"}[scale.data]
    figure.suptitle("Generated digits: one potential for each image, or minibatches")
    figure.supxlabel(
        textwrap.fill(
            f"{data}, {len(images.y):,} targets, ε = {EPSILON[scale.data]:g}, b = {BATCH}, "
            f"p = {P:g}, Adam. Lines: mean of {scale.seeds} seeds; bands: all seeds, and what "
            f"the divergence can be. Divergence: debiased, of {scale.rows:,} generated from "
            f"{len(images.held_out):,} held-out images. Dashed: as if iterations of Sinkhorn "
            "between minibatches were no gradients.",
            150,
        ),
        fontsize="small",
        color=GREY,
    )
    return saved(figure, "png"), saved(figure, "pdf")


def draw_divergence(panel: Axes, curves: list[Curve], scale: Scale) -> None:
    """Draw the divergence of each method over gradients."""
    for kind, colour in COLOUR_OF.items():
        mine = [curve for curve in curves if curve.cell.method.kind == kind]
        if not mine:
            continue
        label = f"{mine[0].cell.method.title}, Adam {mine[0].cell.alpha:g}"
        _line(panel, mine, "gradients", colour, "-", label)
        if kind == "minibatch":
            _line(panel, mine, "steps", colour, DASHED, f"{label}, iterations free")
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.yaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlim(0, scale.gradients)
    panel.set_xlabel(f"gradients, of {BATCH} samples each")
    panel.set_ylabel("divergence from held-out images")
    panel.legend(framealpha=0.7, edgecolor="none", fontsize="small")
    tidy(panel)


def _line(
    panel: Axes, curves: list[Curve], over: str, colour: str, dashes: object, label: str
) -> None:
    looks = min(len(curve.looks["low"]) for curve in curves)
    low, high = (np.array([c.looks[name][:looks] for c in curves]) for name in ("low", "high"))
    counts = curves[0].looks[over][:looks]
    panel.plot(
        counts,
        ((low + high) / 2).mean(axis=0),
        color=colour,
        linestyle=dashes,
        label=label,
        marker=".",
    )
    panel.fill_between(
        counts, low.min(axis=0), high.max(axis=0), color=colour, alpha=0.15, linewidth=0
    )


def draw_sheet(panel: Axes, images: np.ndarray, side: int, title: str) -> None:
    """Draw images in two rows."""
    tiles = np.asarray(images).reshape(-1, side, side)
    across = (len(tiles) + 1) // 2
    sheet = np.ones((2 * (side + 1), across * (side + 1)))
    for place, tile in enumerate(tiles):
        row, column = divmod(place, across)
        at = row * (side + 1), column * (side + 1)
        sheet[at[0] : at[0] + side, at[1] : at[1] + side] = 1 - tile
    panel.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    panel.set_title(title, fontsize="small", loc="left")
    panel.axis("off")
