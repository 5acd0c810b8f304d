"""Looking for what a search from the sample cannot see: maxima beyond a far boundary.

Around a sample of a confident network the loss is flat, so that all looks concave there, while
beyond the boundary of its class there may be more to gain than the way costs.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rsgda._trees import PyTree, thaw
from rsgda.robust.attacks import Rows, judged, losses, numbers_of, run_pgd, squared_distances
from rsgda.robust.losses import Loss, cross_entropy

GAINS = (0.05, 0.3, 2.0, 12.0, 72.0)  # of the loss: attacks go as far as such a gain is worth
STEPS = 20  # of an attack
TARGETS = 9  # other classes that attacks lead to, at most
PIECES = 8  # of a way, between which concavity is looked at
AT_ONCE = 1024  # samples that are held against all others
ROUNDING = 64  # in units of the last place: what two values are wrong by


class Maxima(NamedTuple):
    """The maxima of samples, by one search or by two that agree."""

    v: np.ndarray
    value: np.ndarray
    gap: np.ndarray


def beyond(rows: Rows, gamma: float, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best of the points that attacks lead to, and where the way there is not concave.

    The attacks make the loss large, and the loss of each other class small.
    """
    x, count = rows.X[places], len(places)
    best, best_value, bent = x, np.full(count, -np.inf), np.zeros(count, bool)
    logits = np.array(_logits(rows.network, x))
    logits[np.arange(count), rows.y[places]] = -np.inf
    likely = np.argsort(-logits, axis=1)[:, : min(TARGETS, logits.shape[1] - 1)]
    for target in (None, *likely.T):
        attacked = rows
        if target is not None:
            y = np.array(rows.y)
            y[places] = target
            attacked = rows._replace(y=y, loss=towards)
        for gain in GAINS:
            ball = numbers_of("gamma", (gain / gamma) ** 0.5, rows, STEPS, None, 1)
            z = run_pgd(attacked, ball, "l2", places)
            moved, each = judged(rows, z, places)
            higher = each - gamma * moved > best_value
            best = np.where(_wide(higher, z), z, best)
            best_value = np.where(higher, each - gamma * moved, best_value)
            bent |= convex_between(rows, x, z, places, gamma)
    return best, bent


def towards(logits: Array, label: Array, label_smoothing: Any = 0.0) -> Array:
    """Return what is large where the network takes a sample for one of the class `label`."""
    del label_smoothing
    return -cross_entropy(logits, label)


def convex_between(
    rows: Rows, start: np.ndarray, end: np.ndarray, places: np.ndarray, gamma: float
) -> np.ndarray:
    """Say where the objective is not concave between two points, by second differences."""
    y = rows.y[places]
    each = _along(rows.network, start, end, y, rows.smoothing, loss=rows.loss)
    each = np.asarray(each, float)
    apart = squared_distances(rows._replace(X=start), end, np.arange(len(end)))
    # Those of the penalty are known, so that only the loss is differenced.
    curved = each[2:] - 2 * each[1:-1] + each[:-2] - 2 * gamma * apart / PIECES**2
    rounding = ROUNDING * np.finfo(end.dtype).eps * (1 + np.max(np.abs(each), axis=0))
    return np.any(curved > rounding, axis=0)


def agree(near: Any, far: Any, bent: np.ndarray) -> Maxima:
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
    sound = np.isfinite(near.gap) & np.isfinite(far.gap) & ~bent
    sound &= value <= most + ROUNDING * eps * (1 + np.abs(value))
    gap = np.where(sound, np.maximum(most - value, 0), np.inf)
    return Maxima(np.where(_wide(further, near.v), far.v, near.v), value, gap)


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
            apart = np.sum(X[part] ** 2, axis=1)[:, None] + np.sum(to**2, axis=1)
            apart = np.maximum(apart - 2 * X[part] @ to.T, 0)
            offered = reached[mine] - gamma * apart
            best = np.argmax(offered, axis=1)
            offered = offered[np.arange(len(part)), best]
            rounding = ROUNDING * np.finfo(rows.X.dtype).eps * (1 + np.abs(offered))
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


def _wide(row: np.ndarray, like: np.ndarray) -> np.ndarray:
    return row.reshape(-1, *(1,) * (like.ndim - 1))
