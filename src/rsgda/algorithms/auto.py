"""RSGDA that finds its steps by itself."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax

from rsgda import _checks
from rsgda._flat import norm, widest
from rsgda._trees import PyTree
from rsgda.algorithms._probes import Steepest, dot, moved, positive, slack, steepest, unit
from rsgda.moves import (
    Algorithm,
    Change,
    Restarting,
    State,
    apply,
    ascent_along,
    descent_along,
    draw,
    refresh,
    slope,
    spent,
    start,
)
from rsgda.problem import Batch, Problem

P_LEAST, P_MOST = 0.5, 0.75  # between them is the probability of a descent
RISE, FALL = 0.03, 0.1  # of the way to where it belongs, in a descent
FIRST = 3  # power iterations for either player at the start
START = 5 + 2 * FIRST  # gradients that are spent before the first step
EARLY, WITHIN = 12, 60  # more gradients for probes, while the first so many are spent
SHARE = 0.1  # of the gradients, for probes later on
MOST = 0.15  # of a run's, for all of them
SMALL = 0.1  # of the longest step that is allowed: the first one
OUTRUN = 1.5  # times m / b^2: the longest step of theta that v can follow
GAIN = 0.1  # by how much a cosine of one raises the logarithm of eta
KEPT = 0.8  # of the direction in which v was moving, from one ascent to the next
FAR = 1e6  # times the size of v: the width of a set that has no end
CROSS, OF_THETA = 0, 1  # whose turn it is to be probed, of four


class Tuned(NamedTuple):
    """What a step spent, with which steps, and what they were chosen by.

    Attributes:
        descents: updates of theta in this step.
        ascents: updates of v in this step.
        gradients: gradients in this step, probes included.
        p: the probability of a descent.
        alpha: the last step size of theta.
        eta: the last step size of v.
        L_theta: theta's largest curvature.
        L_v: v's largest curvature.
        slack: m / b^2, by which v's slowness limits alpha.
        drift: how far theta has got from its start, less what a random walk would have.
        cosine: between the last ascent direction and those before it.
        probes: gradients spent on looking around, so far.
    """

    descents: Array
    ascents: Array
    gradients: Array
    p: Array
    alpha: Array
    eta: Array
    L_theta: Array
    L_v: Array
    slack: Array
    drift: Array
    cosine: Array
    probes: Array


class Memory(NamedTuple):
    """All that is adapted, but for the direction of v's last ascents, which is `ascent_state`.

    Attributes:
        p: the probability of a descent.
        alpha: the last step size of theta.
        eta: the last step size of v.
        L_theta: theta's largest curvature.
        L_v: v's largest curvature.
        slack: m / b^2 of `_probes.slack`.
        drift: the r of the class.
        walked: the sum of theta's squared moves.
        weighed: the sum of r^2 times theta's squared gradients.
        cosine: of the last ascent.
        probes: gradients spent on looking around, int32.
        turns: how many times probes were made, int32.
        origin: where theta began.
        steep_theta: the direction of `L_theta`.
        steep_v: that of `L_v`; None on a separable problem, where rows come and go.
    """

    p: Array
    alpha: Array
    eta: Array
    L_theta: Array
    L_v: Array
    slack: Array
    drift: Array
    walked: Array
    weighed: Array
    cosine: Array
    probes: Array
    turns: Array
    origin: PyTree
    steep_theta: PyTree
    steep_v: PyTree

    def shown(self) -> dict[str, Array]:
        """Return what has a place in a history."""
        return {name: getattr(self, name) for name in Tuned._fields if name in self._fields}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Auto(Algorithm):
    r"""RSGDA that finds p, alpha and eta by itself.

    $$ \alpha = \min\Big( \frac{r^2}{\sqrt{\sum r^2 \|g_\theta\|^2}}, \frac{1}{L_\theta},
       \frac{3}{2} \frac{m}{b^2} \Big), \quad
       r^2 = \max_k \|\theta_k - \theta_0\|^2 - \textstyle\sum_{i<k} \|\theta_{i+1} - \theta_i\|^2,
       \qquad \eta \leftarrow \min\Big( \eta\, e^{c \cos}, \frac{1}{L_v} \Big) $$

    r is how far theta has drifted, beyond a random walk. The curvatures $L_\theta$, $L_v$, and m
    and the coupling b along the direction in which v is moving, are measured by differences of
    gradients: 11 before the first step, 12 more during the first 60, and a tenth of all later on,
    counted like all others. cos is that of an ascent with those before it: positive where v lags,
    negative where it overshoots or follows noise. The coin is fair at first, and p moves towards
    $p / (1 - p) = (3/2)\, m L_\theta / b^2$, within 1/2 and 3/4: where v could follow longer steps
    than theta's own curvature allows, ascents are saved. The last theta is returned.

    Args:
        budget: the number of gradients of the whole run, if it is known: a short run looks around
            less at its start. 100 at least.

    >>> import jax, rsgda
    >>> toy = rsgda.problems.Toy(kinds="ABC", kappa=5.0, L=400.0)
    >>> result = rsgda.solve(
    ...     toy.problem, Auto(), *toy.start(), key=jax.random.key(0), steps=600,
    ... )
    >>> bool(toy.phi(result.theta) < 1e-6 * toy.phi(toy.start()[0]))
    True

    Source: ours. Khaled, Mishchenko and Jin (2023), DoWG Unleashed, for the first bound on alpha.
    """

    budget: int | Array | None = None

    def __post_init__(self) -> None:
        """Refuse a budget that cannot be one."""
        if self.budget is not None:
            _checks.whole("budget", self.budget, 100)

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step, after a look around."""
        state = start(problem, theta, v, key, 1.0, 1.0)
        return _started(problem, state)

    def toss(self, key: Array, k: Array) -> tuple[Array, Array]:
        """Return the draw that p is held against in step k, and the key of its batch."""
        key_coin, key_batch = jr.split(jr.fold_in(key, k))
        return jr.uniform(key_coin), key_batch

    def step(
        self, problem: Problem, state: State, tossed: tuple[Array, Array] | None = None
    ) -> tuple[State, Tuned]:
        """Toss the coin, if that was not done ahead, move one player, and look around at times."""
        drawn, key_batch = tossed or self.toss(state.key, state.step)
        descended = drawn < state.memory.p.astype(drawn.dtype)
        ready = refresh(problem, state, ~descended)
        change, memory = lax.cond(
            descended,
            lambda: self._descent(problem, ready, key_batch),
            lambda: self._ascent(problem, ready, key_batch),
        )
        new = apply(ready, change)
        probes = memory.probes - state.memory.probes
        new = new._replace(step=state.step + 1, gradients=new.gradients + probes, memory=memory)
        return new, Tuned(*spent(state, new), *memory.shown().values())

    def _descent(self, problem: Problem, state: State, key: Array) -> tuple[Change, Memory]:
        m = state.memory
        dtype, batch = m.alpha.dtype, draw(problem, state, key)
        v = problem.look(state.v, batch)
        value, g = problem.slope_theta(state.theta, v, batch)
        size = norm(g).astype(dtype)
        rounds = 2 * (self._may(state, 2) & (m.turns % 4 == OF_THETA)).astype(jnp.int32)
        L, steep = steepest(
            lambda theta: problem.slope_theta(theta, v, batch)[1],
            problem.project_theta, state.theta, g, Steepest(m.L_theta, m.steep_theta),
            m.alpha * size, rounds, jr.fold_in(key, 1), signed=True,
        )  # fmt: skip
        longest = jnp.minimum(_inverse(L), OUTRUN * m.slack)
        drift = jnp.maximum(m.drift, _distance(state.theta, m.origin) ** 2 - m.walked)
        # The first step that moves anything; without any curvature in sight, one part of theta.
        first = jnp.where(jnp.isinf(longest), norm(state.theta).astype(dtype), size * longest)
        r2 = jnp.where(drift > 0, drift, jnp.square(SMALL * first))
        weighed = m.weighed + r2 * size**2
        alpha = jnp.minimum(r2 / jnp.sqrt(positive(weighed)), longest)
        change = descent_along(problem, state, (value, g), alpha)
        memory = m._replace(
            alpha=alpha, L_theta=L, steep_theta=steep, drift=r2, weighed=weighed,
            p=_likely(m.p, L, m.slack), walked=m.walked + _distance(change.theta, state.theta) ** 2,
            probes=m.probes + rounds, turns=m.turns + jnp.minimum(rounds, 1),
        )  # fmt: skip
        return change, memory

    def _ascent(self, problem: Problem, state: State, key: Array) -> tuple[Change, Memory]:
        m = state.memory
        dtype, batch = m.alpha.dtype, draw(problem, state, key)
        value, g = slope(problem, state, batch)
        v, before = problem.look((state.v, state.ascent_state), batch)
        before = before.now if isinstance(before, Restarting) else before
        size, turn = norm(g).astype(dtype), m.turns % 4
        cross = self._may(state, 3) & ((turn == CROSS) | (turn == CROSS + 2))
        rounds = 2 * (self._may(state, 2) & (turn == OF_THETA + 2)).astype(jnp.int32)
        steep_v = jax.tree.map(jnp.zeros_like, v) if problem.separable else m.steep_v
        L, steep_v = steepest(
            lambda v: _slope_v(problem, state, v, batch),
            problem.project_v, v, g, Steepest(m.L_v, steep_v), size * m.eta, rounds,
            jr.fold_in(key, 1),
        )  # fmt: skip
        room = slack(
            lambda v: problem.slope_theta(state.theta, v, batch)[1],
            lambda v: _slope_v(problem, state, v, batch),
            problem.project_v, v, g, before, L, m.slack, cross, jr.fold_in(key, 2),
        )  # fmt: skip
        longest = _inverse(_bent(problem, v, g, L, state.ascents))
        eta = jnp.minimum(m.eta, longest)
        there = moved(problem.project_v, v, g, eta)
        G = jax.tree.map(lambda y, x: (y - x) / positive(eta).astype(x.dtype), there, v)
        known = jax.tree.map(lambda G, b: jnp.where(G != 0, b, 0), G, before)
        cosine = jnp.clip(dot(unit(G), unit(known), dtype), -1, 1)
        eta = jnp.minimum(eta * jnp.exp(GAIN * cosine), longest)
        change = ascent_along(problem, state._replace(ascent_state=None), batch, (value, g), eta)
        direction = jax.tree.map(_mixed, G, before)
        if isinstance(state.ascent_state, Restarting):
            direction = state.ascent_state._replace(now=direction)
        memory = m._replace(
            eta=eta, L_v=L, slack=room, cosine=cosine,
            steep_v=None if problem.separable else steep_v,
            probes=m.probes + rounds + 3 * cross.astype(jnp.int32),
            turns=m.turns + ((rounds > 0) | cross).astype(jnp.int32),
        )  # fmt: skip
        return change._replace(ascent_state=direction), memory

    def _may(self, state: State, cost: int) -> Array:
        """Say whether a probe that costs so many gradients may be made now."""
        dtype = state.memory.alpha.dtype
        k = state.gradients.astype(dtype)
        early, share = jnp.asarray(EARLY, dtype), jnp.asarray(SHARE, dtype)
        if self.budget is not None:
            budget = jnp.asarray(self.budget).astype(dtype)
            share = jnp.minimum(share, MOST - START / budget)
            early = jnp.clip((MOST - share) * budget - START, 0, EARLY)
        most = START + early * jnp.minimum(k / WITHIN, 1) + share * k
        return state.memory.probes.astype(dtype) + cost <= most


