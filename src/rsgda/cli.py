"""The command `rsgda`, the only place that prints.

Only what `--help` needs is imported at the top: JAX and its like would make it wait.
"""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from rsgda.reproduce.registry import SCALES, TARGETS, check_scale, chosen

if TYPE_CHECKING:
    from rsgda.reproduce.outcome import Tell
    from rsgda.reproduce.runner import Report


class Commands(typer.core.TyperGroup):
    """All commands, with one way to end badly."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error that a user can mend is one line and an exit code."""
        with contextlib.nullcontext() if ctx.params["traceback"] else endings():
            return super().invoke(ctx)


@contextlib.contextmanager
def endings() -> Iterator[None]:
    """Turn wrong input into exit code 2, trouble with files into 1 and Ctrl-C into 130."""
    try:
        yield
    except ValueError as error:
        raise typer.Exit(_complain(str(error), 2)) from error
    except OSError as error:
        raise typer.Exit(_complain(str(error), 1)) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(_complain(str(error) or "interrupted.", 130)) from error


def _complain(message: str, code: int) -> int:
    from rich.console import Console
    from rich.text import Text

    line = Text(f"rsgda: {' '.join(message.split())}", style="red")
    Console(stderr=True).print(line, soft_wrap=True)
    return code


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Min-max optimisation by randomized stochastic gradient descent ascent.",
)


def main() -> None:
    """Run the command line."""
    app(prog_name="rsgda")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"rsgda {version('rsgda')}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where in the code an error came up.")
    ] = False,
) -> None:
    pass


def _targets_help() -> str:
    return "What to run. " + " ".join(
        f"{name}: {target.about}." for name, target in TARGETS.items()
    )


def _scales_help() -> str:
    return "How much to run. " + "; ".join(f"{name}: {about}" for name, about in SCALES.items())


@app.command()
def reproduce(
    target: Annotated[
        str | None, typer.Argument(metavar="TARGET", help=_targets_help(), show_default="all")
    ] = None,
    scale: Annotated[
        str, typer.Option(metavar="|".join(SCALES), help=_scales_help() + ".")
    ] = "quick",
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to write, a folder for each target.")
    ] = Path("rsgda-reproduce"),
) -> None:
    """Re-run comparisons of the paper: figures, numbers and what they say."""
    names = chosen(target)
    check_scale(scale)
    from rsgda.reproduce.runner import reproduce as run

    reports = []
    with _progress(names) as tell_of:
        for name in names:
            reports.append(run(name, scale=scale, out=out, tell=tell_of(name)))
    _show(reports)


@contextlib.contextmanager
def _progress(names: list[str]) -> Iterator[Any]:
    """Show one bar over all targets, and the library's warnings above it.

    Yields a function that gives each target its `tell`.
    """
    from rich.console import Console
    from rich.logging import RichHandler
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    console = Console(stderr=True)
    handler = RichHandler(console=console, show_time=False, show_path=False)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar as progress, _logged(handler):
        whole = progress.add_task("starting", total=len(names))

        def tell_of(name: str) -> "Tell":
            def tell(done: float, what: str) -> None:
                completed = names.index(name) + done
                progress.update(whole, completed=completed, description=f"{name}: {what}")

            return tell

        yield tell_of


@contextlib.contextmanager
def _logged(handler: logging.Handler) -> Iterator[None]:
    logger = logging.getLogger("rsgda")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _show(reports: "list[Report]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table("target", "what", "result", "verdict")
    for report in reports:
        for finding in report.findings:
            verdict = Text(finding.verdict, "green" if finding.verdict == "holds" else "yellow")
            table.add_row(report.target, Text(finding.about), Text(finding.numbers), verdict)
    console.print(table)
    for report in reports:
        files = ", ".join(report.files)
        line = f"{report.folder}: {files} ({report.seconds:.0f} s)"
        console.print(line, soft_wrap=True, highlight=False, markup=False)
