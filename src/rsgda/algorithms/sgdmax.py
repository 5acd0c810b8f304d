"""SGDmax: ascend until v is good enough, then descend."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax

from rsgda import _checks
from rsgda._names import short
from rsgda._trees import PyTree, is_float_array
from rsgda.moves import (
    Algorithm,
    State,
    Step,
    apply,
    ascend,
    ascent_along,
    descend,
    draw,
    refresh,
    size,
    slope,
    spent,
    start,
)
from rsgda.problem import Problem

# A quotient of differences is an average of curvatures, never below the smallest: it is halved.
SAFETY = 2.0
# So many times 1 / (eta * curvature) ascents: a direction that steep has then lost a factor e^4.
SETTLED = 4.0


class Certified(NamedTuple):
    """What a step spent, and whether its ascents were enough.

    Attributes:
        descents: updates of theta in this step.
        ascents: updates of v in this step.
        gradients: gradients in this step.
        certified: False where `max_ascents` ended the ascents before delta was reached.
    """

    descents: Array
    ascents: Array
    gradients: Array
    certified: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SGDmax(Algorithm):
    r"""Ascend until v is a delta-maximiser, then descend once.

    $$ \mathbb{E} F(\theta_k, v_{k+1}) \ge \phi(\theta_k) - \delta, \qquad
       \theta_{k+1} = \theta_k - \alpha_k \nabla_\theta f(\theta_k, v_{k+1}; z_k) $$

    With exact gradients the ascents end when $\|\nabla_v F\|^2 / (2 \mu) \le \delta$; under a
    projection the gradient mapping $(\Pi_V(v + \eta \nabla_v F) - v) / \eta$ takes the gradient's
    place. With minibatches there are $\lceil \log(L r / \delta) / (\eta \mu) \rceil$ of them, with
    $L = 1 / (2 \eta)$ and $r = \|\nabla_v f\|^2 / \mu^2$, which bounds the squared distance to
    the maximiser. `certified` in a step's Info is False where `max_ascents` ended them too soon.

    Args:
        delta: the accuracy of the maximisation.
        alpha: theta's step size: a number, a schedule of k, or an optax transformation.
        eta: v's step size, likewise; at most 1/L with exact gradients, else 1/(2L).
        max_ascents: the most ascents in one step.
        mu: the strong concavity of F in v; None measures the curvature along the ascents and
            takes half of the smallest so far; the first step takes as many ascents as that needs.
            With minibatches it is one more gradient a step, and `max_ascents` ascents until it
            is known. Where eta is an optax transformation, the first step takes them all.

    >>> SGDmax(delta=1e-3, alpha=0.3, eta=10.0)
    SGDmax(delta=0.001, alpha=0.3, eta=10.0, max_ascents=1000, mu=None)

    Source: Algorithm SGDmax of the paper, with the sign of delta and the point of the descent
    corrected.
    """

    delta: float | Array
    alpha: Step
    eta: Step
    max_ascents: int | Array = 1000
    mu: float | Array | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        _checks.positive("delta", self.delta)
        _checks.step_size("alpha", self.alpha)
        _checks.step_size("eta", self.eta)
        _checks.whole("max_ascents", self.max_ascents, 1)
        _checks.counted("max_ascents", self.max_ascents)
        if self.mu is not None:
            _checks.positive("mu", self.mu)

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step; its memory is the curvature, once measured."""
        if problem.project_v is not None and problem.exact and _checks.is_optimiser(self.eta):
            raise ValueError(
                "`eta` must be a number or a schedule where SGDmax meets exact gradients and "
                f"`project_v`: its step defines the gradient mapping. Got {short(self.eta)}."
            )
        memory = jnp.full((), jnp.inf, _norm_type(v))
        return start(problem, theta, v, key, self.alpha, self.eta, memory=memory)

    def step(self, problem: Problem, state: State) -> tuple[State, Certified]:
        """Ascend as often as needed, then descend."""
        key_ascents, key_descent = jr.split(jr.fold_in(state.key, state.step))
        ready = refresh(problem, state, True)
        climb = self._until_certified if problem.exact else self._by_count
        inner, certified = climb(problem, ready, key_ascents)
        new = descend(problem, inner, key_descent, self.alpha)
        info = Certified(*spent(state, new), certified=certified)
        return new._replace(step=state.step + 1), info

    def _until_certified(self, problem: Problem, state: State, key: Array) -> tuple[State, Array]:
        batch = draw(problem, state, key)

        def climb(at: _Climb) -> _Climb:
            value, gradient = slope(problem, at.state, batch)
            quotient = _curvature(at.v, at.gradient, at.state.v, gradient)
            seen = jnp.where(at.rounds > 0, jnp.minimum(at.seen, quotient), at.seen)
            new = apply(
                at.state, ascent_along(problem, at.state, batch, (value, gradient), self.eta)
            )
            mapping = gradient
            if problem.project_v is not None:
                by = size(self.eta, state.step)
                mapping = jax.tree.map(
                    lambda new, old: (new - old) / by.astype(old.dtype), new.v, at.state.v
                )
            squared = _dot(mapping, mapping)
            enough = self._mu(seen, state.memory, squared.dtype) * 2 * self._delta(squared.dtype)
            certified = squared <= enough
            if self.mu is None:
                settled = ~jnp.isinf(state.memory) | self._settled(state, seen, at.rounds)
                certified &= settled | (squared == 0)
            if problem.project_v is None:
                # The certificate is that of the old point; under a projection, of the new one.
                stay = at.state._replace(gradients=new.gradients, refused=new.refused)
                new = jax.tree.map(lambda stay, new: jnp.where(certified, stay, new), stay, new)
            return _Climb(new, at.state.v, gradient, seen, at.rounds + 1, certified)

        def unfinished(at: _Climb) -> Array:
            return ~at.certified & (at.rounds < self.max_ascents) & (at.state.refused == 0)

        blank = jax.tree.map(jnp.zeros_like, state.v)
        first = _Climb(
            state,
            state.v,
            blank,
            jnp.full_like(state.memory, jnp.inf),
            jnp.zeros((), jnp.int32),
            jnp.zeros((), bool),
        )
        last = lax.while_loop(unfinished, climb, first)
        memory = _remember(last.seen, state.memory)
        return last.state._replace(memory=memory), last.certified

    def _settled(self, state: State, seen: Array, rounds: Array) -> Array:
        """Say whether a first measurement can be trusted.

        Early ascents see the steep directions, which die out at the rate that is measured:
        after some times 1 / (eta * curvature) rounds what is left is flatter, or it is right.
        """
        if _checks.is_optimiser(self.eta):
            return jnp.zeros((), bool)
        done = rounds.astype(seen.dtype) * size(self.eta, state.step).astype(seen.dtype)
        return jnp.where(jnp.isinf(seen), False, done * seen >= SETTLED)

    def _by_count(self, problem: Problem, state: State, key: Array) -> tuple[State, Array]:
        batch = draw(problem, state, jr.fold_in(key, 0))
        value, gradient = slope(problem, state, batch)
        before = problem.look(state.v, batch)
        squared = _dot(gradient, gradient)
        rounds, enough = self.max_ascents, jnp.zeros((), bool)
        # A step reaches batch_size of the n rows of a separable v.
        share = problem.batch_size / problem.rows if problem.separable else 1.0  # pyright: ignore
        if not _checks.is_optimiser(self.eta):
            eta = size(self.eta, state.step).astype(squared.dtype)
            none = jnp.full_like(state.memory, jnp.inf)
            of_rows = self._mu(none, state.memory, squared.dtype)
            if self.mu is not None:
                of_rows = of_rows / share  # the user's number is that of F
            distance = squared / of_rows**2 / share
            needed = jnp.log(distance / (2 * eta * self._delta(squared.dtype)))
            # An unknown curvature counts as zero, and makes this infinite or not a number.
            count = jnp.ceil(needed / (eta * of_rows * share))
            count = jnp.where(jnp.isnan(count), jnp.inf, count)
            most = jnp.asarray(self.max_ascents).astype(count.dtype)
            rounds, enough = jnp.clip(count, 1, most).astype(jnp.int32), count <= most
        new = apply(state, ascent_along(problem, state, batch, (value, gradient), self.eta))
        new = lax.fori_loop(
            1,
            rounds,
            lambda t, new: ascend(problem, new, jr.fold_in(key, t), self.eta),
            new,
        )
        if self.mu is None:
            _, after = slope(problem, new, batch)
            seen = _curvature(before, gradient, problem.look(new.v, batch), after)
            new = new._replace(gradients=new.gradients + 1, memory=_remember(seen, state.memory))
        return new, enough

    def _mu(self, seen: Array, remembered: Array, dtype: Any) -> Array:
        """Return the curvature to count on; 0 where none is known."""
        if self.mu is not None:
            return jnp.asarray(self.mu).astype(dtype)
        measured = jnp.minimum(seen, remembered)
        return jnp.where(jnp.isinf(measured), 0, measured / SAFETY)

    def _delta(self, dtype: Any) -> Array:
        return jnp.asarray(self.delta).astype(dtype)


