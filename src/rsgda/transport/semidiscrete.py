"""Potentials of fixed targets by averaged stochastic ascent, for a cloud or for a sampler."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array, lax

from rsgda import _checks
from rsgda._start import check_key
from rsgda._trees import PyTree, freeze_values, thaw
from rsgda.drive.progress import bar
from rsgda.transport import clouds
from rsgda.transport.costs import Cost, checked
from rsgda.transport.plan import solved
from rsgda.transport.potentials import Potentials

SOON = 10  # steps after which they have fallen by the square root of two
LATE = 3.0  # the average weighs step k by about its cube, so that the start is forgotten
ROUND = 100  # steps of a sampler between two looks at the clock


class Ascent(NamedTuple):
    """Where the ascent is."""

    v: Array
    average: Array
    step: Array


def semidiscrete(
    x: Any,
    y: Any,
    *,
    epsilon: float,
    key: Array,
    samples: int,
    batch_size: int = 128,
    a: Any = None,
    b: Any = None,
    cost: Any = "quadratic",
    eta: float | None = None,
    progress: bool = False,
) -> Potentials:
    r"""Maximise the semi-dual over the potentials of fixed targets, a minibatch at a time.

    $$ v \leftarrow v + \eta_k \Big( \nu - \frac1b \sum_{i \in B} w(x_i) \Big), \qquad
       \eta_k = \frac{\eta}{\sqrt{1 + k / 10}}, \qquad
       \bar v \leftarrow \bar v + \frac{4}{k + 4} (v - \bar v) $$

    What is returned is the average. A cloud is taken in random order, all of it before a point
    comes again, by which the noise of its minibatches cancels; a sampler is asked anew each time.

    Args:
        x: points, N × d, or a sampler: `x(key)` draws one point or a minibatch.
        y: the targets, n × d.
        epsilon: the regularisation, in the units of the cost.
        key: draws the minibatches.
        samples: of x to use in all, one minibatch at least.
        batch_size: samples in a minibatch.
        a: weights of x, uniform by default; points with weights are drawn by these.
        b: weights of y, likewise.
        cost: as in `matching`.
        eta: the first step. None is b epsilon, and at most 2 n epsilon.
        progress: show it.

    Returns:
        For a cloud a `Sinkhorn` with its value and its certificate, for a sampler `Potentials`.

    >>> x, y = np.random.default_rng(0).normal(size=(2, 400, 3))
    >>> found = semidiscrete(x, y[:30], epsilon=0.5, key=jr.key(0), samples=40_000)
    >>> found.error < 0.05
    True

    Source: Genevay et al. (2016), Algorithm 2, the semi-discrete case; order, steps and average are
    ours.
    """
    check_key("key", key)
    _checks.whole("samples", samples, 1)
    of_x = clouds.source("x", x, a, batch_size, None)
    targets = clouds.points("y", y)
    drawn = clouds.drawn(of_x)
    if drawn.shape[1] != targets.shape[1]:
        raise ValueError(
            f"`x` and `y` must have one dimension, got {drawn.shape[1]} and {targets.shape[1]}."
        )
    dtype = jnp.promote_types(drawn.dtype, targets.dtype)
    targets, kind = targets.astype(dtype), checked(cost, targets.shape[1], dtype)
    nu = clouds.weights("b", b, len(targets), dtype)
    regular = clouds.epsilon_of(epsilon, dtype)
    size = drawn.shape[0]
    if eta is None:
        eta = float(regular) * min(size, 2 * len(targets))
    if _checks.host_number(eta) is None:
        raise ValueError(f"`eta` must be a single number, the first step, got {eta!r:.80}.")
    _checks.positive("eta", eta)
    cloud = of_x.get("data")
    source = freeze_values(of_x.get("sample"))
    every = ROUND if cloud is None else max(1, len(cloud) // size)
    steps = max(1, samples // size)
    start = jnp.zeros(len(targets), dtype)
    at = Ascent(start, start, jnp.zeros((), jnp.int32))
    made = kind.targets(targets)
    # XLA sorts to permute, which on a CPU takes longer than the steps.
    orders = np.random.default_rng(np.asarray(jr.key_data(key)))
    with bar(progress, "semidiscrete", 0, steps) as shown:
        for first in range(0, steps, every):
            take = min(every, steps - first)
            order = None if cloud is None else orders.permutation(len(cloud))
            at = _round(
                at, cloud, order, source, jr.fold_in(key, first), made, nu, regular,
                jnp.asarray(eta, dtype), take, cost=kind, size=size,
            )  # fmt: skip
            shown.update(first + take, {})
    found = Potentials(at.average, regular, targets, nu, kind)
    if not np.all(np.isfinite(at.average)):
        raise ValueError(
            f"the costs between `x` and `y` must be finite in {dtype}; scale the points, or mend "
            "the sampler or the cost."
        )
    sampler = of_x.get("sample")
    points = sampler.points if isinstance(sampler, clouds.Weighted) else cloud
    if points is None:
        return found
    mu = clouds.weights("a", a, len(points), dtype, zero=True)
    passes = steps * size / len(points)
    return solved(found, points.astype(dtype), mu, converged=None, iterations=passes)


@jax.jit(static_argnames=("cost", "size"))
def _round(
    at: Ascent,
    cloud: Array | None,
    order: Array | None,
    source: PyTree,
    key: Array,
    targets: PyTree,
    nu: Array,
    epsilon: Array,
    eta: Array,
    take: int,
    *,
    cost: Cost,
    size: int,
) -> Ascent:
    """Take some steps; of a cloud, on parts of it that do not overlap."""

    def step(i: Array, at: Ascent) -> Ascent:
        if cloud is None or order is None:
            x = thaw(source)(jr.fold_in(key, i)).astype(nu.dtype)
        else:
            x = cloud[lax.dynamic_slice(order, (i * size,), (size,))].astype(nu.dtype)
        slope = nu - sent(cost.exponents(x, targets, at.v, nu, epsilon))
        k = at.step.astype(nu.dtype)
        v = at.v + eta / jnp.sqrt(1 + k / SOON) * slope
        average = at.average + (LATE + 1) / (k + LATE + 1) * (v - at.average)
        return Ascent(v, average, at.step + 1)

    return lax.fori_loop(0, take, step, at)


def sent(values: Array) -> Array:
    """Return the mean of the softmax of rows, by products, which are faster than reductions."""
    size, n = values.shape
    scaled = jnp.exp(values - jnp.max(values, axis=1, keepdims=True))
    return (1 / (scaled @ jnp.ones(n, values.dtype))) @ scaled / size
