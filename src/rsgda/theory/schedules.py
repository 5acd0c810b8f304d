"""Step sizes that fall as a power of time, and their sums."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda._checks import host_number, is_foreign, positive

# Sums are written out so far and go on by the Euler-Maclaurin formula, whose first term left out
# is then below 1e-16 of the sum.
WRITTEN_OUT = 1_000

HOST = (int, float, np.ndarray, np.generic)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PowerLaw:
    r"""A step size that falls as a power of time.

    $$ \alpha_k = \mathtt{value} \cdot (k + 1)^{-\mathtt{exponent}} $$

    Its numbers may change without recompiling.

    >>> float(PowerLaw(0.2, 0.5)(3))
    0.1

    Source: the step sizes of all decreasing schedules of the paper.
    """

    value: float | Array
    exponent: float | Array

    def __post_init__(self) -> None:
        """Refuse what is no step size."""
        positive("value", self.value)
        number = host_number(self.exponent)
        if is_foreign(self.exponent) or (number is not None and not 0 <= number < np.inf):
            raise ValueError(
                f"`exponent` must be a finite number, at least 0, got {self.exponent!r}."
            )

    def __hash__(self) -> int:
        """Hash the numbers, which may be arrays."""
        return hash((host_number(self.value), host_number(self.exponent)))

    def __call__(self, k: Any) -> Any:
        """Return the step size at iteration k."""
        value, exponent = host_number(self.value), host_number(self.exponent)
        if value is not None and exponent is not None and isinstance(k, HOST):
            return value * (np.asarray(k, float) + 1.0) ** -exponent
        value = jnp.asarray(self.value, dtype=jnp.result_type(float, self.value))
        time = jnp.asarray(k).astype(value.dtype) + 1
        return value * time ** -jnp.asarray(self.exponent).astype(value.dtype)


def as_power_law(name: str, schedule: Any) -> PowerLaw | None:
    """Return a number or a `PowerLaw` as the latter, and None for other schedules."""
    if isinstance(schedule, PowerLaw):
        return schedule
    if callable(schedule):
        return None
    positive(name, schedule)
    number = host_number(schedule)
    if number is None:
        raise ValueError(f"`{name}` must be a number or a schedule `k -> value`, got {schedule!r}.")
    return PowerLaw(number, 0.0)


def one_value(schedule: Callable[[Any], Any], k: float) -> float:
    """Return a schedule at one time, which is a plain number unless it wants an array."""
    try:
        return float(schedule(k))
    except AttributeError:  # such as k.astype
        return float(schedule(np.asarray(k)))


def values(schedule: Callable[[Any], Any], k: np.ndarray) -> np.ndarray:
    """Return a schedule at several times, in float64 wherever the schedule allows it."""
    try:
        found = np.asarray(schedule(k), float)
    except (AttributeError, TypeError, ValueError):  # it takes one time only
        found = np.asarray([one_value(schedule, t) for t in k.tolist()])
    found = np.broadcast_to(found, k.shape)
    wrong = ~(np.isfinite(found) & (found > 0))
    if wrong.any():
        at = k[wrong][0]
        raise ValueError(
            f"a schedule must be positive and finite, got {found[wrong][0]} at k = {at:g}."
        )
    return found


def power_sum(exponent: float, k: Any) -> np.ndarray:
    r"""Return $\sum_{t=1}^k t^{-s}$, for whole k of any size and any s >= 0.

    >>> float(power_sum(1.0, 4)) == 1 + 1/2 + 1/3 + 1/4
    True
    >>> round(float(power_sum(1.2, 10**15)) + 5e-3, 4)  # zeta(6/5) = 5.5916
    5.5916
    """
    s, k = float(exponent), np.asarray(k, float)
    head = _head(s)
    few = np.minimum(k, WRITTEN_OUT)
    n, last = float(WRITTEN_OUT), np.maximum(k, WRITTEN_OUT)
    ratio = np.log(last / n)
    integral = ratio if s == 1 else n ** (1 - s) * np.expm1((1 - s) * ratio) / (1 - s)
    ends = (last**-s - n**-s) / 2
    slopes = -s * (last ** (-s - 1) - n ** (-s - 1)) / 12
    thirds = s * (s + 1) * (s + 2) * (last ** (-s - 3) - n ** (-s - 3)) / 720
    return head[few.astype(int)] + (integral + ends + slopes + thirds)


@functools.lru_cache(maxsize=256)
def _head(s: float) -> np.ndarray:
    return np.cumsum(np.r_[0.0, np.arange(1.0, WRITTEN_OUT + 1) ** -s])
