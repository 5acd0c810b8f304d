"""Looking for what a search from the sample cannot see: maxima beyond a far boundary.

Around a sample of a confident network the loss is flat, so that all looks concave there, while
beyond the boundary of its class there may be more to gain than the way costs.
"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array, lax

from rsgda._trees import PyTree, thaw
from rsgda.robust.attacks import (
    Rows,
    judged,
    losses,
    numbers_of,
    run_pgd,
    squared_distances,
    wide,
)
from rsgda.robust.losses import Loss, cross_entropy

GAINS = (0.05, 0.3, 2.0, 12.0, 72.0)  # of the loss: attacks go as far as such a gain is worth
STEPS = 20  # of an attack
STARTS = 3  # of the attack on the loss itself, for each gain
LINES = 2  # straight ways in random directions, for each gain
TARGETS = 9  # other classes that attacks lead to, at most
PIECES = 32  # of a way, between which curvature is looked at
AT_ONCE = 1024  # samples that are held against all others
ROUNDING = 64  # in units of the last place: what two values are wrong by


class Maxima(NamedTuple):
    """The maxima of samples, by one search or by two that agree."""

    v: np.ndarray
    value: np.ndarray
    gap: np.ndarray


class Seen(NamedTuple):
    """What was seen of the loss of some samples; none of it depends on a gamma."""

    points: np.ndarray  # squared distances and losses, 2 by points by samples
    curvature: np.ndarray  # the largest of the loss, for each sample


def beyond(rows: Rows, gamma: float, places: np.ndarray) -> tuple[np.ndarray, Seen]:
    """Return the best of the points that attacks and random ways lead to, and what was seen.

    The attacks make the loss large, and the loss of each other class small.
    """
    found = [(z, *look(rows, z, places)) for z in _ends(rows, gamma, places)]
    best, best_value = rows.X[places], np.full(len(places), -np.inf)
    for z, point, _ in found:
        value = point[1] - gamma * point[0]
        higher = value > best_value
        best = np.where(wide(higher, z), z, best)
        best_value = np.where(higher, value, best_value)
    points = np.stack([point for _, point, _ in found], axis=1)
    return best, Seen(points, np.max([bent for *_, bent in found], axis=0))


def look(rows: Rows, z: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances and losses of samples that were moved, and the curvature seen."""
    return judged(rows, z, places), curvature_between(rows, rows.X[places], z, places)


def _ends(rows: Rows, gamma: float, places: np.ndarray) -> Iterator[np.ndarray]:
    x, count = rows.X[places], len(places)
    radii = [(gain / gamma) ** 0.5 for gain in GAINS]
    logits = np.array(_logits(rows.network, x))
    logits[np.arange(count), rows.y[places]] = -np.inf
    likely = np.argsort(-logits, axis=1)[:, : min(TARGETS, logits.shape[1] - 1)]
    for i, target in enumerate((*(None,) * STARTS, *likely.T)):
        attacked = rows._replace(key=jr.fold_in(rows.key, i))
        if target is not None:
            y = np.array(rows.y)
            y[places] = target
            attacked = attacked._replace(y=y, loss=towards)
        for radius in radii:
            yield run_pgd(attacked, numbers_of("gamma", radius, rows, STEPS, None, 1), "l2", places)
    seed = np.asarray(jr.key_data(rows.key)).ravel().tolist()
    rng = np.random.default_rng([*seed, int(places[0])])
    for radius in LINES * radii:
        d = rng.normal(size=x.shape)
        d *= wide(radius / np.sqrt(np.sum(np.square(d), axis=tuple(range(1, d.ndim)))), d)
        z = x + d
        if rows.box is not None:
            z = np.clip(z, *map(np.asarray, rows.box))
        yield z.astype(x.dtype)


def towards(logits: Array, label: Array, label_smoothing: Any = 0.0) -> Array:
    """Return what is large where the network takes a sample for one of the class `label`."""
    del label_smoothing
    return -cross_entropy(logits, label)