@jax.jit
def _started(problem: Problem, state: State) -> State:
    """Measure both curvatures and their coupling at the start."""
    dtype = widest((state.theta, state.v))
    state, key = refresh(problem, state, True), jr.fold_in(state.key, 2**31)
    batch = draw(problem, state, key)
    v = problem.look(state.v, batch)
    of_theta = lambda theta, v: problem.slope_theta(theta, v, batch)[1]  # noqa: E731
    of_v = lambda v: _slope_v(problem, state, v, batch)  # noqa: E731
    g_theta, g_v = of_theta(state.theta, v), of_v(v)
    zero, rounds = jnp.zeros((), dtype), jnp.asarray(FIRST, jnp.int32)
    blank = jax.tree.map(jnp.zeros_like, (state.theta, v))
    nothing = [Steepest(zero, direction) for direction in blank]
    keys = jr.split(key, 3)
    L_theta, steep_theta = steepest(
        lambda theta: of_theta(theta, v), problem.project_theta, state.theta, g_theta,
        nothing[0], zero, rounds, keys[0], signed=True,
    )  # fmt: skip
    L_v, steep_v = steepest(of_v, problem.project_v, v, g_v, nothing[1], zero, rounds, keys[1])
    room = slack(
        lambda v: of_theta(state.theta, v), of_v, problem.project_v, v, g_v, blank[1], L_v,
        jnp.full((), jnp.inf, dtype), jnp.ones((), bool), keys[2],
    )  # fmt: skip
    eta = _inverse(_bent(problem, v, g_v, L_v, state.ascents))
    memory = Memory(
        p=jnp.full((), P_LEAST, dtype), alpha=zero, eta=eta, L_theta=L_theta, L_v=L_v, slack=room,
        drift=zero, walked=zero, weighed=zero, cosine=zero,
        probes=jnp.full((), START, jnp.int32), turns=jnp.zeros((), jnp.int32),
        origin=state.theta, steep_theta=steep_theta,
        steep_v=None if problem.separable else steep_v,
    )  # fmt: skip
    seen = jax.tree.map(jnp.zeros_like, state.v)
    if problem.restart is not None:
        seen = Restarting(seen, seen)
    return state._replace(memory=memory, ascent_state=seen, gradients=memory.probes)