class _Climb(NamedTuple):
    """Where the ascents of one step are."""

    state: State
    v: PyTree  # the point before, and the gradient there
    gradient: PyTree
    seen: Array  # the smallest curvature so far
    rounds: Array
    certified: Array


def _curvature(v_old: PyTree, g_old: PyTree, v: PyTree, g: PyTree) -> Array:
    """Return the curvature of -F between two points; infinite where it cannot be told."""
    moved = jax.tree.map(jnp.subtract, v, v_old)
    squared = _dot(moved, moved)
    # A step near the rounding error of v tells nothing.
    told = squared > jnp.finfo(squared.dtype).eps * _dot(v, v)
    bent = -_dot(jax.tree.map(jnp.subtract, g, g_old), moved)
    return jnp.where(told, jnp.maximum(bent, 0) / jnp.where(told, squared, 1), jnp.inf)


def _remember(seen: Array, remembered: Array) -> Array:
    """Return the smallest curvature of the run: few ascents see the steep directions only."""
    # Where F was not concave between two points nothing is certified, and nothing learnt.
    return jnp.where(seen > 0, jnp.minimum(seen.astype(remembered.dtype), remembered), remembered)


def _dot(left: PyTree, right: PyTree) -> Array:
    products = jax.tree.map(lambda a, b: jnp.sum(a * b), left, right)
    total = jnp.zeros((), _norm_type(left))
    for product in jax.tree.leaves(products):
        total = total + product.astype(total.dtype)
    return total


def _norm_type(tree: PyTree) -> Any:
    types = [leaf.dtype for leaf in jax.tree.leaves(tree) if is_float_array(leaf)]
    return max(types, key=lambda dtype: jnp.finfo(dtype).bits)
