"""Speed and memory of the core, as ratios of runs that take turns.

python benchmarks/core.py [--quick] [--only NAME ...] [--json FILE]
"""

import functools
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import suite
import timing
from by_hand import (
    ALGORITHM,
    ALPHA,
    BATCH,
    ETA,
    KEY,
    ROBUST,
    TOY,
    P,
    close,
    robust_by_hand,
    robust_data,
    robust_loss,
    robust_start,
    same,
    toy_by_hand,
    toy_by_torch,
)
from jax import Array
from suite import Contest

import rsgda
from rsgda import cli_cache
from rsgda.drive import plan


class Size(NamedTuple):
    """How much is run."""

    rounds: int
    steps: int  # of the toy problem
    torch_steps: int
    separable_rows: int
    separable_steps: int
    sweep_steps: int
    network_steps: int
    commands: int


FULL = Size(11, 100_000, 1_000, 60_000, 4_000, 20_000, 1_000, 5)
TOY_NAME = "toy of 10 dimensions"
REPRODUCED = "toy"  # the quickest of the commands that compile
QUICK = Size(3, 20_000, 200, 20_000, 200, 2_000, 100, 3)


# The toy problem against a loop by hand.


def toy_by_solve(steps: int, every: int) -> Array:
    result = rsgda.solve(
        TOY.problem, ALGORITHM, *TOY.start("float32"), key=KEY, steps=steps, every=every
    )
    return jax.block_until_ready(result.theta)


def loop(size: Size) -> Iterator[timing.Line]:
    """`solve` against the compiled loop by hand."""

    def by_hand() -> Array:
        return jax.block_until_ready(
            toy_by_hand(*TOY.start("float32"), KEY, P, ALPHA, ETA, steps=size.steps)[0]
        )

    default = functools.partial(toy_by_solve, size.steps, 1_000)
    at_once = functools.partial(toy_by_solve, size.steps, size.steps)
    same("theta of solve and of the loop by hand", default(), by_hand())
    seconds = timing.interleave(
        {"hand": by_hand, "default": default, "at once": at_once}, size.rounds
    )
    hand = seconds["hand"]
    note = f"by hand {timing.microseconds(hand, size.steps)}"
    yield timing.line(
        TOY_NAME, seconds["default"] / hand, against="loop by hand", most=1.1, note=note
    )
    yield timing.line(
        f"{TOY_NAME}, one record", seconds["at once"] / hand, against="loop by hand", most=1.1
    )


# The toy problem against eager PyTorch.


def eager(size: Size) -> Iterator[timing.Line]:
    """`solve` against the eager loop in PyTorch, in steps per second."""
    seconds = timing.interleave(
        {
            "torch": toy_by_torch(size.torch_steps),
            "solve": functools.partial(toy_by_solve, size.steps, 1_000),
        },
        size.rounds,
    )
    ratios = (seconds["torch"] / size.torch_steps) / (seconds["solve"] / size.steps)
    note = f"PyTorch {timing.microseconds(seconds['torch'], size.torch_steps)}"
    yield timing.line(f"{TOY_NAME}, speed", ratios, against="PyTorch", least=60, note=note)


# A separable v against gather and scatter by hand.


class Robust:
    """The robust problem at one n, by hand and by `solve`."""

    def __init__(self, rows: int, steps: int):
        self.steps, self.data, self.theta = steps, robust_data(rows), robust_start()
        self.problem = rsgda.Problem(robust_loss, data=self.data, batch_size=BATCH, separable=True)

    def by_solve(self, steps: int | None = None) -> Any:
        steps = self.steps if steps is None else steps
        result = rsgda.solve(self.problem, ROBUST, self.theta, self.data[0], key=KEY, steps=steps)
        return jax.block_until_ready((result.theta, result.v))

    def by_hand(self) -> Any:
        # The caller keeps v: a loop that works in place needs a copy, as `solve` does.
        v = jnp.array(self.data[0], copy=True)
        numbers = (ROBUST.p, ROBUST.alpha, ROBUST.eta)
        return jax.block_until_ready(
            robust_by_hand(self.data, self.theta, v, KEY, *numbers, steps=self.steps)
        )


