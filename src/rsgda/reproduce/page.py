"""The report of all targets that a folder holds, as one page of HTML."""

import importlib.metadata
from pathlib import Path

from rsgda import report
from rsgda.report import Html, Section, words
from rsgda.reproduce import page_runs
from rsgda.reproduce.check import Stored, read
from rsgda.reproduce.deciding import beside, decided
from rsgda.reproduce.errata import ERRATA, Erratum
from rsgda.reproduce.formula import with_formulas
from rsgda.reproduce.page_claims import counts, evidence, index, listed
from rsgda.reproduce.page_words import STYLE
from rsgda.reproduce.registry import SCALES, TARGETS
from rsgda.reproduce.runner import write_aside

REPORT = "report.html"
TITLE = "RSGDA, the paper re-run"
ABOUT = (
    "Sebbouh, Cuturi and Peyré, “Randomized Stochastic Gradient Descent Ascent” (AISTATS 2022): "
    "each sentence that can be tested, held against runs of this project."
)


def write(out: Path) -> Path:
    """Write the report of a folder that `rsgda reproduce` wrote into, and return where it is."""
    path = out / REPORT
    write_aside(path, page(out).encode())
    return path


def page(out: Path) -> str:
    """Return the report: claims, evidence, figures, errata, settings and costs."""
    every = {name: read(out, name) for name in TARGETS if (out / name).is_dir()}
    stored = {name: each for name, each in every.items() if each.manifest}
    findings = {name: each.findings for name, each in stored.items() if each.findings}
    scales = {name: each.manifest["scale"] for name, each in stored.items()}
    claims = decided(findings)
    ours = beside(findings)
    sections = [
        Section("", [counts(claims), *_notices(every, scales)]),
        index(claims),
        evidence(claims, scales),
        *(page_runs.run(out, name, each) for name, each in stored.items()),
        Section("Beside the paper", [OURS, listed(ours, scales)]) if ours else Section("", []),
        _errata(),
        page_runs.costs(stored),
        page_runs.settings(stored),
    ]
    version = importlib.metadata.version("rsgda")
    return report.page(TITLE, sections, about=ABOUT, foot=f"rsgda {version}. {FOOT}", style=STYLE)


OURS = "What else was measured, that no sentence of the paper is about."
FOOT = (
    "All verdicts were read off the tables beside this page; rsgda reproduce --check does it again."
)


def _notices(every: dict[str, Stored], scales: dict[str, str]) -> list[str]:
    """Return what must not be overlooked: what was not run, how little, and what does not fit."""
    found: list[str] = [
        report.notice(f"{line.target}, {line.what}: {line.result}.")
        for each in every.values()
        for line in each.lines
        if not line.good
    ]
    if missing := [name for name in TARGETS if name not in scales]:
        found.append(report.notice(f"Not run in this folder: {', '.join(missing)}."))
    for scale in SCALES:
        names = [name for name, of in scales.items() if of == scale]
        if names and scale != "paper":
            found.append(
                report.paragraph(f"At scale {scale}: {', '.join(names)}. {MEANING[scale]}")
            )
    return found


MEANING = {
    "quick": "This is a trial of a minute each, on small data that the paper does not have: its "
    "verdicts say that all works, not what is so.",
    "standard": "This is less than the paper ran: fewer epochs and seeds, on a processor without a "
    "graphics card. What is not decided may be with more.",
}


def _errata() -> Section:
    return Section(
        f"Errata: {len(ERRATA)}",
        [
            "What the paper prints and what is right. Each that can be computed has tests, in "
            "which the printed formula fails, or is looser, and the right one holds; the "
            "documentation prints them on the page errata.md, under #erratum-01 and so on. "
            "“Reading” marks slips of notation.",
            Html("".join(_erratum(each) for each in ERRATA)),
        ],
    )


def _erratum(each: Erratum) -> str:
    names = (f"test_erratum_{each.number:02d}_{name}" for name in each.tests)
    shown = ", ".join(report.code(name) for name in names)
    tests = f"{shown} in {report.code(f'tests/{each.file}')}" if shown else "reading"
    return (
        f'<article class="card erratum" id="erratum-{each.number}">'
        f'<p class="says">{each.number}. {words(each.where)}</p>'
        f"<div><p><span>the paper</span> {with_formulas(each.paper)}</p>"
        f"<p><span>right</span> {with_formulas(each.right)}</p></div>"
        f'<p class="small">shown by {tests}</p></article>\n'
    )
