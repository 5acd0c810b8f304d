"""TiAda: steps that shrink with the gradients seen, and theta's never faster than v can follow."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array

from rsgda import _checks
from rsgda._flat import norm, widest
from rsgda._names import short
from rsgda._trees import PyTree, freeze
from rsgda._update import keep, size
from rsgda.algorithms._together import move_both, refuse_restart
from rsgda.moves import Algorithm, Info, State, Step, draw, refresh, slope, spent, start
from rsgda.problem import Batch, Problem


class Seen(NamedTuple):
    """Sums of squared norms of the gradients so far."""

    theta: Array
    v: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class TiAda(Algorithm):
    r"""TiAda: adaptive steps whose ratio finds the time scales of the two players by itself.

    $$ g_k = \nabla_\theta f(\theta_k, v_k; z_k), \quad h_k = \nabla_v f(\theta_k, v_k; z'_k), \quad
       S_{k+1} = S_k + \|g_k\|^2, \quad R_{k+1} = R_k + \|h_k\|^2 $$
    $$ \theta_{k+1} = \Pi\left(\theta_k - \frac{\alpha_k}{\max(S_{k+1}, R_{k+1})^a} g_k\right),
       \qquad v_{k+1} = \Pi_V\left(v_k + \frac{\eta_k}{R_{k+1}^b} h_k\right) $$

    Both players move at once, each with a sample of its own: two gradients a step. $S_0 = R_0 = 0$.
    The sums are over all of a player, so that on a separable `v` all rows share one step size; a
    step costs O(batch_size). `restart` is refused: theta would never meet a v that has moved.

    Args:
        alpha: theta's step size before it is divided: a number or a schedule of k.
        eta: v's, likewise. An optax transformation has step sizes of its own and is refused.
        power_theta: the exponent $a$, in (0, 1) and above `power_v`.
        power_v: the exponent $b$, in (0, 1).

    >>> TiAda()
    TiAda(alpha=1.0, eta=1.0, power_theta=0.6, power_v=0.4)

    Source: Algorithm 1 of Li, Yang and He, TiAda: a time-scale adaptive algorithm for nonconvex
    minimax optimization (2023), whose $\alpha$, $\beta$, $\eta^x$, $\eta^y$, $v^x$ and $v^y$ are
    $a$, $b$, $\alpha$, $\eta$, $S$ and $R$ here.
    """

    alpha: Step = 1.0
    eta: Step = 1.0
    power_theta: float | Array = 0.6
    power_v: float | Array = 0.4

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        for name in ("alpha", "eta"):
            step = getattr(self, name)
            _checks.step_size(name, step)
            if _checks.is_optimiser(step):
                raise ValueError(
                    f"`{name}` must be a positive number or a schedule `k -> value`, which TiAda "
                    f"divides by a power of the gradients so far, got {short(step)}."
                )
        _checks.probability("power_theta", self.power_theta)
        _checks.probability("power_v", self.power_v)
        a, b = _checks.host_number(self.power_theta), _checks.host_number(self.power_v)
        if a is not None and b is not None and a <= b:
            raise ValueError(
                f"`power_theta` must be above `power_v`, which is {b!r}, so that theta slows down "
                f"more than v, got {a!r}."
            )

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step; its memory is the sums of squares."""
        refuse_restart(problem, "TiAda")
        zero = jnp.zeros((), widest((freeze(theta), freeze(v))))
        return start(problem, theta, v, key, self.alpha, self.eta, memory=Seen(zero, zero))

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        """Add to the sums, then move both players."""
        key_theta, key_v = jr.split(jr.fold_in(state.key, state.step))
        batch_theta, batch_v = draw(problem, state, key_theta), draw(problem, state, key_v)
        ready = refresh(problem, state, True)
        look = problem.look(state.v, batch_theta)
        down = problem.slope_theta(state.theta, look, batch_theta)
        up = slope(problem, ready, batch_v)
        S = state.memory.theta + jnp.square(norm(down[1])).astype(state.memory.theta.dtype)
        R = state.memory.v + _squared(up[1], batch_v).astype(state.memory.v.dtype)
        steps = (
            _divided(self.alpha, state.step, jnp.maximum(S, R), self.power_theta),
            _divided(self.eta, state.step, R, self.power_v),
        )
        new = move_both(problem, ready, down, batch_v, up, steps)
        memory = keep(new.refused == 0, Seen(S, R), state.memory)
        return new._replace(step=state.step + 1, memory=memory), spent(state, new)


def _squared(gradient: PyTree, batch: Batch) -> Array:
    """Return the squared norm of a gradient, each row of a separable v counted once."""
    if batch.places is None:
        return jnp.square(norm(gradient))
    # A row that the batch holds several times has the sum over these at each of them.
    ordered = jnp.sort(batch.places)
    first, end = (jnp.searchsorted(ordered, batch.places, side=side) for side in ("left", "right"))
    shares = jnp.sqrt((end - first).astype(widest(gradient)))

    def share(leaf: Array) -> Array:
        return leaf / shares.astype(leaf.dtype).reshape(-1, *[1] * (leaf.ndim - 1))

    return jnp.square(norm(jax.tree.map(share, gradient)))


def _divided(step: Step, k: Array, total: Array, power: float | Array) -> Array:
    """Return a step size over a power of a sum: 0 for no gradient yet, NaN where it overflowed."""
    by = size(step, k).astype(total.dtype)
    divided = by / jnp.where(total > 0, total, 1) ** jnp.asarray(power).astype(total.dtype)
    # A player that moves by NaN is refused, which one that never moves again would not be.
    return jnp.where(total > 0, jnp.where(jnp.isinf(total), jnp.nan, divided), 0)
