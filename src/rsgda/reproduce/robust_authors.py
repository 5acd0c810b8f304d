"""How the authors' code evaluates phi, and when it accepts what it found."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from rsgda._trees import PyTree
from rsgda.problem import Problem

STEP = 50.0  # on the minibatch mean
SWEEPS = 10  # over all samples between two looks at the gradient
LOOKS = 5
TOLERANCE = 1e-4  # of the sum of |g_j|^2 over n^2


class Estimate(NamedTuple):
    """What they report as phi, the mean of |g_j|^2 there, and where that is."""

    value: float
    slope: float
    v: Array


def authors_phi(problem: Problem, theta: PyTree, v: Array, *, n: int, batch_size: int) -> Estimate:
    r"""Estimate phi as the authors' code does.

    From the adversaries that training keeps, 10 ascents of each with step 50/b, up to 5 times,
    until $\sum_j \|g_j\|^2 / n^2 \le 10^{-4}$. The gradients $g_j$ are those of single samples,
    so that the rule lets through a mean of $10^{-4} n$: 6 for MNIST. What was reached by then is
    reported also if the rule was not met.

    Args:
        problem: separable; its rows stand for all n samples.
        theta: where phi is wanted.
        v: the adversaries of these rows.
        n: the number of training samples.
        batch_size: b.
    """
    value, slope, v = _estimate(problem, theta, v, TOLERANCE * n, STEP / batch_size)
    return Estimate(float(value), float(slope), v)


@jax.jit
def _estimate(
    problem: Problem, theta: PyTree, v: Array, enough: float, step: float
) -> tuple[Array, Array, Array]:
    rows = v.shape[0]

    def slope(v: Array) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(lambda v: problem.loss(theta, v, problem.data))(v)
        return value, gradient * rows  # of each sample by itself

    def sweep(_: Array, v: Array) -> Array:
        return v + step * slope(v)[1]

    def squared(v: Array) -> Array:
        return jnp.sum(jnp.square(slope(v)[1])) / rows

    def look(at: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        v = lax.fori_loop(0, SWEEPS, sweep, at[0])
        return v, squared(v), at[2] + 1

    def unfinished(at: tuple[Array, Array, Array]) -> Array:
        return (at[1] > enough) & (at[2] < LOOKS)

    # They ascend before they look for the first time.
    v, seen, _ = lax.while_loop(
        unfinished, look, (v, jnp.full((), jnp.inf, v.dtype), jnp.zeros((), jnp.int32))
    )
    return slope(v)[0], seen, v
