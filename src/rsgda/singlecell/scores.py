"""How good an alignment is: true pairs, labels, and how well the two sides mix."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.neighbors import NearestNeighbors

from rsgda import _checks
from rsgda.singlecell.tables import words

CHUNK = 2**22  # distances at once


class Foscttm(NamedTuple):
    """The fraction of samples closer than the true match; 0 is perfect, 0.5 is chance.

    Attributes:
        source: the mean over cells of the source, among cells of the target.
        target: over cells of the target, among those of the source.
        mean: of both.
    """

    source: float
    target: float
    mean: float


class Confusion(NamedTuple):
    """What labels became of what.

    Attributes:
        accuracy: the share of cells whose label is right.
        labels: all that there are.
        matrix: cells of label i, in rows, that were given label j.
    """

    accuracy: float
    labels: np.ndarray
    matrix: np.ndarray


class Mixing(NamedTuple):
    """The share of neighbours from the other side, over that of a random order; 1 is mixed.

    Attributes:
        source: the mean over cells of the source.
        target: over cells of the target.
        mean: of both.
    """

    source: float
    target: float
    mean: float


def foscttm(source: Any, target: Any) -> Foscttm:
    r"""Score an alignment of cells of which the true pairs are known.

    $$ \frac1n \sum_i \frac{\#\{ j \ne i : \|a_i - b_j\| < \|a_i - b_i\| \}}{n - 1} $$

    and likewise with a and b exchanged. Equal distances count by half, so that a map that sends
    all cells to one place has 0.5. Memory is that of a block of distances.

    Args:
        source: $a$, n × d, in the space of the target.
        target: $b$, n × d; row i is the same cell as row i of `source`.

    >>> foscttm([[0.0], [1.0], [2.0]], [[0.1], [1.2], [1.9]])
    Foscttm(source=0.0, target=0.0, mean=0.0)
    >>> foscttm([[0.0], [0.0], [0.0]], [[0.1], [1.2], [1.9]]).target
    0.5

    Source: Liu et al. (2019), Jointly embedding multiple single-cell omics measurements.
    """
    a, b = _points("source", source), _points("target", target)
    if a.shape != b.shape or len(a) < 2:
        raise ValueError(
            f"`source` and `target` must be two or more pairs of points, got the shapes {a.shape} "
            f"and {b.shape}."
        )
    one, other = _closer(a, b), _closer(b, a)
    return Foscttm(one, other, (one + other) / 2)


def _closer(a: np.ndarray, b: np.ndarray) -> float:
    true = np.sum((a - b) ** 2, axis=1)
    total, size = 0.0, max(1, CHUNK // (len(b) * b.shape[1]))
    for start in range(0, len(a), size):
        rows = slice(start, start + size)
        apart = np.sum((a[rows, None, :] - b[None, :, :]) ** 2, axis=2)
        mine = true[rows, None]
        closer = np.sum(apart < mine, axis=1) + 0.5 * (np.sum(apart == mine, axis=1) - 1)
        total += float(np.sum(closer))
    return total / (len(a) * (len(b) - 1))


def label_transfer(true: Any, given: Any) -> Confusion:
    """Compare the labels that cells were given with their own.

    Args:
        true: one label for each cell.
        given: those that were transferred.

    >>> found = label_transfer(["B", "B", "T"], ["B", "T", "T"])
    >>> round(found.accuracy, 3), found.labels.tolist(), found.matrix.tolist()
    (0.667, ['B', 'T'], [[1, 1], [0, 1]])
    """
    true, given = words(true), words(given)
    if true.ndim != 1 or true.shape != given.shape or not len(true):
        raise ValueError(
            "`true` and `given` must hold one label for each cell, got the shapes "
            f"{true.shape} and {given.shape}."
        )
    labels = np.unique(np.r_[true, given])
    matrix = np.zeros((len(labels), len(labels)), int)
    np.add.at(matrix, (np.searchsorted(labels, true), np.searchsorted(labels, given)), 1)
    return Confusion(float(np.mean(true == given)), labels, matrix)


def mixing(source: Any, target: Any, *, neighbours: int = 30, most: int = 5_000) -> Mixing:
    r"""Score how well two clouds lie in each other, by the nearest neighbours of their cells.

    $$ \frac1n \sum_i \frac{\text{share of } i\text{'s } k \text{ nearest that are of the other
       side}}{m / (n + m - 1)} $$

    for the n cells of a side beside the m of the other. Clouds that lie apart have 0; those of one
    distribution have 1.

    Args:
        source: n × d, in the space of the target.
        target: m × d.
        neighbours: $k$.
        most: cells of each side, at random, whose neighbours are looked up; these are found among
            all.

    >>> rng = np.random.default_rng(0)
    >>> mixing(rng.normal(size=(50, 2)), 100 + rng.normal(size=(40, 2)), neighbours=5).mean
    0.0
    """
    a, b = _points("source", source), _points("target", target)
    if a.shape[1] != b.shape[1]:
        raise ValueError(
            f"`source` and `target` must have one dimension, got {a.shape[1]} and {b.shape[1]}."
        )
    _checks.whole("neighbours", neighbours, 1)
    _checks.whole("most", most, 1)
    both = np.concatenate([a, b])
    if neighbours >= len(both):
        raise ValueError(
            f"`neighbours` must be below the {len(both):,} cells of both sides, got {neighbours}."
        )
    # One neighbour more, as each cell is its own.
    search = NearestNeighbors(n_neighbors=neighbours + 1).fit(both)
    rng = np.random.default_rng(0)

    def other(start: int, size: int) -> float:
        """Return the share of neighbours of some cells of a side that are of the other."""
        cells = start + np.sort(rng.choice(size, min(most, size), replace=False))
        near = search.kneighbors(both[cells], return_distance=False)
        near = np.where(near == cells[:, None], -1, near)
        # Where a cell has doubles, it may not be among its own neighbours: then the last goes.
        near[~np.any(near == -1, axis=1), -1] = -1
        beyond = (near >= 0) & ((near < start) | (near >= start + size))
        return float(beyond.sum()) / (len(cells) * neighbours)

    one = other(0, len(a)) * (len(both) - 1) / len(b)
    two = other(len(a), len(b)) * (len(both) - 1) / len(a)
    return Mixing(one, two, (one + two) / 2)


def _points(name: str, value: Any) -> np.ndarray:
    # In one order, so that sums are rounded alike and distances that are equal stay equal.
    try:
        points = np.ascontiguousarray(value, float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be an array of points, n × d, finite, got {value!r:.80}."
        ) from error
    if points.ndim != 2 or 0 in points.shape or not np.all(np.isfinite(points)):
        raise ValueError(
            f"`{name}` must be an array of points, n × d, finite, got the shape {points.shape}."
        )
    return points
