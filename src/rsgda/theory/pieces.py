"""The directions of V, and samples one by one."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax

from rsgda._flat import widest
from rsgda._trees import PyTree, freeze, thaw
from rsgda.problem import Batch
from rsgda.whole import Whole

BASIS = 2**26  # numbers that a Lanczos basis may hold: half a gigabyte of float64
CHUNK = 2**22  # numbers that samples looked at side by side may hold together
DRAWS = 32  # points of V whose mean lies inside of it


def of_sample(F: Whole, v: PyTree, place: Array) -> tuple[PyTree, Batch]:
    """Return one sample, a batch of its own, and what of v it is about."""
    problem = F.problem
    if problem.sample is not None and F.key is not None:
        return v, Batch((problem.sample(jr.fold_in(F.key, place)),), None)
    mine = row_of(v, place) if problem.separable else v
    return mine, Batch((row_of(problem.data, place),), None)


def centre_of(project: Any, v: PyTree, key: Array) -> tuple[PyTree, Array]:
    """Return a point inside of V, and how far V leaves the directions that are tangent there.

    A mean of points of V has slack in every constraint in which one of them has.
    """
    if project is None:
        return v, jnp.zeros(())
    leaves, structure = jax.tree.flatten(v)
    size = jnp.sqrt(inner(v, v) / max(size_of(v), 1))
    size = jnp.where(size > 0, size, 1)

    def point(i: Array) -> PyTree:
        keys = jr.split(jr.fold_in(key, i), len(leaves))
        spread = size * jnp.power(10.0, (i % 6 - 3).astype(size.dtype))
        moved = [
            leaf + spread.astype(leaf.dtype) * jr.normal(k, leaf.shape, leaf.dtype)
            for leaf, k in zip(leaves, keys, strict=True)
        ]
        return freeze(project(thaw(jax.tree.unflatten(structure, moved))))

    def add(i: Array, total: PyTree) -> PyTree:
        return jax.tree.map(jnp.add, total, point(i))

    total = lax.fori_loop(0, DRAWS, add, v)
    centre = jax.tree.map(lambda leaf: leaf / (DRAWS + 1), total)

    def away(i: Array, worst: Array) -> Array:
        offset = jax.tree.map(jnp.subtract, point(i), centre)
        rest = jax.tree.map(jnp.subtract, along(project, centre, offset, None), offset)
        share = inner(rest, rest) / jnp.maximum(inner(offset, offset), 1e-30)
        return jnp.maximum(worst, jnp.sqrt(share))

    return centre, lax.fori_loop(0, DRAWS, away, jnp.zeros_like(size))


def along(project: Any, centre: PyTree, u: PyTree, inside: Array | None) -> PyTree:
    """Return the part of a direction that does not leave V's hull, all of it if none is known."""
    if project is None:
        return u
    flat = jax.jvp(lambda v: freeze(project(thaw(v))), (centre,), (u,))[1]
    if inside is None:
        return flat
    return jax.tree.map(lambda flat, u: jnp.where(is_inside(inside), flat, u), flat, u)


def is_inside(inside: Array) -> Array:
    """Say whether V's directions were found."""
    return inside < 1e-3


def move(project: Any, v: PyTree, slope: PyTree, curvature: Array) -> PyTree:
    """Return the step of projected ascent with step size 1 / curvature."""
    by = 1 / jnp.where(curvature > 0, curvature, 1)
    if project is None:
        return jax.tree.map(lambda g: by.astype(g.dtype) * g, slope)
    moved = jax.tree.map(lambda v, g: v + by.astype(g.dtype) * g, v, slope)
    return jax.tree.map(jnp.subtract, freeze(project(thaw(moved))), v)


def over(of: Callable[[Array], PyTree], places: Array, size: int) -> PyTree:
    """Return `of` at all places, so many side by side as fit, where one needs `size` numbers."""
    count = places.size
    chunk = min(max(CHUNK // max(size, 1), 1), count, 1024)
    if chunk == 1:
        return lax.map(of, places)  # no batching, which would copy what a loop carries
    if chunk == count:
        return jax.vmap(of)(places)
    rounds = -(-count // chunk)
    # Some of the places twice rather than a rest, which would be compiled by itself.
    filled = jnp.resize(places, (rounds, chunk))
    found = lax.map(jax.vmap(of), filled)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], found)


def fitting(steps: int, size: int) -> int:
    """Return how many products a basis has room for."""
    return max(min(steps, size, BASIS // max(size, 1)), min(size, 8))


def row_of(tree: PyTree, place: Array) -> PyTree:
    """Return one row of each leaf, as a batch of one."""
    return jax.tree.map(lambda leaf: leaf[place][None], tree)


def inner(left: PyTree, right: PyTree) -> Array:
    """Return the inner product of two trees."""
    dtype = widest((left, right))
    parts = jax.tree.map(lambda a, b: jnp.vdot(a.astype(dtype), b.astype(dtype)), left, right)
    return functools.reduce(jnp.add, jax.tree.leaves(parts))


def size_of(tree: PyTree) -> int:
    """Return how many numbers a tree holds."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree))
