"""Proposition 1 of the paper, corrected: the one-step inequality and what it sums to."""

import math
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda._checks import host_number, positive
from rsgda._trees import freeze, thaw
from rsgda.problem import Batch, Problem
from rsgda.theory.plan import Condition, door, whole_times
from rsgda.theory.regularity import Regularity, known, without_start
from rsgda.theory.schedules import as_power_law, power_sum, values

Setting = Literal["sampled", "exact", "interpolation", "bounded"]


class _Allowed(NamedTuple):
    eta: str  # the largest eta, in words
    halves: float  # and as a multiple of 1/(2 L)
    noise: float  # the factor of eta p alpha kappa L sigma_v^2 in the inequality


SETTINGS: dict[str, _Allowed] = {
    "sampled": _Allowed("1/(2 L)", 1.0, 4.0),
    "exact": _Allowed("1/L", 2.0, 4.0),
    "interpolation": _Allowed("1/L", 2.0, 4.0),
    "bounded": _Allowed("1/L", 2.0, 2.0),
}


class OneStep(NamedTuple):
    """The two sides of the one-step inequality.

    Attributes:
        left: p alpha |grad phi|^2 + 2 E[E_{k+1}], the expectation taken over coin and sample.
        right: 2 E_k plus the noise.
    """

    left: Any
    right: Any

    @property
    def slack(self) -> Any:
        """How much is to spare; negative where the inequality is violated."""
        return self.right - self.left


def alpha_max(r: Regularity, *, p: float, eta: float, tight: bool = False) -> float:
    r"""Return the largest descent step that Proposition 1 allows beside an ascent step `eta`.

    $$ \min\Bigl\{ \frac{1}{4 \kappa L}, \frac{a_1}{2} \Bigr\}, \qquad
       a_1 = \frac{(1-p)\,\eta}{\kappa^2 \sqrt{p\,(2p + (1-p)\,\eta\mu)}} $$

    With `tight` it is the root of what the proof needs, $2\kappa L\alpha + 2(\alpha/a_1)^2 \le 1$,
    which is never smaller.

    >>> r = Regularity(L=1.0, mu=0.1)
    >>> [round(alpha_max(r, p=p, eta=0.5), 5) for p in (0.5, 0.25, 0.1)]
    [0.00175, 0.00511, 0.01437]

    Source: Proposition 1, with the missing condition $1/(4 \kappa L)$ (erratum 3) and the constant
    2 that its corollaries use (erratum 4).
    """
    p = door(r, p)
    eta = _one("eta", eta)
    kappa, L = r.kappa, r.smoothness
    if tight:
        return 1 / (kappa * L + math.sqrt((kappa * L) ** 2 + 2 / a1(r, p, eta) ** 2))
    return min(1 / (4 * kappa * L), a1(r, p, eta) / 2)


def a1(r: Regularity, p: float, eta: float) -> float:
    """Return the a_1 of `alpha_max`."""
    return (1 - p) * eta / (r.kappa**2 * math.sqrt(p * (2 * p + (1 - p) * eta * r.mu)))


def conditions(
    r: Regularity, *, p: float, alpha: Any, eta: Any, setting: Setting = "sampled"
) -> tuple[Condition, ...]:
    r"""Return the conditions of Proposition 1, each with its two sides, whether or not they hold.

    They are $\eta_0 \le 1/(2L)$ ($1/L$ in the other settings), $\alpha_0 \le 1/(4\kappa L)$,
    $\alpha_0 \le a_1/2$, and that $\alpha_k / \eta_k$ does not increase.

    Args:
        r: the constants.
        p: the probability of a descent.
        alpha: a number or a `PowerLaw`.
        eta: likewise.
        setting: "sampled" (each sample concave in v), "exact" (exact gradients in v),
            "interpolation" (sigma_v = 0) or "bounded" (both variances bounded everywhere).

    >>> r = Regularity(L=1.0, mu=0.1)
    >>> [c.holds for c in conditions(r, p=0.5, alpha=0.01, eta=0.5)]
    [True, True, False, True]

    Source: Proposition 1 with errata 3 to 5.
    """
    p = door(r, p)
    allowed = _setting(setting)
    alpha, eta = as_power_law("alpha", alpha), as_power_law("eta", eta)
    if alpha is None or eta is None:
        raise ValueError("`alpha` and `eta` must be numbers or PowerLaw, got another schedule.")
    first, other = float(alpha.value), float(eta.value)
    limit = allowed.halves / (2 * r.smoothness)
    return (
        Condition(f"eta_0 <= {allowed.eta}", other, "<=", limit),
        Condition("alpha_0 <= 1/(4 kappa L)", first, "<=", 1 / (4 * r.kappa * r.smoothness)),
        Condition("alpha_0 <= a_1/2", first, "<=", a1(r, p, other) / 2),
        Condition(
            "alpha_k/eta_k non-increasing: exponent of eta <= exponent of alpha",
            float(eta.exponent),
            "<=",
            float(alpha.exponent),
        ),
    )