def separable(size: Size) -> Iterator[timing.Line]:
    """A separable v against gather and scatter by hand, and at another n."""
    large = Robust(size.separable_rows, size.separable_steps)
    small = Robust(size.separable_rows // 100, size.separable_steps)
    for ours, theirs in zip(
        *map(jax.tree.leaves, (large.by_solve(), large.by_hand())), strict=True
    ):
        close("separable run by solve and by hand", ours, theirs)
    begin = functools.partial(large.by_solve, steps=1)
    seconds = timing.interleave(
        {"hand": large.by_hand, "solve": large.by_solve, "small": small.by_solve, "begin": begin},
        size.rounds,
    )
    rows, steps = size.separable_rows, size.separable_steps
    note = f"by hand {timing.microseconds(seconds['hand'], steps)}"
    ratios = seconds["solve"] / seconds["hand"]
    yield timing.line(f"{rows:,} rows of v", ratios, against="loop by hand", most=1.1, note=note)
    ratios = (seconds["solve"] - seconds["begin"]) / seconds["small"]
    note = f"without the beginning, {np.median(seconds['begin']):.2g} s, which copies v"
    yield timing.line(f"step at {rows:,} rows of v / at {rows // 100:,}", ratios, note=note)


def memory(size: Size) -> Iterator[timing.Line]:
    """What `solve` allocates beyond what the caller holds, in units of v."""
    script = Path(__file__).with_name("memory.py")
    if not Path("/proc/self/clear_refs").exists():
        print("    left out: it reads Linux's /proc")
        return
    seen = [timing.in_new_process(script, str(size.separable_rows)) for _ in range(3)]
    for name, asked in (("again", {"most": 1.5}), ("first", {})):
        values = [peaks[name] for peaks in seen]
        note = "arrays at the end {:.2f}".format(seen[0]["arrays"]) if name == "again" else ""
        told = "with the compiler's" if name == "first" else note
        yield timing.line(f"memory of solve / v, {name} call", values, note=told, **asked)


# Sweeps.


class Grid(NamedTuple):
    """A sweep: 16 step sizes by 4 keys of one problem."""

    problem: rsgda.Problem
    theta: Any
    v: Any
    steps: int
    algorithms: tuple[rsgda.RSGDA, ...]
    keys: Array

    def sweep(self) -> rsgda.Table:
        return rsgda.sweep(
            self.problem, self.algorithms, self.theta, self.v, keys=self.keys, steps=self.steps
        )

    def one_by_one(self) -> list[rsgda.Result]:
        return [
            rsgda.solve(self.problem, algorithm, self.theta, self.v, key=key, steps=self.steps)
            for algorithm in self.algorithms
            for key in self.keys
        ]


def toy_grid(steps: int) -> Grid:
    algorithms = [
        rsgda.RSGDA(p=P, alpha=float(alpha), eta=float(eta))
        for alpha in np.geomspace(0.002, 0.02, 4)
        for eta in np.geomspace(0.02, 0.2, 4)
    ]
    return Grid(TOY.problem, *TOY.start("float32"), steps, tuple(algorithms), jr.split(KEY, 4))


def network_loss(theta: list[Array], v: Array, batch: tuple[Array, Array]) -> Array:
    """Squared loss of a small network whose inputs are shifted by v."""
    x, y = batch
    hidden = jnp.tanh((x + v) @ theta[0])
    return jnp.mean(jnp.square(hidden @ theta[1] - y)) - jnp.sum(jnp.square(v))


def network_grid(steps: int) -> Grid:
    numbers = np.random.default_rng(0)
    data = tuple(jnp.asarray(numbers.normal(size=(1_000, k)).astype("f")) for k in (20, 1))
    problem = rsgda.Problem(network_loss, data=data, batch_size=64)
    shapes = ((20, 64), (64, 1))
    theta = [jnp.asarray(0.1 * numbers.normal(size=shape).astype("f")) for shape in shapes]
    algorithms = [
        rsgda.RSGDA(p=P, alpha=float(alpha), eta=0.05) for alpha in np.geomspace(1e-3, 1e-2, 16)
    ]
    return Grid(problem, theta, jnp.zeros(20), steps, tuple(algorithms), jr.split(KEY, 4))


def sweep(size: Size) -> Iterator[timing.Line]:
    """64 rows at once against one after the other."""
    grid = toy_grid(size.sweep_steps)
    table, singles = grid.sweep(), grid.one_by_one()
    for i in range(len(grid.algorithms)):
        for j in range(len(grid.keys)):
            single = singles[i * len(grid.keys) + j]
            close("a row of the sweep and the single run", table[i, j].theta, single.theta)
    seconds = timing.interleave({"singles": grid.one_by_one, "sweep": grid.sweep}, size.rounds)
    note = f"sweep {timing.microseconds(seconds['sweep'], grid.steps)} of all 64 rows"
    ratios = seconds["singles"] / seconds["sweep"]
    yield timing.line(
        "sweep of 64 runs, throughput", ratios, against="one by one", least=6, note=note
    )


def plans(size: Size) -> Iterator[timing.Line]:
    """Both plans of a sweep, and whether the better one is chosen."""
    grids = {"toy": toy_grid(size.sweep_steps), "network": network_grid(size.network_steps)}
    for name, grid in grids.items():
        seconds = timing.interleave(
            {
                "apart": functools.partial(sweep_by_plan, grid, together=False),
                "together": functools.partial(sweep_by_plan, grid, together=True),
            },
            size.rounds,
        )
        chosen, other = ("apart", "together") if chooses_apart(grid) else ("together", "apart")
        note = f"chosen: {chosen}"
        ratios = seconds[chosen] / seconds[other]
        yield timing.line(f"sweep of {name}, plan chosen / other", ratios, most=1, note=note)


def sweep_by_plan(grid: Grid, *, together: bool) -> rsgda.Table:
    with mock.patch.object(plan, "together_pays", return_value=together):
        return grid.sweep()


def chooses_apart(grid: Grid) -> bool:
    """Whether rows with different coins run one group after the other."""
    first = grid.algorithms[0].init(grid.problem, grid.theta, grid.v, grid.keys[0])
    return len(plan.blocks(grid.problem, grid.algorithms, grid.keys, first)) > 1


# Starting up.


def start(size: Size) -> Iterator[timing.Line]:
    """What a user waits for before anything runs."""

    def imports(line: str) -> list[float]:
        return timing.commands([sys.executable, "-c", line], size.commands)

    yield timing.line("import rsgda", imports("import rsgda"), unit="s", most=1.5)
    yield timing.line("import of solve with JAX", imports("from rsgda import solve"), unit="s")
    command = Path(sysconfig.get_path("scripts"), "rsgda")
    if importlib.util.find_spec("rsgda.cli") is None or not command.exists():
        print("    rsgda --help left out: the command is not installed")
        return
    seconds = timing.commands([str(command), "--help"], size.commands)
    yield timing.line("rsgda --help", seconds, unit="s", most=0.5)
    with tempfile.TemporaryDirectory() as folder:
        seconds = cached([str(command), "reproduce", REPRODUCED], Path(folder), size.commands)
    name = f"rsgda reproduce {REPRODUCED}, cache of programs filled / empty"
    note = f"{np.median(seconds['empty']):.2g} s where it is empty"
    yield timing.line(name, seconds["filled"] / seconds["empty"], most=1, note=note)


def cached(command: list[str], folder: Path, rounds: int) -> dict[str, np.ndarray]:
    """Return the seconds of a command with an empty cache of programs, and with a filled one."""

    def run(cache: str, out: str) -> None:
        settings = {cli_cache.FOLDER: str(folder / cache), cli_cache.SHORTEST: cli_cache.SECONDS}
        subprocess.run(
            [*command, "--out", str(folder / out)],
            check=True, capture_output=True, env={**os.environ, **settings},
        )  # fmt: skip

    def empty() -> None:
        name = tempfile.mkdtemp(dir=folder)
        run(name, f"{name}-out")

    def filled() -> None:
        run("filled", tempfile.mkdtemp(dir=folder))

    return timing.interleave({"empty": empty, "filled": filled}, rounds)


CONTESTS = {
    "loop": Contest(loop),
    "torch": Contest(eager, ("torch",)),
    "separable": Contest(separable),
    "memory": Contest(memory),
    "sweep": Contest(sweep),
    "plans": Contest(plans),
    "start": Contest(start),
}


if __name__ == "__main__":
    sys.exit(suite.main(__doc__, CONTESTS, full=FULL, quick=QUICK))
