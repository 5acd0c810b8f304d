"""Passes over all rows of x against all targets, in chunks: memory for chunk × n costs."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.nn import logsumexp

from rsgda._trees import PyTree
from rsgda.transport.costs import Cost

CHUNK = 2**20  # costs at once; rows in a chunk are this over n
SMALL = 1e-30  # a target that gets less may have lost some of it, or all, to underflow
GROUP = 256  # such targets at once


class Rows(NamedTuple):
    """Points x in chunks, with the logarithms of their weights; those that fill up have none."""

    points: Array  # chunks × rows × d
    log_mu: Array  # chunks × rows


class Seen(NamedTuple):
    """What one pass tells about potentials v.

    Attributes:
        value: F(v), which no v takes above $W_eps$.
        u: the potentials of x, chunks × rows.
        log_mean: the logarithm of wbar, what each target gets.
    """

    value: Array
    u: Array
    log_mean: Array


def chunked(points: Array, mu: Array, n: int) -> Rows:
    """Cut points into chunks of at most `CHUNK` costs to n targets."""
    size = max(1, min(len(points), CHUNK // n))
    short = -len(points) % size
    log_mu = jnp.pad(jnp.log(mu), (0, short), constant_values=-jnp.inf)
    return Rows(filled(points, size), log_mu.reshape(-1, size))


def filled(values: Array, size: int) -> Array:
    """Cut values into chunks of a size, the last of them filled up with the last value."""
    short = -len(values) % size
    padded = jnp.pad(values, [(0, short), *[(0, 0)] * (values.ndim - 1)], mode="edge")
    return padded.reshape(-1, size, *values.shape[1:])


def look(rows: Rows, targets: PyTree, v: Array, nu: Array, epsilon: Array, *, cost: Cost) -> Seen:
    r"""Pass over x once.

    $$ F(v) = \sum_j \nu_j v_j + \sum_i \mu_i u_i, \quad
       u_i = -\varepsilon \log \sum_j \nu_j e^{(v_j - c_{ij})/\varepsilon}, \quad
       \bar w_j = \sum_i \mu_i w_j(x_i) $$
    """
    ones = jnp.ones_like(v)

    def part(carry: tuple[Array, ...], chunk: Rows) -> tuple[tuple[Array, ...], Array]:
        total, lost, mean = carry
        values = cost.exponents(chunk.points, targets, v, nu, epsilon)
        top = jnp.max(values, axis=1, keepdims=True)
        scaled = jnp.exp(values - top)
        sums = _times(scaled, ones)  # by a product, which is twice as fast as a reduction
        log_sums = jnp.log(sums) + top[:, 0]
        mu = jnp.exp(chunk.log_mu)
        # Kahan's sum: many chunks add up to no more rounding than one.
        add = -epsilon * jnp.sum(mu * log_sums) - lost
        new = total + add
        return (new, (new - total) - add, mean + _times(mu / sums, scaled)), log_sums

    zero = jnp.zeros((), v.dtype)
    (total, _, mean), log_sums = lax.scan(part, (zero, zero, jnp.zeros_like(v)), rows)
    log_mean = _exactly(cost, rows, targets, v, nu, epsilon, mean, log_sums)
    return Seen(v @ nu + total, -epsilon * log_sums, log_mean)


def _exactly(
    cost: Cost,
    rows: Rows,
    targets: PyTree,
    v: Array,
    nu: Array,
    epsilon: Array,
    mean: Array,
    log_sums: Array,
) -> Array:
    """Return the logarithm of what targets get; for those that get next to nothing, seen again."""
    n = len(v)
    size = min(GROUP, n)
    lost = mean < SMALL
    # What fills up the last group is the first target, which may be seen twice.
    places = jnp.nonzero(lost, size=n + -n % size, fill_value=0)[0]

    def unfinished(at: tuple[Array, Array]) -> Array:
        return at[0] < jnp.sum(lost)

    def see(at: tuple[Array, Array]) -> tuple[Array, Array]:
        first, log_mean = at
        group = lax.dynamic_slice(places, (first,), (size,))
        of_group = cost.some(targets, group), v[group], nu[group], epsilon

        def more(so_far: Array, chunk: tuple[Rows, Array]) -> tuple[Array, None]:
            (points, log_mu), of_rows = chunk
            logs = cost.exponents(points, *of_group) + (log_mu - of_rows)[:, None]
            return jnp.logaddexp(so_far, logsumexp(logs, axis=0)), None

        found = lax.scan(more, jnp.full(size, -jnp.inf, v.dtype), (rows, log_sums))[0]
        return first + size, log_mean.at[group].set(found)

    return lax.while_loop(unfinished, see, (jnp.asarray(0), jnp.log(mean)))[1]


def row_oscillation(cost: Cost, rows: Rows, targets: PyTree) -> Array:
    """Return the largest difference of two costs of one x."""

    def part(points: Array) -> Array:
        costs = cost.matrix(points, targets)
        return jnp.max(costs.max(axis=1) - costs.min(axis=1))

    return jnp.max(lax.map(part, rows.points))


class Ended(NamedTuple):
    r"""What a last pass tells, with the shares $s_j$ of each target's mass that it may keep.

    Attributes:
        lacks: what each x lacks in all when targets keep their shares only, as a share of it.
        elsewhere: what x would pay on average to send that to the targets that lack mass.
        spread: the largest difference of two costs of one x.
    """

    lacks: Array
    elsewhere: Array
    spread: Array


def end(
    cost: Cost,
    rows: Rows,
    targets: PyTree,
    v: Array,
    nu: Array,
    epsilon: Array,
    u: Array,
    shares: Array,
    lacking: Array,
) -> Ended:
    """Pass over x once more, when it is known what the targets get.

    Args:
        cost: of moving mass.
        rows: the points x.
        targets: the points y, for the cost.
        v: their potentials.
        nu: their weights.
        epsilon: the regularisation.
        u: the potentials of x, chunks × rows.
        shares: of what each target gets, those that it keeps.
        lacking: how what is left is spread over the targets, which sums to one.
    """
    shifted = v / epsilon + jnp.log(nu)
    at_lacking, ones = shifted @ lacking, jnp.ones_like(v)

    def part(chunk: tuple[Array, Array]) -> Ended:
        points, u = chunk
        values = cost.exponents(points, targets, v, nu, epsilon)
        scaled = jnp.exp(values + (u / epsilon)[:, None])
        costs = shifted - values  # over epsilon
        return Ended(
            lacks=_times(scaled, 1 - shares) / _times(scaled, ones),  # u is rounded
            elsewhere=epsilon * (at_lacking - _times(values, lacking)),
            spread=epsilon * (costs.max(axis=1) - costs.min(axis=1)),
        )

    ended = lax.map(part, (rows.points, u))
    flat = jax.tree.map(jnp.ravel, ended)
    return flat._replace(spread=jnp.max(flat.spread))


def mapped(function: Callable[[np.ndarray], Any], points: Any, n: int) -> Any:
    """Return `function(chunk)` of all points, which the host puts together."""
    size = max(1, min(len(points), CHUNK // n))
    found = []
    for start in range(0, len(points), size):
        chunk = np.asarray(points[start : start + size])
        take = len(chunk)
        # Always as many points, so that one program serves the last chunk, too.
        chunk = np.pad(chunk, ((0, size - take), (0, 0)), mode="edge")
        part = function(chunk)
        found.append(jax.tree.map(lambda leaf, k=take: np.asarray(leaf)[:k], part))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *found)


_times = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)
compiled = functools.partial(jax.jit, static_argnames="cost")
