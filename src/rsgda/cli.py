"""The command `rsgda`, the only place that prints.

Only what `--help` needs is imported at the top: JAX and its like would make it wait.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from rsgda.cli_cache import keep_programs
from rsgda.cli_launch.command import launch as launch_command
from rsgda.cli_match.command import match as match_command
from rsgda.cli_progress import progress
from rsgda.cli_robust.commands import app as robust
from rsgda.cli_sweep.command import sweep as sweep_command
from rsgda.reproduce.registry import SCALES, TARGETS, check_scale, chosen

if TYPE_CHECKING:
    from rsgda._planned import Row
    from rsgda.reproduce.runner import Report


PICTURES = (".png", ".pdf", ".svg")


class Commands(typer.core.TyperGroup):
    """All commands, with one way to end badly."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error that a user can mend is one line and an exit code."""
        keep_programs()
        with contextlib.nullcontext() if ctx.params["traceback"] else endings():
            return super().invoke(ctx)


@contextlib.contextmanager
def endings() -> Iterator[None]:
    """Turn wrong input into exit code 2, trouble with files into 1 and Ctrl-C into 130."""
    try:
        yield
    except typer.BadParameter as error:
        raise typer.Exit(_complain(error.format_message(), 2)) from error
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
app.add_typer(robust, name="robust")
app.command("match")(match_command)
app.command("launch")(launch_command)
app.command("sweep")(sweep_command)


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
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]...", help=_targets_help(), show_default="all"),
    ] = None,
    scale: Annotated[
        str, typer.Option(metavar="|".join(SCALES), help=_scales_help() + ".")
    ] = "quick",
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to write, a folder for each target.")
    ] = Path("rsgda-reproduce"),
    match: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="X Y",
            help="Points for fig3, fig4 and fig5 in place of theirs, such as the paper's CyTOF and "
            "scRNA cells: .npy, .csv or .h5ad; Y is mapped onto X.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A Dask scheduler, such as tcp://HOST:8786, whose workers do the runs of a figure "
            "side by side; they must see --out.",
            show_default="none, one run after the other",
        ),
    ] = None,
) -> None:
    """Re-run comparisons of the paper: figures, numbers and what they say."""
    names = chosen(targets or [])
    check_scale(scale)
    from rsgda.reproduce.runner import reproduce as run

    reports = []
    with _cluster(cluster, names) as client, progress(names) as tell_of:
        for name in names:
            reports.append(
                run(name, scale=scale, out=out, tell=tell_of(name), files=match, client=client)
            )
    _show(reports)


@contextlib.contextmanager
def _cluster(address: str | None, names: list[str]) -> Iterator[Any]:
    if address is None:
        yield None
        return
    from rsgda.drive.cluster import check_address, connected

    check_address(address)
    for name in names:
        if not TARGETS[name].spreads:
            typer.echo(f"{name} has no grid of runs, and runs here", err=True)
    with connected(address) as client:
        yield client


