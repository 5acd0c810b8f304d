"""How the cost of a run grows: with rows, parameters, batch, targets, steps and devices.

python benchmarks/growth.py [--quick] [--only NAME ...] [--json FILE]

Each is a line in logarithms, whose slope is measured beside the one that theory has.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import suite
import timing
from jax import Array
from matching import Ours as Matching
from suite import Contest

import rsgda

ALGORITHM = rsgda.RSGDA(p=0.5, alpha=1e-3, eta=1e-2)
KEY = jr.key(0)
WIDE = 64  # numbers in a row
SHARED = "simulated, they share the cores: no less work, and more to send"

Run = Callable[[int], object]  # of so many steps


class Size(NamedTuple):
    """How much is run: rounds, and one in how many steps and sizes."""

    rounds: int
    part: int


FULL, QUICK = Size(7, 1), Size(2, 20)


class Axis(NamedTuple):
    """What grows.

    Attributes:
        title: in words.
        sizes: that are measured, large enough that what is fixed does not count.
        expected: the exponent that theory has.
        why: the reason for it.
        cost: what is measured, with its unit.
    """

    title: str
    sizes: tuple[int, ...]
    expected: float
    why: str
    cost: str = "µs a step"


def slope(axis: Axis, values: np.ndarray) -> timing.Line:
    """Return the exponent in each round; values are rounds × sizes."""
    logs = np.log(axis.sizes)
    exponents = [np.polyfit(logs, np.log(row), 1)[0] for row in values]
    largest = f"{np.median(values[:, -1]):.3g} {axis.cost} at {axis.sizes[-1]:,}"
    growth = axis._asdict() | {"values": [[float(f"{x:.4g}") for x in row] for row in values]}
    note = f"theory: {axis.expected:g}, {axis.why}; {largest}"
    return timing.line(f"exponent in {axis.title}", exponents, unit="", note=note, growth=growth)


def a_step(axis: Axis, runs: dict[int, Run], steps: list[int], rounds: int) -> timing.Line:
    """Let runs of all sizes take turns; what comes before the first step is taken off."""
    contestants: dict[str, Callable[[], object]] = {}
    for (size, run), count in zip(runs.items(), steps, strict=True):
        contestants[f"{size}"] = functools.partial(run, count)
        contestants[f"begin {size}"] = functools.partial(run, 0)
    seconds = timing.interleave(contestants, rounds)
    columns = [
        (seconds[f"{size}"] - seconds[f"begin {size}"]) / count
        for size, count in zip(runs, steps, strict=True)
    ]
    # Of tiny runs nothing may be left, which has no logarithm.
    return slope(axis, np.maximum(1e6 * np.stack(columns, axis=1), 1e-3))


def equal_work(counts: tuple[int, ...], work: int) -> list[int]:
    """Return fewer steps where each takes longer."""
    return [max(2, work // count) for count in counts]


def runner(problem: rsgda.Problem, theta: Array, v: Array) -> Run:
    """Return a run that waits for its end."""

    def run(steps: int) -> object:
        result = rsgda.solve(
            problem, ALGORITHM, theta, v, key=KEY, steps=steps, every=max(steps, 1)
        )
        return jax.block_until_ready((result.theta, result.v))

    return run


# Problems whose cost is known.


def rows_loss(theta: Array, v: Array, batch: Array) -> Array:
    """A loss with one row of v per row of data."""
    return jnp.mean(jnp.square((batch + v) @ theta)) - jnp.mean(jnp.sum(jnp.square(v), axis=1))


def by_rows(count: int, batch: int) -> Run:
    """Return a run on so many rows, each with its own v."""
    data = jr.normal(KEY, (count, WIDE), jnp.float32)
    problem = rsgda.Problem(rows_loss, data=data, batch_size=batch, separable=True)
    return runner(problem, jnp.ones(WIDE, jnp.float32), data)


def wide_loss(theta: Array, v: Array) -> Array:
    """A loss whose gradients take as many operations as theta has numbers."""
    return jnp.sum(1 - jnp.cos(theta) + theta * v - jnp.square(v))


def by_parameters(count: int) -> Run:
    """Return a run with so many parameters."""
    theta = jnp.linspace(-1, 1, count, dtype=jnp.float32)
    return runner(rsgda.Problem(wide_loss), theta, jnp.zeros_like(theta))


def by_targets(count: int) -> Run:
    """Return ascents of a matching with so many targets."""
    return functools.partial(Matching(1_000, count, 64, 41).run, 1e-6)


# What is measured.


def rows(size: Size) -> Iterator[timing.Line]:
    """Rows of data, of which a step sees a minibatch."""
    counts = (1_000, 10_000, 100_000, 1_000_000)[: 2 if size.part > 1 else 4]
    axis = Axis("rows, each with its own v", counts, 0, "a step touches its minibatch only")
    runs = {count: by_rows(count, batch=128) for count in counts}
    yield a_step(axis, runs, [40_000 // size.part] * len(counts), size.rounds)


def parameters(size: Size) -> Iterator[timing.Line]:
    """Numbers in theta and in v."""
    counts = tuple(count // size.part for count in (100_000, 300_000, 1_000_000, 3_000_000))
    axis = Axis("parameters of both players", counts, 1, "each is moved")
    runs = {count: by_parameters(count) for count in counts}
    yield a_step(axis, runs, equal_work(counts, 300_000_000 // size.part), size.rounds)


def batch(size: Size) -> Iterator[timing.Line]:
    """Rows in a minibatch."""
    counts = tuple(count // size.part for count in (1_000, 3_000, 10_000, 30_000))
    axis = Axis("rows in a minibatch", counts, 1, "the loss is a mean over them")
    runs = {count: by_rows(100_000 // size.part, batch=count) for count in counts}
    yield a_step(axis, runs, equal_work(counts, 6_000_000 // size.part), size.rounds)


def targets(size: Size) -> Iterator[timing.Line]:
    """Targets of a matching: v has a number for each."""
    counts = tuple(count // size.part for count in (1_000, 3_000, 10_000, 30_000))
    axis = Axis("targets of a matching", counts, 1, "each has a cost to each row of a minibatch")
    runs = {count: by_targets(count) for count in counts}
    yield a_step(axis, runs, equal_work(counts, 3_000_000 // size.part), size.rounds)


def steps(size: Size) -> Iterator[timing.Line]:
    """Steps of one run: the time of all of it."""
    counts = tuple(count // size.part for count in (1_000_000, 3_000_000, 10_000_000, 30_000_000))
    axis = Axis("steps of a run", counts, 1, "none costs more than the one before", "ms in all")
    run = by_parameters(10)
    contestants = {f"{count}": functools.partial(run, count) for count in counts}
    seconds = timing.interleave(contestants, size.rounds)
    yield slope(axis, 1e3 * np.stack([seconds[f"{count}"] for count in counts], axis=1))


def memory(size: Size) -> Iterator[timing.Line]:
    """What a run allocates beyond what its caller holds, each in a process of its own."""
    if not Path("/proc/self/clear_refs").exists():
        print("    left out: it reads Linux's /proc")
        return
    counts = tuple(count // size.part for count in (20_000, 60_000, 180_000))
    axis = Axis("rows, memory", counts, 1, "one copy of v, which has as many", "MB allocated")
    values = [[allocated(count) for count in counts] for _ in range(min(size.rounds, 3))]
    yield slope(axis, np.array(values))


def allocated(count: int) -> float:
    """Return megabytes."""
    seen = timing.in_new_process(Path(__file__).with_name("memory.py"), str(count))
    return seen["again"] * seen["v"] / 1e6


def devices(size: Size) -> Iterator[timing.Line]:
    """Devices that share out a minibatch, in a process that has eight."""
    script = Path(__file__).with_name("growth_devices.py")
    seen = timing.in_new_process(script, str(200 // size.part), str(size.rounds))
    axis = Axis("devices", tuple(seen["sizes"]), 0, SHARED)
    yield slope(axis, np.array(seen["values"]))


CONTESTS: dict[str, Contest] = {
    "rows": Contest(rows),
    "parameters": Contest(parameters),
    "batch": Contest(batch),
    "targets": Contest(targets),
    "steps": Contest(steps),
    "memory": Contest(memory),
    "devices": Contest(devices),
}


if __name__ == "__main__":
    sys.exit(suite.main(__doc__, CONTESTS, full=FULL, quick=QUICK))
