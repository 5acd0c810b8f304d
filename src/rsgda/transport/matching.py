"""Move one cloud onto another: the targets are what a network makes of it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda import _checks
from rsgda._trees import PyTree
from rsgda.problem import Problem
from rsgda.projections import zero_sum_ball
from rsgda.transport import clouds
from rsgda.transport.costs import checked
from rsgda.transport.semidual import Mapped, Matched, Pairs


def matching(
    x: Any,
    y: Any,
    network: PyTree,
    *,
    epsilon: float = 0.1,
    batch_size: int = 128,
    a: Any = None,
    b: Any = None,
    cost: Any = "quadratic",
    beta: float | None = None,
    pairs: Any = None,
    pull: float = 1.0,
) -> tuple[Problem, PyTree, Array]:
    r"""Return the problem of moving a cloud y onto a cloud x, with its start.

    $$ \min_\theta W_\varepsilon(\mu, \nu_\theta) = \min_\theta \max_v \mathbb{E}_{x \sim \mu}
       \Big[ \sum_j \nu_j v_j - \varepsilon \log \sum_j \nu_j
       e^{(v_j - c(x, f_\theta(y_j))) / \varepsilon} \Big], \qquad
       \nu_\theta = \sum_j \nu_j \delta_{f_\theta(y_j)} $$

    Only x is sampled. The network is evaluated at all y, once for all ascents until theta changes.

    Args:
        x: points, N × d, or a sampler: `x(key)` draws one point or a minibatch.
        y: points, n × D, which the network takes to d dimensions.
        network: maps one y; an Equinox module, or any callable pytree.
        epsilon: the regularisation, in the units of the cost.
        batch_size: samples of x in a minibatch, at most N.
        a: weights of x, uniform by default.
        b: weights of y, $\nu_j$, likewise.
        cost: "quadratic" ($\|x - y\|^2$), "cosine", `p_norm(...)`, or a function of two points.
        beta: with it the potentials are kept in the paper's set $\{\sum_j v_j = 0,
            \|v\| \le \beta\}$; without, they are free.
        pairs: k × 2 places, of an x and of a y that are known to belong together; x must be points.
        pull: times the mean of their costs $c(x_i, f_\theta(y_j))$ is added to the loss.

    Returns:
        The problem, the network, and potentials of zero.

    >>> import equinox as eqx, jax, rsgda
    >>> key = jax.random.key(0)
    >>> x, y = jax.random.normal(key, (50, 2)), jnp.ones((20, 3))
    >>> network = eqx.nn.MLP(3, 2, 8, 1, key=key)
    >>> problem, theta, v = matching(x, y, network, epsilon=0.5, batch_size=10)
    >>> algorithm = rsgda.transport.algorithm(20)
    >>> rsgda.solve(problem, algorithm, theta, v, key=key, steps=20).status.name
    'FINISHED'

    Source: Section 5.2 of the paper; errata 34, 38 and 41.
    """
    dtype = clouds.dtype_of(network)
    of_x = clouds.source("x", x, a, batch_size, dtype)
    y = clouds.points("y", y, dtype)
    made = clouds.made("network", network, y)
    width = clouds.drawn(of_x).shape[1]
    if made.shape[1] != width:
        raise ValueError(
            f"`network` must take a y to the {width} dimensions of x, got {made.shape[1]}."
        )
    loss = Matched(
        clouds.epsilon_of(epsilon, made.dtype),
        clouds.weights("b", b, len(y), made.dtype),
        checked(cost, width, made.dtype),
        int(of_x.get("batch_size", batch_size)),
    )
    targets = loss.cost.targets(jax.vmap(network)(y[: clouds.SOME]))
    clouds.check_resolved(loss.epsilon, loss.cost.matrix(clouds.some(of_x), targets))
    problem = Problem(
        loss,
        **of_x,
        prepare=Mapped(y, loss.cost, _pairs(pairs, pull, x, len(y), made.dtype)),
        project_v=None if beta is None else zero_sum_ball(beta),
    )
    return problem, network, jnp.zeros(len(y), made.dtype)


def _pairs(pairs: Any, pull: float, x: Any, n: int, dtype: Any) -> Pairs | None:
    """Return pairs of places as points and places."""
    if pairs is None:
        return None
    _checks.positive("pull", pull)
    if callable(x):
        raise ValueError("`pairs` are places in `x`, which must be points then, not a sampler.")
    places, x = np.asarray(pairs), clouds.points("x", x, dtype)
    if places.ndim != 2 or places.shape[1] != 2 or not len(places) or places.dtype.kind not in "iu":
        raise ValueError(
            "`pairs` must be whole numbers, k × 2, a place in x and one in y each, got "
            f"{places.dtype} of shape {places.shape}."
        )
    wrong = np.flatnonzero(np.any((places < 0) | (places >= [len(x), n]), axis=1))
    if len(wrong):
        raise ValueError(
            f"`pairs` must be places below {len(x):,} and {n:,}, got {places[wrong[0]].tolist()} "
            f"in row {wrong[0]}."
        )
    return Pairs(x[places[:, 0]], jnp.asarray(places[:, 1]), jnp.asarray(pull, dtype))
