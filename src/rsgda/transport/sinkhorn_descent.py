"""Learning with Sinkhorn: a few of its iterations on a minibatch, then a descent."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax
from jax.nn import logsumexp

from rsgda import _checks
from rsgda._trees import PyTree, Static, thaw
from rsgda._update import is_sound, keep, moved, projected
from rsgda.moves import DESCENT_REFUSED, Algorithm, Change, Info, State, Step, apply, spent, start
from rsgda.problem import Problem
from rsgda.transport.semidual import SemiDual, exponents


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SinkhornDescent(Algorithm):
    r"""The paper's learning with Sinkhorn: potentials by Sinkhorn's iteration on a minibatch.

    $$ v_{k+1} = \mathrm{Sinkhorn}_{m_\mathrm{sin}}(C_B, \tfrac1b, \nu, \varepsilon; v_k), \qquad
       \theta_{k+1} = \theta_k - \frac{\alpha}{b} \sum_{i \in B}
       \nabla_\theta h(x_i, f_{\theta_k}(y), v_{k+1}) $$

    with the same minibatch B in both. It is for problems of `matching` and `generation`, and counts
    `m_sin` + 1 gradients a step.

    Args:
        m_sin: Sinkhorn iterations a step, at least 1.
        alpha: theta's step size: a number, a schedule of k, or an optax transformation.
        warm_start: begin them at the last potentials; else at zero.

    >>> SinkhornDescent(m_sin=1, alpha=0.005)
    SinkhornDescent(m_sin=1, alpha=0.005, warm_start=True)

    Source: Algorithm "learning with Sinkhorn" of the paper's Appendix; errata 34 to 40.
    """

    branches_on: ClassVar[tuple[str, ...]] = ("m_sin",)

    m_sin: int | Array = 1
    alpha: Step
    warm_start: bool = dataclasses.field(default=True, metadata={"static": True})

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        _checks.whole("m_sin", self.m_sin, 1)
        _checks.counted("m_sin", self.m_sin)
        _checks.step_size("alpha", self.alpha)
        if not isinstance(self.warm_start, bool):
            raise ValueError(f"`warm_start` must be True or False, got {self.warm_start!r}.")

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step."""
        if not isinstance(problem.loss, SemiDual):
            raise ValueError(
                "SinkhornDescent is for problems of rsgda.transport.matching and generation, got "
                f"{problem!r}."
            )
        return start(problem, theta, v, key, self.alpha, 1.0)

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        """Iterate on a minibatch, then descend on it."""
        (rows,) = problem.draw(jr.fold_in(state.key, state.step)).arguments
        loss: Any = problem.loss
        first = state.v if self.warm_start else jnp.zeros_like(state.v)

        def objective(theta: PyTree) -> tuple[Array, Array]:
            theta = thaw(theta)
            given = theta if problem.prepare is None else problem.prepare(theta)
            costs = lax.stop_gradient(loss.costs(given, rows))
            v = iterated(costs, loss.nu, loss.epsilon, first, self.m_sin)
            return loss(given, v, rows), v

        (value, v), gradient = jax.value_and_grad(objective, has_aux=True)(state.theta)
        v = projected(problem.project_v, v)
        theta, descent_state = moved(
            self.alpha, state.step, -1, gradient, value, state.theta, state.descent_state
        )
        theta = projected(problem.project_theta, theta)
        sound = (state.refused == 0) & is_sound((theta, v), descent_state)
        change = Change(
            theta=keep(sound, theta, state.theta),
            descent_state=keep(sound, descent_state, state.descent_state),
            v=keep(sound, v, state.v),
            ascent_state=state.ascent_state,
            places=None,
            adds=Static(False, bool),
            descents=sound.astype(jnp.int32),
            ascents=jnp.where(sound, self.m_sin, 0).astype(jnp.int32),
            refused=jnp.where(sound | (state.refused != 0), state.refused, DESCENT_REFUSED),
        )
        new = apply(state, change)
        return new._replace(step=state.step + 1), spent(state, new)


def iterated(costs: Array, nu: Array, epsilon: Array, v: Array, count: int | Array) -> Array:
    r"""Return v after Sinkhorn iterations on a minibatch, shifted to sum to zero.

    $$ v_j \leftarrow v_j + \varepsilon \Big( \log \nu_j - \log \frac1b \sum_i w_j(x_i) \Big) $$
    """
    size = costs.shape[0]

    def iterate(_: Array, v: Array) -> Array:
        logs = exponents(v, costs, nu, epsilon)
        logs = logs - logsumexp(logs, axis=1, keepdims=True)
        mean = logsumexp(logs, axis=0) - jnp.log(jnp.asarray(size, v.dtype))
        return v + epsilon * (jnp.log(nu) - mean)

    v = lax.fori_loop(0, count, iterate, v)
    return v - jnp.mean(v)
