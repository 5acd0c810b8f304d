"""How the cost of a run grows: with rows, parameters, batch, steps and devices.

python benchmarks/growth.py [--quick] [--only NAME ...] [--json FILE]

Beside FILE it writes growth.csv, the times, and growth.png, their picture.
"""

import argparse
import csv
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib
import numpy as np
import timing
from jax import Array

import rsgda

matplotlib.use("Agg")

from matplotlib import pyplot as plt

ALGORITHM = rsgda.RSGDA(p=0.5, alpha=1e-3, eta=1e-2)
KEY = jr.key(0)
WIDE = 64  # numbers in a row


class Axis(NamedTuple):
    """What grows.

    Attributes:
        title: in words.
        sizes: that are measured.
        expected: the exponent that theory has for the cost.
        why: the reason for it.
        run: makes a contestant for a size; it is run once to compile.
        steps: of a run of that size, which its time is divided by.
    """

    title: str
    sizes: tuple[int, ...]
    expected: float
    why: str
    run: Callable[[int], Callable[[], object]]
    steps: Callable[[int], int]


class Seen(NamedTuple):
    """What was measured along an axis: seconds of a step, rounds × sizes."""

    axis: Axis
    seconds: np.ndarray

    @property
    def exponents(self) -> np.ndarray:
        """The slope of each round in logarithms."""
        logs = np.log(self.axis.sizes)
        return np.array([np.polyfit(logs, np.log(row), 1)[0] for row in self.seconds])


# Problems whose cost is known.


def rows_loss(theta: Array, v: Array, batch: Array) -> Array:
    """A loss with one row of v per row of data."""
    return jnp.mean(jnp.square((batch + v) @ theta)) - jnp.mean(jnp.sum(jnp.square(v), axis=1))


def by_rows(rows: int, *, batch: int, steps: int) -> Callable[[], object]:
    """Return a run on so many rows, each with its own v."""
    data = jr.normal(KEY, (rows, WIDE), jnp.float32)
    problem = rsgda.Problem(rows_loss, data=data, batch_size=batch, separable=True)
    return runner(problem, jnp.ones(WIDE, jnp.float32), data, steps)


def wide_loss(theta: Array, v: Array) -> Array:
    """A loss whose gradients take as many operations as theta has numbers."""
    return jnp.sum(1 - jnp.cos(theta) + theta * v - jnp.square(v))


def by_parameters(parameters: int, *, steps: int) -> Callable[[], object]:
    """Return a run with so many parameters."""
    theta = jnp.linspace(-1, 1, parameters, dtype=jnp.float32)
    return runner(rsgda.Problem(wide_loss), theta, jnp.zeros_like(theta), steps)


def runner(problem: rsgda.Problem, theta: Array, v: Array, steps: int) -> Callable[[], object]:
    """Return a run that waits for its end."""

    def run() -> object:
        result = rsgda.solve(problem, ALGORITHM, theta, v, key=KEY, steps=steps, every=steps)
        return jax.block_until_ready((result.theta, result.v))

    return run


