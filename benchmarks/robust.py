"""Speed of robust training with the network of Sinha et al., as ratios to a loop in PyTorch.

python benchmarks/robust.py [--quick] [--only NAME ...] [--json FILE]
"""

import functools
import statistics
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import suite
import timing
from jax import lax
from suite import Contest
from training import BATCH, Ours, images


class Size(NamedTuple):
    """How much is run."""

    rounds: int
    rows: int  # of a run of steps of one kind, few: a run begins with a copy of v
    steps: int
    epochs: int  # how often what takes long is run: an epoch, and products
    epoch_rows: int


FULL = Size(9, 3_000, 60, 5, 60_000)
QUICK = Size(2, 300, 3, 2, 600)


def steps(size: Size) -> Iterator[timing.Line]:
    """Steps of one kind."""
    from training_by_torch import rival

    x, y, _ = images(size.rows)
    ours = Ours(x, y)
    theirs = rival(ours, x, y)
    for name, p in (("descent", 1 - 1e-6), ("ascent", 1e-6)):
        seconds = timing.interleave(
            {
                "ours": functools.partial(ours.run, p, size.steps),
                "torch": functools.partial(theirs.run, [p > 0.5] * size.steps),
            },
            size.rounds,
        )
        note = f"PyTorch {timing.microseconds(seconds['torch'], size.steps)}"
        ratios = seconds["ours"] / seconds["torch"]
        yield timing.line(f"{name} step", ratios, against="PyTorch", most=0.9, note=note)


def epoch(size: Size) -> Iterator[timing.Line]:
    """An epoch of RSGDA at p = 1/2, against batches by index and by `DataLoader`."""
    from training_by_torch import rival

    x, y, what = images(size.epoch_rows)
    ours = Ours(x, y)
    theirs = rival(ours, x, y)
    count = -(-len(x) // BATCH)
    descents = int(ours.run(0.5, count).state.descents)
    coins = np.random.default_rng(0).permutation(np.arange(count) < descents)
    contestants = {
        "ours": functools.partial(ours.run, 0.5, count),
        "torch": functools.partial(theirs.run, coins),
        "loader": functools.partial(theirs.run_loader, theirs.loader(), coins),
    }
    seconds = timing.interleave(contestants, size.epochs, compiled=True)
    note = f"PyTorch {statistics.median(seconds['torch']):.3g} s, {what}"
    ratios = seconds["ours"] / seconds["torch"]
    yield timing.line("epoch at p = 0.5", ratios, against="PyTorch", most=0.9, note=note)
    ratios = seconds["ours"] / seconds["loader"]
    note = f"PyTorch {statistics.median(seconds['loader']):.3g} s"
    yield timing.line(
        "epoch at p = 0.5", ratios, against="PyTorch, DataLoader", most=0.6, note=note
    )


def rows(size: Size) -> Iterator[timing.Line]:
    """Steps at p = 1/2 on many rows and on few, each of which has its own row of v."""
    counts = size.epoch_rows, max(BATCH, size.epoch_rows // 100)
    many, few = (Ours(*images(count)[:2]) for count in counts)
    seconds = timing.interleave(
        {
            "many": functools.partial(many.run, 0.5, size.steps),
            "few": functools.partial(few.run, 0.5, size.steps),
            "begin many": functools.partial(many.run, 0.5, 0),
            "begin few": functools.partial(few.run, 0.5, 0),
        },
        size.rounds,
    )
    ratios = (seconds["many"] - seconds["begin many"]) / (seconds["few"] - seconds["begin few"])
    name = "step at n = {:,} / n = {:,}".format(*counts)
    note = f"without the beginning, {np.median(seconds['begin many']):.2g} s, which copies v"
    yield timing.line(name, ratios, most=1.05, note=note)


# Rows, depth and columns of the products that the convolutions of a minibatch come down to.
PRODUCTS = ((BATCH * 14 * 14, 64, 64), (BATCH * 5 * 5, 36 * 64, 128), (BATCH, 25 * 128, 128))


def profile(size: Size) -> Iterator[timing.Line]:
    """What a step comes to if nothing but its matrix products took time."""
    from training_by_torch import rival

    x, y, _ = images(size.rows)
    theirs = rival(Ours(x, y), x, y)
    numbers = np.random.default_rng(0)
    layers = [
        tuple(
            jnp.asarray(numbers.normal(size=shape), jnp.float32)
            for shape in ((r, d), (d, c), (r, c))
        )
        for r, d, c in PRODUCTS
    ]
    # The gradient in the images is needed by ascents, that in the kernels by descents.
    for name, descend in (("descent", True), ("ascent", False)):
        multiply = functools.partial(products, layers, size.steps, descend=descend)
        contestants = {
            "products": lambda multiply=multiply: jax.block_until_ready(multiply()),
            "torch": functools.partial(theirs.run, [descend] * size.steps),
        }
        seconds = timing.interleave(contestants, size.epochs)
        ratios = seconds["products"] / seconds["torch"]
        yield timing.line(f"products of the {name} alone / PyTorch's step", ratios)


@functools.partial(jax.jit, static_argnames="descend")
def products(layers: Any, steps: int, *, descend: bool) -> Any:
    """Multiply as a step does, again and again."""

    def once(one: Any) -> Any:
        made = []
        for i, (patches, kernel, slope) in enumerate(layers):
            # The smaller factor takes part in the loop: else all rounds would be found to be one.
            made.append(patches @ (one * kernel))
            if descend:
                made.append(patches.T @ (one * slope))
            if i > 0 or not descend:
                made.append(slope @ (one * kernel).T)
        return made

    def step(_: Any, made: Any) -> Any:
        return once(1 + 0 * made[-1][0, 0])

    return lax.fori_loop(0, steps, step, once(jnp.float32(1)))


CONTESTS = {
    "steps": Contest(steps, ("torch",)),
    "epoch": Contest(epoch, ("torch",)),
    "rows": Contest(rows),
    "profile": Contest(profile, ("torch",)),
}


if __name__ == "__main__":
    sys.exit(suite.main(__doc__, CONTESTS, full=FULL, quick=QUICK))
