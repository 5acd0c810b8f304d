"""The corollaries for interpolation: noise in theta, none in v at v*."""

import math

from rsgda.theory.inverse import ceiling, first_below
from rsgda.theory.plan import Condition, Plan, accuracy, door, p_between, require, rsgda
from rsgda.theory.proposition import a1, alpha_max, conditions, fixed_steps, telescoped
from rsgda.theory.regularity import Regularity, known
from rsgda.theory.schedules import PowerLaw, power_sum
from rsgda.theory.summability import almost_surely, number_zeta, summability

ZETA_3_2 = 2.612375348685488  # the sum of t^(-3/2) over all t >= 1


def interpolation_almost_sure(r: Regularity, *, p: float = 0.5, zeta: float = 0.1) -> Plan:
    r"""Plan RSGDA under interpolation with a rate that holds almost surely.

    $$ \eta = \frac{1}{2L}, \quad \alpha_k = \mathtt{alpha\_max}(p, \eta) (k+1)^{-1/2-\zeta}, \qquad
       \min_{t<k} \lVert\nabla\phi(\theta_t)\rVert^2 = o(k^{-1/2+\zeta}) \text{ almost surely} $$

    The rate has no constant; `bound` is that of the expectation, `telescoped` for these steps.

    >>> interpolation_almost_sure(Regularity(L=1.0, mu=0.1, sigma=1.0), zeta=0.2).order
    'o(k^-0.3) almost surely'

    Source: corollary on interpolation, first part, with errata 25 and 27.
    """
    p = door(r, p)
    name, zeta = "interpolation_almost_sure", number_zeta(zeta)
    wanted = (
        *interpolates(r),
        Condition("0 < zeta", 0.0, "<", zeta),
        Condition("zeta < 1/2", zeta, "<", 0.5),
    )
    checked = require(name, wanted)
    eta = 0.5 / r.smoothness
    alpha = PowerLaw(alpha_max(r, p=p, eta=eta), 0.5 + zeta)
    checked += require(name, conditions(r, p=p, alpha=alpha, eta=eta, setting="interpolation"))
    checked += require(name, summability(r, alpha, eta))
    return Plan(
        corollary=name,
        source="interpolation, almost sure; errata 25, 27",
        regularity=r,
        algorithm=rsgda(r, p, alpha, eta),
        p_range=(0.0, 1.0),
        order=almost_surely(alpha),
        conditions=checked,
        at=lambda k: telescoped(r, p=p, alpha=alpha, eta=eta, k=k),
    )


def interpolation_anytime(r: Regularity, *, p: float = 0.5, eps: float | None = None) -> Plan:
    r"""Plan RSGDA under interpolation with decreasing steps.

    $$ \eta = \frac{1}{2L}, \quad \alpha_k = \frac{\alpha_0}{\sqrt{k+1}}, \quad
       \alpha_0 = \mathtt{alpha\_max}(p, \eta) $$
    $$ \mathtt{bound}(k) = \Bigl[ \tfrac{2 D_0}{p \alpha_0} + \tfrac{4 \kappa L^2 r_0}{1-p}
       + 2 \kappa L \sigma^2 \alpha_0 H_k + 2 \sigma^2 (\alpha_0 / a_1)^2 \zeta(\tfrac32) \Bigr]
       \Big/ \sum_{t=1}^k t^{-1/2} $$

    >>> interpolation_anytime(Regularity(L=1.0, mu=0.5, sigma=1.0), eps=0.5).steps
    53437

    Source: corollary on interpolation, second part, with erratum 26.
    """
    p = door(r, p)
    eps = None if eps is None else accuracy(eps)
    name = "interpolation_anytime"
    eta = 0.5 / r.smoothness
    a0 = alpha_max(r, p=p, eta=eta)
    alpha = PowerLaw(a0, 0.5)
    checked = require(name, interpolates(r))

    def at(k):
        D0, r0 = known(r)
        kL = r.kappa * r.smoothness
        return (
            2 * D0 / (p * a0)
            + 4 * kL * r.smoothness * r0 / (1 - p)
            + 2 * kL * r.sigma**2 * a0 * power_sum(1.0, k)
            + 2 * r.sigma**2 * (a0 / a1(r, p, eta)) ** 2 * ZETA_3_2
        ) / power_sum(0.5, k)

    return Plan(
        corollary=name,
        source="interpolation, decreasing steps; erratum 26",
        regularity=r,
        algorithm=rsgda(r, p, alpha, eta),
        eps=eps,
        steps=None if eps is None else first_below(at, eps**2),
        p_range=p_between(1 / r.kappa),
        order="(kappa^2 + log(k)) k^(-1/2)",
        conditions=checked
        + require(name, conditions(r, p=p, alpha=alpha, eta=eta, setting="interpolation")),
        at=at,
    )


def interpolation_precision(r: Regularity, *, p: float = 0.5, eps: float) -> Plan:
    r"""Plan RSGDA under interpolation with fixed steps, for a wanted precision.

    $$ \eta = \frac{1}{2L}, \quad \alpha = \min\Bigl\{ \mathtt{alpha\_max}(p, \eta),
       \frac{\epsilon^2}{10 \kappa L \sigma^2},
       \frac{(1-p) \epsilon}{4 \sqrt5 \kappa^2 L p \sigma},
       \sqrt{\tfrac{1-p}{p}} \frac{\epsilon}{2 \sqrt5 \kappa^{3/2} L \sigma} \Bigr\}, \quad
       \mathtt{steps} = \max\Bigl\{ \frac{10 D_0}{\alpha p \epsilon^2},
       \frac{20 \kappa L^2 r_0}{(1-p) \epsilon^2} \Bigr\} $$

    Each of the five terms of the bound is then at most eps^2 / 5.

    >>> plan = interpolation_precision(Regularity(L=1.0, mu=0.1, sigma=1.0), p=0.25, eps=0.1)
    >>> plan.bound(plan.steps) <= 0.1**2
    True

    Source: corollary on interpolation, third part, with errata 28 to 30.
    """
    p, eps = door(r, p), accuracy(eps)
    name, kappa, L = "interpolation_precision", r.kappa, r.smoothness
    checked = require(name, interpolates(r))
    eta = 0.5 / L
    alpha = alpha_max(r, p=p, eta=eta)
    if r.sigma:
        alpha = min(
            alpha,
            eps**2 / (10 * kappa * L * r.sigma**2),
            (1 - p) * eps / (4 * math.sqrt(5) * kappa**2 * L * p * r.sigma),
            math.sqrt((1 - p) / p) * eps / (2 * math.sqrt(5) * kappa**1.5 * L * r.sigma),
        )
    D0, r0 = known(r)
    return Plan(
        corollary=name,
        source="interpolation, fixed steps; errata 28 to 30",
        regularity=r,
        algorithm=rsgda(r, p, alpha, eta),
        eps=eps,
        steps=ceiling(
            max(10 * D0 / (alpha * p), 20 * kappa * L**2 * r0 / (1 - p)) / eps**2,
        ),
        p_range=p_between(1 / kappa),
        order="kappa^2 eps^-4",
        conditions=checked
        + require(name, conditions(r, p=p, alpha=alpha, eta=eta, setting="interpolation")),
        at=lambda k: fixed_steps(r, p=p, alpha=alpha, eta=eta, k=k),
    )


def interpolates(r: Regularity) -> tuple[Condition, ...]:
    """Return the condition of interpolation."""
    return (Condition("sigma_v = 0", r.sigma_v, "<=", 0.0),)
