"""A solved transport problem: its value with a certificate, potentials, and the plan on demand."""

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda._trees import PyTree
from rsgda.transport import stream
from rsgda.transport.certificate import gap_at, rounding
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
        marginal: $\bar w$, what the plan gives each y, which should be its weight.
        value: $F(v) \le W_\varepsilon$, less what rounding may have added.
        error: $\|\nu - \bar w\|_1$.
        converged: whether the error came to what was asked for; None for `semidiscrete`, where
            none is.
        iterations: passes over x.
    """

    x: Array
    a: Array
    u: Array
    marginal: Array
    value: float
    error: float
    converged: bool | None
    iterations: float

    @property
    def potentials(self) -> tuple[Array, Array]:
        """The potentials u of x and v of y."""
        return self.u, self.v

    @functools.cached_property
    def gap(self) -> float:
        r"""What $W_\varepsilon$ can be above `value`.

        The smaller of two bounds: $\frac12 \|\nu - \bar w\|_1 (\max_i \operatorname{osc}_j c_{ij}
        + \operatorname{osc} v)$, and what a plan that meets both marginals costs above it (see
        `certificate.gap_at`). It takes one more pass over x, when it is first asked for.
        """
        rows = stream.chunked(self.x, self.a, len(self.y))
        u = stream.filled(self.u, rows.log_mu.shape[1])
        targets = self.cost.targets(self.y)
        found = _gap(
            rows, targets, self.v, self.b, self.epsilon, u, self.marginal, cost=self.cost
        )  # fmt: skip
        return float(found)

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
        places = _places("rows", rows, len(self.x))
        if not len(places):
            return np.zeros((0, len(self.y)), self.y.dtype)
        return self.weights(np.asarray(self.x)[places]) * np.asarray(self.a)[places, None]

    def plan_block(self, rows: Any, columns: Any) -> np.ndarray:
        """Return a block of the plan, `len(rows)` × `len(columns)`.

        Args:
            rows: places in x, or a slice.
            columns: places in y, or a slice.
        """
        i = _places("rows", rows, len(self.x))
        j = _places("columns", columns, len(self.y))
        # About the centre of all y, as u is: otherwise the two are rounded in different ways.
        some = self.cost.some(self.cost.targets(self.y), jnp.asarray(j))
        logs = self.cost.exponents(self.x[i], some, self.v[j], self.b[j], self.epsilon)
        return np.asarray(self.a[i, None] * jnp.exp(logs + (self.u[i] / self.epsilon)[:, None]))

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


def _places(which: str, given: Any, count: int) -> np.ndarray:
    """Return places among so many points; refuse what is none."""
    try:
        given = given if isinstance(given, slice) else np.asarray(given)
        given = given.astype(int) if not isinstance(given, slice) and not given.size else given
        places = np.atleast_1d(np.arange(count)[given])
    except IndexError as error:
        raise ValueError(
            f"`{which}` must be places below {count:,}, or a slice, got {given!r:.80}."
        ) from error
    if places.ndim != 1:
        raise ValueError(f"`{which}` must be a list of places, got the shape {places.shape}.")
    return places


def solved(
    at: Potentials,
    x: Array,
    a: Array,
    *,
    converged: bool | None,
    iterations: float,
    seen: stream.Seen | None = None,
) -> Sinkhorn:
    """Return what potentials of y tell about a cloud x, whatever they are.

    Args:
        at: the potentials.
        x: the points of the cloud.
        a: their weights.
        converged: whether they are as good as was asked for.
        iterations: passes over x that they took.
        seen: in a pass at these potentials, if there was one.
    """
    middle = jnp.mean(at.v)
    shifted = dataclasses.replace(at, v=at.v - middle)
    if seen is None:
        rows = stream.chunked(x, a, len(at.y))
        targets = at.cost.targets(at.y)
        seen = stream.Seen(*_look(rows, targets, at.v, at.b, at.epsilon, cost=at.cost))
    marginal = jnp.exp(seen.log_mean)
    u = seen.u.ravel()[: len(x)] + middle
    return Sinkhorn(
        **vars(shifted),
        x=x,
        a=a,
        u=u,
        marginal=marginal,
        value=float(seen.value - rounding(u, shifted.v, at.b, at.epsilon)),
        error=float(jnp.sum(jnp.abs(at.b - marginal))),
        converged=converged,
        iterations=iterations,
    )


_look = stream.compiled(stream.look)
_gap = stream.compiled(gap_at)
