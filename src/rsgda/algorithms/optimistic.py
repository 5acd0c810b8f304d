"""Optimistic gradient descent ascent: each step corrects the one before it."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array

from rsgda import _checks
from rsgda._trees import PyTree
from rsgda._update import size
from rsgda.algorithms._together import move_both, refuse_restart
from rsgda.moves import Algorithm, Info, State, Step, draw, refresh, slope, spent, start
from rsgda.problem import Problem


class Past(NamedTuple):
    """What a player remembers; on a separable problem each row of v by itself."""

    inner: PyTree  # the state of an optax transformation, if one is the step
    direction: PyTree  # of the last step
    steps: Array  # so far


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Optimistic(Algorithm):
    r"""Optimistic stochastic gradient descent ascent, which remembers the past gradient.

    $$ \theta_{k+1} = \Pi(\theta_k - \alpha_k (2 g_k - g_{k-1})), \qquad
       g_k = \nabla_\theta f(\theta_k, v_k; z_k) $$
    $$ v_{k+1} = \Pi_V(v_k + \eta_k (2 h_k - h_{k-1})), \qquad
       h_k = \nabla_v f(\theta_k, v_k; z_k) $$

    Both players move at once, with the same sample: two gradients a step, and the first step is a
    plain one. Of a separable `v` each row remembers its gradient when it was drawn last, and its
    first step is a plain one; a step costs O(batch_size). `restart` is refused: theta would never
    meet a v that has moved.

    Args:
        alpha: theta's step size: a number, a schedule of k, or an optax transformation $T$, with
            which $2 T(g_k) - T(g_{k-1})$ is added: `optax.adam` then is the optimistic Adam.
        eta: v's step size, likewise.

    >>> import jax, jax.numpy as jnp, rsgda
    >>> game = rsgda.Problem(lambda theta, v: theta * v)
    >>> for method in (Optimistic(alpha=0.3, eta=0.3), rsgda.SGDA(alpha=0.3, eta=0.3)):
    ...     result = rsgda.solve(
    ...         game, method, jnp.asarray(1.0), jnp.asarray(1.0), key=jax.random.key(0), steps=200
    ...     )
    ...     print(bool(jnp.hypot(result.theta, result.v) < 1e-3))
    True
    False

    Source: Popov (1980); Daskalakis et al., Training GANs with optimism (2018), also for Adam.
    """

    alpha: Step
    eta: Step

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        _checks.step_size("alpha", self.alpha)
        _checks.step_size("eta", self.eta)

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step."""
        refuse_restart(problem, "Optimistic")
        zero = jnp.zeros((), jnp.int32)
        return start(problem, theta, v, key, _ahead(self.alpha, zero), _ahead(self.eta, zero))

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        """Move both players."""
        batch = draw(problem, state, jr.fold_in(state.key, state.step))
        ready = refresh(problem, state, True)
        new = move_both(
            problem,
            ready,
            problem.slope_theta(state.theta, problem.look(state.v, batch), batch),
            batch,
            slope(problem, ready, batch),
            (_ahead(self.alpha, state.step), _ahead(self.eta, state.step)),
        )
        return new._replace(step=state.step + 1), spent(state, new)


def _ahead(step: Step, k: Array) -> Any:
    """Return step k as an optax transformation that remembers where it went last."""
    import optax

    inner: Any = optax.identity()
    if _checks.is_optimiser(step):
        inner = optax.with_extra_args_support(step)
        by = jnp.ones(())
    else:
        by = -size(step, k)

    def init(player: PyTree) -> Past:
        blank = jax.tree.map(jnp.zeros_like, player)
        return Past(inner.init(player), blank, jnp.zeros((), jnp.int32))

    def update(
        gradient: PyTree, past: Past, player: PyTree = None, *, value: Array
    ) -> tuple[PyTree, Past]:
        direction, state = gradient, past.inner
        if _checks.is_optimiser(step):
            direction, state = inner.update(gradient, past.inner, player, value=value)

        def beyond(now: Array, last: Array) -> Array:
            return by.astype(now.dtype) * jnp.where(past.steps > 0, 2 * now - last, now)

        move = jax.tree.map(beyond, direction, past.direction)
        return move, Past(state, direction, past.steps + 1)

    return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]
