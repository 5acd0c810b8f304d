r"""Costs $c(x, y)$ of moving mass, as matrices of many x by many y."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from rsgda import _checks

TINY = 1e-30  # where a length is zero it has no direction; this one makes it zero


class Centred(NamedTuple):
    """Points about their mean, from which squared distances lose no digits to where they lie."""

    points: Array
    squares: Array
    centre: Array


class Cost:
    """What it costs to move one point to another.

    `targets` is what of the y is needed again and again, `matrix` the costs of rows x to them.
    """

    def targets(self, y: Array) -> Any:
        """Return what `matrix` needs of points y, n × d."""
        return y

    def matrix(self, x: Array, targets: Any) -> Array:
        """Return the costs of b points x, b × n."""
        raise NotImplementedError

    def some(self, targets: Any, places: Array) -> Any:
        """Return what `matrix` needs of the targets at these places."""
        return jax.tree.map(lambda leaf: leaf[places], targets)

    def exponents(self, x: Array, targets: Any, v: Array, nu: Array, epsilon: Array) -> Array:
        r"""Return $(v_j - c(x_i, y_j)) / \varepsilon + \log \nu_j$, b × n."""
        return (v - self.matrix(x, targets)) / epsilon + jnp.log(nu)


@dataclasses.dataclass(frozen=True)
class Quadratic(Cost):
    r"""The squared distance $\|x - y\|^2$, by one matrix product."""

    def targets(self, y: Array) -> Centred:
        """Return y about its mean."""
        centre = lax.stop_gradient(jnp.mean(y, axis=0))
        points = y - centre
        return Centred(points, jnp.sum(points * points, axis=1), centre)

    def matrix(self, x: Array, targets: Centred) -> Array:
        """Return squared distances."""
        x = x - targets.centre
        inner = jnp.matmul(x, targets.points.T, precision=lax.Precision.HIGHEST)
        return jnp.sum(x * x, axis=1)[:, None] + (targets.squares - 2 * inner)

    def some(self, targets: Centred, places: Array) -> Centred:
        """Return points about the same mean."""
        return Centred(targets.points[places], targets.squares[places], targets.centre)

    def exponents(self, x: Array, targets: Centred, v: Array, nu: Array, epsilon: Array) -> Array:
        """Return what `matrix` leads to; all but sums is done to x and to y, not to their pairs."""
        x = x - targets.centre
        inner = jnp.matmul(x * (2 / epsilon), targets.points.T, precision=lax.Precision.HIGHEST)
        of_y = (v - targets.squares) / epsilon + jnp.log(nu)
        return (inner + of_y) - (jnp.sum(x * x, axis=1) / epsilon)[:, None]

    def __repr__(self) -> str:
        return "quadratic"


@dataclasses.dataclass(frozen=True)
class Cosine(Cost):
    r"""One less the cosine of the angle, $1 - \langle x, y \rangle / (\|x\| \|y\|)$."""

    def targets(self, y: Array) -> Array:
        """Return y at length one."""
        return _unit(y)

    def matrix(self, x: Array, targets: Array) -> Array:
        """Return one less cosines."""
        return 1 - jnp.matmul(_unit(x), targets.T, precision=lax.Precision.HIGHEST)

    def __repr__(self) -> str:
        return "cosine"


@dataclasses.dataclass(frozen=True)
class PNorm(Cost):
    r"""A norm to a power, $\|x - y\|_p^r$."""

    p: float
    power: float

    # A gradient looks at the points again; nothing of size b × n × d is kept for it.
    @functools.partial(jax.checkpoint, static_argnums=0)  # pyright: ignore[reportArgumentType]
    def matrix(self, x: Array, targets: Array) -> Array:
        """Return powers of norms."""
        apart = jnp.abs(x[:, None, :] - targets[None, :, :])
        if self.p == jnp.inf:
            return jnp.max(apart, axis=2) ** self.power
        if self.power == self.p:
            return jnp.sum(apart**self.p, axis=2)
        # In units of the largest part, whose powers neither overflow nor vanish.
        largest = lax.stop_gradient(jnp.max(apart, axis=2, keepdims=True))
        unit = jnp.where(largest > 0, largest, 1)
        total = jnp.sum((apart / unit) ** self.p, axis=2)
        there = total > 0  # else the norm is zero, and has no gradient; this one makes it zero
        norm = unit[:, :, 0] * jnp.where(there, total, 1) ** (1 / self.p)
        return jnp.where(there, norm, 0) ** self.power

    def __repr__(self) -> str:
        return f"p_norm({self.p:g}, power={self.power:g})"


@dataclasses.dataclass(frozen=True)
class Given(Cost):
    """A user's function of one x and one y."""

    function: Callable[[Array, Array], Array]

    @functools.partial(jax.checkpoint, static_argnums=0)  # pyright: ignore[reportArgumentType]
    def matrix(self, x: Array, targets: Array) -> Array:
        """Map the function over all pairs."""
        of_x = jax.vmap(self.function, (None, 0))
        return jax.vmap(of_x, (0, None))(x, targets)

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


def p_norm(p: float = 1.0, *, power: float = 1.0) -> Cost:
    r"""Return the cost $c(x, y) = \|x - y\|_p^r$.

    Args:
        p: of the norm, from 1 to infinity.
        power: $r$, at least 1.

    >>> x, y = jnp.zeros((1, 2)), jnp.array([[3.0, -4.0], [0.0, 2.0]])
    >>> p_norm(1.0).matrix(x, y).tolist(), p_norm(jnp.inf, power=2.0).matrix(x, y).tolist()
    ([[7.0, 2.0]], [[16.0, 4.0]])
    """
    for name, value in (("p", p), ("power", power)):
        number = _checks.host_number(value)
        if number is None or not number >= 1:
            raise ValueError(f"`{name}` must be a number of at least 1, got {value!r}.")
    if power == jnp.inf:
        raise ValueError("`power` must be finite, got inf.")
    return PNorm(float(p), float(power))


def named(cost: Any) -> Cost:
    """Return the cost of a name, or of a user's function."""
    if isinstance(cost, Cost):
        return cost
    if isinstance(cost, str) and cost in ("quadratic", "cosine"):
        return Quadratic() if cost == "quadratic" else Cosine()
    if isinstance(cost, str) or not callable(cost):
        raise ValueError(
            f"`cost` must be 'quadratic', 'cosine', rsgda.transport.p_norm(...) or a function "
            f"(x, y) -> scalar of two points, got {cost!r:.80}."
        )
    _checks.function("cost", cost)
    return Given(cost)  # pyright: ignore[reportArgumentType]


def checked(cost: Any, d: int, dtype: Any) -> Cost:
    """Return the cost of a name or a function, if it makes one number of two points of d."""
    kind = named(cost)
    point = jax.ShapeDtypeStruct((1, d), dtype)
    try:
        made = jax.eval_shape(lambda x, y: kind.matrix(x, kind.targets(y)), point, point)
    except Exception as error:
        raise ValueError(
            f"`cost` must be a function (x, y) -> scalar of two points of {d} numbers, in terms of "
            f"jax.numpy; it failed on them: {error}"
        ) from error
    if made.shape != (1, 1) or not jnp.issubdtype(made.dtype, jnp.floating):
        raise ValueError(
            f"`cost` must make one number of two points of {d}, got {made.dtype} of the shape "
            f"{made.shape[2:]}."
        )
    return kind


def _unit(points: Array) -> Array:
    squares = jnp.sum(points * points, axis=1, keepdims=True)
    return points / jnp.sqrt(jnp.maximum(squares, TINY))
