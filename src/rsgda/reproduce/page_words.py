"""Words of findings and claims as a reader of the report sees them."""

import html
import re

from rsgda.report import Html
from rsgda.reproduce.deciding import MEANT, NOT_RUN, UNTESTED
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN, PARTLY, Effect

GREEK = {
    "alpha": "α", "gamma": "γ", "eps": "ε", "zeta": "ζ", "eta": "η", "theta": "θ", "kappa": "κ",
    "mu": "μ", "nu": "ν", "sigma": "σ", "phi": "φ", "grad ": "∇",
}  # fmt: skip
LETTER = re.compile(rf"(?<![A-Za-z])({'|'.join(GREEK)})(?![A-Za-z])")
GRAD = re.compile(r"\bgrad (?=phi\b)")
POWER = re.compile(r"\^(?:\(([^()]*)\)|(-?\d+(?:\.\d+)?|[A-Za-z]))")
INDEX = re.compile(r"([αεηθκνφW]|\bm)_(ε|θ|max|sin|[0-9k])(?![A-Za-z])")

KINDS = {HOLDS: "holds", PARTLY: "partly", FAILS: "fails", OPEN: "open"}

STYLE = """
:root { --good: #00573f; --good-on: #d8f1e7; --part: #6b4700; --part-on: #fbedcc;
  --bad: #8a2b00; --bad-on: #fbe0d2; --open: #43474f; --open-on: #e7e8e4; }
@media (prefers-color-scheme: dark) {
  :root { --good: #8fe0c2; --good-on: #12392d; --part: #f1cf82; --part-on: #3f300d;
    --bad: #ffb592; --bad-on: #4a2010; --open: #c9ccd2; --open-on: #34383e; }
}
.verdict { display: inline-block; padding: 0.05rem 0.55rem; border-radius: 1rem;
  font-size: 0.85rem; font-weight: 600; white-space: nowrap; color: var(--open);
  border: 1px dashed var(--open); }
.verdict.holds { color: var(--good); background: var(--good-on); border: 1px solid transparent; }
.verdict.partly { color: var(--part); background: var(--part-on); border: 1px solid transparent; }
.verdict.fails { color: var(--bad); background: var(--bad-on); border: 1px solid transparent; }
.verdict.open { color: var(--open); background: var(--open-on); border: 1px solid transparent; }
h3 { font-size: 1rem; margin: 1.75rem 0 0.25rem; color: var(--soft); }
.index { list-style: none; padding: 0; margin: 0.5rem 0; }
.index li { display: flex; gap: 1rem; justify-content: space-between; align-items: baseline;
  padding: 0.4rem 0; border-bottom: 1px solid var(--line); }
.index a { color: inherit; text-decoration-color: var(--line); text-underline-offset: 0.2em; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 0.6rem;
  padding: 0.75rem 1rem; margin: 0.75rem 0; }
.card > p { margin: 0.25rem 0; max-width: none; }
.says { font-weight: 600; }
.small, .evidence { font-size: 0.9rem; color: var(--soft); }
.evidence { list-style: none; margin: 0.5rem 0 0; padding: 0; }
.evidence li { border-top: 1px solid var(--line); padding: 0.4rem 0; }
.evidence b { color: var(--text); font-weight: 600; }
.evidence p { margin: 0.15rem 0; max-width: none; }
math { font-size: 1.05em; }
sup { white-space: nowrap; }
.erratum div { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.5rem; }
.erratum div p { margin: 0.35rem 0; }
.erratum span { display: block; font-size: 0.85rem; color: var(--soft); }
@media (max-width: 40rem) { .erratum div { grid-template-columns: 1fr; } }
"""


def pretty(text: str) -> Html:
    """Return words with the letters, powers and indices that they spell.

    >>> pretty("kappa^2, E|grad phi|^2 < alpha_max & k^(-2/5 + zeta)")
    'κ<sup>2</sup>, E|∇φ|<sup>2</sup> &lt; α<sub>max</sub> &amp; k<sup>−2/5 + ζ</sup>'
    """
    text = GRAD.sub("∇", html.escape(text, quote=False))
    text = LETTER.sub(lambda found: GREEK[found[1]], text)
    text = text.replace("sqrt(k)", "√k")
    text = INDEX.sub(r"\1<sub>\2</sub>", text)
    return Html(POWER.sub(_power, text))


def _power(found: re.Match[str]) -> str:
    return f"<sup>{(found[1] or found[2]).replace('-', '−')}</sup>"


def badge(verdict: str) -> Html:
    """Return a verdict as a mark that tells by its words and by its colour."""
    kind = KINDS.get(MEANT.get(verdict, verdict), "")
    plain = "" if verdict in (UNTESTED, NOT_RUN) else kind
    return Html(f'<span class="verdict {plain}">{html.escape(verdict)}</span>')


def told(effect: Effect) -> Html:
    """Return an effect with its interval in words."""
    return Html(
        f"{pretty(effect.what)}: <b>{effect.value:.3g}</b>, 95 % interval {effect.low:.3g} to "
        f"{effect.high:.3g} ({effect.seeds} seeds{', paired' if effect.paired else ''})"
    )
