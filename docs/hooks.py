r"""What the pages need beyond Markdown, done while the site is built.

Formulas become MathML: `pymdownx.arithmatex` leaves `\(...\)` and `\[...\]` in elements of class
`arithmatex`, and what comes out here is shown by the browser itself, without JavaScript and without
a network. Examples that begin with `>>>` become blocks of code. The page of errata prints its
tests.
"""

import ast
import functools
import html
import re
from pathlib import Path

from latex2mathml.converter import convert
from markdown import Extension
from markdown.preprocessors import Preprocessor
from mkdocs.exceptions import PluginError

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*'
    r"\\(?P<open>[(\[])(?P<tex>.*?)\\[)\]]\s*</(?P=tag)>",
    re.DOTALL,
)
# `\min_x` has its `x` below in a displayed formula, beside it in a line of text.
LIMITS = re.compile(
    r"<msub>(?P<name><mo[^>]*>(?:arg[^<]*|inf|lim|max|min|sup)</mo>)"
    r"(?P<below><mrow>(?:(?!</?mrow>).)*</mrow>|<m[ion]>[^<]*</m[ion]>)</msub>"
)
MONOSPACE = re.compile(r'(?:<mi mathvariant="monospace">[^<]*</mi>)+')
BAR = re.compile(r"<mo>(?=(?:&#x02016;|&#x0007C;|\|)</mo>)")
FENCE = re.compile(r"\s*(```|~~~)")
TESTS = re.compile(r"<!-- tests: (.*) -->")
ERRATUM = re.compile(r"test_erratum_(\d\d)_(\w+)")


def on_config(config):
    """Let Markdown read doctests, in the pages and in the docstrings."""
    config.markdown_extensions.append(Doctests())


def on_page_markdown(markdown, page, config, files):
    """Print the tests that a page asks for, each under a heading of its own."""
    root = Path(config.config_file_path).parent
    return TESTS.sub(lambda names: _tests([root / name for name in names[1].split()]), markdown)


def _tests(paths):
    parts = []
    for path in paths:
        source = path.read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            match = ERRATUM.fullmatch(getattr(node, "name", ""))
            if match:
                first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
                code = "\n".join(source.splitlines()[first - 1 : node.end_lineno])
                number, words = match[1], match[2].replace("_", " ")
                heading = f"## {int(number)}: {words} {{#erratum-{number}}}"
                parts.append((number, f"{heading}\n\n`{path.name}`\n\n```py\n{code}\n```\n"))
    seen, printed = set(), []
    for number, part in sorted(parts, key=lambda part: part[0]):
        # The anchor belongs to the first test of a number.
        printed.append(part.replace(f" {{#erratum-{number}}}", "") if number in seen else part)
        seen.add(number)
    return "\n".join(printed)


def on_page_content(content, page, config, files):
    """Replace each formula of the page; an unreadable one stops the build."""
    try:
        content = FORMULA.sub(_replace, content)
    except ValueError as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from error
    if 'class="arithmatex">\\' in content:
        raise PluginError(f"{page.file.src_uri}: a formula was not turned into MathML")
    return content


def _replace(match):
    mathml = _mathml(html.unescape(match["tex"]).strip(), match["open"] == "[")
    return f'<{match["tag"]} class="arithmatex">{mathml}</{match["tag"]}>'


@functools.cache
def _mathml(tex, is_block):
    try:
        mathml = convert(_readable(tex), display="block" if is_block else "inline")
    except Exception as error:
        raise ValueError(f"cannot read the formula {tex!r}: {error!r}") from error
    # latex2mathml copies a command that it does not know instead of refusing it.
    unknown = re.search(r"\\[A-Za-z]+", html.unescape(mathml))
    if unknown:
        raise ValueError(f"unknown command {unknown.group()} in the formula {tex!r}")
    # Browsers know `mathvariant="monospace"` no longer; pages.css has the font.
    mathml = MONOSPACE.sub(
        lambda word: f'<mtext class="code">{re.sub("<[^>]*>", "", word.group())}</mtext>', mathml
    )
    mathml = BAR.sub('<mo stretchy="false" lspace="0" rspace="0">', mathml)
    return LIMITS.sub(r"<munder>\g<name>\g<below></munder>", mathml) if is_block else mathml


def _readable(tex):
    """Two things of LaTeX that latex2mathml does not read, written in another way."""
    tex = re.sub(r"\\arg\s*\\(min|max)(?![A-Za-z])", r"\\arg\1 ", tex)
    # `\text{a $x$ b}` becomes `\text{a }x\text{ b}`.
    return re.sub(
        r"\\text\{[^{}]*\}",
        lambda text: re.sub(r"\$([^$]*)\$", r"}\1\\text{", text.group()),
        tex,
    )


class Doctests(Extension):
    """A paragraph that begins with `>>>` is an example, not a quotation of a quotation."""

    def extendMarkdown(self, md):
        """Put the reader before that of fenced code."""
        md.preprocessors.register(_FenceDoctests(md), "doctests", 29)


class _FenceDoctests(Preprocessor):
    def run(self, lines):
        read, in_fence, in_doctest = [], False, False
        for line in [*lines, ""]:
            if not in_doctest and FENCE.match(line):
                in_fence = not in_fence
            if not in_fence and not in_doctest and line.startswith(">>> "):
                in_doctest = True
                read.append("```pycon")
            elif in_doctest and not line.strip():
                in_doctest = False
                read.append("```")
            read.append(line)
        return read
