"""The report of a match, as a page of HTML."""

from typing import Any

import numpy as np

from rsgda import cli_output as output
from rsgda import report
from rsgda.cli_match import figures
from rsgda.singlecell.matcher import Matcher
from rsgda.singlecell.preprocessing import Preprocessing

SCORES = {
    "W_eps": ("loss, W_eps", "of the mapped cells to the target{}; it lies between this and"),
    "mixing": ("mixing", "neighbours from the other side: 0 apart, about 1 where both lie alike"),
    "label_accuracy": ("labels right", "of the cells whose own label is known"),
    "foscttm_mean": ("FOSCTTM", "cells closer than the true match: 0 is perfect, 0.5 is chance"),
    "foscttm_source": ("FOSCTTM, source", "the same for cells of the source"),
    "foscttm_target": ("FOSCTTM, target", "and for cells of the target"),
}
UNGUIDED = (
    "Nothing but the shapes of both clouds has told which cells belong together. Where a shape is "
    "symmetric, or nearly, cells of different kinds may have been exchanged, and neither the loss "
    "nor the mixing shows it. Features that both measure (--shared), labels (--labels) or a few "
    "known pairs (--pairs) decide it."
)
TOLD = (
    "Labels of both sides have guided the match. Those that it gives back to the source are no "
    "test of it where the source's own were among them."
)
SURE = (
    "The probability says how much of a cell lies on cells of that label. It does not say that the "
    "match has brought the cell to the right place."
)


def size(cells: np.ndarray, preprocessing: Preprocessing) -> str:
    """Describe a side in words."""
    return f"{len(cells):,} cells × {len(preprocessing.names):,} features"


def headline(matcher: Matcher) -> dict[str, str]:
    """Return the numbers that are looked at first."""
    found = {}
    for name in ("foscttm_mean", "label_accuracy", "mixing", "W_eps"):
        if name in matcher.scores:
            found[SCORES[name][0]] = _shown(name, matcher.scores[name])
    _, confidence = matcher.match()
    found["confidence, in the median"] = f"{np.median(confidence):.2g}"
    return found


def page(
    matcher: Matcher,
    target: Any,
    label_key: str | None,
    *,
    names: tuple[str, str],
    notes: list[str],
) -> str:
    """Return the page.

    Args:
        matcher: with its annotated source.
        target: AnnData.
        label_key: the column of its labels, if these were transferred.
        names: of the files.
        notes: that must not be overlooked.
    """
    history = matcher.history
    guided = _guidance(matcher)
    first: list[str] = [report.numbers(headline(matcher))]
    told = ([] if guided else [UNGUIDED]) + ([TOLD] if "labels" in guided and label_key else [])
    first += [report.notice(note) for note in told + notes]
    curve = report.figure(
        output.svg(figures.curve(history)),
        shows="The loss by step.",
        says=f"W_eps to {min(2_000, len(matcher.target_cells)):,} cells of the target went from "
        f"{history['W'][0]:.4g} at step {history['step'][0]:,} to {history['W'][-1]:.4g}; the band "
        "is its certificate. A curve that still falls at its end asks for more steps (--steps).",
    )
    drawn, says = figures.cells(matcher, target, label_key)
    picture = report.figure(output.svg(drawn), shows="Cells before and after.", says=says)
    sections = [
        report.Section("", first),
        report.Section("Training", [curve]),
        report.Section("Cells before and after", [picture]),
    ]
    if label_key is not None:
        sections.append(report.Section("Labels", _labels(matcher, label_key)))
    sections.append(report.Section("Scores", [_scores(matcher)]))
    sections.append(report.Section("Settings", [report.settings(_settings(matcher))]))
    return report.page(
        f"{names[0]} in the space of {names[1]}",
        sections,
        about=f"{size(matcher.source_cells, matcher.source)} mapped to "
        f"{size(matcher.target_cells, matcher.target)}"
        + (f", guided by {' and '.join(guided)}." if guided else "."),
        foot=output.versions(),
    )


def _labels(matcher: Matcher, label_key: str) -> list[str]:
    obs = matcher.adata.obs
    given, sure = np.asarray(obs["rsgda_label"]), np.asarray(obs["rsgda_label_confidence"])
    rows = [
        (label, f"{np.sum(given == label):,}", f"{np.mean(sure[given == label]):.2f}")
        for label in np.unique(given)
    ]
    table = report.table((label_key, "cells given it", "mean probability"), rows)
    confusion = matcher.scores.get("confusion")
    if confusion is None:
        return [table, SURE, "The source has no labels of its own in that column to compare."]
    right = output.percent(matcher.scores["label_accuracy"])
    drawn = report.figure(
        output.svg(figures.confusion(confusion["labels"], np.asarray(confusion["matrix"]))),
        shows="The confusion matrix.",
        says=f"Shares of the cells of each true label, in rows, that were given each label. "
        f"{right} of all are right.",
    )
    return [drawn, table, SURE]


def _scores(matcher: Matcher) -> report.Html:
    rows = []
    for name, value in matcher.scores.items():
        if name not in SCORES:
            continue
        title, about = SCORES[name]
        if name == "W_eps":
            priced = matcher.shared is not None or len(matcher.labels) > 0
            about = about.format(", with the price of what guides the match" if priced else "")
            about += f" {value + matcher.scores['W_eps_gap']:.5g}"
        rows.append((title, about, _shown(name, value)))
    return report.table(("score", "what it is", ""), rows, right=2)


def _shown(name: str, value: float) -> str:
    return output.percent(value) if name == "label_accuracy" else f"{value:.4g}"


def _guidance(matcher: Matcher) -> dict[str, int]:
    """Return what guided the match, and how many of it."""
    of = matcher.settings
    counts = {"shared features": of["shared"], "labels": len(of["labels"]), "pairs": of["pairs"]}
    return {name: count for name, count in counts.items() if count}


def _settings(matcher: Matcher) -> dict[str, str]:
    found = {}
    for side in ("source", "target"):
        of = matcher.settings[side]
        where = of["layer"] or of["obsm"] or "X"
        found[side] = f"{where}; {', '.join(of['steps']) or 'as it is'}"
    found["epsilon"] = f"{matcher.settings['epsilon']:.6g}"
    found["layers"] = ", ".join(map(str, matcher.settings["hidden"])) or "none: a linear map"
    for name in ("batch_size", "steps", "seed"):
        found[name.replace("_", " ")] = f"{matcher.settings[name]:,}"
    if guided := _guidance(matcher):
        told = " and ".join(f"{count:,} {name}" for name, count in guided.items())
        found["guidance"] = f"{told}, weight {matcher.settings['guide']:g}"
    if matcher.settings["label_key"] is not None:
        found["labels from"] = matcher.settings["label_key"]
    if matcher.settings["paired"]:
        found["rows"] = "row i of both is one cell, for the score"
    return found