def one_step(
    case: Any,
    theta: Array,
    v: Array,
    *,
    p: float,
    alpha: float,
    eta: float,
    next_alpha: float | None = None,
    next_eta: float | None = None,
    r: Regularity | None = None,
    setting: Setting = "sampled",
) -> OneStep:
    r"""Return both sides of the one-step inequality at a state, the expectation by enumeration.

    $$ p\alpha \lVert\nabla\phi(\theta_k)\rVert^2 + 2\,\mathbb{E}_k \mathcal{E}_{k+1} \le
       2 \mathcal{E}_k + 4 \eta p \alpha \kappa L \tilde\sigma^2
       + 2\sigma^2 p \alpha \bigl(\kappa L \alpha + (\alpha / a_1)^2\bigr), \qquad
       \mathcal{E}_k = \phi(\theta_k) - \inf\phi
       + \tfrac{\kappa L p \alpha_k}{(1-p) \eta_k} \lVert v_k - v^*(\theta_k) \rVert^2 $$

    Args:
        case: a problem in closed form: with `problem`, `phi`, `grad_phi`, `v_star`, `inf_phi`, and,
            where gradients are not exact, `signs()`, all batches there are, equally likely.
        theta: the state; may be mapped over with `jax.vmap`.
        v: likewise.
        p: the probability of a descent.
        alpha: the descent step size of this step.
        eta: the ascent step size of this step.
        next_alpha: that of the next step; None: the same.
        next_eta: likewise.
        r: the constants; None: those that `case` states.
        setting: as in `conditions`; it decides the factor of $\tilde\sigma^2$ only.

    >>> import jax.numpy as jnp
    >>> from rsgda.problems import Toy
    >>> toy = Toy(kinds="A", kappa=4.0, s=0.5)
    >>> sides = one_step(toy, jnp.ones(1), jnp.zeros(1), p=0.5, alpha=0.01, eta=0.5)
    >>> bool(sides.slack > 0)
    True

    Source: Proposition 1, corrected.
    """
    noise = _setting(setting).noise
    r = without_start(case) if r is None else r  # a start that is mapped over has no one D0
    p = door(r, p)
    for name, value in (("alpha", alpha), ("eta", eta)):
        _one(name, value)
    next_alpha = alpha if next_alpha is None else next_alpha
    next_eta = eta if next_eta is None else next_eta
    kL, problem = r.kappa * r.smoothness, case.problem

    def energy(theta: Array, v: Array, alpha: float, eta: float) -> Array:
        lag = jnp.sum(jnp.square(v - case.v_star(theta)))
        return case.phi(theta) - case.inf_phi + kL * p * alpha / ((1 - p) * eta) * lag

    def after(batch: Batch) -> Array:
        down = theta - alpha * thaw(problem.slope_theta(freeze(theta), freeze(v), batch)[1])
        up = v + eta * thaw(problem.slope_v(_prepared(problem, theta), freeze(v), batch)[1])
        up = up if problem.project_v is None else problem.project_v(up)
        descended = energy(down, v, next_alpha, next_eta)
        return p * descended + (1 - p) * energy(theta, up, next_alpha, next_eta)

    if problem.exact:
        expected = after(Batch((), None))
    else:
        expected = jax.vmap(lambda batch: after(Batch((batch,), None)))(case.signs()).mean()
    left = p * alpha * jnp.sum(jnp.square(case.grad_phi(theta))) + 2 * expected
    right = (
        2 * energy(theta, v, alpha, eta)
        + noise * eta * p * alpha * kL * r.sigma_v**2
        + 2 * r.sigma**2 * p * alpha * (kL * alpha + (alpha / a1(r, p, eta)) ** 2)
    )
    return OneStep(left, right)


