"""The figure of the toy comparison."""

import io
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from rsgda.reproduce.toy_numbers import Pair

# Blue and vermilion of Okabe and Ito, apart for all kinds of colour vision and in print.
RSGDA_STYLE = {"color": "#0072B2", "linestyle": "-", "linewidth": 1.8}
ESGDA_STYLE = {"color": "#D55E00", "linestyle": (0, (4, 2)), "linewidth": 1.8}
BAND = (0.1, 0.9)


def draw(pairs: list[Pair]) -> tuple[bytes, bytes]:
    """Return the figure as PNG and as PDF."""
    figure = Figure(figsize=(10, 3.9), layout="constrained")
    panels = figure.subplots(1, len(pairs), sharex=True, sharey=True, squeeze=False)[0]
    for panel, pair in zip(panels, pairs, strict=True):
        draw_pair(panel, pair)
        panel.set_xlabel("stochastic gradients")
    panels[0].set_ylabel("φ(θ), the loss maximised over v")
    figure.suptitle(
        "A coin in place of a loop: RSGDA and ESGDA on the toy problem at equal gradient counts"
    )
    figure.supxlabel(
        f"Lines: mean of {len(pairs[0].rsgda)} seeds. Bands: 10 to 90 % of the seeds. "
        "Stairs: ESGDA descends once in m + 1 gradients.",
        fontsize="small",
        color="0.35",
    )
    # No dates inside, so that equal numbers give equal files.
    return _saved(figure, "png", {}), _saved(figure, "pdf", {"CreationDate": None})


def draw_pair(panel: Axes, pair: Pair) -> None:
    """Draw both curves with their bands."""
    for name, phi, style in (
        (f"RSGDA, p = 1/{pair.m + 1}", pair.rsgda, RSGDA_STYLE),
        (f"ESGDA, m = {pair.m}", pair.esgda, ESGDA_STYLE),
    ):
        low, high = np.quantile(phi, BAND, axis=0)
        panel.fill_between(pair.counts, low, high, color=style["color"], alpha=0.22, linewidth=0)
        panel.plot(pair.counts, phi.mean(axis=0), label=name, **style)
    # In logarithms of both, the first cycles of ESGDA and the long run show in one panel.
    panel.set(xscale="log", yscale="log", xlim=(1, pair.counts[-1]))
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    panel.grid(which="major", color="0.9", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, loc="lower left")


def _saved(figure: Figure, kind: str, metadata: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    return buffer.getvalue()
