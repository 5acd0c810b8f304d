"""What the contest came to: a table with the bad cases first, numbers, a picture."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from auto_contest import AUTO_SEEDS, CONTESTANTS, MOST, SEEDS, ratio, seeds_of
from auto_reference import KINDS, Reference
from matplotlib.figure import Figure

from rsgda.reproduce.runner import write_aside

NEAR = 3.0  # times the reference: what counts as near it
COLUMNS = (
    "task", "family", "contestant", "kind", "ratio", "gradients_of_reference", "seeds", "failed",
    "diverged", "refused",
)  # fmt: skip
Rows = list[dict[str, Any]]


def rows(
    references: dict[str, dict[str, Reference]],
    found: dict[str, dict[str, Any]],
    *,
    quick: bool,
) -> Rows:
    """Return a row for each task, contestant and kind."""
    made: Rows = []
    for task, contestants in found.items():
        for name, ran in contestants.items():
            if ran == "":
                continue
            seeds = seeds_of(name, quick=quick)
            for kind in KINDS:
                reference = references[task][kind]
                refused, runs = (ran, []) if isinstance(ran, str) else ("", ran)
                made.append({
                    "task": task, "family": task.partition("-")[0], "contestant": name,
                    "kind": kind, "ratio": ratio(runs, kind, reference, seeds),
                    "gradients_of_reference": reference.gradients, "seeds": len(runs),
                    "failed": sum(not np.isfinite(getattr(one, kind)) for one in runs),
                    "diverged": sum(one.diverged for one in runs), "refused": refused[:80],
                })  # fmt: skip
    return made


def summary(made: Rows) -> Rows:
    """Return a row for each contestant and kind, and family: medians and shares."""
    groups: dict[tuple[str, str, str], Rows] = {}
    for row in made:
        for family in ("all", row["family"]):
            groups.setdefault((row["contestant"], row["kind"], family), []).append(row)
    auto = {(row["task"], row["kind"]): row["ratio"] for row in made if row["contestant"] == "Auto"}
    lines = []
    for (name, kind, family), group in groups.items():
        ratios = np.array([row["ratio"] for row in group])
        beaten = [
            auto[row["task"], kind] < row["ratio"] for row in group if (row["task"], kind) in auto
        ]
        lines.append({
            "contestant": name, "kind": kind, "family": family, "tasks": len(group),
            "median": float(np.median(ratios)), "near": float(np.mean(ratios <= NEAR)),
            "failed": int(np.sum(~np.isfinite(ratios))),
            "diverged": sum(row["diverged"] for row in group),
            "runs": sum(row["seeds"] for row in group),
            "auto_better": float(np.mean(beaten)) if beaten and name != "Auto" else None,
        })  # fmt: skip
    return lines


def number(value: float) -> str:
    """Return a ratio as tables show it."""
    return "failed" if not np.isfinite(value) else f"{value:.2f}"


def table(made: Rows, references: dict[str, dict[str, Reference]]) -> str:
    """Return the table as Markdown."""
    text = [
        "# Gradients to the target, as ratios to the best cell of a grid of plain RSGDA",
        "",
        f"Medians over seeds ({SEEDS}, of Auto {AUTO_SEEDS}). *failed*: not there after {MOST} "
        "times what the reference needs. *last* compares last iterates, *averaged* averages.",
        "",
    ]
    lines = summary(made)
    for kind in KINDS:
        text += [f"## All tasks, {kind}", ""]
        text += [
            f"| contestant | tasks | median | within {NEAR:g} | failed | diverged runs | Auto is "
            "better on |",
            "|---|---|---|---|---|---|---|",
        ]
        for line in lines:
            if line["kind"] == kind and line["family"] == "all":
                better = "" if line["auto_better"] is None else f"{line['auto_better']:.0%}"
                text.append(
                    f"| {line['contestant']} | {line['tasks']} | {number(line['median'])} | "
                    f"{line['near']:.0%} | {line['failed']} | {line['diverged']} of "
                    f"{line['runs']} | {better} |"
                )
        text += [""]
    names = [name for name in CONTESTANTS if any(row["contestant"] == name for row in made)]
    for kind in KINDS:
        at = {(r["task"], r["contestant"]): r for r in made if r["kind"] == kind}
        tasks = sorted(
            dict.fromkeys(task for task, _ in at),
            key=lambda task: -at.get((task, names[0]), {"ratio": 0})["ratio"],
        )
        text += [f"## Each task, {kind}: the bad cases of {names[0]} first", ""]
        text += [
            f"| task | reference: gradients, p, alpha L, eta L | {' | '.join(names)} |",
            "|---" * (len(names) + 2) + "|",
        ]
        for task in tasks:
            best = references[task][kind]
            p, alpha, eta = best.cell
            cells = []
            for name in names:
                row = at.get((task, name))
                cell = "" if row is None else number(row["ratio"])
                if row is not None and row["diverged"]:
                    cell += f" ({row['diverged']} of {row['seeds']} diverged)"
                cells.append("refused" if row is not None and row["refused"] else cell)
            edge = f", edge: {best.edge}" if best.edge else ""
            text.append(
                f"| {task} | {best.gradients:.0f}, {p:g}, {alpha:.2g}, {eta:.2g}{edge} | "
                f"{' | '.join(cells)} |"
            )
        text += [""]
    return "\n".join(text)


def as_csv(made: Rows) -> bytes:
    """Return all rows as CSV."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in made:
        writer.writerow({**row, "ratio": f"{row['ratio']:.4g}"})
    return file.getvalue().encode()


