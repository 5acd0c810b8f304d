"""A report as one page of HTML that needs nothing beside it: no network, no script, no file.

Words are escaped wherever they enter. What is put together here is `Html`, which is not escaped
again; a section takes plain strings as paragraphs. Beside a page its numbers are files of their
own.
"""

import base64
import csv
import html
import io
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

# Nothing is fetched, whatever a page may come to hold.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
PNG = b"\x89PNG"
STYLE = """
:root {
  color-scheme: light dark;
  --page: #fbfbf9; --card: #fff; --text: #1c1e21; --soft: #5d6470; --line: #e2e3de;
  --accent: #0072b2;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #16181b; --card: #1f2226; --text: #e8e8e4; --soft: #a2a8b2; --line: #363a40;
    --accent: #6cb8e6;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2.5rem 1.25rem 3rem; max-width: 52rem;
  background: var(--page); color: var(--text);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  overflow-wrap: anywhere;
}
header { border-bottom: 3px solid var(--accent); padding-bottom: 0.75rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; text-wrap: balance; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 0.5rem; }
p { margin: 0.5rem 0; max-width: 42rem; }
header p, figcaption, footer { color: var(--soft); }
.numbers { display: grid; gap: 0.75rem; margin: 1.25rem 0 0; padding: 0;
  grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); }
.numbers div { background: var(--card); border: 1px solid var(--line); border-radius: 0.6rem;
  padding: 0.8rem 1rem; }
.numbers dd { margin: 0; font-size: 1.6rem; font-weight: 650; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.numbers dt { color: var(--soft); font-size: 0.875rem; line-height: 1.35; }
.numbers div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
figure { margin: 0.75rem 0 0; }
.scroll { overflow-x: auto; }
/* Drawn in black, so it keeps its paper in the dark. */
figure .scroll { background: #fff; border: 1px solid var(--line); border-radius: 0.6rem;
  padding: 0.5rem; }
figure img { display: block; margin: 0 auto; max-width: 100%; min-width: 32rem; height: auto; }
figcaption { margin-top: 0.5rem; max-width: 42rem; }
table { border-collapse: collapse; font-size: 0.94rem; font-variant-numeric: tabular-nums;
  margin: 0.5rem 0; }
th, td { padding: 0.35rem 1.25rem 0.35rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
tbody th { font-weight: 400; color: var(--soft); overflow-wrap: normal; }
.right { text-align: right; overflow-wrap: normal; }
td.right { white-space: nowrap; }
.notice { border-left: 4px solid #d55e00; padding: 0.1rem 0 0.1rem 0.9rem; }
footer { margin-top: 2.5rem; padding-top: 0.75rem; border-top: 1px solid var(--line);
  font-size: 0.875rem; }
a { color: var(--accent); }
a:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
summary { cursor: pointer; color: var(--soft); padding: 0.35rem 0; }
code { font: 0.92em ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
@media (max-width: 30rem) {
  body { padding: 1.5rem 1rem 2rem; }
  h1 { font-size: 1.4rem; }
  .numbers { grid-template-columns: 1fr 1fr; gap: 0.5rem; }
  .numbers dd { font-size: 1.35rem; }
}
@media print { figure, table { break-inside: avoid; } }
"""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


class Section(NamedTuple):
    """A heading, which may be empty, and what stands under it."""

    heading: str
    parts: Sequence[str]


def page(
    title: str,
    sections: Iterable[Section],
    *,
    about: str = "",
    foot: str = "",
    style: str = "",
) -> str:
    """Return a whole page.

    Args:
        title: what it is.
        sections: its parts, in order.
        about: a line under the title.
        foot: a line at the end, such as versions.
        style: rules of CSS beside those of all pages.

    >>> text = page("A <b> title", [Section("One", ["plain & simple", numbers({"right": "98 %"})])])
    >>> "A &lt;b&gt; title" in text, "<p>plain &amp; simple</p>" in text
    (True, True)
    """
    under = paragraph(about) if about else ""
    end = f"<footer>{paragraph(foot)}</footer>\n" if foot else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{words(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{words(title)}</h1>{under}</header>\n<main>\n"
        f"{''.join(_section(section) for section in sections)}</main>\n{end}</body>\n</html>\n"
    )


def paragraph(text: str) -> Html:
    """Return a paragraph."""
    return Html(f"<p>{words(text)}</p>\n")


def notice(text: str) -> Html:
    """Return a paragraph that must not be overlooked."""
    return Html(f'<p class="notice">{words(text)}</p>\n')


def numbers(values: dict[str, str]) -> Html:
    """Return headline numbers by what they are."""
    each = (f"<div><dt>{words(of)}</dt><dd>{words(n)}</dd></div>" for of, n in values.items())
    return Html(f'<dl class="numbers">{"".join(each)}</dl>\n')


def figure(image: bytes, *, shows: str, says: str) -> Html:
    """Return a figure with a caption.

    Args:
        image: the file, SVG or PNG.
        shows: what is drawn, for those who do not see it.
        says: what to see in it.
    """
    kind = "png" if image.startswith(PNG) else "svg+xml"
    source = f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
    return Html(
        f'<figure><div class="scroll"><img src="{source}" alt="{words(shows)}"></div>\n'
        f"<figcaption>{words(says)}</figcaption></figure>\n"
    )


def link(to: str, text: str) -> Html:
    """Return a link, to a place of the page (`#name`) or to a file beside it.

    >>> link("fig1/fig1.csv", "numbers")
    '<a href="fig1/fig1.csv">numbers</a>'
    """
    return Html(f'<a href="{words(to)}">{words(text)}</a>')


def code(text: str) -> Html:
    """Return text as a machine takes it."""
    return Html(f"<code>{words(text)}</code>")


def details(summary: str, parts: Iterable[str]) -> Html:
    """Return what is shown when it is asked for, which needs no script."""
    inside = "".join(part if isinstance(part, Html) else paragraph(part) for part in parts)
    return Html(f"<details><summary>{words(summary)}</summary>\n{inside}</details>\n")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: int = 1) -> Html:
    """Return a table; cells from column `right` on are numbers and stand to the right."""
    sides = ["" if i < right else ' class="right"' for i in range(len(columns))]
    head = "".join(f"<th{s}>{words(c)}</th>" for s, c in zip(sides, columns, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{s}>{words(c)}</td>" for s, c in zip(sides, row, strict=True))
        + "</tr>\n"
        for row in rows
    )
    return Html(
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
        "</div>\n"
    )


def settings(values: dict[str, Any]) -> Html:
    """Return names and values, a line each."""
    rows = "".join(
        f'<tr><th scope="row">{words(name)}</th><td>{words(value)}</td></tr>\n'
        for name, value in values.items()
    )
    return Html(f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>\n')


def _section(section: Section) -> str:
    heading = f"<h2>{words(section.heading)}</h2>\n" if section.heading else ""
    parts = (part if isinstance(part, Html) else paragraph(part) for part in section.parts)
    return f"<section>{heading}{''.join(parts)}</section>\n"


def words(text: Any) -> str:
    """Return words as HTML; what is HTML already stays as it is."""
    return text if isinstance(text, Html) else html.escape(str(text))


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    r"""Return a table as a file to compute with; numbers keep all their digits.

    >>> as_csv(("rho", "in words"), [(0.1, "a, b"), (1 / 3, None)])
    b'rho,in words\n0.1,"a, b"\n0.3333333333333333,\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue().encode()
