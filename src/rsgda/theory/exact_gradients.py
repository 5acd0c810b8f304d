"""The corollary for exact gradients, where the coin is the only randomness."""

from rsgda.theory.inverse import ceiling
from rsgda.theory.plan import Condition, Plan, accuracy, door, p_between, require, rsgda
from rsgda.theory.proposition import alpha_max, conditions, fixed_steps
from rsgda.theory.regularity import Regularity, known


def exact(
    r: Regularity, *, p: float = 0.5, eps: float | None = None, main_text: bool = False
) -> Plan:
    r"""Plan RGDA: exact gradients, fixed steps.

    $$ \eta = \frac1L, \quad \alpha = \mathtt{alpha\_max}(p, \eta), \qquad
       \mathtt{bound}(k) = \frac1k \Bigl[ \max\Bigl\{ \frac{8 \kappa L}{p},
       \frac{4 \kappa^2 L}{1-p} \sqrt{2 + \tfrac{1-p}{p\kappa}} \Bigr\} D_0
       + \frac{2 \kappa L^2 r_0}{1-p} \Bigr] $$

    Args:
        r: the constants, without noise.
        p: the probability of a descent.
        eps: the wanted norm of the gradient of phi, for `steps`.
        main_text: take the paper's main text, where eta = 1/(2L), in place of its appendix.

    >>> plan = exact(Regularity(L=1.0, mu=0.1), p=0.25)
    >>> plan.algorithm
    RSGDA(p=0.25, alpha=0.009890707100936806, eta=1.0)

    Source: corollary on RGDA, appendix (main text as an option), with errata 3, 15 and 16.
    """
    p = door(r, p)
    eps = None if eps is None else accuracy(eps)
    name = "exact"
    noiseless = require(name, without_noise(r))
    eta = (0.5 if main_text else 1.0) / r.smoothness
    alpha = alpha_max(r, p=p, eta=eta)
    steps = None
    if eps is not None:
        D0, r0 = known(r)
        lag = r.kappa * r.smoothness * r0 / ((1 - p) * eta)
        steps = ceiling(4 * max(D0 / (alpha * p), lag) / eps**2)
    return Plan(
        corollary=name,
        source="RGDA, " + ("main text" if main_text else "appendix") + "; errata 3, 15, 16",
        regularity=r,
        algorithm=rsgda(r, p, alpha, eta),
        eps=eps,
        steps=steps,
        p_range=p_between(1 / r.kappa),
        order="kappa^2 eps^-2",
        conditions=noiseless
        + require(name, conditions(r, p=p, alpha=alpha, eta=eta, setting="exact")),
        at=lambda k: fixed_steps(r, p=p, alpha=alpha, eta=eta, k=k, setting="exact"),
    )


def without_noise(r: Regularity) -> tuple[Condition, ...]:
    """Return the conditions of exact gradients."""
    return (
        Condition("sigma = 0", r.sigma, "<=", 0.0),
        Condition("sigma_v = 0", r.sigma_v, "<=", 0.0),
    )
