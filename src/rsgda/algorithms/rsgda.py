"""RSGDA: a coin decides which player moves."""

import dataclasses
from typing import ClassVar

import jax
import jax.random as jr
from jax import Array, lax

from rsgda import _checks
from rsgda._trees import PyTree
from rsgda.moves import (
    Algorithm,
    Info,
    State,
    Step,
    apply,
    ascent,
    descent,
    refresh,
    spent,
    start,
)
from rsgda.problem import Problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class RSGDA(Algorithm):
    r"""Randomized stochastic gradient descent ascent.

    A coin is tossed at every step, and only the gradient that it asks for is computed:

    $$ \theta_{k+1} = \theta_k - \alpha_k \nabla_\theta f(\theta_k, v_k; z_k)
       \quad \text{with probability } p, \qquad
       v_{k+1} = \Pi_V(v_k + \eta_k \nabla_v f(\theta_k, v_k; z_k)) \quad \text{otherwise.} $$

    On a problem with exact gradients this is the paper's RGDA.

    Args:
        p: the probability of a descent step, in (0, 1). There are (1 - p)/p ascents a descent on
            average; ESGDA's m is p = 1/(m + 1).
        alpha: theta's step size: a number, a schedule of k, or an optax transformation.
        eta: v's step size, likewise. The sign is taken care of.

    >>> RSGDA(p=0.25, alpha=0.3, eta=10.0)
    RSGDA(p=0.25, alpha=0.3, eta=10.0)

    Source: Algorithm RSGDA of the paper; k counts all iterations, not the descents.
    """

    branches_on: ClassVar[tuple[str, ...]] = ("key", "p")

    p: float | Array = 0.5
    alpha: Step
    eta: Step

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        _checks.probability("p", self.p)
        _checks.step_size("alpha", self.alpha)
        _checks.step_size("eta", self.eta)

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step."""
        return start(problem, theta, v, key, self.alpha, self.eta)

    def toss(self, key: Array, k: Array) -> tuple[Array, Array]:
        """Return the coin of step k and the key of its batch."""
        key_coin, key_batch = jr.split(jr.fold_in(key, k))
        return jr.bernoulli(key_coin, self.p), key_batch

    def step(
        self, problem: Problem, state: State, tossed: tuple[Array, Array] | None = None
    ) -> tuple[State, Info]:
        """Toss the coin, if that was not done ahead, and move one player."""
        descended, key_batch = tossed or self.toss(state.key, state.step)
        ready = refresh(problem, state, ~descended)
        # `cond`, not `where`: only one of the two gradients is evaluated. Its branches return
        # what changes and not the state, of which a separable v would be copied.
        change = lax.cond(
            descended,
            lambda: descent(problem, ready, key_batch, self.alpha),
            lambda: ascent(problem, ready, key_batch, self.eta),
        )
        new = apply(ready, change)
        return new._replace(step=state.step + 1), spent(state, new)
