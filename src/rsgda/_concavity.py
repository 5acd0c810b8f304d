"""How concave a function is at some points, along the directions of the set it lives on."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax

from rsgda._lanczos import lanczos

STEPS = 400  # of Lanczos at most: enough for a condition number of some thousands
ROW_STEPS = 100  # likewise for each of many rows
NUMBERS = 2**25  # most numbers in the basis of one Lanczos run
COMPANY = 2**15  # most numbers in rows side by side, as all of them wait for the slowest
PRECISION = 0.25  # of the smallest curvature; what is left is covered by the safety factor
SPREAD = 64  # points of V whose mean is taken to lie in its relative interior

Map = Callable[[Array], Array]


class ConcavityWarning(UserWarning):
    """F was seen not to be strongly concave in v: a value is a lower bound of phi only."""


class Measured(NamedTuple):
    """The curvatures of -F that were seen.

    Attributes:
        low: the smallest; there is one at or below it, up to rounding.
        safe: the smallest, less what its Lanczos run left open.
        high: the largest.
        products: Hessian-vector products spent.
    """

    low: Array
    safe: Array
    high: Array
    products: Array


def nothing(dtype: jnp.dtype) -> Measured:
    """Return what is known before anything is measured."""
    far = jnp.full((), jnp.inf, dtype)
    return Measured(far, far, jnp.zeros((), dtype), jnp.zeros((), jnp.int32))


def directions(project: Map | None, x: Array, key: Array) -> Map | None:
    r"""Return the orthogonal projection on the span of $\{y - z : y, z \in V\}$; None for all.

    It is the derivative of the projection on V at a point of the relative interior of V. Such a
    point is the mean of points of V that were drawn in all directions and at several scales.
    """
    if project is None:
        return None
    reach = 1 + jnp.max(jnp.abs(x), initial=0)

    def spread(i: Array, c: Array) -> Array:
        scale = reach * 10.0 ** -(i % 4).astype(x.dtype)
        drawn = project(c + scale * jr.normal(jr.fold_in(key, i), x.shape, x.dtype))
        return c + (drawn - c) / (i + 2).astype(x.dtype)

    inside = lax.fori_loop(0, SPREAD, spread, project(x))
    return lambda u: jax.jvp(project, (inside,), (u,))[1]


def measure(
    so_far: Measured,
    product: Callable[[Array, Array], Array],
    point: Callable[[Array], Array],
    count: Array,
    along: Map | None,
    key: Array,
    most: int,
    toward: Array,
) -> Measured:
    r"""Measure the curvature of -F at `count` points, along the directions of V.

    Args:
        so_far: what is known; the smallest curvature ever seen is kept.
        product: `product(x, u)`, the Hessian of F at x times u.
        point: `point(i)`, where to measure.
        count: the number of points, which may be traced.
        along: the projection P on the directions of V; curvatures are those of $-P \nabla^2F P$.
        key: draws where each Lanczos run starts.
        most: most steps of a Lanczos run.
        toward: a direction that each run must see, that of the last gradient: what is left to
            gain lies along it, and a random start may hardly have a part in it.
    """

    def one(i: Array, so_far: Measured) -> Measured:
        x = point(i)
        start = _unit(_drawn(along, jr.fold_in(key, i), x))
        seen_too = _unit(toward if along is None else along(toward))
        # The sign that does not cancel: in one dimension nothing would be left.
        start += jnp.where(jnp.sum(start * seen_too) < 0, -1, 1) * seen_too
        curved, extra = _within(lambda u: -product(x, u), along, start)
        seen = lanczos(curved, start, steps=steps(x.size, most), tol=PRECISION)
        # Where a product was not finite nothing is known, and nothing can be counted on.
        known = jnp.isfinite(seen.low) & jnp.isfinite(seen.high)
        low = jnp.where(known, seen.low, -jnp.inf)
        # On a V that is a single point every constant is right.
        low = jnp.where(jnp.any(start != 0), low, 1)
        safe = low - seen.low_error
        return Measured(
            low=jnp.minimum(so_far.low, low),
            safe=jnp.minimum(so_far.safe, jnp.where(known, safe, -jnp.inf)),
            high=jnp.maximum(so_far.high, jnp.where(known, jnp.abs(seen.high), 0)),
            products=so_far.products + seen.products + extra,
        )

    return lax.fori_loop(0, count, one, so_far)


def around(
    project: Map | None, along: Map | None, centre: Array, radius: Array, key: Array
) -> Array:
    """Draw a point of V at a distance from another, before it is projected on V."""
    u = _drawn(along, key, centre)
    length = jnp.linalg.norm(u)
    moved = centre + jnp.where(length > 0, radius / jnp.where(length > 0, length, 1), 0) * u
    return moved if project is None else project(moved)


def _within(curved: Map, along: Map | None, start: Array) -> tuple[Map, int]:
    """Return an operator within the directions of V, and what it cost to build in products."""
    if along is None:
        return curved, 0
    image, squared = curved(start), jnp.sum(start * start)
    # Directions that leave V enter by rounding. They are given a curvature that some direction
    # of V has, so that they are neither the smallest nor the largest.
    common = jnp.sum(start * image) / jnp.where(squared > 0, squared, 1)

    def within(u: Array) -> Array:
        inside = along(u)
        return along(curved(inside)) + common * (u - inside)

    return within, 1


def _unit(u: Array) -> Array:
    length = jnp.linalg.norm(u)
    sound = (length > 0) & jnp.isfinite(length)
    return jnp.where(sound, u / jnp.where(sound, length, 1), 0)


def _drawn(along: Map | None, key: Array, like: Array) -> Array:
    u = jr.normal(key, like.shape, like.dtype)
    return u if along is None else along(u)


def steps(dim: int, most: int) -> int:
    """Return the steps of a Lanczos run in so many dimensions whose basis fits in memory."""
    return min(dim, most, max(8, NUMBERS // dim))


def rows_at_once(dim: int) -> int:
    """Return how many rows of so many dimensions can be measured side by side."""
    return max(1, min(COMPANY, NUMBERS // steps(dim, ROW_STEPS)) // dim)
