r"""Effects over seeds with Student's confidence intervals.

$$ \bar d \pm t_{0.975, n-1}\, s / \sqrt n $$

for one number d of each of n seeds; s is their standard deviation.
"""

import numpy as np
from scipy.special import stdtrit

from rsgda.reproduce.outcome import Effect

LEVEL = 0.95


def quantile(seeds: int) -> float:
    """Return how many standard errors the interval has to each side.

    >>> round(quantile(3), 2), round(quantile(30), 2)
    (4.3, 2.05)
    """
    return float(stdtrit(seeds - 1, 0.5 + LEVEL / 2))


def over_seeds(
    values: np.ndarray, what: str, *, paired: bool = False, against: float | None = None
) -> Effect | None:
    """Return the mean with its interval; none for fewer than two seeds, or if one is not finite.

    >>> over_seeds(np.array([1.0, 2.0, 3.0]), "apart").told()
    'apart: 2 [-0.484, 4.48], 3 seeds'
    """
    values = np.asarray(values, float)
    if len(values) < 2 or not np.all(np.isfinite(values)):
        return None
    error = values.std(ddof=1) / np.sqrt(len(values))
    return around(
        float(values.mean()), float(error), len(values), what, paired=paired, against=against
    )


def around(
    value: float,
    error: float,
    seeds: int,
    what: str,
    *,
    paired: bool = False,
    against: float | None = None,
) -> Effect | None:
    """Return the interval of a mean whose standard error is known already."""
    if seeds < 2 or not (np.isfinite(value) and np.isfinite(error)):
        return None
    half = quantile(seeds) * error
    return Effect(what, value, value - half, value + half, seeds, paired, against)


def ratio_over_seeds(
    values: np.ndarray, what: str, *, paired: bool = False, against: float | None = None
) -> Effect | None:
    """Return the geometric mean of ratios with its interval, from their logarithms."""
    if not np.all(np.asarray(values) > 0):
        return None
    found = over_seeds(np.log(values), what, paired=paired)
    if found is None:
        return None
    value, low, high = (float(np.exp(x)) for x in (found.value, found.low, found.high))
    return Effect(what, value, low, high, found.seeds, paired, against)
