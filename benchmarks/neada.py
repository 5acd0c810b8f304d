"""NeAda: the inner maximum by AdaGrad to a precision that grows, then one step of AdaGrad."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax

from rsgda._flat import norm
from rsgda._trees import PyTree
from rsgda.moves import Algorithm, Info, State, ascend, descend, draw, slope, spent, start
from rsgda.problem import Problem


class Seen(NamedTuple):
    """Sums of squared norms of the gradients so far."""

    theta: Array
    v: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class NeAda(Algorithm):
    r"""NeAda with AdaGrad's norm version for both players, in its stochastic form.

    Step t takes t + 1 ascents, then a descent:

    $$ v \leftarrow \Pi(v + \eta R^{-1/2} h), \quad
       \theta \leftarrow \theta - \alpha S^{-1/2} g $$

    with R and S the sums of the squared norms of all gradients h in v and g in theta.

    Source: Yang, Li and He, Nest your adaptive algorithm for parameter-agnostic nonconvex minimax
    optimization (2022), Algorithm 2, whose inner loop is as long as its outer count.
    """

    alpha: float | Array = 1.0
    eta: float | Array = 1.0

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step."""
        zero = jnp.zeros(())
        return start(problem, theta, v, key, 1.0, 1.0, memory=Seen(zero, zero))

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        """Take the ascents, then the descent."""
        key_ascents, key_descent = jr.split(jr.fold_in(state.key, state.step))

        def once(i: Array, at: State) -> State:
            key = jr.fold_in(key_ascents, i)
            # The compiler sees that the gradient of `ascend` is this one.
            h = slope(problem, at, draw(problem, at, key))[1]
            R = at.memory.v + norm(h) ** 2
            at = at._replace(memory=at.memory._replace(v=R))
            return ascend(problem, at, key, _over(self.eta, R))

        new = lax.fori_loop(0, state.step + 1, once, state)
        batch = draw(problem, new, key_descent)
        g = problem.slope_theta(new.theta, problem.look(new.v, batch), batch)[1]
        S = new.memory.theta + norm(g) ** 2
        new = new._replace(memory=new.memory._replace(theta=S))
        new = descend(problem, new, key_descent, _over(self.alpha, S))
        return new._replace(step=state.step + 1), spent(state, new)


def _over(step: float | Array, total: Array) -> Array:
    return step / jnp.sqrt(jnp.maximum(total, 1e-30))
