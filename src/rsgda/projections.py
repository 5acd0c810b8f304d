r"""Euclidean projections, ready for a problem's `project_v` and `project_theta`.

$$ \Pi_V(x) = \arg\min_{y \in V} \|y - x\|_2 $$

A projection is a function of a pytree and keeps its structure, shapes and dtypes. Projections
with equal numbers are equal and hash alike, so that a second one compiles nothing anew.

Only the simplex comes from optax: `optax.projections` clips no tree of several leaves with plain
numbers as bounds, and its ball widens the narrower leaves of a tree of mixed precision.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp

from rsgda._checks import host_number, positive
from rsgda._trees import PyTree, freeze, thaw

__all__ = ["ball", "box", "simplex", "zero_sum_ball"]

Projection = Callable[[PyTree], PyTree]


def zero_sum_ball(beta: float) -> Projection:
    r"""Projection on the paper's set $V$ of dual potentials, over all leaves together.

    $$ V = \{v : \textstyle\sum_j v_j = 0,\ \|v\|_2 \le \beta\}, \qquad
       w = v - \operatorname{mean}(v), \quad \Pi_V(v) = w \min(1, \beta / \|w\|_2) $$

    Args:
        beta: radius of the ball, positive.

    >>> project = zero_sum_ball(3.0)
    >>> project
    zero_sum_ball(beta=3.0)
    >>> project(jnp.array([4.0, -2.0, 4.0, -2.0])).tolist()
    [1.5, -1.5, 1.5, -1.5]

    Source: the paper's Appendix C.3, the lemma that defines $V$ and the remark after it.
    """
    return _ZeroSumBall(beta=_positive("beta", beta))


def ball(radius: float, *, rows: bool = False) -> Projection:
    r"""Projection on the Euclidean ball around zero.

    $$ \Pi(x) = x \min(1, \mathtt{radius} / \|x\|_2) $$

    Args:
        radius: radius of the ball, positive.
        rows: project each row (index of the leading axis, the same in all leaves) by itself, as
            a separable problem wants it; otherwise all leaves are one vector.

    >>> ball(5.0)(jnp.array([6.0, 8.0])).tolist()
    [3.0, 4.0]
    >>> ball(5.0, rows=True)(jnp.array([[6.0, 8.0], [3.0, 0.0]])).tolist()
    [[3.0, 4.0], [3.0, 0.0]]
    """
    if not isinstance(rows, bool):
        raise ValueError(f"`rows` must be True or False, got {rows!r}.")
    return _Ball(radius=_positive("radius", radius), rows=rows)


def box(lower: float, upper: float) -> Projection:
    r"""Projection of every entry on an interval; infinite bounds leave a side open.

    $$ \Pi(x)_i = \min(\max(x_i, \mathtt{lower}), \mathtt{upper}) $$

    Args:
        lower: smallest value of an entry.
        upper: largest value of an entry, at least `lower`.

    >>> box(0.0, 1.0)(jnp.array([-2.0, 0.5, 3.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    low, high = _number("lower", lower), _number("upper", upper)
    if math.isnan(low) or low == math.inf:
        raise ValueError(f"`lower` must be a number below infinity, got {lower!r}.")
    if not low <= high or high == -math.inf:
        raise ValueError(f"`upper` must be at least `lower` = {lower!r}, got {upper!r}.")
    return _Box(lower=low, upper=high)


def simplex(scale: float = 1.0) -> Projection:
    r"""Projection on the simplex, over all leaves together.

    $$ V = \{x \ge 0 : \textstyle\sum_i x_i = \mathtt{scale}\}, \qquad
       \Pi_V(x)_i = \max(x_i - \tau, 0) \quad\text{with $\tau$ such that the sum is right} $$

    Args:
        scale: sum of the entries, positive; 1 gives the probability vectors.

    >>> simplex()(jnp.array([1.0, 0.5, -2.0])).tolist()
    [0.75, 0.25, 0.0]

    Source: `optax.projections.projection_simplex`.
    """
    return _Simplex(scale=_positive("scale", scale))


@dataclasses.dataclass(frozen=True, repr=False)
class _Shown:
    """Shows a projection as the call that makes it, with every number."""

    made_by: ClassVar[str]

    def __call__(self, tree: PyTree) -> PyTree:
        """Project the arrays; functions and settings of a module stay as they are."""
        return thaw(self._project(freeze(tree)))

    def _project(self, tree: PyTree) -> PyTree:
        raise TypeError(f"{type(self).__name__} does not say how it projects")

    def __repr__(self) -> str:
        numbers = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self))
        return f"{self.made_by}({', '.join(numbers)})"


@dataclasses.dataclass(frozen=True, repr=False)
class _Ball(_Shown):
    radius: float
    rows: bool
    made_by = "ball"

    def _project(self, tree: PyTree) -> PyTree:
        if self.rows:
            return jax.vmap(dataclasses.replace(self, rows=False))(tree)
        # In units of the radius nothing underflows, and the factor is exactly 1 inside the ball:
        # points of V stay as they are, zero among them.
        squared_norm = _total(lambda leaf: jnp.square(leaf / self.radius), tree)
        factor = 1.0 / jnp.sqrt(jnp.maximum(squared_norm, 1.0))
        return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), tree)


@dataclasses.dataclass(frozen=True, repr=False)
class _ZeroSumBall(_Shown):
    beta: float
    made_by = "zero_sum_ball"

    def _project(self, tree: PyTree) -> PyTree:
        mean = _total(lambda leaf: leaf, tree) / sum(leaf.size for leaf in jax.tree.leaves(tree))
        centred = jax.tree.map(lambda leaf: leaf - mean.astype(leaf.dtype), tree)
        # Scaling keeps the sum at zero, hence the two projections in turn are that on V.
        return _Ball(radius=self.beta, rows=False)(centred)


@dataclasses.dataclass(frozen=True, repr=False)
class _Box(_Shown):
    lower: float
    upper: float
    made_by = "box"

    def _project(self, tree: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: jnp.clip(leaf, self.lower, self.upper), tree)


@dataclasses.dataclass(frozen=True, repr=False)
class _Simplex(_Shown):
    scale: float
    made_by = "simplex"

    def _project(self, tree: PyTree) -> PyTree:
        # Here and not above: optax takes longer to import than the rest of this package.
        from optax.projections import projection_simplex

        # optax divides by integers and takes one dtype for the whole tree.
        wide = jax.tree.map(lambda leaf: leaf.astype(_wide()), tree)
        with jax.numpy_dtype_promotion("standard"):
            projected = projection_simplex(wide, self.scale)
        return jax.tree.map(lambda leaf, new: new.astype(leaf.dtype), tree, projected)


def _wide() -> jnp.dtype:
    """The widest float in use: sums over leaves of mixed precision are taken in it."""
    return jnp.result_type(float)


def _total(function: Callable[[jax.Array], jax.Array], tree: PyTree) -> jax.Array:
    """Sum of `function` over all entries of all leaves; XLA fuses the cast into the sum."""
    sums = (function(leaf.astype(_wide())).sum() for leaf in jax.tree.leaves(tree))
    return sum(sums, jnp.zeros((), _wide()))


def _number(name: str, value: object) -> float:
    number = host_number(value)
    if number is None:
        raise ValueError(f"`{name}` must be a number, got {value!r}.")
    return number


def _positive(name: str, value: object) -> float:
    number = _number(name, value)
    positive(name, number)
    return number
