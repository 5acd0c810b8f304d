"""Potentials of a set of targets, and what they tell about any points."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.nn import logsumexp, softmax

from rsgda._trees import PyTree
from rsgda.transport import clouds, stream
from rsgda.transport.costs import Cost


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Potentials:
    r"""Potentials v of targets y: what each x sends to each y.

    $$ w_j(x) \propto \nu_j e^{(v_j - c(x, y_j)) / \varepsilon}, \qquad \sum_j w_j(x) = 1 $$

    Attributes:
        v: the potentials; those of a solved problem sum to zero.
        epsilon: the regularisation.
        y: the targets.
        b: their weights.
        cost: of moving mass.
    """

    v: Array
    epsilon: Array
    y: Array
    b: Array
    cost: Cost

    def __repr__(self) -> str:
        """Show what they are potentials of."""
        return f"Potentials({len(self.y):,} targets, epsilon {float(self.epsilon):g})"

    def weights(self, points: Any) -> np.ndarray:
        """Return what each point sends to each target, k × n; rows sum to one.

        Args:
            points: k × d.
        """
        return self._of(_weights, points)

    def barycentric(self, points: Any, values: Any = None) -> np.ndarray:
        r"""Return where each point is sent in the mean, $\sum_j w_j(x)\, y_j$, k × d.

        Args:
            points: k × d.
            values: of the targets, n × m, in place of the targets themselves: labels as zeros and
                ones become probabilities.
        """
        values = self.y if values is None else clouds.points("values", values, self.y.dtype)
        if values.ndim != 2 or len(values) != len(self.y):
            raise ValueError(
                f"`values` must have a row for each of the {len(self.y):,} points y, got "
                f"{values.shape}."
            )
        return self._of(_means, points, values)

    def assignment(self, points: Any) -> np.ndarray:
        """Return for each point the place of the target that most of it is sent to.

        Args:
            points: k × d.
        """
        return self._of(_largest, points)

    def potential_x(self, points: Any) -> np.ndarray:
        r"""Return u at points.

        $$ u(x) = -\varepsilon \log \sum_j \nu_j e^{(v_j - c(x, y_j)) / \varepsilon} $$

        Args:
            points: k × d.
        """
        return self._of(_potential, points)

    def _of(self, function: Any, points: Any, *more: Any) -> np.ndarray:
        points = clouds.points("points", points, self.y.dtype)
        if points.shape[1] != self.y.shape[1]:
            raise ValueError(
                f"`points` must have {self.y.shape[1]} dimensions, got {points.shape[1]}."
            )
        targets = self.cost.targets(self.y)
        return stream.mapped(
            lambda chunk: function(
                chunk, targets, self.v, self.b, self.epsilon, *more, cost=self.cost
            ),
            points,
            len(self.y),
        )


@stream.compiled
def _potential(
    x: Array, targets: PyTree, v: Array, nu: Array, epsilon: Array, *, cost: Cost
) -> Array:
    return -epsilon * logsumexp(cost.exponents(x, targets, v, nu, epsilon), axis=1)


@stream.compiled
def _weights(
    x: Array, targets: PyTree, v: Array, nu: Array, epsilon: Array, *, cost: Cost
) -> Array:
    return softmax(cost.exponents(x, targets, v, nu, epsilon), axis=1)


@stream.compiled
def _means(
    x: Array, targets: PyTree, v: Array, nu: Array, epsilon: Array, values: Array, *, cost: Cost
) -> Array:
    return softmax(cost.exponents(x, targets, v, nu, epsilon), axis=1) @ values


@stream.compiled
def _largest(
    x: Array, targets: PyTree, v: Array, nu: Array, epsilon: Array, *, cost: Cost
) -> Array:
    return jnp.argmax(cost.exponents(x, targets, v, nu, epsilon), axis=1)
