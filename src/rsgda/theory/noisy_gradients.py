"""The corollaries for noisy gradients: any time, a wanted precision, large batches."""

import dataclasses
import math

from rsgda.theory.inverse import ceiling, first_below
from rsgda.theory.plan import Plan, accuracy, door, p_between, require, rsgda
from rsgda.theory.proposition import Setting, alpha_max, conditions, fixed_steps, telescoped
from rsgda.theory.regularity import Regularity, known
from rsgda.theory.schedules import PowerLaw, power_sum

ZETA_6_5 = 5.591582441177753  # sums of t^(-6/5) and t^(-7/5) over all t >= 1
ZETA_7_5 = 3.1055472779775806


def anytime(r: Regularity, *, p: float = 0.5, eps: float | None = None) -> Plan:
    r"""Plan RSGDA with decreasing steps, for as long as one likes to run.

    $$ \eta_k = \frac{(k+1)^{-2/5}}{2L}, \quad
       \alpha_k = \mathtt{alpha\_max}(p, \eta_0) (k+1)^{-3/5} $$
    $$ \mathtt{bound}(k) = \Bigl[ \tfrac{2 D_0}{p \alpha_0} + \tfrac{2 \kappa L r_0}{(1-p) \eta_0}
       + 4 \kappa L \tilde\sigma^2 \eta_0 H_k + 2 \kappa L \sigma^2 \alpha_0 \zeta(\tfrac65)
       + \tfrac{2 \sigma^2 \kappa^4 p \alpha_0^2}{(1-p)^2 \eta_0^2}
       \bigl( 2 p H_k + (1-p) \mu \eta_0 \zeta(\tfrac75) \bigr) \Bigr] \Big/
       \sum_{t=1}^k t^{-3/5} $$

    Args:
        r: the constants.
        p: the probability of a descent.
        eps: the wanted norm of the gradient of phi; `steps` inverts the bound numerically.

    >>> plan = anytime(Regularity(L=1.0, mu=0.5, sigma=1.0, sigma_v=1.0), p=0.25)
    >>> plan.bound(10**6) < plan.bound(10**5)
    True

    Source: corollary on decreasing steps, with errata 9 and 11 to 13.
    """
    p = door(r, p)
    eps = None if eps is None else accuracy(eps)
    name = "anytime"
    e0 = 0.5 / r.smoothness
    a0 = alpha_max(r, p=p, eta=e0)
    alpha, eta = PowerLaw(a0, 3 / 5), PowerLaw(e0, 2 / 5)

    def at(k):
        D0, r0 = known(r)
        kL, harmonic = r.kappa * r.smoothness, power_sum(1.0, k)
        drift = 2 * p * harmonic + (1 - p) * r.mu * e0 * ZETA_7_5
        return (
            2 * D0 / (p * a0)
            + 2 * kL * r0 / ((1 - p) * e0)
            + 4 * kL * r.sigma_v**2 * e0 * harmonic
            + 2 * kL * r.sigma**2 * a0 * ZETA_6_5
            + 2 * r.sigma**2 * r.kappa**4 * p * a0**2 / ((1 - p) * e0) ** 2 * drift
        ) / power_sum(3 / 5, k)

    return Plan(
        corollary=name,
        source="decreasing steps; errata 9, 11, 12, 13",
        regularity=r,
        algorithm=rsgda(r, p, alpha, eta),
        eps=eps,
        steps=None if eps is None else first_below(at, eps**2),
        p_range=p_between(1 / r.kappa),
        order="(kappa^2 + kappa log(k)) k^(-2/5)",
        conditions=require(name, conditions(r, p=p, alpha=alpha, eta=eta)),
        at=at,
    )