def _likely(p: Array, L: Array, room: Array) -> Array:
    """Return p, nearer to where v can just follow steps of 1 / L; fair where theta bends not."""
    # With another p than 1/2 the limit m / b^2 would be (1 - p) / p times that.
    odds = jnp.minimum(OUTRUN * L * jnp.where(L > 0, room, 0), P_MOST / (1 - P_MOST))
    wanted = jnp.maximum(odds / (1 + odds), P_LEAST)
    return p + jnp.where(wanted > p, RISE, FALL) * (wanted - p)


def _slope_v(problem: Problem, state: State, v: PyTree, batch: Batch) -> PyTree:
    """Return v's gradient at another v, where `state.prepared` is current."""
    prepared = state.theta if state.prepared is None else state.prepared.value
    return problem.slope_v(prepared, v, batch)[1]


def _bent(problem: Problem, v: PyTree, g: PyTree, L: Array, ascents: Array) -> Array:
    """Return the curvature to count on; where f is flat, one that keeps steps within V.

    Where the curvature is small beside |g| / D, D the width of V along g, the set decides about
    the maximiser. Steps are D / |g| then, and fall as one over the square root of their number.
    """
    dtype = L.dtype
    size = norm(g).astype(dtype)
    far = FAR * jnp.maximum(norm(v).astype(dtype), 1)
    width = _distance(moved(problem.project_v, v, unit(g), far), v)
    flat = L * width <= 0.01 * size
    least = size / positive(width) * jnp.sqrt(1 + ascents.astype(dtype))
    return jnp.where(flat & (width > 0), jnp.maximum(L, least), L)


def _mixed(new: Array, old: Array) -> Array:
    """Return the direction that is kept; where nothing was seen, what was before."""
    both = KEPT * old + (1 - KEPT) * new
    return jnp.where(new != 0, jnp.where(old != 0, both, new), old)


def _inverse(L: Array) -> Array:
    return jnp.where(L > 0, 1 / positive(L), jnp.inf)


def _distance(left: PyTree, right: PyTree) -> Any:
    """Return the distance of two trees, in the widest dtype of the left one."""
    return norm(jax.tree.map(jnp.subtract, left, right))
