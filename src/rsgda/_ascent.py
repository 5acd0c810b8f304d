"""Accelerated projected gradient ascent that certifies how far it can be from the maximum."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

Map = Callable[[Array], Array]

TRIES = 50  # doublings of the Lipschitz constant in one step: from any start to any scale
ROUNDING = 16  # in units of the last place of F: what two of its values are wrong by
PROMISE = 0.01  # without a certificate, ascend until a step promises this part of tol


class Climb(NamedTuple):
    """Where an ascent is, and what it knows.

    Attributes:
        x: the last point that a step led to.
        before: the one before it.
        value: F(x).
        t: the counter of the momentum, 1 after a restart.
        push: the momentum itself, how much of x - before is added once more.
        M: the local Lipschitz constant of the gradient.
        y: where the last gradient was taken.
        g: that gradient.
        best: the best point so far.
        best_value: its value.
        squared: |G|^2 of the best certificate, G the gradient mapping.
        inverse: 1 / M of it.
        lack: what its step missed the promised increase by, beyond rounding.
        promise: the increase that the last step promised, |G|^2 / (2 M).
        seen: the smallest curvature between successive points, made larger by its rounding.
        gradients: gradients spent.
        values: values without a gradient spent.
        stuck: whether no step from y increases F as it must.
    """

    x: Array
    before: Array
    value: Array
    t: Array
    push: Array
    M: Array
    y: Array
    g: Array
    best: Array
    best_value: Array
    squared: Array
    inverse: Array
    lack: Array
    promise: Array
    seen: Array
    gradients: Array
    values: Array
    stuck: Array


def begin(x: Array, M: Array) -> Climb:
    """Return an ascent before its first step, from a point of V."""
    zero, one, far = (jnp.full((), number, x.dtype) for number in (0, 1, jnp.inf))
    none = jnp.zeros((), jnp.int32)
    return Climb(
        x=x, before=x, value=-far, t=one, push=zero, M=M, y=x, g=jnp.zeros_like(x),
        best=x, best_value=-far, squared=far, inverse=zero, lack=zero, promise=far, seen=far,
        gradients=none, values=none, stuck=jnp.zeros((), bool),
    )  # fmt: skip


def gap(at: Climb, mu: Array) -> Array:
    r"""Return the most that the best value can be below the maximum; infinite for mu = 0.

    $$ \max_V F - F(x^+) \le \tfrac{1}{2} \|G\|^2 (1/\mu - 1/M), \qquad
       x^+ = \Pi_V(y + \nabla F(y) / M), \quad G = M (x^+ - y) $$

    where $F(x^+) \ge F(y) + \langle \nabla F(y), x^+ - y \rangle - \tfrac{M}{2} \|x^+ - y\|^2$:
    by the optimality of $x^+$ and strong concavity,
    $F(x) \le F(x^+) - \tfrac{M}{2} \|x^+ - y\|^2 + \langle G, x - y \rangle
    - \tfrac{\mu}{2} \|x - y\|^2$ for all $x \in V$, which is largest at $x - y = G / \mu$.
    """
    curved = mu > 0
    spread = jnp.maximum(1 / jnp.where(curved, mu, 1) - at.inverse, 0)
    # Infinity times zero: nothing was certified yet.
    bound = jnp.where(jnp.isinf(at.squared), jnp.inf, 0.5 * at.squared * spread + at.lack)
    return jnp.where(curved, bound, jnp.inf)


def climb(
    at: Climb,
    slope: Callable[[Array], tuple[Array, Array]],
    value: Map,
    project: Map | None,
    count_on: Map,
    tol: Array,
    limit: Array,
    eps: float,
) -> Climb:
    """Ascend until the gap is at most `tol`, `limit` gradients are spent, or rounding forbids.

    Args:
        at: where to begin or to go on.
        slope: value and gradient of F at a flat point.
        value: value of F at a flat point.
        project: the projection on V; all points that F is asked for lie in V.
        count_on: the strong-concavity constant to count on, 0 for none, given the smallest
            curvature that was seen between points.
        tol: the gap to reach.
        limit: most gradients, also those spent before.
        eps: the rounding unit of F and its gradient.
    """

    def unfinished(at: Climb) -> Array:
        mu = count_on(at.seen)
        enough = jnp.where(mu > 0, gap(at, mu) <= tol, at.promise <= PROMISE * tol)
        return ~enough & (at.gradients < limit) & ~at.stuck

    def step(at: Climb) -> Climb:
        y = at.x + at.push * (at.x - at.before)
        if project is not None:
            y = project(y)
        at_y, g = slope(y)
        seen = jnp.where(at.gradients > 0, jnp.minimum(at.seen, _curvature(at, y, g, eps)), at.seen)
        mu = count_on(seen)
        x, at_x, M, lack, fine, slack, tries = _step(y, at_y, g, at.M, value, project, eps)
        d = x - y
        # Without a projection G is the gradient; M d would have the rounding of y in it.
        squared = _dot(g, g) if project is None else M**2 * _dot(d, d)
        sound = jnp.isfinite(at_x) & jnp.isfinite(squared)
        stuck = ~(sound & (lack <= slack))
        new = at._replace(squared=squared, inverse=1 / M, lack=jnp.where(lack <= fine, 0, lack))
        better = sound & (gap(new, mu) < gap(at, mu)) | jnp.isinf(at.squared) & sound
        best, best_value = _better(at.best, at.best_value, y, at_y)
        best, best_value = _better(best, best_value, x, at_x)
        # Monotone: from the better point and without momentum the next step cannot fail.
        worse = ~(at_x >= at.value - slack)
        restart = worse | (_dot(d, x - at.x) < 0)
        t = jnp.where(restart, 1, (1 + jnp.sqrt(1 + 4 * at.t**2)) / 2)
        root = jnp.sqrt(jnp.clip(mu / M, 0, 1))
        # The momentum for the constant to count on, if it is ever reached.
        push = jnp.where(restart, 0, jnp.minimum((at.t - 1) / t, (1 - root) / (1 + root)))
        rise = 0.5 * M * _dot(d, d)
        bent = at_y + _dot(g, d) - at_x  # what F falls short of its tangent
        loose = (rise > 8 * slack) & (bent < 0.5 * rise)
        return Climb(
            x=jnp.where(worse | stuck, at.x, x),
            before=at.x,
            value=jnp.where(worse | stuck, at.value, at_x),
            t=t,
            push=push,
            M=jnp.maximum(jnp.where(loose, 0.9 * M, M), mu),
            y=y,
            g=g,
            best=best,
            best_value=best_value,
            squared=jnp.where(better, new.squared, at.squared),
            inverse=jnp.where(better, new.inverse, at.inverse),
            lack=jnp.where(better, new.lack, at.lack),
            promise=jnp.where(sound, 0.5 * squared / M, at.promise),
            seen=seen,
            gradients=at.gradients + 1,
            values=at.values + tries,
            stuck=stuck,
        )

    return lax.while_loop(unfinished, step, at)


class _Try(NamedTuple):
    x: Array
    value: Array
    M: Array
    lack: Array
    fine: Array  # what two values of F are wrong by at least
    slack: Array  # what they may be wrong by, where their terms cancel
    tries: Array


def _step(
    y: Array, at_y: Array, g: Array, M: Array, value: Map, project: Map | None, eps: float
) -> _Try:
    """Take a step from y, its M doubled until F increases as promised."""

    def unfinished(last: _Try) -> Array:
        fits = jnp.isfinite(last.value) & (last.lack <= last.slack)
        return ~fits & (last.tries < TRIES)

    def attempt(last: _Try) -> _Try:
        M = jnp.where(last.tries > 0, 2 * last.M, last.M)
        x = y + g / M
        if project is not None:
            x = project(x)
        at_x, d = value(x), x - y
        lack = at_y + _dot(g, d) - 0.5 * M * _dot(d, d) - at_x
        fine = ROUNDING * eps * jnp.maximum(jnp.abs(at_y), jnp.abs(at_x))
        slack = jnp.maximum(fine, eps * M * _dot(y, y))
        return _Try(x, at_x, M, lack, fine, slack, last.tries + 1)

    far, zero = jnp.full_like(M, jnp.inf), jnp.zeros_like(M)
    first = _Try(y, -far, M, far, zero, zero, jnp.zeros((), jnp.int32))
    return lax.while_loop(unfinished, attempt, first)


def _curvature(at: Climb, y: Array, g: Array, eps: float) -> Array:
    """Return the curvature of -F between two points, plus all that its rounding may amount to."""
    moved = y - at.y
    squared = _dot(moved, moved)
    far = squared > 0
    bent = -_dot(g - at.g, moved)
    size = jnp.linalg.norm(g) + jnp.linalg.norm(at.g) + at.M * jnp.linalg.norm(y)
    rounding = ROUNDING * eps * size * jnp.sqrt(squared)
    seen = (bent + rounding) / jnp.where(far, squared, 1)
    return jnp.where(far & jnp.isfinite(seen), seen, jnp.inf)


def _better(best: Array, best_value: Array, x: Array, value: Array) -> tuple[Array, Array]:
    better = jnp.isfinite(value) & (value > best_value)
    return jnp.where(better, x, best), jnp.where(better, value, best_value)


def _dot(left: Array, right: Array) -> Array:
    return jnp.sum(left * right)
