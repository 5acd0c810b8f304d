"""Keep what the runs of a long target found, and take up where it was cut off."""

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rsgda.reproduce.outcome import Tell
from rsgda.reproduce.runner import write_aside

Cell = TypeVar("Cell")
Ran = TypeVar("Ran")


class Found(NamedTuple):
    """What a run found: how it ended, columns of numbers by name, and how long it took."""

    status: str
    looks: dict[str, np.ndarray]
    seconds: float


def read(path: Path | None, settings: dict[str, Any]) -> Found | None:
    """Return what an earlier run found, if it was one at the same settings."""
    if path is None:
        return None
    try:
        content = json.loads(path.read_text())
        if content["settings"] != as_json(settings):
            return None
        looks = {name: np.asarray(column, float) for name, column in content["looks"].items()}
        return Found(content["status"], looks, float(content["seconds"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def keep(path: Path | None, settings: dict[str, Any], found: Found) -> None:
    """Write down what a run found."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "settings": as_json(settings),
        "status": found.status,
        "looks": {name: column.tolist() for name, column in found.looks.items()},
        "seconds": round(found.seconds, 1),
    }
    write_aside(path, json.dumps(content).encode())


def as_json(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings as they are read back, tuples as lists."""
    return json.loads(json.dumps(settings))


def one_by_one(
    cells: Sequence[Cell],
    run: Callable[[Cell, Callable[[float], None]], Ran],
    *,
    size: Callable[[Cell], float],
    name: Callable[[Cell], str],
    work: Path | None,
    tell: Tell,
    client: Any,
) -> list[Ran]:
    """Run cells one after the other, or on a cluster; an interrupt says what is left of them.

    Args:
        cells: what to run.
        run: is given a cell, and what to tell how much of it is done.
        size: how long a cell takes, in any unit.
        name: of a cell.
        work: the folder where `run` keeps what is done.
        tell: is told how much of all is done.
        client: a `distributed.Client` whose workers run the cells, or None.
    """
    if client is not None and cells:
        return _somewhere(cells, run, size=size, work=work, tell=tell, client=client)
    ran: list[Ran] = []
    total, done = sum(map(size, cells)), 0.0
    for cell in cells:
        share = size(cell) / total

        def part(inside: float, before=done, share=share, cell=cell) -> None:
            tell(before + share * inside, name(cell))

        try:
            ran.append(run(cell, part))
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(_left(work, len(ran), len(cells))) from interrupt
        done += share
    return ran


def _somewhere(
    cells: Sequence[Cell],
    run: Callable[[Cell, Callable[[float], None]], Ran],
    *,
    size: Callable[[Cell], float],
    work: Path | None,
    tell: Tell,
    client: Any,
) -> list[Ran]:
    """Run cells as tasks: one whose worker dies goes on elsewhere from what it has kept."""
    from rsgda.drive import cluster

    total = sum(map(size, cells))
    shares = [size(cell) / total for cell in cells]
    what = f"{len(cells)} runs on the cluster"
    try:
        return cluster.run_all(
            client, run, cells, sizes=shares, paths=(), tell=lambda done: tell(done, what)
        )
    except KeyboardInterrupt as interrupt:
        kept = "nothing was saved." if work is None else f"{work} holds the runs that are done: "
        raise KeyboardInterrupt(
            f"interrupted; {kept}{'' if work is None else 'the same command continues.'}"
        ) from interrupt


def _left(work: Path | None, done: int, total: int) -> str:
    """Say what is left of a run that was interrupted."""
    if work is None:
        return "interrupted; nothing was saved."
    return (
        f"interrupted with {done} of {total} runs done, which {work} holds: the same command "
        "continues."
    )


@contextlib.contextmanager
def diverging_is_no_news() -> Iterator[None]:
    """Keep back the driver's warning: that a cell diverges is one of the results."""
    log = logging.getLogger("rsgda.drive.solve")
    let_through = lambda record: not record.getMessage().startswith("diverged")  # noqa: E731
    log.addFilter(let_through)
    try:
        yield
    finally:
        log.removeFilter(let_through)
