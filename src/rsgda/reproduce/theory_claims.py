"""Claims of the paper as it is printed, as numbers from runs or formulas.

Each function measures one claim; what the numbers say is read off them in `theory_printed`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from rsgda import theory
from rsgda.algorithms.rsgda import RSGDA
from rsgda.drive.result import Status
from rsgda.drive.sweep import sweep
from rsgda.problems.toy import Toy
from rsgda.reproduce.theory_runs import EXACT, SEED, regularity, square_of
from rsgda.theory.proposition import a1

KAPPAS = (4.0, 16.0, 64.0, 256.0, 1024.0)
EPSILONS = (0.3, 0.03, 0.003)


class Measured(NamedTuple):
    """A claim and its numbers by name.

    Attributes:
        claim: a name in `theory_printed.JUDGES`.
        of: which of several, such as a corollary.
        values: the numbers.
    """

    claim: str
    of: str
    values: dict[str, float]


def printed(seeds: int) -> list[Measured]:
    """Return what is to be said of the paper's own words."""
    return [
        any_constant_steps(seeds),
        printed_interpolation_step(seeds),
        as_printed := proposition_as_printed(),
        as_printed._replace(claim="one step, corrected"),
        better_constants(),
        steps_over_p(),
        *ranges_of_p(),
    ]


def largest(toy: Toy, algorithm: Any, seeds: int, steps: int) -> tuple[float, float, int]:
    """Return |grad phi| relative to its start, its highest and smallest, and how many overflow."""
    theta, v = toy.start()
    keys = jr.split(jr.key(SEED), seeds)
    table = sweep(
        toy.problem, [algorithm], theta, v, keys=keys, steps=steps, record=square_of(toy), every=10
    )
    start = float(jnp.linalg.norm(toy.grad_phi(theta)))
    # Means over seeds, as the claims are about expectations; a run that overflowed has no more.
    with np.errstate(over="ignore"):
        sizes = np.sqrt(np.nanmean(table.history["square"][0], axis=0)) / start
    lost = int(np.sum(table.status[0] == Status.DIVERGED))
    return float(sizes.max()), min(1.0, float(sizes.min())), lost


def any_constant_steps(seeds: int, alpha: float = 3.0, eta: float = 1.0) -> Measured:
    """With exact gradients, the remark says, any constant steps give the rate o(1/k)."""
    L, r, steps = EXACT.L, regularity(EXACT), 500
    high, _, lost = largest(EXACT, RSGDA(p=0.5, alpha=alpha / L, eta=eta / L), seeds, steps)
    allowed = theory.alpha_max(r, p=0.5, eta=min(eta, 1.0) / L)
    values = {"alpha": alpha, "eta": eta, "of_alpha_max": alpha / L / allowed}
    values |= {"high": high, "lost": lost, "seeds": seeds, "steps": steps}
    return Measured("constant steps", "", values)


def printed_interpolation_step(seeds: int, kappa: float = 50.0, shrink: float = 1.0) -> Measured:
    """The appendix has alpha_k without (1-p)/kappa^2 and claims O(kappa log(k) / sqrt(k))."""
    toy = Toy(kinds="A", kappa=kappa, s=0.1)
    r, p, eta, steps = regularity(toy), 1 / kappa, 0.5 / toy.L, 2_000
    alpha_0 = shrink * eta / (4 * np.sqrt(p * (2 * p + (1 - p) * eta * toy.mu)))
    steps_of = RSGDA(p=p, alpha=theory.PowerLaw(alpha_0, 0.5), eta=theory.PowerLaw(eta, 0.0))
    high, low, lost = largest(toy, steps_of, seeds, steps)
    allowed = theory.alpha_max(r, p=p, eta=eta)
    values = {"kappa": kappa, "of_alpha_max": float(alpha_0 / allowed), "high": high, "low": low}
    values |= {"lost": lost, "seeds": seeds, "steps": steps}
    return Measured("interpolation step", "", values)


