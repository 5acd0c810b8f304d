"""RSGDA that finds its steps by itself."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax

from rsgda import _checks
from rsgda._flat import norm, widest
from rsgda._trees import PyTree
from rsgda._update import keep, projected
from rsgda.moves import (
    Algorithm,
    Change,
    Info,
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

T = dict(c=0.1, a0=0.1, later=2, base=7, span=60, share=0.10, evals=3, near=1e-3, p=0.5, couple=0.5, keepG=0.8, relax=0.5, floor=1e-3)


class Memory(NamedTuple):
    p: Array
    alpha: Array
    eta: Array
    L_theta: Array
    L_v: Array
    drift: Array
    travelled: Array
    weighted: Array
    cosine: Array
    probes: Array
    slack: Array
    turn: Array
    origin: PyTree
    steep_theta: PyTree
    steep_v: PyTree


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Auto(Algorithm):
    branches_on: ClassVar[tuple[str, ...]] = ("key",)

    budget: int | Array | None = None

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        state = start(problem, theta, v, key, 1.0, 1.0)
        dtype = widest((state.theta, state.v))
        zero = jnp.zeros((), dtype)
        blank = jax.tree.map(jnp.zeros_like, (state.theta, state.v))
        memory = Memory(
            p=jnp.full((), T["p"], dtype), alpha=zero, eta=zero, L_theta=zero, L_v=zero,
            drift=zero, travelled=zero, weighted=zero, cosine=zero,
            probes=jnp.zeros((), jnp.int32),
            slack=jnp.full((), jnp.inf, dtype), turn=jnp.zeros((), jnp.int32),
            origin=state.theta, steep_theta=blank[0],
            steep_v=None if problem.separable else blank[1],
        )  # fmt: skip
        seen = blank[1]
        if problem.restart is not None:
            seen = Restarting(seen, seen)
        return _started(problem, state._replace(memory=memory, ascent_state=seen))

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        key_coin, key_batch = jr.split(jr.fold_in(state.key, state.step))
        descended = jr.bernoulli(key_coin, state.memory.p)
        ready = refresh(problem, state, ~descended)
        change, memory = lax.cond(
            descended,
            lambda: self._descent(problem, ready, key_batch),
            lambda: self._ascent(problem, ready, key_batch),
        )
        new = apply(ready, change)
        extra = memory.probes - state.memory.probes
        new = new._replace(
            step=state.step + 1, gradients=new.gradients + extra, memory=memory
        )
        return new, spent(state, new)

    def _room(self, state: State) -> Array:
        m = state.memory
        k = state.gradients.astype(m.alpha.dtype)
        probes = m.probes.astype(k.dtype)
        return START + T["base"] * jnp.minimum(k / T["span"], 1) + T["share"] * k - probes

    def _descent(self, problem: Problem, state: State, key: Array) -> tuple[Change, Memory]:
        m = state.memory
        dtype = m.alpha.dtype
        batch = draw(problem, state, key)
        v = problem.look(state.v, batch)
        value, g = problem.slope_theta(state.theta, v, batch)
        size = norm(g).astype(dtype)
        mine = (m.turn % 4) == 1
        wanted = jnp.where(mine & (self._room(state) >= 2), 2, 0)
        found = _probe(
            lambda theta: problem.slope_theta(theta, v, batch)[1],
            problem.project_theta, state.theta, g, m.steep_theta, m.L_theta,
            m.alpha * size, wanted, jr.fold_in(key, 1), signed=True,
        )
        L = found.L
        far = _distance(state.theta, m.origin).astype(dtype) ** 2 - m.travelled
        r2 = jnp.maximum(m.drift, far)
        reach = jnp.minimum(jnp.where(L > 0, 1 / _safe(L), jnp.inf), T["couple"] * m.slack)
        r2 = jnp.where(r2 > 0, r2, jnp.square(T["a0"] * size * reach))
        S = m.weighted + r2 * size**2
        alpha = jnp.where(S > 0, r2 / jnp.sqrt(_safe(S)), 0)
        alpha = jnp.minimum(alpha, reach)
        change = descent_along(problem, state, (value, g), alpha)
        moved = _distance(change.theta, state.theta).astype(dtype)
        memory = m._replace(
            alpha=alpha, L_theta=L, drift=r2, weighted=S, travelled=m.travelled + moved**2,
            probes=m.probes + found.evals, steep_theta=found.u,
            turn=m.turn + (wanted > 0).astype(jnp.int32),
        )  # fmt: skip
        return change, memory

    def _ascent(self, problem: Problem, state: State, key: Array) -> tuple[Change, Memory]:
        m = state.memory
        dtype = m.alpha.dtype
        batch = draw(problem, state, key)
        value, g = slope(problem, state, batch)
        v, seen = problem.look((state.v, state.ascent_state), batch)
        seen = seen.now if isinstance(seen, Restarting) else seen
        size = norm(g).astype(dtype)
        second = (m.turn % 2) == 0
        mine = (m.turn % 4) != 1
        wanted = jnp.where(mine & (self._room(state) >= jnp.where(second, 3, 2)), 2, 0)
        found = _probe(
            lambda at: _slope_at(problem, state, at, batch),
            problem.project_v, v, g, m.steep_v, m.L_v,
            jnp.where(m.L_v > 0, size / _safe(m.L_v), 0),
            jnp.where(second, 0, wanted), jr.fold_in(key, 1), signed=False,
        )
        L = found.L
        do = ((wanted > 0) & second).astype(jnp.int32)
        slack = _couple(problem, state, batch, v, g, seen, L, do, m.slack)
        eta = m.eta
        G = g
        if problem.project_v is not None:
            by = lambda x, g: x + eta.astype(x.dtype) * g  # noqa: E731
            there = projected(problem.project_v, jax.tree.map(by, v, g))
            G = jax.tree.map(lambda y, x: (y - x) / _safe(eta).astype(x.dtype), there, v)
        cosine = _cosine(G, seen, dtype)
        eta = jnp.minimum(eta * jnp.exp(T["c"] * cosine), 1 / _safe(L))
        change = ascent_along(
            problem, state._replace(ascent_state=None), batch, (value, g), eta
        )
        if T["keepG"]:
            mix = lambda new, old: jnp.where(  # noqa: E731
                new != 0, jnp.where(old != 0, T["keepG"] * old + (1 - T["keepG"]) * new, new), old
            )
        else:
            mix = lambda new, old: jnp.where(new != 0, new, old)  # noqa: E731
        seen = jax.tree.map(mix, G, seen)
        if isinstance(state.ascent_state, Restarting):
            seen = state.ascent_state._replace(now=seen)
        change = change._replace(ascent_state=seen)
        memory = m._replace(
            eta=eta, L_v=L, cosine=cosine, probes=m.probes + found.evals + 3 * do,
            slack=slack, turn=m.turn + (wanted > 0).astype(jnp.int32),
            steep_v=None if problem.separable else found.u,
        )  # fmt: skip
        return change, memory


START = 11


@jax.jit
def _started(problem: Problem, state: State) -> State:
    """Measure both curvatures and their coupling at the start."""
    m = state.memory
    dtype = m.alpha.dtype
    ready = refresh(problem, state, True)
    key = jr.fold_in(state.key, 2**31)
    batch = draw(problem, ready, key)
    v = problem.look(ready.v, batch)
    _, g_theta = problem.slope_theta(ready.theta, v, batch)
    _, g_v = slope(problem, ready, batch)
    zero, three = jnp.zeros((), dtype), jnp.asarray(T["evals"])
    of_v = _probe(
        lambda at: _slope_at(problem, ready, at, batch),
        problem.project_v, v, g_v, jax.tree.map(jnp.zeros_like, g_v), zero, zero, three,
        jr.fold_in(key, 1), signed=False,
    )  # fmt: skip
    of_theta = _probe(
        lambda theta: problem.slope_theta(theta, v, batch)[1],
        problem.project_theta, ready.theta, g_theta, m.steep_theta, zero, zero, three,
        jr.fold_in(key, 2), signed=True,
    )  # fmt: skip
    seen = jax.tree.map(jnp.zeros_like, g_v)
    slack = _couple(
        problem, ready, batch, v, g_v, seen, of_v.L, jnp.ones((), jnp.int32),
        jnp.full((), jnp.inf, dtype),
    )  # fmt: skip
    memory = m._replace(
        L_theta=of_theta.L, L_v=of_v.L, eta=1 / _safe(of_v.L), slack=slack,
        steep_theta=of_theta.u, steep_v=None if problem.separable else of_v.u,
        probes=jnp.full((), 5 + 2 * T["evals"], jnp.int32),
    )  # fmt: skip
    return state._replace(memory=memory, gradients=memory.probes)


class _Found(NamedTuple):
    L: Array
    u: PyTree
    evals: Array


def _slope_at(problem: Problem, state: State, at: PyTree, batch: Batch) -> PyTree:
    prepared = state.theta if state.prepared is None else state.prepared.value
    return problem.slope_v(prepared, at, batch)[1]


def _probe(
    gradient: Callable[[PyTree], PyTree], project: Any, x: PyTree, g: PyTree, steep: PyTree,
    L: Array, one: Array, evals: Array, key: Array, *, signed: bool,
) -> _Found:  # fmt: skip
    dtype = L.dtype
    size = norm(g).astype(dtype)
    if steep is None:
        steep = _random(key, x)
    u = _unit(jax.tree.map(jnp.add, _unit(g), _unit(steep)))
    u = keep(norm(u) > 0, u, _unit(_random(key, x)))
    near = jnp.asarray(T["near"], dtype) * norm(x).astype(dtype)
    delta = jnp.maximum(one, near)
    delta = jnp.where(delta > 0, delta, T["near"])
    known = L > 0

    def again(_: Array, at: tuple) -> tuple:
        u, delta, _l, _u0 = at
        y = jax.tree.map(lambda x, u: x + delta.astype(x.dtype) * u, x, u)
        y = projected(project, y)
        d = jax.tree.map(jnp.subtract, y, x)
        dist = _safe(norm(d).astype(dtype))
        h = jax.tree.map(lambda a, b: (a - b) / dist.astype(a.dtype), gradient(y), g)
        l = norm(h).astype(dtype)
        if signed:
            l = jnp.where(known, _dot(_unit(d), h, dtype), l)
        new = _unit(h)
        abs_l = norm(h).astype(dtype)
        delta1 = jnp.where(abs_l > 0, 0.1 * size / _safe(abs_l), 1e4 * delta)
        delta1 = jnp.where(jnp.isfinite(abs_l), delta1, 1e-2 * delta)
        delta1 = jnp.where(known | (near > 0), delta, jnp.where(delta1 > 0, delta1, delta))
        ok = jnp.isfinite(abs_l) & (abs_l > 0)
        u = keep(ok, new, u)
        return u, delta1, jnp.where(jnp.isfinite(l), l, _l), u

    u, _, l, _ = lax.fori_loop(0, evals, again, (u, delta, jnp.zeros((), dtype), u))
    l = jnp.maximum(l, L / 10)
    new = jnp.where(l > L, l, jnp.sqrt(L * l))
    done = evals > 0
    last = keep(done, u, steep)
    return _Found(jnp.where(done, new, L), last, evals)


def _couple(
    problem: Problem, state: State, batch: Batch, v: PyTree, g: PyTree, seen: PyTree,
    L: Array, do: Array, slack: Array,
) -> Array:  # fmt: skip
    dtype = L.dtype
    u = _unit(jax.tree.map(lambda s, g: jnp.where(s != 0, s, g), seen, g))
    delta = jnp.maximum(norm(g).astype(dtype) / _safe(L), T["near"] * norm(v).astype(dtype))
    delta = jnp.where(L > 0, delta, T["near"] * norm(v).astype(dtype))
    y = projected(problem.project_v, jax.tree.map(lambda x, u: x + delta.astype(x.dtype) * u, v, u))
    d = jax.tree.map(jnp.subtract, y, v)
    dist = norm(d).astype(dtype)
    after = lax.fori_loop(0, do, lambda i, _: _slope_at(problem, state, y, batch), g)
    m = -_dot(jax.tree.map(jnp.subtract, after, g), d, dtype) / _safe(dist**2)

    def across(i: Array, at: tuple) -> tuple:
        last, _ = at
        here = keep(i == 0, v, y)
        new = problem.slope_theta(state.theta, here, batch)[1]
        return new, jax.tree.map(jnp.subtract, new, last)

    blank = jax.tree.map(jnp.zeros_like, state.theta)
    _, change = lax.fori_loop(0, 2 * do, across, (blank, blank))
    b = norm(change).astype(dtype) / _safe(dist)
    m = jnp.maximum(m, T["floor"] * L)
    found = jnp.where(b > 0, m / _safe(b**2), jnp.inf)
    found = jnp.where((do > 0) & (dist > 0) & (m > 0), found, slack)
    # believed at once where smaller, slowly where larger
    slower = jnp.exp((1-T["relax"]) * jnp.log(slack) + T["relax"] * jnp.log(jnp.minimum(found, 100 * slack)))
    return jnp.where(jnp.isfinite(slack) & (found > slack), slower, found)


def _random(key: Array, like: PyTree) -> PyTree:
    leaves, structure = jax.tree.flatten(like)
    keys = jr.split(key, len(leaves))
    drawn = [jr.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)


def _safe(x: Array) -> Array:
    return jnp.maximum(x, jnp.finfo(x.dtype).tiny)


def _unit(tree: PyTree) -> PyTree:
    size = norm(tree)
    by = jnp.where(size > 0, 1 / _safe(size), 0)
    return jax.tree.map(lambda leaf: by.astype(leaf.dtype) * leaf, tree)


def _distance(left: PyTree, right: PyTree) -> Array:
    return norm(jax.tree.map(jnp.subtract, left, right))


def _dot(left: PyTree, right: PyTree, dtype: Any) -> Array:
    products = jax.tree.map(lambda a, b: jnp.sum(a * b).astype(dtype), left, right)
    return sum(jax.tree.leaves(products), jnp.zeros((), dtype))


def _cosine(G: PyTree, seen: PyTree, dtype: Any) -> Array:
    on = jax.tree.map(lambda g, s: jnp.where(g != 0, s, 0), G, seen)
    product = _dot(_unit(G), _unit(on), dtype)
    return jnp.clip(product, -1, 1)
