"""ESGDA: a fixed number of ascents, then a descent."""

import dataclasses
from typing import ClassVar

import jax
import jax.random as jr
from jax import Array, lax

from rsgda import _checks
from rsgda._trees import PyTree
from rsgda.moves import Algorithm, Info, State, Step, ascend, descend, spent, start
from rsgda.problem import Problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ESGDA(Algorithm):
    r"""Epoch stochastic gradient descent ascent: m ascents, then one descent.

    $$ v^{t+1} = \Pi_V(v^t + \eta_k \nabla_v f(\theta_k, v^t; z_k^t)), \quad t = 0, \dots, m-1,
       \qquad \theta_{k+1} = \theta_k - \alpha_k \nabla_\theta f(\theta_k, v^m; z_k) $$

    with $v^0 = v_k$, $v_{k+1} = v^m$ and a fresh sample each time: m + 1 gradients a step.

    Args:
        m: ascents per descent, at least 1. RSGDA with p = 1/(m + 1) has as many on average.
        alpha: theta's step size: a number, a schedule of k, or an optax transformation.
        eta: v's step size, likewise.

    >>> ESGDA(m=3, alpha=0.3, eta=10.0)
    ESGDA(m=3, alpha=0.3, eta=10.0)

    Source: Algorithm ESGDA of the paper.
    """

    branches_on: ClassVar[tuple[str, ...]] = ("m",)

    m: int | Array
    alpha: Step
    eta: Step

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        _checks.whole("m", self.m, 1)
        _checks.counted("m", self.m)
        _checks.step_size("alpha", self.alpha)
        _checks.step_size("eta", self.eta)

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step."""
        return start(problem, theta, v, key, self.alpha, self.eta)

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        """Ascend m times, then descend."""
        key_ascents, key_descent = jr.split(jr.fold_in(state.key, state.step))
        inner = lax.fori_loop(
            0,
            self.m,
            lambda t, inner: ascend(problem, inner, jr.fold_in(key_ascents, t), self.eta),
            state,
        )
        new = descend(problem, inner, key_descent, self.alpha)
        return new._replace(step=state.step + 1), spent(state, new)
