"""Options of `rsgda reproduce` and what they mean; nothing heavy is imported before it runs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rsgda.cli_progress import progress
from rsgda.reproduce.registry import SCALES, TARGETS, check_scale, chosen


def _targets_help() -> str:
    return "What to run. " + " ".join(
        f"{name}: {target.about}." for name, target in TARGETS.items()
    )


def _scales_help() -> str:
    return "How much to run. " + "; ".join(f"{name}: {about}" for name, about in SCALES.items())


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
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Run nothing: read every verdict off the tables of DIR again, compare them with "
            "what the manifests say and the tables with their checksums.",
            show_default=False,
        ),
    ] = None,
    judge: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Run nothing: read the verdicts off the tables of DIR, which must be whole, and "
            "write them into the manifests, as after a rule has changed; then the report.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Re-run comparisons of the paper: figures, numbers, what they say, and a report."""
    if check is not None or judge is not None:
        _only_read(check, judge, bool(targets))
        return
    names = chosen(targets or [])
    check_scale(scale)
    from rsgda.cli_reproduce import told
    from rsgda.reproduce import page
    from rsgda.reproduce.runner import reproduce as run

    reports = []
    with _cluster(cluster, names) as client, progress(names) as tell_of:
        for name in names:
            reports.append(
                run(name, scale=scale, out=out, tell=tell_of(name), files=match, client=client)
            )
            # After each, so that there is one of what is done whatever happens to the next.
            page.write(out)
    told.reports(reports, out / page.REPORT)


def _only_read(check: Path | None, judge: Path | None, targets: bool) -> None:
    if targets or (check is not None and judge is not None):
        raise ValueError("--check and --judge take a folder, and neither a TARGET nor each other.")
    from rsgda.cli_reproduce import told
    from rsgda.reproduce import page
    from rsgda.reproduce.check import check as checked
    from rsgda.reproduce.check import rejudge

    if judge is not None:
        rejudge(judge)
        typer.echo(f"wrote {page.write(judge)}")
    lines = checked(check or judge or Path())
    told.lines(lines)
    if not all(line.good for line in lines):
        raise typer.Exit(1)


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
