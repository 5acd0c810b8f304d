"""Almost-sure rates: the four sums that step sizes must satisfy, and the plan that does."""

from typing import Any

import numpy as np

from rsgda._checks import host_number
from rsgda.algorithms.rsgda import RSGDA
from rsgda.theory.exact_gradients import without_noise
from rsgda.theory.plan import Condition, Plan, door, require, rsgda
from rsgda.theory.proposition import a1, alpha_max, conditions, telescoped
from rsgda.theory.regularity import Regularity
from rsgda.theory.schedules import PowerLaw, as_power_law, one_value, values

# A schedule that is no `PowerLaw` is looked at here, over one decade after another. Where it is one
# after all, or becomes one, its exponent is constant over the far end, up to what is rounded away.
DECADE = 10
FAR = np.geomspace(1e6, 1e12, 6 * DECADE + 1).round()
ALIKE = 1e-6
# Otherwise all exponents must be so far from where a sum begins to diverge: 1/(k log k) is not.
UNDECIDED = 0.05


def summability(r: Regularity, alpha: Any, eta: Any) -> tuple[Condition, ...]:
    r"""Judge two schedules by the four sums of the almost-sure corollary.

    $$ \sum_k \alpha_k = \infty, \quad \sum_k \alpha_k^2 \sigma^2 < \infty, \quad
       \sum_k \eta_k \alpha_k \tilde\sigma^2 < \infty, \quad
       \sum_k \frac{\alpha_k^3}{\eta_k^2} \sigma^2 < \infty $$

    For power laws $\alpha_k \sim k^{-a}$, $\eta_k \sim k^{-e}$ the answer is exact: $a \le 1$,
    $2a > 1$, $a + e > 1$, $3a - 2e > 1$. Nothing is raised where one fails; each `Condition` has
    its two sides. Numbers are the power 0. Other schedules are looked at from $k = 10^6$ to
    $10^{12}$: where that is a power of k up to a millionth in the exponent, it is judged as such.
    Where it is not, all exponents from $10^9$ on must lie on one side by 0.05; a `ValueError` says
    so where they do not, as for 1/(k log k) or a schedule that goes up and down.

    >>> r = Regularity(L=1.0, mu=0.1, sigma=1.0, sigma_v=1.0)
    >>> [c.holds for c in summability(r, PowerLaw(0.1, 0.5), PowerLaw(0.5, 0.4))]
    [True, False, False, False]

    Source: corollary on almost-sure rates.
    """
    all_a, all_e = _exponents("alpha", alpha), _exponents("eta", eta)
    a, e = float(all_a[-1]), float(all_e[-1])
    infinite = np.inf
    noisy, noisy_v = r.sigma > 0, r.sigma_v > 0
    judged = (
        Condition("sum alpha_k = inf: a <= 1", a, "<=", 1.0),
        Condition("sum alpha_k^2 sigma^2 < inf: 1 < 2 a", 1.0, "<", 2 * a if noisy else infinite),
        Condition(
            "sum eta_k alpha_k sigma_v^2 < inf: 1 < a + e",
            1.0,
            "<",
            a + e if noisy_v else infinite,
        ),
        Condition(
            "sum alpha_k^3/eta_k^2 sigma^2 < inf: 1 < 3 a - 2 e",
            1.0,
            "<",
            3 * a - 2 * e if noisy else infinite,
        ),
    )
    if len(all_a) > 1 or len(all_e) > 1:
        sums = all_a, 2 * all_a, all_a + all_e, 3 * all_a - 2 * all_e
        needed = True, noisy, noisy_v, noisy
        for condition, exponents, matters in zip(judged, sums, needed, strict=True):
            low, high = float(exponents.min()), float(exponents.max())
            if matters and low < 1 + UNDECIDED and high > 1 - UNDECIDED:
                raise ValueError(
                    f"`alpha` and `eta` must be powers of k to be judged by {condition.name}: they "
                    f"are none, and from k = 1e9 to 1e12 that exponent goes from {low:.3f} to "
                    f"{high:.3f}, which does not tell on what side of 1 it ends."
                )
    return judged


