"""What the findings of the targets that were run say of the claims of the paper."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rsgda.reproduce.claims import CLAIMS, Claim
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN, PARTLY, Finding

UNTESTED, NOT_RUN = "not testable here", "not run"
# Findings have words of their own where they count what phi cannot be.
MEANT = {"they appear": FAILS, "reported, not accepted": FAILS, "none appeared": OPEN}


class Decided(NamedTuple):
    """A claim and what was found.

    Attributes:
        claim: the claim.
        verdict: of all findings together.
        found: targets and findings.
        missing: targets that would speak to it and were not run.
    """

    claim: Claim
    verdict: str
    found: list[tuple[str, Finding]]
    missing: list[str]


def weight(finding: Finding) -> str:
    """Return what a finding adds to a claim.

    Its verdict; but where few seeds leave so wide an interval that no effect is in it, not decided.
    """
    meant = MEANT.get(finding.verdict, finding.verdict)
    unsure = finding.effect is not None and finding.effect.unsure
    return OPEN if unsure and meant in (HOLDS, FAILS) else meant


def combined(verdicts: Iterable[str]) -> str:
    """Return one verdict for several.

    >>> combined(["holds", "not decided"]), combined(["does not hold", "not decided"])
    ('holds in part', 'does not hold')
    """
    every = list(verdicts)
    if all(verdict == HOLDS for verdict in every):
        return HOLDS
    if HOLDS in every or PARTLY in every:
        return PARTLY
    return FAILS if FAILS in every else OPEN


def decided(findings: Mapping[str, Sequence[Finding]]) -> list[Decided]:
    """Return each claim with what the findings of the targets that were run say of it."""
    return [_decided(claim, findings) for claim in CLAIMS]


def _decided(claim: Claim, findings: Mapping[str, Sequence[Finding]]) -> Decided:
    found = [
        (target, finding)
        for target, begins in claim.by
        for finding in findings.get(target, ())
        if finding.about.startswith(begins)
    ]
    missing = list(dict.fromkeys(target for target, _ in claim.by if target not in findings))
    if not claim.by:
        return Decided(claim, UNTESTED, [], [])
    if not found:
        return Decided(claim, NOT_RUN, [], missing)
    return Decided(claim, combined(weight(finding) for _, finding in found), found, missing)


def beside(findings: Mapping[str, Sequence[Finding]]) -> list[tuple[str, Finding]]:
    """Return findings that no claim of the paper asks for."""
    return [
        (target, finding)
        for target, some in findings.items()
        for finding in some
        if not any(
            target == name and finding.about.startswith(begins)
            for claim in CLAIMS
            for name, begins in claim.by
        )
    ]
