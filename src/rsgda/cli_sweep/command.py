"""Options of `rsgda sweep` and what they mean; nothing heavy is imported before it runs."""

from pathlib import Path
from typing import Annotated

import typer

FORMATS = ("csv", "parquet")


def sweep(
    grid: Annotated[
        Path,
        typer.Argument(
            metavar="GRID", help="A .toml file: problems, algorithms, seeds.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where to write.")] = Path(
        "rsgda-sweep"
    ),
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A Dask scheduler, such as tcp://HOST:8786; its workers must see --out.",
            show_default="none, the cores of this machine",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Processes on this machine.", show_default="one for each core"
        ),
    ] = None,
    table: Annotated[
        str,
        typer.Option(
            "--format", metavar="|".join(FORMATS), help="Of the table; parquet needs pyarrow."
        ),
    ] = "csv",
    force: Annotated[
        bool, typer.Option("--force", help="Replace the sweep that is there, and begin anew.")
    ] = False,
) -> None:
    """Run a grid of problems, algorithms, numbers and seeds, and write one table.

    Called again it goes on where it was interrupted; a sweep that is done is not run again.
    """
    if table not in FORMATS:
        raise ValueError(f"--format must be one of {', '.join(FORMATS)}, got {table!r}.")
    if workers is not None and workers < 1:
        raise ValueError(f"--workers must be at least 1, got {workers}.")
    if workers is not None and cluster is not None:
        raise ValueError("--workers are those of this machine; a --cluster has its own.")
    from rsgda.cli_sweep.run import run

    run(grid, out=out, cluster=cluster, workers=workers, kind=table, force=force)
