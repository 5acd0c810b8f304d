"""A chart of all ratios: how long rsgda takes in units of its rival's time."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

MET, MISSED, OPEN = "#2a7f62", "#c1443c", "#7a8794"


def draw(rows: list[dict[str, Any]], file: Path, *, caption: str) -> None:
    """Draw the lines that are ratios; a throughput is turned into a time."""
    ratios = [row for row in map(as_time, rows) if row is not None]
    if not ratios:
        return
    figure, axes = plt.subplots(figsize=(9, 1.4 + 0.32 * len(ratios)), layout="constrained")
    for place, row in enumerate(ratios):
        colour = {"met": MET, "MISSED": MISSED}.get(row["verdict"], OPEN)
        # A bar from one: to the left is faster, to the right slower.
        axes.barh(place, row["median"] - 1, left=1, color=colour, height=0.62)
        axes.plot([row["low"], row["high"]], [place, place], color="black", linewidth=1)
        if row["goal"] is not None:
            axes.plot([row["goal"]] * 2, [place - 0.42, place + 0.42], color="black", linewidth=2)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(ratios)), [f"{row['label']}  {row['shown']}" for row in ratios])
    axes.invert_yaxis()
    axes.set_xlabel("time of rsgda / time of the rival; thick mark: goal, thin line: quartiles")
    axes.set_title("rsgda against its rivals, taking turns; left of 1 is faster", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.text(0.99, 0.005, caption, ha="right", fontsize=7, color="grey")
    figure.savefig(file, dpi=130)
    plt.close(figure)


def as_time(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return a ratio as one of times, or None if it is none."""
    if row["unit"] != "x":
        return None
    goal = row["most"]
    median, low, high = row["median"], row["low"], row["high"]
    if row["least"] is not None:
        goal, median, low, high = 1 / row["least"], 1 / median, 1 / high, 1 / low
    label, shown = row["name"], f"{median:.3g} ×"
    return {
        "label": label, "shown": shown, "median": median, "low": low, "high": high, "goal": goal,
        "verdict": row["verdict"],
    }  # fmt: skip
