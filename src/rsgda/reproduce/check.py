"""Derive every verdict from the stored numbers again, and compare.

For each target that a folder holds: its tables are there, their checksums are those of the
manifest, and the target's `judge` finds in them, word for word, what the manifest says.
"""

import dataclasses
import hashlib
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from rsgda.reproduce.outcome import Finding
from rsgda.reproduce.registry import SCALES, TARGETS
from rsgda.reproduce.runner import MANIFEST, write_aside
from rsgda.reproduce.stored import Lacking

SAME, LACKING = "the same", "cannot be re-derived"


class Line(NamedTuple):
    """One thing that was looked at.

    Attributes:
        target: where.
        what: a file, or what a finding is about.
        verdict: what the manifest says of it, if it is a finding.
        result: `SAME`, or what is wrong.
    """

    target: str
    what: str
    verdict: str
    result: str

    @property
    def good(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.result == SAME


class Stored(NamedTuple):
    """What a folder holds of a target.

    Attributes:
        manifest: as it was written.
        findings: derived from the tables; none if they could not be.
        lines: what was compared on the way.
    """

    manifest: dict[str, Any]
    findings: tuple[Finding, ...] | None
    lines: list[Line]


def check(out: Path) -> list[Line]:
    """Return all that was compared in a folder that `rsgda reproduce` wrote."""
    return [line for name in _held(out) for line in read(out, name).lines]


def _held(out: Path) -> list[str]:
    names = [name for name in TARGETS if (out / name).is_dir()]
    if not names:
        raise FileNotFoundError(
            f"{out} holds no target; give the folder that `rsgda reproduce --out` wrote."
        )
    return names


def rejudge(out: Path) -> None:
    """Write what the tables say now into the manifests; tables that were changed are refused."""
    for name in _held(out):
        stored = read(out, name)
        wrong = [line for line in stored.lines if line.what.endswith((".csv", MANIFEST))]
        if stored.findings is None or not all(line.good for line in wrong):
            line = next(line for line in stored.lines if not line.good)
            raise ValueError(f"{out / name} cannot be judged: {line.what}: {line.result}.")
        findings = [dataclasses.asdict(finding) for finding in stored.findings]
        content = json.dumps({**stored.manifest, "findings": findings}, indent=2) + "\n"
        write_aside(out / name / MANIFEST, content.encode())


def read(out: Path, name: str) -> Stored:
    """Read a target and hold its tables and findings against its manifest."""
    try:
        manifest = json.loads((out / name / MANIFEST).read_text(encoding="utf-8"))
        said = {each["about"]: each for each in manifest["findings"]}
        sums, settings = dict(manifest["sha256"]), manifest["settings"]
        if manifest["target"] != name or manifest["scale"] not in SCALES:
            raise ValueError("it is of another target, or of a scale that is not known")
    except FileNotFoundError:
        return Stored({}, None, [Line(name, MANIFEST, "", "missing")])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return Stored({}, None, [Line(name, MANIFEST, "", f"cannot be read: {error!r}")])
    lines, files = [], {}
    for file, digest in sums.items():
        result, content = _checked(out / name / file, digest)
        lines.append(Line(name, file, "", result))
        if content is not None:
            files[file] = content
    try:
        found = TARGETS[name].judge(files, settings)
    except (Lacking, ArithmeticError, LookupError, ValueError, TypeError) as error:
        why = str(error) if isinstance(error, Lacking) else repr(error)
        return Stored(manifest, None, [*lines, Line(name, "all findings", "", f"{LACKING}: {why}")])
    return Stored(manifest, found, [*lines, *_compared(name, said, found)])


def _checked(path: Path, digest: str) -> tuple[str, bytes | None]:
    try:
        content = path.read_bytes()
    except OSError:
        return "missing", None
    same = hashlib.sha256(content).hexdigest() == digest
    return SAME if same else "another checksum than in the manifest: it was changed", content


def _compared(name: str, said: dict[str, dict[str, Any]], found: tuple[Finding, ...]) -> list[Line]:
    lines = []
    for finding in found:
        about = finding.about
        if about not in said:
            lines.append(Line(name, about, "", f"not in the manifest; derived: {finding.verdict}"))
            continue
        lines.append(
            Line(name, about, str(said[about].get("verdict")), _result(said[about], finding))
        )
    derived = {finding.about for finding in found}
    lines += [
        Line(name, about, str(each.get("verdict")), "the numbers have no such finding")
        for about, each in said.items()
        if about not in derived
    ]
    return lines


def _result(said: dict[str, Any], finding: Finding) -> str:
    if said.get("verdict") != finding.verdict:
        return f"the numbers say: {finding.verdict}"
    if said.get("numbers") != finding.numbers:
        return f"other numbers are derived: {finding.numbers}"
    # A manifest that was written before there were effects says nothing of them.
    if "effect" in said and not _alike(said["effect"], finding):
        told = "none" if finding.effect is None else finding.effect.told()
        return f"another effect is derived: {told}"
    return SAME


def _alike(said: dict[str, Any] | None, finding: Finding) -> bool:
    if said is None or finding.effect is None:
        return said is None and finding.effect is None
    derived = dataclasses.asdict(finding.effect)
    if said.keys() != derived.keys():
        return False
    # Sums may be rounded in another order on another machine.
    return all(
        math.isclose(said[key], value, rel_tol=1e-6, abs_tol=1e-9)
        if isinstance(value, float) and isinstance(said[key], float)
        else said[key] == value
        for key, value in derived.items()
    )