def curvature_between(
    rows: Rows, start: np.ndarray, end: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """Return the largest curvature of the loss between two points, by second differences.

    What rounding can account for is left out.
    """
    y = rows.y[places]
    each = _along(rows.network, start, end, y, rows.smoothing, loss=rows.loss)
    each = np.asarray(each, float)
    apart = squared_distances(rows._replace(X=start), end, np.arange(len(end))) / PIECES**2
    size = np.max(np.abs(np.stack([start, end])), axis=(0, *range(2, 1 + start.ndim)))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        slope = np.max(np.abs(np.diff(each, axis=0)), axis=0) / np.sqrt(apart)
        # The points are rounded, too, which moves them by their size and the loss by its slope.
        wrong = ROUNDING * (1 + np.max(np.abs(each), axis=0)) + 8 * slope * size
        bent = np.max(np.diff(each, 2, axis=0), axis=0) - wrong * np.finfo(end.dtype).eps
        return np.nan_to_num(bent / apart, nan=-np.inf, posinf=-np.inf)


def agree(near: Any, far: Any) -> Maxima:
    """Return what two searches say together; where they contradict each other nothing holds."""
    eps = np.finfo(np.asarray(near.value).dtype).eps
    near, far = (
        Maxima(np.asarray(one.v), np.asarray(one.value, float), np.asarray(one.gap, float))
        for one in (near, far)
    )
    further = far.value > near.value
    value = np.maximum(near.value, far.value)
    # Each says that no value is above its own and its gap.
    most = np.minimum(near.value + near.gap, far.value + far.gap)
    sound = np.isfinite(near.gap) & np.isfinite(far.gap)
    sound &= value <= most + ROUNDING * eps * (1 + np.abs(value))
    gap = np.where(sound, np.maximum(most - value, 0), np.inf)
    return Maxima(np.where(wide(further, near.v), far.v, near.v), value, gap)


def hold_against_others(rows: Rows, found: Maxima, gamma: float) -> Maxima:
    """Ask for each sample whether what was found for another of its label is better for it.

    The loss knows of a sample nothing but its label: only the way to a point is another.
    """
    n = len(found.value)
    X, v = (np.reshape(part, (n, -1)).astype(float) for part in (rows.X, found.v))
    reached = found.value + gamma * np.sum(np.square(v - X), axis=1)
    value, gap, where = found.value.copy(), found.gap.copy(), np.arange(n)
    for label in np.unique(rows.y):
        mine = np.flatnonzero(rows.y == label)
        to = v[mine]
        for part in np.array_split(mine, -(-len(mine) // AT_ONCE)):
            squares = np.sum(X[part] ** 2, axis=1)[:, None] + np.sum(to**2, axis=1)
            apart = np.maximum(squares - 2 * X[part] @ to.T, 0)
            offered = reached[mine] - gamma * apart
            best = np.argmax(offered, axis=1)
            offered, squares = (one[np.arange(len(part)), best] for one in (offered, squares))
            rounding = ROUNDING * np.finfo(rows.X.dtype).eps * (1 + np.abs(offered))
            rounding += ROUNDING * np.finfo(float).eps * gamma * squares
            gap[part] = np.where(offered > value[part] + gap[part] + rounding, np.inf, gap[part])
            better = offered > value[part] + rounding
            value[part] = np.where(better, offered, value[part])
            where[part] = np.where(better, mine[best], part)
    gap = np.maximum(gap - (value - found.value), 0)  # value + gap stays
    return Maxima(found.v[where], value, gap)


@jax.jit
def _logits(network: PyTree, x: Array) -> Array:
    return jax.vmap(thaw(network))(x)


@functools.partial(jax.jit, static_argnames="loss")
def _along(
    network: PyTree, start: Array, end: Array, y: Array, smoothing: Array, *, loss: Loss
) -> Array:
    """Return the losses at points from the start to the end, points by samples."""
    parts = jnp.linspace(0, 1, PIECES + 1, dtype=start.dtype)
    return lax.map(lambda t: losses(network, y, smoothing, loss, start + t * (end - start)), parts)
