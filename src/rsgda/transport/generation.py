"""Generate points like given ones: a network pushes noise onto them."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rsgda._trees import PyTree
from rsgda.problem import Problem
from rsgda.projections import zero_sum_ball
from rsgda.transport import clouds
from rsgda.transport.costs import checked
from rsgda.transport.semidual import Generated


def generation(
    z: Any,
    y: Any,
    network: PyTree,
    *,
    epsilon: float = 0.1,
    batch_size: int = 128,
    a: Any = None,
    b: Any = None,
    cost: Any = "quadratic",
    beta: float | None = None,
) -> tuple[Problem, PyTree, Array]:
    r"""Return the problem of pushing noise onto a cloud y, with its start.

    $$ \min_\theta W_\varepsilon(f_\theta \sharp \mu, \nu) = \min_\theta \max_v
       \mathbb{E}_{z \sim \mu} \Big[ \sum_j \nu_j v_j - \varepsilon \log \sum_j \nu_j
       e^{(v_j - c(f_\theta(z), y_j)) / \varepsilon} \Big], \qquad
       \nu = \sum_j \nu_j \delta_{y_j} $$

    Args:
        z: a sampler, `z(key)` draws one point or a minibatch; or points, N × D.
        y: points, n × d.
        network: maps one z to d dimensions; an Equinox module, or any callable pytree.
        epsilon: the regularisation, in the units of the cost.
        batch_size: samples of z in a minibatch.
        a: weights of z, where these are points; uniform by default.
        b: weights of y, $\nu_j$, likewise.
        cost: as in `matching`.
        beta: as in `matching`.

    Returns:
        The problem, the network, and potentials of zero.

    >>> import equinox as eqx, jax, rsgda
    >>> key = jax.random.key(0)
    >>> y = jax.random.normal(key, (20, 3))
    >>> def noise(key):
    ...     return jax.random.normal(key, (2,))
    >>> network = eqx.nn.MLP(2, 3, 8, 1, key=key)
    >>> problem, theta, v = generation(noise, y, network, epsilon=0.5, batch_size=10)
    >>> algorithm = rsgda.transport.algorithm(20, p=0.5)
    >>> rsgda.solve(problem, algorithm, theta, v, key=key, steps=20).status.name
    'FINISHED'

    Source: Section 5.2 of the paper, generative models; erratum 34.
    """
    dtype = clouds.dtype_of(network)
    of_z = clouds.source("z", z, a, batch_size, dtype)
    y = clouds.points("y", y, dtype)
    made = clouds.made("network", network, clouds.drawn(of_z))
    if made.shape[1] != y.shape[1]:
        raise ValueError(
            f"`network` must take a z to the {y.shape[1]} dimensions of y, got {made.shape[1]}."
        )
    kind = checked(cost, y.shape[1], made.dtype)
    loss = Generated(
        clouds.epsilon_of(epsilon, made.dtype),
        clouds.weights("b", b, len(y), made.dtype),
        kind,
        int(of_z.get("batch_size", batch_size)),
        targets=kind.targets(y.astype(made.dtype)),
    )
    of_some = jax.vmap(network)(clouds.some(of_z))
    targets = kind.targets(y[: clouds.SOME].astype(made.dtype))
    clouds.check_resolved(loss.epsilon, kind.matrix(of_some, targets))
    project = None if beta is None else zero_sum_ball(beta)
    return Problem(loss, **of_z, project_v=project), network, jnp.zeros(len(y), made.dtype)
