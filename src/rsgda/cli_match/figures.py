"""Figures of a match: its loss, its cells in the plane, its confusion matrix."""

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rsgda import plots
from rsgda.singlecell import tables
from rsgda.singlecell.embedding import some, tsne
from rsgda.singlecell.matcher import Matcher

MOST = 1_000  # cells of a side that are drawn
MOST_LABELS = 20  # that have colours of their own
SIDES = (plots.COLOURS[1], plots.COLOURS[0])  # of the source and of the target


def curve(history: dict[str, Any]) -> Figure:
    """Draw the loss, with its certificate."""
    figure = Figure(figsize=(8.5, 3.4), layout="constrained")
    axes = figure.subplots()
    W, gap = np.asarray(history["W"]), np.asarray(history["gap"])
    axes.fill_between(history["step"], W, W + gap, color=plots.COLOURS[0], alpha=0.25, linewidth=0)
    axes.plot(history["step"], W, color=plots.COLOURS[0], linewidth=2)
    axes.set(xlabel="step", ylabel="W_eps")
    plots.tidy(axes)
    return figure


def cells(matcher: Matcher, target: Any, label_key: str | None) -> tuple[Figure, str]:
    """Draw both sides, each by itself before and together after; say what is to be seen."""
    source = matcher.adata
    mine, theirs = some(source.n_obs, MOST), some(target.n_obs, MOST)
    of, to = matcher.settings["source"], matcher.settings["target"]
    before = _points(matcher.source, source, of, mine)
    there = _points(matcher.target, target, to, theirs)
    width = len(matcher.outputs.mean)
    made = matcher.outputs.leave(np.asarray(matcher.solved.y)[mine, :width])
    (alone,), (also,) = tsne([before]), tsne([there])
    after = tsne([made, there])
    labelled = label_key is not None
    rows = 1 + labelled
    figure = Figure(figsize=(9.5, 3.3 * rows), layout="constrained")
    axes = figure.subplots(rows, 3, squeeze=False)
    titles = ("before: source", "before: target", "after: both")
    placed = ((alone, None), (None, also), (after[0], after[1]))
    for axis, title, pair in zip(axes[0], titles, placed, strict=True):
        _panel(axis, title)
        # The larger cloud lies below.
        for points, colour, name in zip(pair[::-1], SIDES[::-1], ("target", "source"), strict=True):
            if points is not None:
                _dots(axis, points, colour, name)
    axes[0][2].legend(fontsize="small", markerscale=2)
    says = (
        f"t-SNE of at most {MOST:,} cells of a side: each by itself, and both in the space of the "
        "target. Sides that cover each other after the match are mixed."
    )
    if label_key is not None:
        own_of_source = label_key in source.obs
        column = label_key if own_of_source else "rsgda_label"
        of_source = tables.read("source", source, of["layer"], of["obsm"])
        given = of_source.column("label_key", column)[mine]
        table = tables.read("target", target, to["layer"], to["obsm"])
        own = table.column("label_key", label_key)[theirs]
        by_label = (
            ((alone, given),),
            ((also, own),),
            ((after[1], own), (after[0], given)),
        )
        colours = _colours(np.r_[given, own])
        for axis, title, parts in zip(axes[1], titles, by_label, strict=True):
            _panel(axis, title if own_of_source else title.replace("source", "source, as labelled"))
            for points, labels in parts:
                for label, colour in colours.items():
                    _dots(axis, points[labels == label], colour, label or "no label")
        says += (
            " Below the same cells, each by its own label: those that lie on cells of another "
            "colour were taken for these."
            if own_of_source
            else " Below the same cells by label. The source has none of its own: its colours are "
            "those of the cells that it came to lie on, and agree with them whether the match is "
            "right or not."
        )
        handles, labels = axes[1][2].get_legend_handles_labels()
        handles = dict(zip(labels, handles, strict=True))
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False,
            fontsize="small", markerscale=2,
        )  # fmt: skip
    return figure, says


def confusion(labels: Any, matrix: np.ndarray) -> Figure:
    """Draw the shares of each label that became each other."""
    size = len(labels)
    side = max(4.0, min(12.0, 0.42 * size + 2))
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    axes = figure.subplots()
    total = matrix.sum(axis=1, keepdims=True)
    shares = matrix / np.where(total > 0, total, 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="label given", ylabel="true label")
    labels = [_as_text(label) for label in labels]
    axes.set_xticks(range(size), labels, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(size), labels)
    if size <= MOST_LABELS:
        for i, j in np.argwhere(shares >= 0.005):
            colour = "white" if shares[i, j] > 0.55 else "0.15"
            axes.text(
                j, i, f"{100 * shares[i, j]:.0f}", ha="center", va="center", color=colour,
                fontsize="small",
            )  # fmt: skip
    figure.colorbar(image, label="share of the row", shrink=0.8)
    return figure


def _points(preprocessing: Any, data: Any, of: dict[str, Any], places: np.ndarray) -> np.ndarray:
    table = tables.read("cells", data, of["layer"], of["obsm"])
    return preprocessing.apply(table.matrix[places])


def _panel(axis: Axes, title: str) -> None:
    axis.set_title(title, fontsize="medium")
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set_color("0.85")


def _dots(axis: Axes, points: np.ndarray, colour: Any, label: str) -> None:
    # Thousands of dots as a picture: as shapes they would make the page heavy.
    axis.scatter(
        points[:, 0], points[:, 1], s=5, color=colour, alpha=0.7, linewidths=0,
        label=_as_text(label), rasterized=True,
    )  # fmt: skip


def _as_text(label: str) -> str:
    """Return a label that matplotlib neither reads as mathematics nor hides from a legend."""
    text = str(label).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _colours(labels: np.ndarray) -> dict[str, Any]:
    """Return a colour for each label, the most frequent first; the rest are grey."""
    names, counts = np.unique(labels, return_counts=True)
    names = names[np.argsort(-counts, kind="stable")]
    named = [name for name in names if name]
    few = plots.COLOURS[:-1]
    palette: Any = few if len(named) <= len(few) else colormaps["tab20"](range(MOST_LABELS))
    found = {name: palette[i] if i < len(palette) else "0.6" for i, name in enumerate(named)}
    return ({"": "0.85"} if "" in names else {}) | found