def telescoped(
    r: Regularity, *, p: float, alpha: Any, eta: Any, k: Any, setting: Setting = "sampled"
) -> Any:
    r"""Return the bound that Proposition 1 sums to, for any step sizes that it allows.

    $$ \Bigl[ \tfrac{2 D_0}{p} + \tfrac{2 \alpha_0 \kappa L r_0}{(1-p) \eta_0}
       + 4 \kappa L \tilde\sigma^2 \textstyle\sum \eta_t \alpha_t
       + 2 \kappa L \sigma^2 \sum \alpha_t^2 + \tfrac{2 \sigma^2 \kappa^4 p}{(1-p)^2}
       \bigl( 2p \sum \tfrac{\alpha_t^3}{\eta_t^2} + (1-p) \mu \sum \tfrac{\alpha_t^3}{\eta_t}
       \bigr) \Bigr] \Big/ \sum \alpha_t $$

    It bounds the smallest $\mathbb{E}\lVert\nabla\phi(\theta_t)\rVert^2$ with t < k, and so does
    it their average with weights $\alpha_t$. Whether the steps are allowed is what `conditions`
    tells.

    Args:
        r: the constants.
        p: the probability of a descent.
        alpha: a number, a `PowerLaw` (summed in closed form for any k) or a schedule.
        eta: likewise.
        k: iterations, a whole number or an array of them.
        setting: as in `conditions`; it decides the factor of $\tilde\sigma^2$ only.

    >>> r = Regularity(L=1.0, mu=0.5, sigma=1.0)
    >>> telescoped(r, p=0.5, alpha=0.01, eta=0.5, k=10) == fixed_steps(
    ...     r, p=0.5, alpha=0.01, eta=0.5, k=10)
    True

    Source: Proposition 1, summed.
    """
    p = door(r, p)
    D0, r0 = known(r)
    noise = _setting(setting).noise
    times = whole_times(k)
    sums, alpha_0, eta_0 = _sums(alpha, eta, times)
    kappa, L = r.kappa, r.smoothness
    total = (
        2 * D0 / p
        + 2 * alpha_0 * kappa * L * r0 / ((1 - p) * eta_0)
        + noise * kappa * L * r.sigma_v**2 * sums["eta alpha"]
        + 2 * kappa * L * r.sigma**2 * sums["alpha^2"]
        + 2
        * (r.sigma**2 * kappa**4 * p / (1 - p) ** 2)
        * (2 * p * sums["alpha^3/eta^2"] + (1 - p) * r.mu * sums["alpha^3/eta"])
    ) / sums["alpha"]
    return float(total) if times.ndim == 0 else total


def fixed_steps(
    r: Regularity, *, p: float, alpha: float, eta: float, k: Any, setting: Setting = "sampled"
) -> Any:
    r"""Return the bound after k iterations with fixed steps.

    $$ \frac{2 D_0}{\alpha p k} + \frac{2 \kappa L r_0}{(1-p) \eta k}
       + 4 \eta \kappa L \tilde\sigma^2 + 2 \alpha \kappa L \sigma^2
       + \frac{4 \alpha^2 \kappa^4 p^2 \sigma^2}{(1-p)^2 \eta^2}
       + \frac{2 \alpha^2 \kappa^3 L p \sigma^2}{(1-p) \eta} $$

    >>> r = Regularity(L=1.0, mu=0.5, sigma=1.0)
    >>> round(fixed_steps(r, p=0.5, alpha=0.01, eta=0.5, k=10_000), 4)
    0.1104

    Source: Proposition 1 with constant steps; the 4 is erratum 17.
    """
    alpha, eta = _one("alpha", alpha), _one("eta", eta)
    return telescoped(r, p=p, alpha=alpha, eta=eta, k=k, setting=setting)


def _sums(alpha: Any, eta: Any, k: np.ndarray) -> tuple[dict[str, np.ndarray], float, float]:
    powers = {
        "alpha": (1, 0),
        "eta alpha": (1, 1),
        "alpha^2": (2, 0),
        "alpha^3/eta^2": (3, -2),
        "alpha^3/eta": (3, -1),
    }
    law, other = as_power_law("alpha", alpha), as_power_law("eta", eta)
    if law is not None and other is not None:
        a, x, e, y = (float(n) for n in (law.value, law.exponent, other.value, other.exponent))
        found = {name: a**i * e**j * power_sum(i * x + j * y, k) for name, (i, j) in powers.items()}
        return found, a, e
    last = int(k.max())
    if last > 10**8:
        raise ValueError(
            f"`k` must be at most 1e8 for a schedule that is no PowerLaw, got {last}: it is summed "
            "term by term."
        )
    times = np.arange(last)
    series = values(law or alpha, times), values(other or eta, times)
    at = k.astype(int) - 1
    found = {
        name: np.cumsum(series[0] ** i * series[1] ** j)[at] for name, (i, j) in powers.items()
    }
    return found, float(series[0][0]), float(series[1][0])


def _setting(setting: str) -> _Allowed:
    if setting not in SETTINGS:
        raise ValueError(f"`setting` must be one of {get_args(Setting)}, got {setting!r}.")
    return SETTINGS[setting]


def _one(name: str, value: Any) -> float:
    positive(name, value)
    number = host_number(value)
    if number is None:
        raise ValueError(f"`{name}` must be one positive number, got {value!r}.")
    return number


def _prepared(problem: Problem, theta: Array) -> Any:
    return freeze(theta) if problem.prepare is None else freeze(problem.prepare(theta))