def proposition_as_printed(kappa: float = 20.0, p: float = 1e-4, share: float = 1.0) -> Measured:
    """The one-step inequality without alpha <= 1/(4 kappa L), constant 4 as printed."""
    toy = Toy(kinds="A", kappa=kappa)
    r, eta = regularity(toy), 0.5 / toy.L
    literal = share * a1(r, p, eta) / 4
    key_theta, key_v = jr.split(jr.key(SEED))
    theta = jr.uniform(key_theta, (20_000, 1), minval=-6.0, maxval=6.0)
    v = jax.vmap(toy.v_star)(theta) + 1e-2 * jr.normal(key_v, theta.shape)

    def worst(alpha: float) -> float:
        sides = jax.vmap(lambda x, y: theory.one_step(toy, x, y, p=p, alpha=alpha, eta=eta, r=r))(
            theta, v
        )
        return float(jnp.min(sides.slack / sides.right))

    clipped = min(literal, theory.alpha_max(r, p=p, eta=eta))
    values = {"kappa": kappa, "p": p, "of_clip": literal * 4 * kappa * r.smoothness}
    values |= {"slack": worst(literal), "slack_clipped": worst(clipped), "states": len(theta)}
    return Measured("one step", "", values)


def better_constants() -> Measured:
    """At p = 1/2 the paper claims the rate of Lin et al. with better constants."""
    ratios = []
    for kappa in (2.0, *KAPPAS):
        for D0, r0 in ((1.0, 0.0), (1.0, 1.0), (0.0, 1.0)):
            r = theory.Regularity(L=1.0, mu=1 / kappa, D0=D0, r0=r0)
            ratios.append(theory.gda(r).bound(1) / theory.exact(r, p=0.5).bound(1))
    return Measured("constants", "", {"low": float(min(ratios)), "high": float(max(ratios))})


def steps_over_p() -> Measured:
    """In the range of p the paper has alpha of the order of eta/(p kappa^2)."""
    shares = []
    for kappa in KAPPAS:
        r = theory.Regularity(L=1.0, mu=1 / kappa)
        for p in np.geomspace(1 / kappa, 0.5, 9).tolist():
            alpha = theory.alpha_max(r, p=p, eta=0.5)
            shares.append(float(alpha * p * kappa**2 / 0.5))
    return Measured("steps", "", {"low": min(shares), "high": max(shares)})


def ranges_of_p() -> list[Measured]:
    """Over the stated range of p the cost is of the stated order, whatever kappa and eps are."""
    orders = {
        "exact": (theory.exact, lambda kappa, eps: kappa**2 * eps**-2),
        "precision": (theory.precision, lambda kappa, eps: kappa**3 * eps**-5),
        "large_batch": (theory.large_batch, lambda kappa, eps: kappa**3 * eps**-4),
        "interpolation_precision": (
            theory.interpolation_precision,
            lambda kappa, eps: kappa**2 * eps**-4,
        ),
    }
    return [range_of_p(name, make, order) for name, (make, order) in orders.items()]


def range_of_p(name: str, make: Any, order: Any) -> Measured:
    """Divide the cost by its order over a grid of kappa, eps and p in the range."""
    noise = {"exact": (0.0, 0.0), "interpolation_precision": (1.0, 0.0)}.get(name, (1.0, 1.0))
    grid = {}
    for kappa in KAPPAS:
        r = theory.Regularity(L=1.0, mu=1 / kappa, sigma=noise[0], sigma_v=noise[1])
        for eps in EPSILONS:
            low, high = make(r, p=0.5, eps=eps).p_range
            plans = [make(r, p=p, eps=eps) for p in np.geomspace(low, high, 9).tolist()]
            grid[kappa, eps] = [
                plan.steps * (plan.batch_size or 1) / order(kappa, eps) for plan in plans
            ]
    shares = [share for row in grid.values() for share in row]
    values = {
        "low": min(shares),
        "high": max(shares),
        "spread": max(max(row) / min(row) for row in grid.values()),
        # An upper bound of that order: the factor in front must not grow with kappa or 1/eps.
        "growth": max(shares) / max(grid[KAPPAS[0], EPSILONS[0]]),
    }
    shown = make(theory.Regularity(L=1.0, mu=0.25), p=0.5, eps=0.3).order
    return Measured("range", f"{name}: O({shown})", {key: float(x) for key, x in values.items()})
