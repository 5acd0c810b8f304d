"""What `rsgda reproduce` tells on the terminal."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rsgda.reproduce.check import Line
from rsgda.reproduce.runner import Report


def reports(done: Sequence[Report], page: Path) -> None:
    """Print what was found, and what was written where."""
    table = _table("target", "what", "result", "verdict")
    for report in done:
        for finding in report.findings:
            verdict = Text(finding.verdict, "green" if finding.verdict == "holds" else "yellow")
            numbers = finding.numbers
            if finding.effect is not None:
                numbers += f"; {finding.effect.told()}"
            table.add_row(report.target, Text(finding.about), Text(numbers), verdict)
    console = Console()
    console.print(table)
    for report in done:
        files = ", ".join(report.files)
        _line(console, f"{report.folder}: {files} ({report.seconds:.0f} s)")
    _line(console, f"{page}: the report of all targets in this folder")


def lines(found: Sequence[Line]) -> None:
    """Print what was compared, and each thing that is wrong in a line of its own."""
    table = _table("target", "what", "verdict in the manifest", "from the numbers")
    for line in found:
        result = Text(line.result, "green" if line.good else "red")
        table.add_row(line.target, Text(line.what), Text(line.verdict), result)
    console = Console()
    console.print(table)
    wrong = [line for line in found if not line.good]
    for line in wrong:
        _line(console, f"{line.target}, {line.what}: {line.result}")
    findings = sum(bool(line.verdict) for line in found)
    result = f"{len(wrong)} things are wrong" if wrong else "all as in the manifests"
    _line(console, f"{findings} verdicts and {len(found) - findings} tables: {result}")


def _table(*columns: str) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _line(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False, markup=False)
