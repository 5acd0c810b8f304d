"""The debiased divergence between two clouds."""

import dataclasses
import functools
from typing import Any

from rsgda.transport import clouds
from rsgda.transport.plan import Sinkhorn
from rsgda.transport.sinkhorn import sinkhorn


@dataclasses.dataclass(frozen=True, eq=False)
class Divergence:
    """What `divergence` found.

    Attributes:
        value: of the divergence, from the values of its three parts.
        low: what it is at least, by their gaps,
        high: and at most.
        between: the transport between x and y.
        within_x: that of x to itself.
        within_y: that of y to itself.
    """

    value: float
    low: float
    high: float
    between: Sinkhorn = dataclasses.field(repr=False)
    within_x: Sinkhorn = dataclasses.field(repr=False)
    within_y: Sinkhorn = dataclasses.field(repr=False)


def divergence(
    x: Any,
    y: Any,
    *,
    epsilon: float,
    a: Any = None,
    b: Any = None,
    cost: Any = "quadratic",
    tol: float = 1e-3,
    max_iterations: int = 1_000,
    progress: bool = False,
) -> Divergence:
    r"""Return the debiased divergence, which is zero for two equal clouds.

    $$ S_\varepsilon(\mu, \nu) = W_\varepsilon(\mu, \nu) - \tfrac12 W_\varepsilon(\mu, \mu)
       - \tfrac12 W_\varepsilon(\nu, \nu) $$

    Args:
        x: points, N × d.
        y: points, n × d.
        epsilon: the regularisation, in the units of the cost.
        a: weights of x, positive, uniform by default.
        b: weights of y, likewise.
        cost: as in `matching`, but symmetric.
        tol: the error to stop at, see `sinkhorn`.
        max_iterations: passes at most, for each of the three parts.
        progress: show it.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(30, 2))
    >>> round(divergence(x, x + 2.0, epsilon=0.5).value, 2)
    8.0

    Source: Feydy et al. (2019), equation (3); it is the loss of the paper without its bias.
    """
    for name, weights, points in (("a", a, x), ("b", b, y)):
        cloud = clouds.points("x" if name == "a" else "y", points)
        clouds.weights(name, weights, len(cloud), cloud.dtype)
    solve = functools.partial(
        sinkhorn, epsilon=epsilon, cost=cost, tol=tol, max_iterations=max_iterations,
        progress=progress,
    )  # fmt: skip
    between = solve(x, y, a=a, b=b)
    within = solve(x, x, a=a, b=a), solve(y, y, a=b, b=b)
    less = sum(part.value for part in within) / 2
    return Divergence(
        value=between.value - less,
        low=between.value - less - sum(part.gap for part in within) / 2,
        high=between.value + between.gap - less,
        between=between,
        within_x=within[0],
        within_y=within[1],
    )
