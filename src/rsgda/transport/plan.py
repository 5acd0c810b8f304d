"""A solved transport problem: its value with a certificate, potentials, and the plan on demand."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda._trees import PyTree
from rsgda.transport import stream
from rsgda.transport.certificate import judged
from rsgda.transport.costs import Cost
from rsgda.transport.potentials import Potentials


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Sinkhorn(Potentials):
    r"""Entropic transport between two clouds, as `sinkhorn` and `semidiscrete` solve it.

    The plan is $\pi_{ij} = \mu_i w_j(x_i) = \mu_i \nu_j \exp((u_i + v_j - c_{ij}) / \varepsilon)$.
    It takes from each x what it has; what it gives each y differs from $\nu$ by `error`. It is
    never held as a whole.

    Attributes:
        v: the potentials of y, which sum to zero.
        epsilon: the regularisation.
        y: the points that mass is sent to.
        b: their weights.
        cost: of moving mass.
        x: the points that it comes from.
        a: their weights.
        u: the potentials of x.
        value: $F(v) \le W_\varepsilon$.
        gap: what $W_\varepsilon$ can be above it, the smaller of two bounds: $\frac12
            \|\nu - \bar w\|_1 (\max_i \operatorname{osc}_j c_{ij} + \operatorname{osc} v)$, and
            what a plan that meets both marginals costs above it (see `certificate.judged`).
        error: $\|\nu - \bar w\|_1$.
        converged: whether the error came to what was asked for; None for `semidiscrete`, where
            none is.
        iterations: passes over x.
    """

    x: Array
    a: Array
    u: Array
    value: float
    gap: float
    error: float
    converged: bool | None
    iterations: float

    @property
    def potentials(self) -> tuple[Array, Array]:
        """The potentials u of x and v of y."""
        return self.u, self.v

    def __repr__(self) -> str:
        """Show what was found."""
        end = ", not converged" if self.converged is False else ""
        return (
            f"Sinkhorn({len(self.x):,} × {len(self.y):,}, epsilon {float(self.epsilon):g}: "
            f"W_eps = {self.value:.6g} to {self.value + self.gap:.6g}, error {self.error:.2g} "
            f"after {self.iterations:,g} passes{end})"
        )

    def plan_rows(self, rows: Any) -> np.ndarray:
        """Return rows of the plan, `len(rows)` × n.

        Args:
            rows: places in x, or a slice.
        """
        places = np.atleast_1d(np.arange(len(self.x))[rows])
        return self.weights(np.asarray(self.x)[places]) * np.asarray(self.a)[places, None]

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

    def barycentric(self, points: Any = None, values: Any = None) -> np.ndarray:
        r"""Return where each point is sent in the mean, $\sum_j w_j(x)\, y_j$.

        Args:
            points: k × d, x by default.
            values: of the targets, as in `Potentials`.
        """
        return super().barycentric(self.x if points is None else points, values)

    def assignment(self, points: Any = None) -> np.ndarray:
        """Return for each point the place of the y that most of it is sent to.

        Args:
            points: k × d, x by default.
        """
        return super().assignment(self.x if points is None else points)

    def potential_y(self, points: Any) -> np.ndarray:
        r"""Return v at points.

        $$ v(y) = -\varepsilon \log \sum_i \mu_i e^{(u_i - c(x_i, y)) / \varepsilon} $$

        Args:
            points: k × d.
        """
        return self.turned().potential_x(points)

    def turned(self) -> Potentials:
        r"""Return the same plan seen from y: what each y gets from each x.

        $$ w_i(y) \propto \mu_i e^{(u_i - c(x_i, y)) / \varepsilon}, \qquad \sum_i w_i(y) = 1 $$

        Points x without weight are left out.
        """
        held = np.flatnonzero(np.asarray(self.a) > 0)
        return Potentials(self.u[held], self.epsilon, self.x[held], self.a[held], Turned(self.cost))


@dataclasses.dataclass(frozen=True)
class Turned(Cost):
    """A cost whose first points are the targets."""

    cost: Cost

    def matrix(self, x: Array, targets: PyTree) -> Array:
        """Return the costs of the targets to x, turned."""
        return self.cost.matrix(targets, self.cost.targets(x)).T


def solved(
    at: Potentials, x: Array, a: Array, *, converged: bool | None, iterations: float
) -> Sinkhorn:
    """Return what potentials of y tell about a cloud x, whatever they are."""
    at = dataclasses.replace(at, v=at.v - jnp.mean(at.v))
    rows = stream.chunked(x, a, len(at.y))
    found = _judged(
        rows, at.cost.targets(at.y), at.v, at.b, at.epsilon, jnp.exp(rows.log_mu).ravel(),
        cost=at.cost,
    )  # fmt: skip
    return Sinkhorn(
        **vars(at),
        x=x,
        a=a,
        u=found.u[: len(x)],
        value=float(found.value),
        gap=float(found.gap),
        error=float(found.error),
        converged=converged,
        iterations=iterations,
    )


_judged = stream.compiled(judged)
