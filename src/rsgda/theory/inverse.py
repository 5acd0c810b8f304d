"""From a wanted accuracy to a number of iterations."""

import math
from collections.abc import Callable

import numpy as np

# Nobody runs so many; beyond it the formula is said to give no number.
MOST = 10**30


def ceiling(number: float) -> int:
    """Return the smallest whole number that is not below, at least 1."""
    return max(1, math.ceil(number))


def first_below(at: Callable[[np.ndarray], np.ndarray], target: float) -> int:
    """Return the first k from which on a falling bound is at most `target`."""
    high = 1
    while float(at(np.asarray(float(high)))) > target:
        high *= 2
        if high > MOST:
            raise ValueError(
                f"`eps` must be reachable: the bound is still above {target:g} after {MOST:g} "
                "iterations."
            )
    low = high // 2  # not enough, or 0
    while high - low > 1:
        middle = (low + high) // 2
        if float(at(np.asarray(float(middle)))) > target:
            low = middle
        else:
            high = middle
    return high
