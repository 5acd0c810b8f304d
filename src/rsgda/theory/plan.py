"""A plan: the numbers of one corollary for one problem, and whether its conditions hold."""

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from rsgda._checks import host_number, positive, probability
from rsgda.algorithms.rsgda import RSGDA
from rsgda.moves import Step
from rsgda.theory.regularity import Regularity
from rsgda.theory.schedules import PowerLaw

# Both sides of a condition may be the same formula, evaluated in another order.
ROUNDING = 1e-12
SMALLEST = 1e-200  # squares of accuracies below it would be lost to underflow


class Condition(NamedTuple):
    """An inequality that a corollary needs, with its two sides as numbers.

    Attributes:
        name: the inequality in the symbols of the theory.
        left: its left side.
        relation: "<=" or "<".
        right: its right side.

    >>> Condition("eta <= 1/(2 L)", 0.5, "<=", 0.25).holds
    False
    """

    name: str
    left: float
    relation: str
    right: float

    @property
    def holds(self) -> bool:
        """Whether the two sides compare as they should."""
        rounding = ROUNDING * abs(self.right) if math.isfinite(self.right) else 0.0
        if self.relation == "<":
            return self.left < self.right - rounding
        return self.left <= self.right + rounding

    def __str__(self) -> str:
        """Show the condition with its numbers."""
        said = "holds" if self.holds else "fails"
        return f"{self.name}: {self.left:.6g} {self.relation} {self.right:.6g} {said}"


class ConditionError(ValueError):
    """A plan was asked for outside of its conditions.

    Attributes:
        condition: the `Condition` that does not hold.
    """

    def __init__(self, corollary: str, condition: Condition) -> None:
        """Name the corollary, the condition and both its numbers."""
        self.condition = condition
        super().__init__(
            f"`{corollary}` needs {condition.name}, that is "
            f"{condition.left:.6g} {condition.relation} {condition.right:.6g}, which is false."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    r"""The step sizes of a corollary, what they guarantee, and under which conditions.

    $$ \min_{t < k} \mathbb{E} \lVert \nabla \phi(\theta_t) \rVert^2 \le \mathtt{bound}(k) $$

    Attributes:
        corollary: the name of the function that made the plan.
        source: the corollary of the paper, and the errata that are mended in it.
        regularity: the constants that it was made for.
        algorithm: ready to be passed to `solve`.
        eps: the wanted accuracy, if one was given.
        steps: the k from which on the bound is at most eps^2, if eps was given.
        batch_size: samples in a minibatch, where the corollary gives them.
        p_range: the p for which `order` is true (any p is allowed), or None if there is none.
        order: the order of `steps` (times `batch_size`) in kappa and eps, or of the bound in k.
        conditions: what was checked, each with its two sides as numbers.

    >>> from rsgda.theory import Regularity, exact
    >>> plan = exact(Regularity(L=1.0, mu=0.1), p=0.25, eps=0.1)
    >>> plan.steps, plan.order
    (161769, 'kappa^2 eps^-2')
    >>> bool(plan.bound(plan.steps) <= plan.eps**2)
    True
    """

    corollary: str
    source: str
    regularity: Regularity
    algorithm: RSGDA
    eps: float | None = None
    steps: int | None = None
    batch_size: int | None = None
    p_range: tuple[float, float] | None
    order: str
    conditions: tuple[Condition, ...]
    at: Callable[[np.ndarray], np.ndarray] = dataclasses.field(repr=False, compare=False)

    def bound(self, k: Any) -> Any:
        """Return the bound on the smallest expected squared gradient of phi after k iterations.

        `k` is a whole number, or an array of them for a curve.
        """
        times = whole_times(k)
        found = self.at(times)
        return float(found) if times.ndim == 0 else found

    def __str__(self) -> str:
        """Show the plan on a few lines."""
        lines = [f"{self.corollary} ({self.source})", f"  algorithm   {self.algorithm!r}"]
        if self.steps is not None:
            lines.append(f"  steps       {self.steps:,} for a gradient of norm {self.eps:g}")
        if self.batch_size is not None:
            lines.append(f"  batch_size  {self.batch_size:,}")
        span = "empty" if self.p_range is None else "[{:.3g}, {:.3g}]".format(*self.p_range)
        lines.append(f"  order       {self.order}, for p in {span}")
        return "\n".join([*lines, *(f"  {condition}" for condition in self.conditions)])


def rsgda(r: Regularity, p: float, alpha: Step, eta: float | PowerLaw) -> RSGDA:
    """Return the algorithm with the theory's steps, eta in the algorithm's units."""
    if isinstance(eta, PowerLaw):
        return RSGDA(p=p, alpha=alpha, eta=PowerLaw(eta.value * r.eta_scale, eta.exponent))
    return RSGDA(p=p, alpha=alpha, eta=eta * r.eta_scale)


def require(corollary: str, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return the conditions, or raise for the first that does not hold."""
    checked = tuple(conditions)
    for condition in checked:
        if not condition.holds:
            raise ConditionError(corollary, condition)
    return checked


def door(r: Any, p: Any) -> float:
    """Check what every plan is given, and return p as a plain number."""
    if not isinstance(r, Regularity):
        raise ValueError(f"`r` must be a Regularity, got {r!r}.")
    if not r.mu > 0:
        raise ValueError(
            f"`r.mu` must be positive, got {r.mu:g}: F is not strongly concave in v there, and "
            "the theory says nothing."
        )
    probability("p", p)
    number = host_number(p)
    if number is None:
        raise ValueError(f"`p` must be one number in (0, 1), got {p!r}.")
    return number


def accuracy(eps: Any) -> float:
    """Check a wanted accuracy, and return it as a plain number."""
    positive("eps", eps)
    number = host_number(eps)
    if number is None or number**2 < SMALLEST:
        raise ValueError(f"`eps` must be one number, at least 1e-100, got {eps!r}.")
    return number


def p_between(low: float, high: float = 0.5) -> tuple[float, float] | None:
    """Return a range of p, or None where it is empty."""
    return (low, high) if low <= high else None


def whole_times(k: Any) -> np.ndarray:
    """Return numbers of iterations as an array, or refuse them."""
    times = _floats(k)
    if times is None or not times.size:
        raise ValueError(f"`k` must be whole and at least 1, got {k!r}.")
    if not np.all(np.isfinite(times) & (times >= 1) & (times == np.floor(times))):
        raise ValueError(f"`k` must be whole and at least 1, got {k!r}.")
    return times


def _floats(k: Any) -> np.ndarray | None:
    """Return real numbers as an array, or None for anything else."""
    try:
        times = np.asarray(k)
        if isinstance(k, (int, list, tuple)) or times.dtype == object:
            # One by one: True is no number here, and whole numbers may be beyond 2^64.
            times = np.asarray(k, object)
            real = (int, float, np.integer, np.floating, jax.Array)
            if any(isinstance(n, bool) or not isinstance(n, real) for n in times.flat):
                return None
            return times.astype(float)
    except (TypeError, ValueError, OverflowError):  # ragged, or beyond floating point
        return None
    kinds = np.integer, np.floating
    return times.astype(float) if issubclass(times.dtype.type, kinds) else None
