"""Curvatures by differences of gradients, along directions that were seen to be steep.

Every gradient is one of the same minibatch, so that noise cancels, and each is counted by the
caller. Points that are probed lie in the players' sets.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax

from rsgda._flat import norm
from rsgda._trees import PyTree
from rsgda._update import keep, projected

NEAR = 1e-3  # of a player's size: how far a probe goes at least
PART = 0.1  # of a Newton step: how far a probe goes from a player that is zero
FASTEST = 10.0  # times: what a curvature falls by in one probe, at most
FLAT = 100.0  # units of the last place of a gradient: differences below are rounding

Gradient = Callable[[PyTree], PyTree]
Project = Callable[[PyTree], PyTree] | None


class Steepest(NamedTuple):
    """The largest curvature that power iterations know of, and where it was seen."""

    L: Array
    direction: PyTree


def steepest(
    gradient: Gradient,
    project: Project,
    x: PyTree,
    g: PyTree,
    known: Steepest,
    step: Array,
    rounds: Array,
    key: Array,
    *,
    signed: bool = False,
) -> Steepest:
    r"""Bring the largest curvature of a player up to date by some power iterations.

    $$ h = \frac{\nabla f(\Pi(x + \delta u)) - \nabla f(x)}{\delta}, \qquad
       u \leftarrow \frac{h}{\|h\|}, \qquad L = \|h\| $$

    A curvature that is larger than what was known is believed at once, a smaller one by half.

    Args:
        gradient: of the minibatch, as a function of the player.
        project: on the player's set.
        x: where the player is.
        g: the gradient there.
        known: what was known; L = 0 where nothing was.
        step: how long the player's next step is about, which a probe is not to be shorter than.
        rounds: how many gradients to spend; none leaves all as it was.
        key: for a direction where there is none.
        signed: where L is known, count of curvature downwards, where no step is too long, a tenth.
    """
    L = known.L
    dtype = L.dtype
    size, reach = norm(g).astype(dtype), NEAR * norm(x).astype(dtype)
    delta = jnp.maximum(step, reach)
    delta = jnp.where(delta > 0, delta, NEAR)
    u = unit(jax.tree.map(jnp.add, unit(g), unit(known.direction)))
    u = keep(norm(u) > 0, u, unit(drawn(key, x)))

    def again(_: Array, at: tuple[PyTree, Array, Array]) -> tuple[PyTree, Array, Array]:
        u, delta, before = at
        y = moved(project, x, u, delta)
        way = jax.tree.map(jnp.subtract, y, x)
        far = norm(way).astype(dtype)
        change = jax.tree.map(jnp.subtract, gradient(y), g)
        bent = norm(change).astype(dtype)
        told = jnp.isfinite(bent) & (far > 0) & (bent > rounding(dtype) * size)
        along = jnp.where(told, bent / positive(far), 0)
        found = along
        if signed:
            upwards = dot(unit(way), change, dtype) / positive(far)
            found = jnp.where(told & (L > 0), jnp.maximum(upwards, along / FASTEST), along)
        # Of a player that is zero nothing says how far to go: not so far that all bends, and
        # farther where all is rounding.
        other = jnp.where(told, PART * size / positive(along), 100 * delta)
        other = jnp.where(jnp.isfinite(bent), other, delta / 100)
        free = (L == 0) & (reach == 0) & (other > 0)
        u = keep(told, unit(change), u)
        return u, jnp.where(free, other, delta), jnp.where(jnp.isfinite(bent), found, before)

    zero = jnp.zeros((), dtype)
    u, _, found = lax.fori_loop(0, rounds, again, (u, delta, zero))
    found = jnp.maximum(found, L / FASTEST)
    believed = jnp.where(found > L, found, jnp.sqrt(L) * jnp.sqrt(found))
    asked = rounds > 0
    return Steepest(jnp.where(asked, believed, L), keep(asked, u, known.direction))


def slack(
    of_theta: Callable[[PyTree], PyTree],
    of_v: Gradient,
    project: Project,
    v: PyTree,
    g: PyTree,
    along: PyTree,
    L: Array,
    known: Array,
    asked: Array,
    key: Array,
) -> Array:
    r"""Bring up to date how far theta may step without outrunning v; three gradients if asked.

    $$ m = -\Big\langle u, \frac{\nabla_v f(v + \delta u) - \nabla_v f(v)}{\delta} \Big\rangle,
       \quad b = \frac{\|\nabla_\theta f(v + \delta u) - \nabla_\theta f(v)\|}{\delta},
       \qquad \frac{m}{b^2} $$

    With $F$ quadratic in v, $b^2 / m$ is what the answer of v adds to the curvature of phi along
    the direction u in which v is still on its way. Of a smaller number than what was known one is
    convinced at once, of a larger one by a quarter.

    Args:
        of_theta: theta's gradient of the minibatch, as a function of v.
        of_v: v's gradient, likewise.
        project: on V.
        v: where v is.
        g: v's gradient there.
        along: the direction u, of any length; where it is zero, that of g.
        L: the largest curvature of v.
        known: what was known, infinite where nothing was.
        asked: whether to spend the gradients.
        key: for a direction where there is none.
    """
    dtype = L.dtype
    u = unit(jax.tree.map(lambda a, g: jnp.where(a != 0, a, g), along, g))
    u = keep(norm(u) > 0, u, unit(drawn(key, v)))
    size, reach = norm(g).astype(dtype), NEAR * norm(v).astype(dtype)
    delta = jnp.maximum(jnp.where(L > 0, size / positive(L), 0), reach)
    y = moved(project, v, u, jnp.where(delta > 0, delta, NEAR))
    way = jax.tree.map(jnp.subtract, y, v)
    far, once = norm(way).astype(dtype), asked.astype(jnp.int32)
    # Loops of no round, not `cond`: under `vmap` nothing is spent where nobody asks.
    there = lax.fori_loop(0, once, lambda i, _: of_v(y), g)
    m = -dot(unit(way), jax.tree.map(jnp.subtract, there, g), dtype) / positive(far)

    def across(i: Array, at: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        new = of_theta(keep(i == 0, v, y))
        return new, jax.tree.map(jnp.subtract, new, at[0])

    blank = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of_theta, v)
    )
    _, change = lax.fori_loop(0, 2 * once, across, (blank, blank))
    b = norm(change).astype(dtype) / positive(far)
    m = jnp.maximum(m, NEAR * L)
    found = jnp.where(b > 0, m / positive(b) / positive(b), jnp.inf)
    larger = jnp.where(
        jnp.isinf(known), found, known * (jnp.minimum(found / positive(known), 100)) ** 0.25
    )
    told = asked & (far > 0) & (m > 0) & ~jnp.isnan(found)
    return jnp.where(told, jnp.where(found < known, found, larger), known)


def moved(project: Project, x: PyTree, u: PyTree, delta: Array) -> PyTree:
    """Return the point of the player's set that is nearest to x + delta u."""
    return projected(project, jax.tree.map(lambda x, u: x + delta.astype(x.dtype) * u, x, u))


