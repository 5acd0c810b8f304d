"""Extragradient: both players look one step ahead before they move."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array

from rsgda import _checks
from rsgda._trees import PyTree, freeze_values, thaw
from rsgda.algorithms._together import move_both
from rsgda.moves import (
    Algorithm,
    Info,
    State,
    Step,
    ascent_along,
    descent_along,
    draw,
    refresh,
    slope,
    spent,
    start,
)
from rsgda.problem import Problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Extragradient(Algorithm):
    r"""Stochastic extragradient: a step ahead, then a step along the gradients found there.

    $$ \bar\theta_k = \Pi(\theta_k - \alpha_k \nabla_\theta f(\theta_k, v_k; z_k)), \qquad
       \bar v_k = \Pi_V(v_k + \eta_k \nabla_v f(\theta_k, v_k; z_k)) $$
    $$ \theta_{k+1} = \Pi(\theta_k - \alpha_k \nabla_\theta f(\bar\theta_k, \bar v_k; z_k)), \qquad
       v_{k+1} = \Pi_V(v_k + \eta_k \nabla_v f(\bar\theta_k, \bar v_k; z_k)) $$

    Both players move at once, and all four gradients of a step have the same sample. So a
    separable `v` is looked ahead in the very rows that are moved then, and a step costs
    O(batch_size).

    Args:
        alpha: theta's step size: a number, a schedule of k, or an optax transformation.
        eta: v's step size, likewise. The state of a transformation is that of the second step;
            what the step ahead does to it is forgotten.

    >>> import jax, jax.numpy as jnp, rsgda
    >>> game = rsgda.Problem(lambda theta, v: theta * v)
    >>> for method in (Extragradient(alpha=0.5, eta=0.5), rsgda.SGDA(alpha=0.5, eta=0.5)):
    ...     result = rsgda.solve(
    ...         game, method, jnp.asarray(1.0), jnp.asarray(1.0), key=jax.random.key(0), steps=200
    ...     )
    ...     print(bool(jnp.hypot(result.theta, result.v) < 1e-3))
    True
    False

    Source: Korpelevich (1976); with one sample for both steps, Mishchenko et al., Revisiting
    stochastic extragradient (2020).
    """

    alpha: Step
    eta: Step

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        _checks.step_size("alpha", self.alpha)
        _checks.step_size("eta", self.eta)

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step."""
        return start(problem, theta, v, key, self.alpha, self.eta)

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        """Look ahead with both players, then move them."""
        batch = draw(problem, state, jr.fold_in(state.key, state.step))
        ready = refresh(problem, state, True)
        here = problem.slope_theta(state.theta, problem.look(state.v, batch), batch)
        down = descent_along(problem, state, here, self.alpha)
        up = ascent_along(problem, state, batch, slope(problem, ready, batch), self.eta)
        # Of a separable v only the batch's rows are kept of the step ahead: the rest is as it was.
        theta, v = down.theta, up.v
        prepared = theta if problem.prepare is None else freeze_values(problem.prepare(thaw(theta)))
        new = move_both(
            problem,
            ready._replace(refused=jnp.maximum(down.refused, up.refused)),
            problem.slope_theta(theta, v, batch),
            batch,
            problem.slope_v(prepared, v, batch),
            (self.alpha, self.eta),
        )
        # Moves are counted with their gradients; the two that looked ahead were not.
        new = new._replace(step=state.step + 1, gradients=new.gradients + 2)
        return new, spent(state, new)
