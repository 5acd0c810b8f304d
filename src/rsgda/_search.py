"""The maximum of one concave function: curvature is measured, and the ascent rests on it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax

from rsgda import _ascent, _concavity
from rsgda._flat import flattened, unflattened, widest
from rsgda._trees import PyTree

SAFETY = 2.0  # a measured constant is divided by it
AGREES = 1e-3  # relative: how far a measured curvature may fall below the user's constant
FLAT = 32  # in units of the last place of the largest curvature: what is flat
ROUNDS = 3  # ascents at most, each followed by a measurement at its end
LOOKS = 8  # rounds at most, also those that only look further around
FURTHER = 2.0  # how much further the maximiser may be before it is looked for once more


class Function(NamedTuple):
    """A function of a pytree of floating arrays, to be maximised over V."""

    value: Callable[[PyTree], Array]
    slope: Callable[[PyTree], tuple[Array, PyTree]]  # value and gradient
    product: Callable[[PyTree, PyTree], PyTree]  # the Hessian at the first times the second
    project: Callable[[PyTree], PyTree] | None  # on V


class Numbers(NamedTuple):
    """What a search is to reach and what it may cost."""

    tol: Array
    mu: Array | None  # the user's constant, or None to measure it
    limit: Array  # most gradients


class Best(NamedTuple):
    """What a search found.

    Attributes:
        v: the best point.
        value: the function there.
        gap: what the maximum can be above it; infinite where nothing can be counted on.
        mu: the constant that the gap rests on, or 0.
        low: the smallest curvature that was seen.
        gradients: gradients spent.
        values: values without a gradient spent.
        products: Hessian-vector products spent.
    """

    v: PyTree
    value: Array
    gap: Array
    mu: Array
    low: Array
    gradients: Array
    values: Array
    products: Array


class _Round(NamedTuple):
    at: _ascent.Climb
    seen: _concavity.Measured
    looked: Array  # how far around was looked
    number: Array
    done: Array


def search(
    f: Function, v: PyTree, numbers: Numbers, key: Array, *, points: int, steps: int
) -> Best:
    """Maximise a function from v, projected on V; may be compiled and mapped.

    A constant is measured at the start, and the ascent goes as far as it asks. It is measured
    again at the end and at `points` points around each of start and end, as far around as the
    maximiser can be; where that lowers the constant the ascent goes on, and it is looked further
    around. A measurement takes at most `steps` products.
    """
    kinds = (v, jax.eval_shape(f.value, v))
    dtype = widest(kinds)
    eps = max(float(jnp.finfo(leaf.dtype).eps) for leaf in jax.tree.leaves(kinds))
    flat = _Flat(f, v, dtype)
    tol = numbers.tol.astype(dtype)
    mu = None if numbers.mu is None else numbers.mu.astype(dtype)
    key_inside, key_around, key_lanczos = jr.split(key, 3)
    start = flat.start()
    project = None if f.project is None else flat.project
    along = _concavity.directions(project, start, key_inside)

    def one_round(now: _Round) -> _Round:
        at, number = now.at, now.number
        radius = _reach(at, start, count_on(now.seen, mu, eps)(at.seen), tol)
        look = (number > 0) & (radius > FURTHER * now.looked)

        def point(i: Array) -> Array:
            centre = jnp.where(i % 2 == 1, at.best, start)
            near = _concavity.around(project, along, centre, radius, jr.fold_in(key_around, i))
            return jnp.where(i == 0, at.best, near)

        count = jnp.where(look, 1 + 2 * points, 1)
        drawn = jr.fold_in(key_lanczos, number)
        seen = _concavity.measure(now.seen, flat.product, point, count, along, drawn, steps, at.g)
        steepest = jnp.where(seen.high > 0, seen.high, 1)
        at = at._replace(M=jnp.where(number == 0, steepest, at.M))
        new = _ascent.climb(
            at,
            flat.slope,
            flat.value,
            project,
            count_on(seen, mu, eps),
            tol,
            # After the last round nothing moves any more, so that the end has been measured.
            jnp.where(number < ROUNDS, numbers.limit, 0),
            eps,
        )
        looked = jnp.where(look, radius, now.looked)
        reach = _reach(new, start, count_on(seen, mu, eps)(new.seen), tol)
        far = (reach > FURTHER * looked) & (number < LOOKS)
        done = (number > 0) & (new.gradients == at.gradients) & ~far
        return _Round(new, seen, looked, number + 1, done)

    first = _Round(
        _ascent.begin(start, jnp.ones((), dtype)),
        _concavity.nothing(dtype),
        jnp.zeros((), dtype),
        jnp.zeros((), jnp.int32),
        jnp.zeros((), bool),
    )
    last = lax.while_loop(lambda now: ~now.done, one_round, first)
    at, seen = last.at, last.seen
    constant = count_on(seen, mu, eps)(at.seen)
    return Best(
        v=flat.tree(at.best),
        value=at.best_value,
        gap=_ascent.gap(at, constant),
        mu=constant,
        low=jnp.minimum(seen.low, at.seen),
        gradients=at.gradients,
        values=at.values,
        products=seen.products,
    )


def count_on(seen: _concavity.Measured, mu: Array | None, eps: float) -> Callable[[Array], Array]:
    """Return the constant to count on, given the smallest curvature between points; or 0."""
    flat = FLAT * eps * seen.high

    def constant(between: Array) -> Array:
        low, safe = jnp.minimum(seen.low, between), jnp.minimum(seen.safe, between)
        if mu is not None:
            return jnp.where(low < (1 - AGREES) * mu - flat, 0, mu)
        return jnp.where((low > flat) & (safe > 0) & jnp.isfinite(safe), safe / SAFETY, 0)

    return constant


def _reach(at: _ascent.Climb, start: Array, mu: Array, tol: Array) -> Array:
    """Return how far around to look: as far as the ascent went, or as the maximiser can be."""
    gap = _ascent.gap(at, mu)
    gain = jnp.maximum(tol, jnp.where(jnp.isfinite(gap), gap, 0))  # more than tol at a limit
    left = jnp.sqrt(2 * gain / jnp.where(mu > 0, mu, jnp.inf))
    return jnp.maximum(jnp.linalg.norm(at.best - start), left)


class _Flat:
    """A function of a tree as one of a flat vector, in one dtype."""

    def __init__(self, f: Function, v: PyTree, dtype: Any):
        self._f, self._v, self._dtype = f, v, dtype

    def start(self) -> Array:
        x = flattened(self._v, self._dtype)
        return x if self._f.project is None else self.project(x)

    def value(self, x: Array) -> Array:
        return self._f.value(self.tree(x)).astype(self._dtype)

    def slope(self, x: Array) -> tuple[Array, Array]:
        value, gradient = self._f.slope(self.tree(x))
        return value.astype(self._dtype), flattened(gradient, self._dtype)

    def product(self, x: Array, u: Array) -> Array:
        return flattened(self._f.product(self.tree(x), self.tree(u)), self._dtype)

    def project(self, x: Array) -> Array:
        return flattened(self._f.project(self.tree(x)), self._dtype)  # pyright: ignore

    def tree(self, x: Array) -> PyTree:
        return unflattened(x, self._v)