def drawn(key: Array, like: PyTree) -> PyTree:
    """Return a random tree."""
    leaves, structure = jax.tree.flatten(like)
    keys = jr.split(key, len(leaves))
    return jax.tree.unflatten(
        structure,
        [jr.normal(key, leaf.shape, leaf.dtype) for key, leaf in zip(keys, leaves, strict=True)],
    )


def unit(tree: PyTree) -> PyTree:
    """Return a tree with norm one; zero stays zero."""
    size = norm(tree)
    by = jnp.where(size > 0, 1 / positive(size), 0)
    return jax.tree.map(lambda leaf: by.astype(leaf.dtype) * leaf, tree)


def dot(left: PyTree, right: PyTree, dtype: jnp.dtype) -> Array:
    """Return the inner product of two trees."""
    products = jax.tree.map(lambda a, b: jnp.sum(a * b).astype(dtype), left, right)
    return sum(jax.tree.leaves(products), jnp.zeros((), dtype))


def positive(x: Array) -> Array:
    """Return a number that may be divided by."""
    return jnp.maximum(x, jnp.finfo(x.dtype).tiny)


def rounding(dtype: jnp.dtype) -> float:
    """Return the part of a gradient that is rounding."""
    return FLAT * float(jnp.finfo(dtype).eps)
