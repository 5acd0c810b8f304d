"""What all suites have found: a table, a chart, a picture of growth, and how they came about."""

import csv
import json
from pathlib import Path
from typing import Any

import chart
import growth_chart
import timing

SUITES = {
    "core": "The driver",
    "theory": "A certified maximum: gradients in place of time",
    "robust": "Robust training of a network",
    "transport": "Learning with transport",
    "singlecell": "Single cells",
    "growth": "How the cost grows",
}
COLUMNS = (
    "suite", "contest", "name", "against", "median", "low", "high", "rounds", "unit", "goal",
    "verdict", "note", "day",
)  # fmt: skip
Suites = dict[str, dict[str, Any]]


def gather(raw: Path) -> Suites:
    """Read the numbers of all suites that have some."""
    files = {suite: raw / f"{suite}.json" for suite in SUITES}
    return {suite: json.loads(file.read_text()) for suite, file in files.items() if file.exists()}


def rows(suites: Suites) -> list[dict[str, Any]]:
    """Return one row for each line, with what the table shows of it."""
    found = []
    for suite, numbers in suites.items():
        for contest, outcome in numbers["contests"].items():
            for fields in outcome.get("lines", []):
                line = timing.Line(**fields)
                low, median, high = line.quartiles
                found.append(fields | {
                    "suite": suite, "contest": contest, "day": outcome["day"],
                    "low": low, "median": median, "high": high, "rounds": len(line.values),
                    "goal": line.goal,
                    # Fixed costs weigh too much in what is small.
                    "verdict": "" if numbers["about"]["quick"] else line.verdict,
                })  # fmt: skip
    return found


def write(out: Path, suites: Suites, broken: dict[str, str]) -> list[Path]:
    """Write everything and return the files."""
    found, where = rows(suites), caption(suites)
    table(found, out / "benchmarks.csv")
    (out / "table.md").write_text(markdown(found, where, reasons(suites, broken)))
    (out / "manifest.json").write_text(json.dumps(manifest(suites, broken), indent=1) + "\n")
    files = [out / name for name in ("benchmarks.csv", "table.md", "manifest.json")]
    if chart.draw(found, out / "benchmarks.png", titles=SUITES, caption=where):
        files.append(out / "benchmarks.png")
    curves = [row["growth"] for row in found if row["growth"] is not None]
    if curves:
        growth_chart.table(curves, out / "growth.csv")
        growth_chart.draw(curves, out / "growth.png", caption=where)
        files += [out / "growth.csv", out / "growth.png"]
    return files


def table(found: list[dict[str, Any]], file: Path) -> None:
    """Write one line for each number."""
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in found:
            short = {name: f"{row[name]:.4g}" for name in ("low", "median", "high")}
            writer.writerow(row | short)


def markdown(found: list[dict[str, Any]], where: str, absent: list[str]) -> str:
    """Return the table as a page shows it."""
    text = [f"{where[0].upper()}{where[1:]}.", *absent]
    for suite, title in SUITES.items():
        mine = [row for row in found if row["suite"] == suite]
        if not mine:
            continue
        text += [f"**{title}** (`benchmarks/{suite}.py`)"]
        growth = any(row["growth"] is not None for row in mine)
        text += ["\n".join((_growth_lines if growth else _lines)(mine))]
    return "\n\n".join(text) + "\n"


def _lines(mine: list[dict[str, Any]]) -> list[str]:
    head = ["| | against | median | quartiles | goal | |", "|---|---|---|---|---|---|"]
    return head + [
        f"| {row['name']} | {row['against']} | {_number(row, 'median')} | "
        f"{timing.short(row['low'])} to {timing.short(row['high'])} | {_goal(row)} | "
        f"{row['verdict']} |"
        for row in mine
    ]


def _number(row: dict[str, Any], which: str) -> str:
    unit = "×" if row["unit"] == "x" else row["unit"]
    return f"{timing.short(row[which])} {unit}".strip()


def _goal(row: dict[str, Any]) -> str:
    return row["goal"].replace(" x", " ×")


def _growth_lines(mine: list[dict[str, Any]]) -> list[str]:
    head = [
        "| with | exponent in theory | measured | quartiles | why |",
        "|---|---|---|---|---|",
    ]
    return head + [
        f"| {row['growth']['title']} | {row['growth']['expected']:g} | {row['median']:.2f} | "
        f"{row['low']:.2f} to {row['high']:.2f} | {row['growth']['why']} |"
        for row in mine
    ]


def caption(suites: Suites) -> str:
    """Say what the numbers were measured on."""
    said = []
    for numbers in suites.values():
        about = numbers["about"]
        machine, versions = about["hardware"], about["versions"]
        words = f"{machine['processor']}, {machine['cores']} cores, jax {versions['jax']}"
        if about["quick"]:
            words = f"small sizes, which say nothing about speed; {words}"
        said.append(words)
    return "; ".join(dict.fromkeys(said)) or "nothing was measured"


def reasons(suites: Suites, broken: dict[str, str]) -> list[str]:
    """Name what was left out, and why."""
    missing, failed = [], [f"{suite} ({why})" for suite, why in broken.items()]
    for suite, numbers in suites.items():
        for contest, outcome in numbers["contests"].items():
            if "missing" in outcome:
                missing.append(f"{suite} {contest} ({', '.join(outcome['missing'])})")
            if "failed" in outcome:
                failed.append(f"{suite} {contest} ({outcome['failed']})")
    said = []
    if missing:
        said.append(f"Left out, as rivals are not installed: {'; '.join(missing)}.")
    if failed:
        said.append(f"Failed: {'; '.join(failed)}.")
    return said


def manifest(suites: Suites, broken: dict[str, str]) -> dict[str, Any]:
    """Return what each suite was measured with, and how long it took."""
    return {
        "command": "python -m benchmarks",
        "suites": {
            suite: numbers["about"] | {
                "contests": {
                    contest: {key: value for key, value in outcome.items() if key != "lines"}
                    for contest, outcome in numbers["contests"].items()
                },
                "seconds": round(
                    sum(outcome.get("seconds", 0) for outcome in numbers["contests"].values()), 1
                ),
            }
            for suite, numbers in suites.items()
        },
        "broken": broken,
    }  # fmt: skip
