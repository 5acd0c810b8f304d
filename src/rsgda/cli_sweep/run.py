"""`rsgda sweep`: read a grid, run it here or on a cluster, write the table."""

import collections
import contextlib
import datetime
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from rsgda import cli_output as output
from rsgda.cli_progress import progress
from rsgda.cli_sweep import table as tidy
from rsgda.cli_sweep.grid import Grid, Setting, read
from rsgda.cli_sweep.places import Place
from rsgda.drive.folder import CheckpointMismatch
from rsgda.drive.job import Job
from rsgda.drive.result import Status
from rsgda.drive.sweep import Table, planned, tables

PACKAGES = ("rsgda", "jax", "jaxlib", "numpy")


def run(
    path: Path, *, out: Path, cluster: str | None, workers: int | None, kind: str, force: bool
) -> None:
    """Run the grid of a file, and leave a table and a manifest.

    Args:
        path: the file.
        out: the folder to write to.
        cluster: the address of a scheduler.
        workers: processes here, if there is no scheduler.
        kind: of the table, csv or parquet.
        force: begin anew.
    """
    if kind == "parquet":
        tidy.pyarrow()
    if cluster is not None:
        from rsgda.drive.cluster import check_address

        check_address(cluster)
    grid, began = read(path), time.perf_counter()
    started = datetime.datetime.now(datetime.UTC)
    floats = jnp.zeros(()).dtype.name
    place = Place(out, kind, {"grid": grid.content, "floats": floats})
    # Planned before anything is written: what a problem refuses is refused here.
    jobs = [_planned(grid, setting, place, i) for i, setting in enumerate(grid.settings)]
    if place.enter(force):
        output.say(f"{place.table} is there already; --force runs the sweep again")
        return
    output.say(_size(grid, jobs))
    blocks = sum(len(job.plan) for job in jobs)
    with _workers(cluster, workers, blocks) as client, progress(["sweep"]) as tell_of:
        found = _tables(grid, jobs, client, tell_of("sweep"), place)
        about = _about(client)
    columns = tidy.columns(grid, found)
    ends = collections.Counter(status for table in found for status in table.status.ravel())
    ran = {status.name: ends[status] for status in Status}
    place.finish(
        tidy.written(columns, kind),
        {
            "command": shlex.join(
                ["rsgda", "sweep", str(path), "--out", str(out)]
                + ([] if cluster is None else ["--cluster", cluster])
                + ([] if workers is None else ["--workers", str(workers)])
                + ([] if kind == "csv" else ["--format", kind])
            ),
            "runs": ran,
            "python": platform.python_version(),
            "versions": {
                name: importlib.metadata.version(name)
                for name in (*PACKAGES, *(["distributed"] if about["workers"] else []))
            },
            "hardware": about,
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
    )
    output.show(("status", "runs"), [(name, str(count)) for name, count in ran.items()])
    seconds = time.perf_counter() - began
    output.say(f"wrote {place.table}, {len(columns['status']):,} lines ({seconds:.0f} s)")


def _planned(grid: Grid, setting: Setting, place: Place, number: int) -> Job:
    problem, theta, v, record = setting.parts
    try:
        return planned(
            problem,
            [choice.algorithm for choice in grid.choices],
            theta,
            v,
            keys=jax.vmap(jr.key)(np.asarray(grid.seeds, np.uint32)),
            steps=grid.steps,
            record=record,
            every=grid.every,
            checkpoint=place.checkpoints / f"problem-{number:03d}",
        )
    except ValueError as error:
        raise ValueError(f"{grid.path}: problem {setting.name!r}: {error}") from error


def _tables(grid: Grid, jobs: list[Job], client: Any, tell: Any, place: Place) -> list[Table]:
    total = sum(job.size for job in jobs)
    what = "one block after the other" if client is None else "blocks on workers"
    paths = (str(grid.path.absolute().parent),)
    try:
        return tables(jobs, client=client, paths=paths, tell=lambda done: tell(done / total, what))
    except CheckpointMismatch as error:
        raise ValueError(
            f"{place.folder} holds an unfinished sweep of other code or settings; choose another "
            f"--out, or begin anew with --force. ({error})"
        ) from error
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(
            f"interrupted; {place.folder} holds what was done: the same command continues."
        ) from interrupt


@contextlib.contextmanager
def _workers(cluster: str | None, workers: int | None, blocks: int) -> Iterator[Any]:
    """Yield a client of a cluster or of workers here; None where one process is enough."""
    if cluster is not None:
        from rsgda.drive.cluster import connected

        with connected(cluster) as client:
            count = len(client.scheduler_info(-1)["workers"])
            output.say(f"{cluster}: {count} workers" + ("; waiting for some" if not count else ""))
            yield client
        return
    count = min(blocks, _cores() if workers is None else workers)
    # Who did not ask for workers gets them where they can be had.
    if count == 1 or (workers is None and importlib.util.find_spec("distributed") is None):
        yield None
        return
    from rsgda.drive.cluster import on_this_machine

    with on_this_machine(count) as client:
        yield client


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _size(grid: Grid, jobs: list[Job]) -> str:
    blocks = sum(len(job.plan) for job in jobs)
    runs = len(grid.settings) * len(grid.choices) * len(grid.seeds)
    return (
        f"{grid.path}: {len(grid.settings)} problems × {len(grid.choices)} algorithms × "
        f"{len(grid.seeds)} seeds, {runs:,} runs of {grid.steps:,} steps in {blocks:,} blocks"
    )


def _about(client: Any) -> dict[str, Any]:
    """Say what it ran on."""
    hosts = []
    if client is not None:
        workers = client.scheduler_info(-1)["workers"].values()
        hosts = sorted(worker["host"] for worker in workers)
    return {
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": _cores(),
        "devices": sorted({device.device_kind for device in jax.devices()}),
        "workers": dict(collections.Counter(hosts)),
    }