def precision(r: Regularity, *, p: float = 0.5, eps: float) -> Plan:
    r"""Plan RSGDA with fixed steps for a wanted precision.

    $$ \eta = \min\Bigl\{ \frac{1}{2L}, \frac{\epsilon^2}{24 \kappa L \tilde\sigma^2} \Bigr\}, \quad
       \alpha = \min\Bigl\{ \mathtt{alpha\_max}(p, \eta), \frac{\epsilon^2}{12 \kappa L \sigma^2},
       \frac{(1-p) \eta \epsilon}{2 \sqrt6 \kappa^2 p \sigma},
       \frac{\epsilon}{\sigma} \sqrt{\tfrac{(1-p) \eta}{12 \kappa^3 L p}} \Bigr\} $$
    $$ \mathtt{steps} = \max\Bigl\{ \frac{12 D_0}{\alpha p \epsilon^2},
       \frac{12 \kappa L r_0}{(1-p) \eta \epsilon^2} \Bigr\} $$

    Each of the six terms of `fixed_steps` is then at most eps^2 / 6.

    >>> r = Regularity(L=1.0, mu=0.25, sigma=1.0, sigma_v=1.0)
    >>> plan = precision(r, p=0.25, eps=0.5)
    >>> plan.bound(plan.steps) <= 0.5**2
    True

    Source: corollary on fixed steps, with errata 17 to 21.
    """
    p, eps = door(r, p), accuracy(eps)
    name, kappa, L = "precision", r.kappa, r.smoothness
    eta = 0.5 / L
    if r.sigma_v:
        eta = min(eta, eps**2 / (24 * kappa * L * r.sigma_v**2))
    alpha = alpha_max(r, p=p, eta=eta)
    if r.sigma:
        alpha = min(
            alpha,
            eps**2 / (12 * kappa * L * r.sigma**2),
            (1 - p) * eta * eps / (2 * math.sqrt(6) * kappa**2 * p * r.sigma),
            eps / r.sigma * math.sqrt((1 - p) * eta / (12 * kappa**3 * L * p)),
        )
    D0, r0 = known(r)
    return Plan(
        corollary=name,
        source="fixed steps; errata 17 to 21",
        regularity=r,
        algorithm=rsgda(r, p, alpha, eta),
        eps=eps,
        steps=ceiling(12 * max(D0 / (alpha * p), kappa * L * r0 / ((1 - p) * eta)) / eps**2),
        p_range=p_between(eps / kappa**2) if eps <= 1 else None,
        order="kappa^3 eps^-5",
        conditions=require(name, conditions(r, p=p, alpha=alpha, eta=eta)),
        at=lambda k: fixed_steps(r, p=p, alpha=alpha, eta=eta, k=k),
    )


def large_batch(r: Regularity, *, p: float = 0.5, eps: float, bounded: bool = False) -> Plan:
    r"""Plan RSGDA with large minibatches.

    $$ \eta = \frac{1}{2L}, \quad \alpha = \mathtt{alpha\_max}(p, \eta), \quad
       \mathtt{batch\_size} = M = \left\lceil \frac{2 (2 \kappa + 1) \bar\sigma^2}{\epsilon^2}
       \right\rceil, \quad \mathtt{steps} = \frac{8}{\epsilon^2} \max\Bigl\{ \frac{D_0}{\alpha p},
       \frac{\kappa L r_0}{(1-p) \eta} \Bigr\} $$

    $\bar\sigma$ is the larger of sigma and sigma_v, both of one sample: a minibatch of M has
    $\bar\sigma^2 / M$.

    Args:
        r: the constants, with the noise of one sample.
        p: the probability of a descent.
        eps: the wanted norm of the gradient of phi.
        bounded: both variances are bounded at all (theta, v), not only at v*; eta is then 1/L.

    >>> plan = large_batch(Regularity(L=1.0, mu=0.1, sigma=1.0), p=0.25, eps=0.1)
    >>> plan.batch_size, plan.order
    (4200, 'kappa^3 eps^-4')

    Source: corollary on large minibatches, with errata 22 to 24.
    """
    p, eps = door(r, p), accuracy(eps)
    name, L = "large_batch", r.smoothness
    setting: Setting = "bounded" if bounded else "sampled"
    eta = (1.0 if bounded else 0.5) / L
    alpha = alpha_max(r, p=p, eta=eta)
    D0, r0 = known(r)
    size = ceiling(2 * (2 * r.kappa + 1) * r.sigma_bar**2 / eps**2)
    noise = r.sigma_bar / math.sqrt(size)
    of_batch = dataclasses.replace(r, sigma=noise, sigma_v=noise)
    return Plan(
        corollary=name,
        source="large minibatches; errata 22 to 24",
        regularity=r,
        algorithm=rsgda(r, p, alpha, eta),
        eps=eps,
        steps=ceiling(8 * max(D0 / (alpha * p), r.kappa * L * r0 / ((1 - p) * eta)) / eps**2),
        batch_size=size,
        p_range=p_between(1 / r.kappa),
        order="kappa^3 eps^-4",
        conditions=require(name, conditions(r, p=p, alpha=alpha, eta=eta, setting=setting)),
        at=lambda k: telescoped(of_batch, p=p, alpha=alpha, eta=eta, k=k, setting=setting),
    )
