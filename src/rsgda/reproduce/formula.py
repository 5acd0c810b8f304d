r"""Formulas as MathML, which browsers show without a script, a font or a network.

Of LaTeX as much as the errata need: letters, signs, `\frac`, `\sqrt`, accents, styles, sub- and
superscripts.
"""

import html
import re

from rsgda.report import Html

TOKEN = re.compile(r"\\[A-Za-z]+|\\[^A-Za-z]|\d+(?:\.\d+)?|\s+|.", re.DOTALL)
LETTERS = {
    "Delta": "Δ", "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε",
    "zeta": "ζ", "eta": "η", "theta": "θ", "kappa": "κ", "mu": "μ", "nu": "ν", "xi": "ξ",
    "sigma": "σ", "phi": "φ", "top": "⊤",
}  # fmt: skip
SIGNS = {
    "ge": "≥", "le": "≤", "in": "∈", "subset": "⊂", "mapsto": "↦", "approx": "≈", "cdot": "·",
    "sum": "∑", "nabla": "∇", "lceil": "⌈", "rceil": "⌉", "lvert": "|", "rvert": "|", ",": "\u2009",
    "{": "{", "}": "}",
}  # fmt: skip
FENCES = {"lceil", "rceil", "lvert", "rvert", "{", "}"}
NAMES = {"exp", "log", "max", "min"}
STYLES = {"mathbb", "mathcal", "mathrm"}
DOUBLE = {"E": "𝔼", "R": "ℝ"}
SCRIPT = {"L": "ℒ", "E": "ℰ", "D": "𝒟"}
ACCENTS = {"tilde": "~", "bar": "¯"}


def with_formulas(text: str) -> Html:
    r"""Return words as HTML, what stands between dollar signs as formulas.

    >>> with_formulas(r"$\alpha \le 2$ & more")
    '<math><mi>α</mi><mo>≤</mo><mn>2</mn></math> &amp; more'
    """
    parts = text.split("$")
    return Html(
        "".join(mathml(part) if i % 2 else html.escape(part) for i, part in enumerate(parts))
    )


def mathml(tex: str) -> Html:
    """Return a formula; a command that is not known raises."""
    tokens = [token for token in TOKEN.findall(tex) if not token.isspace()]
    found = _row(tokens, None)
    if tokens:
        raise ValueError(f"the formula {tex!r} has a brace too many.")
    return Html(f"<math>{found}</math>")


def _row(tokens: list[str], end: str | None) -> str:
    """Read up to a closing brace, or to the end, with sub- and superscripts in their places."""
    parts: list[str] = []
    while tokens and tokens[0] != end:
        if tokens[0] in "_^" and parts:
            parts.append(_scripts(parts.pop(), tokens))
        elif tokens[0] == "}":
            break
        else:
            parts.append(_one(tokens))
    if end is not None:
        if not tokens:
            raise ValueError("a formula has a brace that is not closed.")
        tokens.pop(0)
    return "".join(parts)


def _scripts(base: str, tokens: list[str]) -> str:
    found = {}
    while tokens and tokens[0] in "_^":
        kind = tokens.pop(0)
        found[kind] = f"<mrow>{_argument(tokens)}</mrow>"
    if len(found) == 2:
        return f"<msubsup>{base}{found['_']}{found['^']}</msubsup>"
    ((kind, script),) = found.items()
    tag = "msub" if kind == "_" else "msup"
    return f"<{tag}>{base}{script}</{tag}>"


def _one(tokens: list[str]) -> str:
    if not tokens:
        raise ValueError("a formula ends where something must follow.")
    token = tokens.pop(0)
    if token == "{":
        return f"<mrow>{_row(tokens, '}')}</mrow>"
    if token.startswith("\\"):
        return _command(token[1:], tokens)
    if token[0].isdigit():
        return f"<mn>{token}</mn>"
    if token.isalpha():
        return f"<mi>{token}</mi>"
    return f"<mo>{html.escape({'-': '−', '*': '∗'}.get(token, token))}</mo>"


def _argument(tokens: list[str]) -> str:
    """Read what a command takes: in braces, or one letter, or one digit of a number."""
    if tokens and tokens[0][0].isdigit() and len(tokens[0]) > 1:
        digit, tokens[0] = tokens[0][0], tokens[0][1:]
        return f"<mn>{digit}</mn>"
    return _one(tokens)


def _command(name: str, tokens: list[str]) -> str:
    if name in LETTERS:
        return f"<mi>{LETTERS[name]}</mi>"
    if name in SIGNS:
        return f'<mo stretchy="false">{SIGNS[name]}</mo>' if name in FENCES else _sign(name)
    if name in NAMES:
        return f'<mo form="prefix" lspace="0.17em" rspace="0.17em">{name}</mo>'
    if name == "frac":
        above, below = _argument(tokens), _argument(tokens)
        return f"<mfrac>{above}{below}</mfrac>"
    if name == "sqrt":
        return f"<msqrt>{_argument(tokens)}</msqrt>"
    if name in ACCENTS:
        return f'<mover accent="true">{_argument(tokens)}<mo>{ACCENTS[name]}</mo></mover>'
    if name in STYLES:
        return _styled(name, tokens)
    raise ValueError(f"a formula has a command that is not known: \\{name}.")


def _sign(name: str) -> str:
    return f"<mo>{SIGNS[name]}</mo>"


def _styled(name: str, tokens: list[str]) -> str:
    letters = tokens.pop(0)
    if letters == "{":
        end = tokens.index("}")
        letters = "".join(tokens[:end])
        del tokens[: end + 1]
    if name == "mathrm":
        return f"<mi>{html.escape(letters)}</mi>"
    known = DOUBLE if name == "mathbb" else SCRIPT
    return f"<mi>{known.get(letters, letters)}</mi>"
