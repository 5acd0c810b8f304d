"""SGDA: the players take turns."""

import dataclasses

import jax
import jax.random as jr
from jax import Array

from rsgda import _checks
from rsgda._trees import PyTree
from rsgda.moves import Algorithm, Info, State, Step, ascend, descend, spent, start
from rsgda.problem import Problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SGDA(Algorithm):
    r"""Alternating stochastic gradient descent ascent: one ascent, then one descent.

    $$ v_{k+1} = \Pi_V(v_k + \eta_k \nabla_v f(\theta_k, v_k; z_k)), \qquad
       \theta_{k+1} = \theta_k - \alpha_k \nabla_\theta f(\theta_k, v_{k+1}; z'_k) $$

    It is ESGDA with m = 1, to the last bit: two gradients a step.

    Args:
        alpha: theta's step size: a number, a schedule of k, or an optax transformation.
        eta: v's step size, likewise.

    >>> SGDA(alpha=0.3, eta=10.0)
    SGDA(alpha=0.3, eta=10.0)

    Source: Section 2 of the paper, as ESGDA with m = 1.
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
        """Ascend, then descend."""
        key_ascents, key_descent = jr.split(jr.fold_in(state.key, state.step))
        inner = ascend(problem, state, jr.fold_in(key_ascents, 0), self.eta)
        new = descend(problem, inner, key_descent, self.alpha)
        return new._replace(step=state.step + 1), spent(state, new)
