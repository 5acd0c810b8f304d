"""A chart of all contests: how long rsgda takes in units of its rival's time."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

MET, MISSED, OPEN = "#2a7f62", "#c1443c", "#7a8794"
COLOURS = {"met": MET, "missed": MISSED, "": OPEN}
MANY = 2_000  # of the ends of an axis, if 1, 2 and 5 do not all have room on it
HEADING, GAP = 1.0, 0.35  # heights of a group's title and of the room before it, in bars


def draw(rows: list[dict[str, Any]], file: Path, *, titles: dict[str, str], caption: str) -> bool:
    """Draw the lines that have a rival and a goal, suite by suite; say whether there are any."""
    shown = [(row["suite"], time) for row in rows if (time := as_time(row)) is not None]
    if not shown:
        return False
    places, groups = arranged([suite for suite, _ in shown])
    low, high = limits([time for _, time in shown])
    figure, axes = plt.subplots(figsize=(8.4, 1.6 + 0.25 * places[-1]), layout="constrained")
    for place, (_, time) in zip(places, shown, strict=True):
        _bar(axes, place, time)
    for suite, place in groups.items():
        axes.text(low, place, f" {titles[suite]}", weight="bold", va="center")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set(xlim=(low, high), ylim=(places[-1] + 0.8, -1.2))
    ticks = ticks_between(low, high)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks(places, [f"{time['name']}  |  {time['against']}" for _, time in shown])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.text(0.98, -0.8, "← rsgda is faster", ha="right", va="center", color=MET)
    axes.text(0.97 * low, -0.8, "what is run  |  rival", ha="right", va="center", color="grey")
    axes.set_xlabel("time of rsgda, the rival's being 1")
    figure.suptitle("How long rsgda takes beside its rivals", weight="bold")
    axes.set_title(caption, fontsize=8, color="grey")
    axes.spines[["top", "right", "left"]].set_visible(False)
    _legend(figure, [time["verdict"] for _, time in shown])
    figure.savefig(file, dpi=130)
    plt.close(figure)
    return True


def as_time(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return a contest with a rival as a ratio of times, or None if it is none."""
    if not row["against"] or not row["goal"]:
        return None
    times = {name: row[name] for name in ("name", "against", "verdict", "low", "median", "high")}
    if row["least"] is None:
        return times | {"goal": row["most"]}
    return times | {
        # Of a speed, the slowest round is the one that took longest.
        "name": row["name"].rpartition(",")[0], "goal": 1 / row["least"],
        "low": 1 / row["high"], "median": 1 / row["median"], "high": 1 / row["low"],
    }  # fmt: skip


def arranged(suites: list[str]) -> tuple[list[float], dict[str, float]]:
    """Return where each bar goes, from above, and the title of each group of them."""
    at, places, groups = -1.0, [], {}
    for suite in suites:
        if suite not in groups:
            at += 1.0 + (GAP if groups else 0.0)
            groups[suite] = at
        at += HEADING
        places.append(at)
    return places, groups


def limits(times: list[dict[str, Any]]) -> tuple[float, float]:
    """Return ends of the axis between which all is seen, 1 in any case."""
    ends = [time[name] for time in times for name in ("low", "high", "goal")]
    return 0.7 * min(1.0, *ends), 1.6 * max(1.0, *ends)


def ticks_between(low: float, high: float) -> list[float]:
    """Return round numbers for a logarithmic axis, fewer where they would stand too close."""
    steps = (1, 2, 5) if high / low < MANY else (1,)
    ticks = np.outer(10.0 ** np.arange(-8, 8), steps).ravel()
    return [float(tick) for tick in ticks if low < tick < high]


def _bar(axes: Any, place: float, time: dict[str, Any]) -> None:
    """Draw a bar from one: to the left is faster, to the right slower."""
    axes.barh(place, time["median"] - 1, left=1, color=COLOURS[time["verdict"]], height=0.7)
    axes.plot([time["low"], time["high"]], [place, place], color="black", linewidth=1)
    axes.plot([time["goal"]] * 2, [place - 0.36, place + 0.36], color="black", linewidth=2.2)
    end = max(1.0, time["high"], time["goal"])
    axes.text(end * 1.04, place, said(time["median"]), va="center", fontsize=8)


def said(ratio: float) -> str:
    """Say a ratio as one would."""
    if ratio < 0.1:
        return f"1/{1 / ratio:.0f}"
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def _legend(figure: Any, verdicts: list[str]) -> None:
    words = {"met": "goal met", "missed": "goal missed", "": "no verdict"}
    handles: list[Any] = [
        Patch(color=COLOURS[verdict], label=words[verdict])
        for verdict in words
        if verdict in verdicts
    ]
    handles.append(Line2D([], [], color="black", linewidth=2.2, label="goal"))
    handles.append(Line2D([], [], color="black", linewidth=1, label="quartiles"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