def almost_sure(
    r: Regularity,
    *,
    p: float = 0.5,
    zeta: float = 0.1,
    exact: bool = False,
    alpha: Any = None,
    eta: Any = None,
) -> Plan:
    r"""Plan RSGDA with a rate that holds almost surely, or judge schedules of one's own.

    $$ \eta_k = \frac{(k+1)^{-2/5-\zeta}}{2L}, \quad
       \alpha_k = \mathtt{alpha\_max}(p, \tfrac{1}{2L}) (k+1)^{-3/5-\zeta}, \qquad
       \min_{t<k} \lVert\nabla\phi(\theta_t)\rVert^2 = o(k^{-2/5+\zeta}) \text{ almost surely} $$

    The rate has no constant; `bound` is that of the expectation, `telescoped` for these steps.

    Args:
        r: the constants.
        p: the probability of a descent.
        zeta: between 0 and 2/5.
        exact: exact gradients: fixed steps and the rate o(1/k).
        alpha: a number, `PowerLaw` or other schedule to be judged in place of the above.
        eta: likewise; both or none.

    >>> r = Regularity(L=1.0, mu=0.1, sigma=1.0, sigma_v=1.0)
    >>> almost_sure(r, p=0.25).order
    'o(k^-0.3) almost surely'
    >>> almost_sure(r, p=0.25, alpha=PowerLaw(1e-3, 0.5), eta=PowerLaw(0.5, 0.4))
    Traceback (most recent call last):
    rsgda.theory.plan.ConditionError: `almost_sure` needs sum alpha_k^2 sigma^2 < inf: 1 < 2 a, ...

    Source: corollary on almost-sure rates and its remark on exact gradients, with errata 9, 10, 14.
    """
    p = door(r, p)
    name, zeta = "almost_sure", number_zeta(zeta)
    checked: tuple[Condition, ...] = ()
    if (alpha is None) != (eta is None):
        raise ValueError(f"`alpha` and `eta` are judged together, got {alpha!r} and {eta!r}.")
    if exact:
        checked = require(name, without_noise(r))
    if alpha is not None:
        algorithm = RSGDA(p=p, alpha=alpha, eta=eta)
        eta = _in_units(eta, 1 / r.eta_scale)
    elif exact:
        eta = 1 / r.smoothness
        alpha = alpha_max(r, p=p, eta=eta)
        algorithm = rsgda(r, p, alpha, eta)
    else:
        checked = require(
            name,
            (Condition("0 < zeta", 0.0, "<", zeta), Condition("zeta < 2/5", zeta, "<", 2 / 5)),
        )
        eta = PowerLaw(0.5 / r.smoothness, 2 / 5 + zeta)
        alpha = PowerLaw(alpha_max(r, p=p, eta=0.5 / r.smoothness), 3 / 5 + zeta)
        algorithm = rsgda(r, p, alpha, eta)
    checked += require(name, summability(r, alpha, eta))
    checked += require(name, _allowed(r, p, alpha, eta, exact))
    return Plan(
        corollary=name,
        source="almost sure; " + ("erratum 14" if exact else "errata 9, 10"),
        regularity=r,
        algorithm=algorithm,
        p_range=(0.0, 1.0),
        order=almost_surely(alpha),
        conditions=checked,
        at=lambda k: telescoped(r, p=p, alpha=alpha, eta=eta, k=k),
    )


def number_zeta(zeta: Any) -> float:
    """Return zeta as a plain number; its range is a condition of the corollary."""
    number = None if isinstance(zeta, bool) else host_number(zeta)
    if number is None:
        raise ValueError(f"`zeta` must be a number, got {zeta!r}.")
    return number


def almost_surely(alpha: Any) -> str:
    """Return the rate 1 / sum alpha_k in words."""
    found = _exponents("alpha", alpha)
    exponent = 1 - float(found[-1])
    if len(found) > 1:
        return f"o(1/sum alpha_k) almost surely, about k^-{exponent:.2f}"
    rate = "1/log(k)" if exponent < ALIKE else f"k^-{exponent:.6g}"
    return f"o({rate}) almost surely"


def _in_units(eta: Any, scale: float) -> Any:
    """Return a user's eta, which is the algorithm's, in the units of the theory."""
    law = as_power_law("eta", eta)
    if law is not None:
        return PowerLaw(law.value * scale, law.exponent)
    return eta if scale == 1 else lambda k: eta(k) * scale


def _allowed(r: Regularity, p: float, alpha: Any, eta: Any, exact: bool) -> tuple[Condition, ...]:
    """Return the conditions of Proposition 1 on whole schedules."""
    setting = "exact" if exact else "sampled"
    law, other = as_power_law("alpha", alpha), as_power_law("eta", eta)
    if law is not None and other is not None:
        return conditions(r, p=p, alpha=law, eta=other, setting=setting)
    k = np.unique(np.r_[np.arange(1_000.0), np.geomspace(1e3, FAR[-1], 1_000).round()])
    a, e = values(law or alpha, k), values(other or eta, k)
    limits = np.asarray([a1(r, p, size) / 2 for size in e])
    tightest = int(np.argmax(a / limits))
    ratio = a / e
    rises = int(np.argmax(ratio[1:] / ratio[:-1]))
    first = conditions(r, p=p, alpha=float(a.max()), eta=float(e.max()), setting=setting)[:2]
    return (
        *first,
        Condition(f"alpha_k <= a_1/2 at k = {k[tightest]:g}", a[tightest], "<=", limits[tightest]),
        Condition(
            f"alpha_k/eta_k non-increasing after k = {k[rises]:g}",
            ratio[rises + 1] * (1 - ALIKE),  # float32 schedules wander by their rounding
            "<=",
            ratio[rises],
        ),
    )


def _exponents(name: str, schedule: Any) -> np.ndarray:
    """Return the power of 1/k that a schedule falls with; where it is not certain, all it may be.

    The last of several is that of the last decade.
    """
    law = as_power_law(name, schedule)
    if law is not None:
        return np.asarray([float(law.exponent)])
    found = np.asarray([one_value(schedule, t) for t in FAR.tolist()])
    if not np.all(np.isfinite(found)) or np.any(found < 0):
        raise ValueError(f"`{name}` must be positive and finite, got {found} at k = {FAR}.")
    if np.any(found == 0):  # faster than any power
        return np.asarray([np.inf])
    falls, times = -np.log(found), np.log(FAR + 1)
    slopes = (falls[DECADE:] - falls[:-DECADE]) / (times[DECADE:] - times[:-DECADE])
    far = slopes[-2 * DECADE - 1 :]  # within the last three decades
    return far[-1:].round(6) if np.ptp(far) < ALIKE else far
