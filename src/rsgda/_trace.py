"""A picture of what an algorithm that finds its steps has done: steps, limits, signals."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

NEEDED = ("gradients", "p", "alpha", "eta", "L_theta", "L_v", "slack", "drift", "cosine", "probes")
OUTRUN = 1.5  # the part of m / b^2 that theta may step, as in `rsgda.Auto`


def columns(result: Any) -> dict[str, np.ndarray]:
    """Return what is drawn of a run, if it was recorded."""
    history = getattr(result, "history", {})
    if lacks := [name for name in NEEDED if name not in history]:
        raise ValueError(
            "`result` must be a run with `record=rsgda.record.steps()`, but its history lacks "
            f"{', '.join(lacks)}."
        )
    return {name: np.asarray(history[name], float) for name in NEEDED}


def draw_trace(axes: Sequence[Axes], column: dict[str, np.ndarray], colours: Sequence[str]) -> None:
    """Draw the steps with their limits, the drift, and the shares, into three axes."""
    k = column["gradients"]
    above, middle, below = axes
    with np.errstate(divide="ignore", invalid="ignore"):
        lines = (
            ("α", column["alpha"], colours[0], "-"),
            ("1 / L of θ", 1 / column["L_theta"], colours[0], ":"),
            ("3/2 m / b²", OUTRUN * column["slack"], colours[0], (0, (5, 3))),
            ("η", column["eta"], colours[1], "-"),
            ("1 / L of v", 1 / column["L_v"], colours[1], ":"),
        )
        root = np.sqrt(column["drift"])
    for label, values, colour, dash in lines:
        above.plot(k, _shown(values), color=colour, linestyle=dash, label=label)
    above.set_ylabel("step")
    middle.plot(k, _shown(root), color=colours[2], label="r, how far θ has drifted")
    middle.set_ylabel("distance")
    below.plot(k, column["cosine"], ".", color=colours[3], markersize=3, label="cos of ascents")
    below.plot(k, column["p"], color=colours[5], label="p")
    share = column["probes"] / np.maximum(k, 1)
    below.plot(k, share, color=colours[6], label="probes, of all gradients")
    below.set(ylim=(-1.05, 1.05), xlabel="gradients", xscale="log")
    for one in (above, middle):
        one.set(xscale="log", yscale="log")
    for one in axes:
        one.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    title = "The steps that were found, and what limits them"
    above.set_title(title, loc="left", fontsize="medium")


def _shown(values: np.ndarray) -> np.ndarray:
    """Leave out what a logarithmic axis has no place for."""
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)