@app.command()
def plan(
    L: Annotated[float, typer.Option("--L", help="Smoothness of F in (theta, v) together.")],
    mu: Annotated[float, typer.Option(help="Strong concavity of F in v.")],
    sigma: Annotated[float, typer.Option(help="Noise of the gradient in theta.")] = 0.0,
    sigma_v: Annotated[
        float | None,
        typer.Option(
            help="Noise of the gradient in v, at v*. As large as --sigma if it is not given, which "
            "assumes least; 0 is interpolation.",
            show_default="--sigma",
        ),
    ] = None,
    L_max: Annotated[
        float | None,
        typer.Option("--L-max", help="Smoothness in v of the worst sample.", show_default="--L"),
    ] = None,
    D0: Annotated[
        float, typer.Option("--D0", help="How far phi is above its infimum at the start.")
    ] = 1.0,
    r0: Annotated[
        float, typer.Option("--r0", help="Squared distance of v to v* at the start.")
    ] = 1.0,
    eps: Annotated[
        float | None, typer.Option(help="Wanted norm of the gradient of phi.", show_default="none")
    ] = None,
    p: Annotated[float, typer.Option(help="Probability of a descent.")] = 0.5,
    k: Annotated[
        int | None,
        typer.Option(
            help="Where the bounds are evaluated.", show_default="a plan's own steps, or 1e6"
        ),
    ] = None,
    descent_cost: Annotated[float, typer.Option(help="What a descent costs, in any unit.")] = 1.0,
    ascent_cost: Annotated[float, typer.Option(help="What an ascent costs, in that unit.")] = 1.0,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw bounds against k and, with --eps, cost against p: a png, pdf or svg file.",
        ),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the table with all digits.")
    ] = None,
) -> None:
    """Show step sizes, iterations and bounds of all corollaries side by side."""
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise ValueError(f"--plot must end in {', '.join(PICTURES)}, got {str(plot)!r}.")
    for option, path in (("--plot", plot), ("--csv", csv)):
        if path is not None and not path.absolute().parent.is_dir():
            raise FileNotFoundError(f"{option}: there is no folder {path.absolute().parent}.")
        if path is not None and path.is_dir():
            raise IsADirectoryError(f"{option} {path} is a folder.")
    if k is not None and k < 1:
        raise ValueError(f"--k must be at least 1, got {k}.")
    with _named_as_options():
        from rsgda import _planned, theory
        from rsgda.theory.plan import accuracy, door

        noise_v = sigma if sigma_v is None else sigma_v
        r = theory.Regularity(L=L, mu=mu, sigma=sigma, sigma_v=noise_v, L_max=L_max, D0=D0, r0=r0)
        door(r, p)
        best = None
        if eps is not None:
            accuracy(eps)
            best = theory.best_p(r, eps=eps, descent_cost=descent_cost, ascent_cost=ascent_cost)
        rows = _planned.rows(r, p=p, eps=eps, k=k)
    _show_plans(rows, k, _planned.constants(r, p=p, eps=eps), best and _planned.advice(r, best))
    if csv is not None:
        _write(csv, _planned.as_csv(rows))
    if plot is not None:
        from rsgda import plots

        figure = plots.overview({row.name: row.plan for row in rows if row.plan}, best)
        _write(plot, plots.saved(figure, plot.suffix.lower().removeprefix(".")))


@contextlib.contextmanager
def _named_as_options() -> Iterator[None]:
    """Let messages speak of options where they speak of arguments."""
    try:
        yield
    except ValueError as error:
        names = r"`(?:r\.)?(L|L_max|mu|sigma|sigma_v|D0|r0|eps|p|descent_cost|ascent_cost)`"
        said = re.sub(names, lambda found: "--" + found[1].replace("_", "-"), str(error))
        raise ValueError(said) from error
    except ArithmeticError as error:
        raise ValueError(f"--eps, --L and --mu lead beyond floating point: {error}.") from error


def _show_plans(rows: "list[Row]", k: int | None, constants: str, advice: str | None) -> None:
    from rich.console import Console

    from rsgda import _planned

    console = Console(highlight=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _planned.WIDE  # a file or a pipe has no width of its own
    found = _planned.shown(rows, k=k, width=console.width)
    console.print(constants)
    console.print()
    console.print(found)
    console.print()
    console.print(advice or "with --eps: iterations, and the cheapest p")


def _write(path: Path, content: bytes) -> None:
    from rsgda.reproduce.runner import write_aside

    write_aside(path, content)
    typer.echo(f"wrote {path}")


def _show(reports: "list[Report]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table()
    for column in ("target", "what", "result", "verdict"):
        table.add_column(column, overflow="fold")
    for report in reports:
        for finding in report.findings:
            verdict = Text(finding.verdict, "green" if finding.verdict == "holds" else "yellow")
            table.add_row(report.target, Text(finding.about), Text(finding.numbers), verdict)
    console.print(table)
    for report in reports:
        files = ", ".join(report.files)
        line = f"{report.folder}: {files} ({report.seconds:.0f} s)"
        console.print(line, soft_wrap=True, highlight=False, markup=False)
