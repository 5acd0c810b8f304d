"""Simulated cells: a tree of populations, seen through two technologies."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rsgda import _checks

LATENT = 6  # dimensions that cells really differ in
SPREAD = 0.15  # of cells about their branch
HIDDEN = 24  # features of these that both technologies see through their own lens
DEPTH = 2_000.0  # counts of a cell's RNA, in the mean
COFACTOR = 5.0  # asinh(counts / 5) brings cytometry to about the scale of its signal
BLOCK = 2**21  # counts that are drawn at once


class SimulatedCells(NamedTuple):
    """Cells that two technologies have seen.

    Attributes:
        x: counts by a technology like mass cytometry, N × features.
        y: counts by one like RNA sequencing, n × features.
        x_types: the branch of each cell of x, 0 for the stem.
        y_types: of each of y.
        pairs: two rows for each cell that both have seen: its place in x, its place in y.
    """

    x: np.ndarray
    y: np.ndarray
    x_types: np.ndarray
    y_types: np.ndarray
    pairs: np.ndarray


def simulated_cells(
    sizes: tuple[int, int] = (2_000, 500),
    *,
    features: tuple[int, int] = (37, 200),
    branches: int = 3,
    seed: int = 0,
) -> SimulatedCells:
    r"""Return cells of a stem and its branches, seen through two technologies.

    A cell has a branch and a time $t$ on it, hence a place
    $s = \text{root} + t\, \text{direction} + \text{noise}$ in 6 dimensions, of which each
    technology sees nonlinear features. The first counts $x \sim \mathrm{Poisson}(5 \sinh
    \text{signal})$, the second $y \sim \mathrm{Poisson}(\text{depth} \cdot
    \mathrm{softmax}(\text{signal}))$ with a depth that differs between cells. Branches differ in
    size and in length, which could tell them apart; a match that is told nothing may exchange
    them all the same. Memory is that of the counts.

    Args:
        sizes: N and n, the cells of each technology. The first min(N, n) cells are the same.
        features: of each.
        branches: beside the stem, from 1 to 5.
        seed: of all that is random.

    >>> cells = simulated_cells((40, 10), features=(5, 8))
    >>> cells.x.shape, cells.y.shape, cells.pairs.shape
    ((40, 5), (10, 8), (2, 10))
    """
    for name, pair in (("sizes", sizes), ("features", features)):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(f"`{name}` must be two whole numbers, got {pair!r}.")
        for number in pair:
            _checks.whole(name, number, 1)
    _checks.whole("branches", branches, 1)
    if branches >= LATENT:
        raise ValueError(f"`branches` must be from 1 to {LATENT - 1}, got {branches}.")
    _checks.whole("seed", seed, 0)
    # The world and the cells are drawn apart: another number of cells is of the same world.
    world, draw = (np.random.default_rng([seed, part]) for part in range(2))
    directions, _ = np.linalg.qr(world.normal(size=(LATENT, LATENT)))
    lenses = [_lens(world, count) for count in features]
    most = max(sizes)
    weights = np.arange(1, branches + 2) / np.sum(np.arange(1, branches + 2))
    types = draw.choice(branches + 1, size=most, p=weights)
    length = (1 + types / (branches + 1)) * draw.uniform(size=most)
    along = directions[types]
    root = np.where(types[:, None] > 0, directions[0], 0)
    places = root + length[:, None] * along + SPREAD * draw.normal(size=(most, LATENT))
    depth = DEPTH * draw.gamma(4, 1 / 4, size=(most, 1))

    def cytometry(part: slice) -> np.ndarray:
        return COFACTOR * np.sinh(np.clip(1.5 + lenses[0](places[part]), 0, 6))

    def rna(part: slice) -> np.ndarray:
        signal = lenses[1](places[part])
        shares = np.exp(signal - signal.max(axis=1, keepdims=True))
        return depth[part] * shares / shares.sum(axis=1, keepdims=True)

    x, y = (
        _counted(means, size, count, np.random.default_rng([seed, 2 + side]))
        for side, (means, size, count) in enumerate(
            zip((cytometry, rna), sizes, features, strict=True)
        )
    )
    # Rows in an order of their own, so that nothing hangs on place.
    of_x, of_y = (draw.permutation(size) for size in sizes)
    both = min(sizes)
    return SimulatedCells(
        x[of_x], y[of_y], types[of_x], types[of_y],
        np.stack([np.argsort(of_x)[:both], np.argsort(of_y)[:both]]),
    )  # fmt: skip


def _counted(
    means: Callable[[slice], np.ndarray], size: int, count: int, draw: np.random.Generator
) -> np.ndarray:
    """Return counts of the first cells, a block of rows after the other."""
    counts = np.empty((size, count), np.int32)
    step = max(1, BLOCK // count)
    for start in range(0, size, step):
        part = slice(start, min(size, start + step))
        counts[part] = draw.poisson(means(part))
    return counts


def _lens(world: np.random.Generator, count: int):
    """Return what a technology sees of a place: smooth, nonlinear, of any number of features."""
    first = world.normal(size=(LATENT, HIDDEN))
    shift = world.normal(size=HIDDEN)
    second = world.normal(size=(HIDDEN, count)) / np.sqrt(HIDDEN)
    return lambda places: 2 * np.tanh(places @ first + shift) @ second
