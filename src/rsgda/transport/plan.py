"""A solved transport problem: its value with a certificate, potentials, and the plan on demand."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.nn import logsumexp

from rsgda._trees import PyTree
from rsgda.transport import clouds, stream
from rsgda.transport.costs import Cost
from rsgda.transport.semidual import exponents, weights


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Sinkhorn:
    r"""Entropic transport between two clouds, as `sinkhorn` solves it.

    The plan is $\pi_{ij} = \mu_i \nu_j \exp((u_i + v_j - c_{ij}) / \varepsilon)$. It gives each x
    what it has; what it gives each y differs from $\nu$ by `error`. It is never held as a whole.

    Attributes:
        value: $F(v) \le W_\varepsilon$.
        gap: what $W_\varepsilon$ can be above it: $\frac12 \|\nu - \bar w\|_1 (\max_i
            \operatorname{osc}_j c_{ij} + \operatorname{osc} v)$.
        error: $\|\nu - \bar w\|_1$.
        potentials: u of the x, and v of the y, which sums to zero.
        converged: whether the error came to what was asked for.
        iterations: passes over x.
        epsilon: the regularisation.
        x: the points.
        y: the other points.
        a: weights of x.
        b: weights of y.
        cost: of moving mass.
    """

    value: float
    gap: float
    error: float
    potentials: tuple[Array, Array]
    converged: bool
    iterations: int
    epsilon: Array
    x: Array
    y: Array
    a: Array
    b: Array
    cost: Cost

    def __repr__(self) -> str:
        """Show what was found."""
        end = "" if self.converged else ", not converged"
        return (
            f"Sinkhorn({len(self.x):,} × {len(self.y):,}, epsilon {float(self.epsilon):g}: "
            f"W_eps = {self.value:.6g} to {self.value + self.gap:.6g}, error {self.error:.2g} "
            f"after {self.iterations:,} iterations{end})"
        )

    def plan_rows(self, rows: Any) -> np.ndarray:
        """Return rows of the plan, `len(rows)` × n.

        Args:
            rows: places in x, or a slice.
        """
        places = np.arange(len(self.x))[rows]
        found = self._over(_weights, np.atleast_1d(places))
        return found * np.asarray(self.a)[np.atleast_1d(places), None]

    def plan_block(self, rows: Any, columns: Any) -> np.ndarray:
        """Return a block of the plan, `len(rows)` × `len(columns)`.

        Args:
            rows: places in x, or a slice.
            columns: places in y, or a slice.
        """
        i = np.atleast_1d(np.arange(len(self.x))[rows])
        j = np.atleast_1d(np.arange(len(self.y))[columns])
        u, v = (np.asarray(potential) for potential in self.potentials)
        costs = np.asarray(self.cost.matrix(self.x[i], self.cost.targets(self.y[j])))
        exponent = (u[i, None] + v[j] - costs) / float(self.epsilon)
        return np.asarray(self.a)[i, None] * np.asarray(self.b)[j] * np.exp(exponent)

    def barycentric(self, values: Any = None) -> np.ndarray:
        r"""Return where each x is sent in the mean, $\sum_j w_j(x_i)\, y_j$, N × d.

        Args:
            values: of the targets, n × k, in place of the points y themselves: labels as zeros and
                ones become probabilities.
        """
        values = self.y if values is None else jnp.asarray(values, self.y.dtype)
        if values.ndim != 2 or len(values) != len(self.y):
            raise ValueError(
                f"`values` must have a row for each of the {len(self.y):,} points y, got "
                f"{values.shape}."
            )
        return self._over(_means, np.arange(len(self.x)), values)

    def assignment(self) -> np.ndarray:
        """Return for each x the place of the y that most of it is sent to."""
        return self._over(_largest, np.arange(len(self.x)))

    def potential_x(self, points: Any) -> np.ndarray:
        r"""Return u at other points.

        $$ u(x) = -\varepsilon \log \sum_j \nu_j e^{(v_j - c(x, y_j)) / \varepsilon} $$

        Args:
            points: where, k × d.
        """
        return self._elsewhere(points, self.y, self.potentials[1], self.b)

    def potential_y(self, points: Any) -> np.ndarray:
        r"""Return v at other points.

        $$ v(y) = -\varepsilon \log \sum_i \mu_i e^{(u_i - c(x_i, y)) / \varepsilon} $$

        Args:
            points: where, k × d.
        """
        swapped = Swapped(self.cost)
        held = np.flatnonzero(np.asarray(self.a) > 0)
        return self._elsewhere(
            points, self.x[held], self.potentials[0][held], self.a[held], swapped
        )

    def _elsewhere(
        self, points: Any, targets: Array, v: Array, nu: Array, cost: Cost | None = None
    ) -> np.ndarray:
        points = clouds.points("points", points)
        if points.shape[1] != targets.shape[1]:
            raise ValueError(
                f"`points` must have {targets.shape[1]} dimensions, got {points.shape[1]}."
            )
        cost = cost or self.cost
        made = cost.targets(targets)
        return stream.mapped(
            lambda chunk: _potential(chunk, made, v, nu, self.epsilon, cost=cost),
            points, len(targets),
        )  # fmt: skip

    def _over(self, function: Any, places: np.ndarray, *more: Any) -> np.ndarray:
        targets = self.cost.targets(self.y)
        return stream.mapped(
            lambda chunk: function(
                chunk, targets, self.potentials[1], self.b, self.epsilon, *more, cost=self.cost
            ),
            np.asarray(self.x)[places], len(self.y),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Swapped(Cost):
    """A cost whose first argument are the targets."""

    cost: Cost

    def matrix(self, x: Array, targets: PyTree) -> Array:
        """Return the costs of the targets to x, turned."""
        return self.cost.matrix(targets, self.cost.targets(x)).T


def made(
    x: Array,
    y: Array,
    mu: Array,
    nu: Array,
    epsilon: Array,
    cost: Cost,
    v: Array,
    spread: float,
    *,
    converged: bool,
    iterations: int,
) -> Sinkhorn:
    """Return what potentials v of y tell about the problem, whatever v is."""
    v = v - jnp.mean(v)
    targets = cost.targets(y)
    u = stream.mapped(
        lambda chunk: _potential(chunk, targets, v, nu, epsilon, cost=cost), x, len(y)
    )
    seen = _look(cost=cost, rows=stream.chunked(x, mu, len(y)), targets=targets, v=v, nu=nu,
                 epsilon=epsilon)  # fmt: skip
    error = float(jnp.sum(jnp.abs(nu - jnp.exp(seen.log_mean))))
    return Sinkhorn(
        value=float(seen.value),
        gap=0.5 * error * (spread + float(jnp.ptp(v))),
        error=error,
        potentials=(jnp.asarray(u), v),
        converged=converged,
        iterations=iterations,
        epsilon=epsilon,
        x=x,
        y=y,
        a=mu,
        b=nu,
        cost=cost,
    )


_look = stream.compiled(stream.look)


@stream.compiled
def _potential(x: Array, targets: Any, v: Array, nu: Array, epsilon: Array, *, cost: Cost) -> Array:
    return -epsilon * logsumexp(exponents(v, cost.matrix(x, targets), nu, epsilon), axis=1)


@stream.compiled
def _weights(x: Array, targets: Any, v: Array, nu: Array, epsilon: Array, *, cost: Cost) -> Array:
    return weights(v, cost.matrix(x, targets), nu, epsilon)


@stream.compiled
def _means(
    x: Array, targets: Any, v: Array, nu: Array, epsilon: Array, values: Array, *, cost: Cost
) -> Array:
    return weights(v, cost.matrix(x, targets), nu, epsilon) @ values


@stream.compiled
def _largest(x: Array, targets: Any, v: Array, nu: Array, epsilon: Array, *, cost: Cost) -> Array:
    return jnp.argmax(exponents(v, cost.matrix(x, targets), nu, epsilon), axis=1)