def references_as_csv(folder: Path) -> bytes:
    """Return all references that are kept, a row for each of last and averaged."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    columns = ("target", "gradients", "edge")
    writer.writerow([
        "task", "kind", "T", "start", *columns, "p", "alpha_L", "eta_L", "L_theta", "L_v", "seconds"
    ])  # fmt: skip
    for path in sorted(folder.glob("*.json")):
        kept = json.loads(path.read_text())
        for kind in KINDS:
            best = kept[kind]
            numbers = [kept["start"], *(best[name] for name in columns), *best["cell"].values()]
            numbers += [kept["L_theta"], kept["L_v"], kept["seconds"]]
            shown = [x if isinstance(x, str) else f"{x:.4g}" for x in numbers]
            writer.writerow([path.stem, kind, kept["settings"]["gradients"], *shown])
    return file.getvalue().encode()


def picture(made: Rows) -> Figure:
    """Draw the share of tasks on which a contestant is within a ratio of the reference."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    names = list(dict.fromkeys(row["contestant"] for row in made))
    for panel, kind in zip(panels, KINDS, strict=True):
        for i, name in enumerate(names):
            ratios = [r["ratio"] for r in made if r["contestant"] == name and r["kind"] == kind]
            reached = np.sort([x for x in ratios if np.isfinite(x)])
            shares = np.arange(1, len(reached) + 1) / len(ratios)
            x = np.concatenate([[0.3], reached, [2 * MOST]])
            y = np.concatenate([[0], shares, shares[-1:] if len(shares) else [0]])
            width = 2.5 if name == "Auto" else 1.2
            panel.step(x, y, where="post", label=name, color=f"C{i}", linewidth=width)
        panel.axvline(1, color="0.7", linewidth=0.8, zorder=0)
        panel.axvline(NEAR, color="0.7", linewidth=0.8, zorder=0, linestyle=":")
        panel.set(xscale="log", xlim=(0.3, 2 * MOST), ylim=(-0.03, 1.03))
        panel.set_title("last iterates" if kind == "last" else "averaged iterates")
        panel.set_xlabel("gradients, in units of the best grid cell's")
        panel.set_xticks([0.5, 1, 2, 3, 5, 10], ["0.5", "1", "2", "3", "5", "10"])
        panel.minorticks_off()
    panels[0].set_ylabel("share of tasks solved within")
    panels[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def write(out: Path, made: Rows, references: dict[str, dict[str, Reference]]) -> list[str]:
    """Write the table, the numbers and the picture; return their names."""
    write_aside(out / "contest.csv", as_csv(made))
    write_aside(out / "table.md", (table(made, references) + "\n").encode())
    figure, drawn = picture(made), io.BytesIO()
    figure.savefig(drawn, dpi=130, format="png")
    plt.close(figure)
    write_aside(out / "profile.png", drawn.getvalue())
    return ["contest.csv", "table.md", "profile.png"]
