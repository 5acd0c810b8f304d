"""The claims of the report: an index of verdicts, and each claim with its evidence."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from rsgda.report import Html, Section, details, link, numbers, paragraph, words
from rsgda.reproduce.deciding import NOT_RUN, UNTESTED, Decided, weight
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN, PARTLY, Finding
from rsgda.reproduce.page_words import badge, pretty, told

ORDER = (HOLDS, PARTLY, FAILS, OPEN, UNTESTED, NOT_RUN)
MANY = 3  # findings that stand below a claim without being asked for
RULE = (
    "Each target was run with rules that were written down before: a difference counts if it is "
    "larger than two standard errors, and what is not known of a value, such as the gap of a "
    "certificate, counts against it. The interval beside is Student's over seeds, which for two or "
    "three of them is much wider; where it does not exclude that there is no effect, the finding "
    "counts as not decided for the claim. A claim holds if all its findings do, and in part if "
    "some do. Where the paper prints something wrong, which its errata say, the corrected formulas "
    "were run, unless a finding speaks of what is printed."
)


def counts(claims: Sequence[Decided]) -> Html:
    """Return how many claims have each verdict."""
    found = {verdict: sum(each.verdict == verdict for each in claims) for verdict in ORDER}
    return numbers({verdict: f"{count}" for verdict, count in found.items() if count})


def index(claims: Sequence[Decided]) -> Section:
    """Return all claims with their verdicts, a line each."""
    parts: list[str] = []
    for part, some in groupby(claims, key=lambda each: each.claim.part):
        lines = "".join(
            f"<li>{link(f'#claim-{each.claim.name}', pretty(each.claim.says))}"
            f"{badge(each.verdict)}</li>\n"
            for each in some
        )
        parts.append(Html(f'<h3>{words(part)}</h3>\n<ul class="index">{lines}</ul>\n'))
    return Section("What the paper claims", parts)


def evidence(claims: Sequence[Decided], scales: Mapping[str, str]) -> Section:
    """Return each claim with what was found."""
    parts: list[str] = [paragraph(RULE)]
    for part, some in groupby(claims, key=lambda each: each.claim.part):
        cards = "".join(_card(each, scales) for each in some)
        parts.append(Html(f"<h3>{words(part)}</h3>\n{cards}"))
    return Section("The evidence", parts)


def _card(each: Decided, scales: Mapping[str, str]) -> str:
    claim = each.claim
    lines = [
        f'<p class="says">{pretty(claim.says)}</p>',
        f'<p class="small">{words(claim.place)}</p>',
        f"<p>{badge(each.verdict)}</p>",
    ]
    if claim.because:
        lines.append(f"<p>{pretty(claim.because)}</p>")
    if each.missing:
        names = ", ".join(each.missing)
        lines.append(f'<p class="small">Not run here: {words(names)}.</p>')
    if each.found:
        found = listed(each.found, scales)
        if len(each.found) > MANY:
            found = details(f"{len(each.found)} findings", [found])
        lines.append(found)
    if claim.errata:
        links = ", ".join(link(f"#erratum-{number}", f"{number}") for number in claim.errata)
        what = "Errata" if len(claim.errata) > 1 else "Erratum"
        lines.append(f'<p class="small">{what}: {links}</p>')
    return f'<article class="card" id="claim-{claim.name}">{"".join(lines)}</article>\n'


def listed(found: Sequence[tuple[str, Finding]], scales: Mapping[str, str]) -> Html:
    """Return findings as a list, with their numbers and effects."""
    items = []
    for target, finding in found:
        effect = ""
        if finding.effect is not None:
            effect = f"<p>{told(finding.effect)}{_doubt(finding)}</p>"
        where = link(f"#target-{target}", target)
        items.append(
            f"<li>{badge(finding.verdict)} <b>{pretty(finding.about)}</b> ({where}, "
            f"{words(scales.get(target, ''))})<p>{pretty(finding.numbers)}</p>{effect}</li>\n"
        )
    return Html(f'<ul class="evidence">{"".join(items)}</ul>')


def _doubt(finding: Finding) -> str:
    if finding.verdict == weight(finding) or finding.effect is None:
        return ""
    if not finding.effect.unsure:
        return ""
    return f"; {finding.effect.against:g} is in it: so few seeds leave the claim open"