def axes(*, quick: bool) -> dict[str, Axis]:
    """Return what is measured; sizes are large enough that what is fixed does not count."""
    few = 20 if quick else 1
    at_most = lambda count: max(2, count // few)  # noqa: E731
    steps = at_most(4_000)
    return {
        "rows": Axis(
            "rows of data, each with its own v", (1_000, 10_000, 100_000, 1_000_000)[: 4 - quick],
            0.0, "a step touches a minibatch only",
            functools.partial(by_rows, batch=32, steps=steps), lambda n: steps,
        ),
        "parameters": Axis(
            "parameters of theta and of v", (30_000, 100_000, 300_000, 1_000_000)[: 4 - quick],
            1.0, "each is moved once",
            functools.partial(by_parameters, steps=at_most(400)), lambda d: at_most(400),
        ),
        "batch": Axis(
            "rows in a minibatch", (512, 1_024, 2_048, 4_096)[: 4 - quick],
            1.0, "the loss is a mean over it",
            lambda batch: by_rows(20_000, batch=batch, steps=at_most(800)),
            lambda batch: at_most(800),
        ),
        "steps": Axis(
            "steps of a run", tuple(at_most(count) for count in (20_000, 60_000, 200_000, 600_000)),
            0.0, "each step costs the same, however many there were",
            lambda count: by_parameters_of_ten(count), lambda count: count,
        ),
    }  # fmt: skip


def by_parameters_of_ten(steps: int) -> Callable[[], object]:
    """Return a run with ten parameters."""
    return by_parameters(10, steps=steps)


def measured(axis: Axis, rounds: int) -> Seen:
    """Let all sizes take turns."""
    contestants = {str(size): axis.run(size) for size in axis.sizes}
    seconds = timing.interleave(contestants, rounds)
    columns = [seconds[str(size)] / axis.steps(size) for size in axis.sizes]
    return Seen(axis, np.stack(columns, axis=1))


def devices(*, quick: bool) -> list[dict[str, Any]]:
    """Run `growth_devices.py` with 1, 2, 4 and 8 devices that share this machine's cores."""
    script = Path(__file__).with_name("growth_devices.py")
    found = []
    for count in (1, 2, 4, 8):
        flags = f"--xla_force_host_platform_device_count={count}"
        command = [sys.executable, str(script), str(count), "20" if quick else "400"]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True,
            env={**os.environ, "XLA_FLAGS": flags},
        )  # fmt: skip
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return found


def draw(seen: list[Seen], file: Path) -> None:
    """Draw times, with the slope that theory has through the largest size."""
    figure, places = plt.subplots(
        1, len(seen), figsize=(3.2 * len(seen), 3.3), layout="constrained", squeeze=False
    )
    for place, (axis, seconds), each in zip(places[0], seen, seen, strict=True):
        sizes, medians = np.array(axis.sizes), 1e6 * np.median(seconds, axis=0)
        low, high = 1e6 * np.quantile(seconds, [0.25, 0.75], axis=0)
        place.fill_between(sizes, low, high, alpha=0.25)
        place.plot(sizes, medians, "o-", label=f"measured: {np.median(each.exponents):.2f}")
        line = medians[-1] * (sizes / sizes[-1]) ** axis.expected
        place.plot(sizes, line, "k--", linewidth=1, label=f"theory: {axis.expected:g}")
        place.set(xscale="log", yscale="log", xlabel=axis.title, ylabel="µs a step")
        place.set_ylim(min(low.min(), line.min()) / 2, max(high.max(), line.max()) * 2)
        place.set_title(axis.why, fontsize=8)
        place.legend(title="exponent", fontsize=8)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def main() -> None:
    """Measure what the command line asks for, print it and write it down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that it runs")
    parser.add_argument(
        "--only", nargs="+", choices=axes(quick=True), default=list(axes(quick=True))
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    chosen = axes(quick=arguments.quick)
    seen = [measured(chosen[name], 2 if arguments.quick else 7) for name in arguments.only]
    lines = [
        timing.line(
            f"{axis.title}: exponent, theory {axis.expected:g}", each.exponents, unit="",
            note=f"{axis.why}; {1e6 * np.median(each.seconds[:, -1]):.3g} us a step at the largest",
        )
        for each in seen
        for axis in [each.axis]
    ]  # fmt: skip
    timing.show(lines)
    if arguments.json:
        timing.save(lines, arguments.json)
        table(seen, arguments.json.with_name("growth.csv"))
        draw(seen, arguments.json.with_name("growth.png"))


def table(seen: list[Seen], file: Path) -> None:
    """Write all times down."""
    with file.open("w", newline="") as opened:
        rows = csv.writer(opened)
        rows.writerow(["axis", "size", "round", "microseconds_a_step", "theory"])
        for axis, seconds in seen:
            for (turn, place), value in np.ndenumerate(seconds):
                size = axis.sizes[place]
                rows.writerow([axis.title, size, turn, f"{1e6 * value:.4g}", axis.expected])


if __name__ == "__main__":
    main()
