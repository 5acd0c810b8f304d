"""The two moves that every algorithm is made of: a descent step on theta, an ascent step on v.

An algorithm's file reads like the paper's loop; what is the same for all of them is here: the
state, minibatches, optimisers, projections, separable v, prepared values, and the refusal of an
update that is not finite.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from rsgda._checks import is_optimiser
from rsgda._names import short
from rsgda._split import Split, put_rows
from rsgda._trees import PyTree, Static, freeze, freeze_values, thaw
from rsgda._update import Slope, Step, is_moderate, is_sound, keep, moved, projected, size
from rsgda.problem import Batch, Problem

DESCENT_REFUSED, ASCENT_REFUSED = 1, 2
SEPARABLE = ("v", "ascent_state")  # what has a row for each row of data on a separable problem


class Algorithm:
    """What the algorithms here have in common, beside `init` and `step`.

    Attributes:
        branches_on: what decides which branch a step takes or how often it loops: names of
            fields, and "key" for a coin. Rows of a sweep that agree in these share the branch.
    """

    branches_on: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        """Show every number, also those inside of optax transformations."""
        shown = [f"{f.name}={short(getattr(self, f.name))}" for f in dataclasses.fields(self)]  # pyright: ignore
        return f"{type(self).__name__}({', '.join(shown)})"


class Prepared(NamedTuple):
    """What `problem.prepare` made of theta, and whether theta is still the same."""

    value: PyTree
    fresh: Array


class Restarting(NamedTuple):
    """The state of an optimiser that begins anew with each minibatch, and how it begins."""

    now: PyTree
    first: PyTree


class State(NamedTuple):
    """What is needed to continue a run.

    Attributes:
        theta: the minimised variable; leaves that are not arrays are part of its structure.
        v: the maximised variable, likewise.
        key: the run's key. It is never advanced: step k uses `jax.random.fold_in(key, k)`.
        step: iterations of the paper's loop so far, the k of its schedules.
        descents: updates of theta so far.
        ascents: updates of v so far.
        gradients: stochastic gradients spent so far, the x axis of every figure.
        descent_state: the state of theta's optimiser.
        ascent_state: the state of v's optimiser; on a separable problem it has rows as v has.
        prepared: `problem.prepare(theta)` with a mark whether it is current, or None.
        memory: what else an algorithm remembers.
        refused: 0, or which move was refused because its result was not finite.
    """

    theta: PyTree
    v: PyTree
    key: Array
    step: Array
    descents: Array
    ascents: Array
    gradients: Array
    descent_state: PyTree
    ascent_state: PyTree
    prepared: Prepared | None
    memory: PyTree
    refused: Array


class Info(NamedTuple):
    """What someone may want to look at after one step: what it spent.

    Attributes:
        descents: updates of theta in this step.
        ascents: updates of v in this step.
        gradients: stochastic gradients in this step.
    """

    descents: Array
    ascents: Array
    gradients: Array


class Change(NamedTuple):
    """What a move changes: small where v is separable, so that a branch may return it."""

    theta: PyTree
    descent_state: PyTree
    v: PyTree  # of a separable problem: the batch's rows, or what is added to them
    ascent_state: PyTree
    places: Array | None  # of a separable problem: where these rows belong; n means nowhere
    adds: Static  # whether rows are added to, and not written over
    descents: Array
    ascents: Array
    refused: Array
    split: Split | None = None  # the devices that rows of v are on, if there are several


def start(
    problem: Problem,
    theta: PyTree,
    v: PyTree,
    key: Array,
    alpha: Step,
    eta: Step,
    *,
    memory: PyTree = (),
) -> State:
    """Return the state before the first step."""
    theta, v = freeze(theta), freeze(v)
    if problem.restart is not None:
        v = _restarted(problem, v, key, 0)
    zero = jnp.zeros((), jnp.int32)
    prepared = None
    if problem.prepare is not None:
        # Only its shape is needed: the first ascent will compute the value.
        shape = jax.eval_shape(lambda theta: freeze_values(problem.prepare(thaw(theta))), theta)  # pyright: ignore
        empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shape)
        prepared = Prepared(empty, jnp.zeros((), bool))
    ascent_state: PyTree = None
    if is_optimiser(eta):
        # One optimiser per row: rows are visited at different times and know nothing of others.
        ascent_state = jax.vmap(eta.init)(v) if problem.separable else eta.init(v)
        if problem.restart is not None:
            ascent_state = Restarting(ascent_state, ascent_state)
    return State(
        theta=theta,
        v=v,
        key=key,
        step=zero,
        descents=zero,
        ascents=zero,
        gradients=zero,
        descent_state=alpha.init(theta) if is_optimiser(alpha) else None,
        ascent_state=ascent_state,
        prepared=prepared,
        memory=memory,
        refused=zero,
    )


def descend(
    problem: Problem, state: State, key: Array, alpha: Step, *, at: State | None = None
) -> State:
    r"""Take one stochastic descent step on theta, with the batch that `key` draws.

    $$ \theta \leftarrow \Pi(\theta - \alpha \nabla_\theta f(\theta, v; z)) $$

    With `at`, the gradient is taken at that state's theta and v. An update that is not finite is
    refused: the state stays as it is and says so in `refused`.
    """
    change = descent(problem, state, key, alpha, at=at)
    if problem.separable:
        # A descent by itself has no rows of v to write.
        change = change._replace(v=state.v, ascent_state=state.ascent_state, places=None)
    return apply(state, change)


def ascend(
    problem: Problem, state: State, key: Array, eta: Step, *, at: State | None = None
) -> State:
    r"""Take one projected stochastic ascent step on v, with the batch that `key` draws.

    $$ v \leftarrow \Pi(v + \eta \nabla_v f(\theta, v; z)) $$

    With `at`, the gradient is taken at that state's theta and v. An update that is not finite is
    refused, as in `descend`.
    """
    if at is None:
        state = refresh(problem, state, True)
    return apply(state, ascent(problem, state, key, eta, at=at))


def descent(
    problem: Problem, state: State, key: Array, alpha: Step, *, at: State | None = None
) -> Change:
    """Return what `descend` changes."""
    at = state if at is None else at
    batch = draw(problem, state, key)
    slope = problem.slope_theta(at.theta, problem.look(at.v, batch), batch)
    return descent_along(problem, state, slope, alpha)


def descent_along(problem: Problem, state: State, slope: Slope, alpha: Step) -> Change:
    """Return what a descent changes whose loss and gradient are known."""
    value, gradient = slope
    theta, descent_state = moved(
        alpha, state.step, -1, gradient, value, state.theta, state.descent_state
    )
    theta = projected(problem.project_theta, theta)
    sound = (state.refused == 0) & is_sound(theta, descent_state)
    v, ascent_state, places = state.v, state.ascent_state, None
    if problem.separable:
        # Nothing is to be written; the rows only give both branches of a coin one shape.
        places = jnp.full((problem.batch_size,), problem.rows)
        blank = lambda leaf: jnp.zeros((problem.batch_size, *leaf.shape[1:]), leaf.dtype)  # noqa: E731
        v, ascent_state = jax.tree.map(blank, (state.v, state.ascent_state))
    elif problem.restart is not None:
        again = _restarted(problem, v, state.key, state.descents + 1)
        v = keep(sound, again, v)
        if ascent_state is not None:
            first = ascent_state.first
            ascent_state = Restarting(keep(sound, first, ascent_state.now), first)
    return Change(
        theta=keep(sound, theta, state.theta),
        descent_state=keep(sound, descent_state, state.descent_state),
        v=v,
        ascent_state=ascent_state,
        places=places,
        adds=_adds(problem, state),
        split=problem.split,
        descents=sound.astype(jnp.int32),
        ascents=jnp.zeros((), jnp.int32),
        refused=_refusal(state, sound, DESCENT_REFUSED),
    )


def ascent(
    problem: Problem, state: State, key: Array, eta: Step, *, at: State | None = None
) -> Change:
    """Return what `ascend` changes, where `state.prepared` is current or `at` is given."""
    batch = draw(problem, state, key)
    adds = _adds(problem, state)
    if not adds.value:
        return ascent_along(problem, state, batch, slope(problem, at or state, batch), eta)
    # Added one by one, rows that are drawn twice need no care.
    _, gradient = slope(problem, at or state, batch, summed=False)
    by = size(eta, state.step)
    v = jax.tree.map(lambda g: by.astype(g.dtype) * g, gradient)
    sound = (state.refused == 0) & is_moderate(v)
    return Change(
        theta=state.theta,
        descent_state=state.descent_state,
        v=v,
        ascent_state=state.ascent_state,
        places=jnp.where(sound, batch.places, problem.rows),  # pyright: ignore
        adds=adds,
        split=problem.split,
        descents=jnp.zeros((), jnp.int32),
        ascents=sound.astype(jnp.int32),
        refused=_refusal(state, sound, ASCENT_REFUSED),
    )


def draw(problem: Problem, state: State, key: Array) -> Batch:
    """Return the batch that `key` draws, or the one that is kept until the next descent."""
    if problem.restart is not None:
        return problem.kept(state.key, state.descents)
    return problem.draw(key)


def slope(problem: Problem, at: State, batch: Batch, *, summed: bool = True) -> Slope:
    """Return the loss of a batch and its gradient in v, at a state."""
    prepared = at.theta
    if problem.prepare is not None and at.prepared is not None:
        prepared = refresh(problem, at, True).prepared.value  # pyright: ignore
    return problem.slope_v(prepared, problem.look(at.v, batch), batch, summed=summed)


def ascent_along(problem: Problem, state: State, batch: Batch, slope: Slope, eta: Step) -> Change:
    """Return what an ascent changes whose loss and gradient on the batch are known."""
    value, gradient = slope
    old, old_state = problem.look((state.v, state.ascent_state), batch)
    if isinstance(old_state, Restarting):
        old_state = old_state.now
    v, ascent_state = moved(
        eta, state.step, 1, gradient, value, old, old_state, rows=problem.separable
    )
    v = projected(problem.project_v, v)
    sound = (state.refused == 0) & is_sound(v, ascent_state)
    places = batch.places
    if places is not None:
        places = jnp.where(sound, places, problem.rows)
    else:
        v, ascent_state = keep(sound, (v, ascent_state), (old, old_state))
        if isinstance(state.ascent_state, Restarting):
            ascent_state = state.ascent_state._replace(now=ascent_state)
    return Change(
        theta=state.theta,
        descent_state=state.descent_state,
        v=v,
        ascent_state=ascent_state,
        places=places,
        adds=Static(False, bool),
        split=problem.split,
        descents=jnp.zeros((), jnp.int32),
        ascents=sound.astype(jnp.int32),
        refused=_refusal(state, sound, ASCENT_REFUSED),
    )


def apply(state: State, change: Change) -> State:
    """Return the state after a move."""
    v, ascent_state = change.v, change.ascent_state
    if change.places is not None:
        # Rows that are drawn twice add up, or hold the same values: the order does not matter.
        method = "add" if change.adds.value else "set"
        split, places = change.split, change.places
        write = lambda leaf, rows: put_rows(split, leaf, places, rows, method)  # noqa: E731
        v, ascent_state = jax.tree.map(write, (state.v, state.ascent_state), (v, ascent_state))
    prepared = state.prepared
    if prepared is not None:
        prepared = prepared._replace(fresh=prepared.fresh & (change.descents == 0))
    return state._replace(
        theta=change.theta,
        v=v,
        descents=state.descents + change.descents,
        ascents=state.ascents + change.ascents,
        gradients=state.gradients + change.descents + change.ascents,
        descent_state=change.descent_state,
        ascent_state=ascent_state,
        prepared=prepared,
        refused=change.refused,
    )


def settled(problem: Problem, state: State) -> State:
    """Keep a state where it belongs: rows of a separable v on their devices, all else on each."""
    split = problem.split
    if split is None:
        return state
    rows = {name: getattr(state, name) for name in SEPARABLE} if problem.separable else {}
    state = split.constrain(state._replace(**dict.fromkeys(rows)), rows=False)
    return state._replace(**split.constrain(rows, rows=True))


def over(problem: Problem, state: State) -> State:
    """Return a state that each process holds on the devices of a problem."""
    split = problem.split
    if split is None:
        return state
    rows = {name: getattr(state, name) for name in SEPARABLE} if problem.separable else {}
    state = split.place(state._replace(**dict.fromkeys(rows)))
    return state._replace(**split.place_rows(rows))


def refresh(problem: Problem, state: State, wanted: bool | Array) -> State:
    """Bring `state.prepared` up to date if it is wanted and theta has changed since."""
    if problem.prepare is None or state.prepared is None:
        return state
    prepare, stale = problem.prepare, ~state.prepared.fresh & wanted

    def again(i: Array, _: PyTree) -> PyTree:
        # The barrier ties theta to the count: what does not change in a loop is else computed
        # ahead of it by the compiler, and so at every step, wanted or not.
        theta, _ = lax.optimization_barrier((state.theta, i))
        return freeze_values(prepare(thaw(theta)))

    # A loop of no or one round, not `cond`: a value that is still good is not copied.
    value = lax.fori_loop(0, stale.astype(jnp.int32), again, state.prepared.value)
    return state._replace(prepared=Prepared(value, state.prepared.fresh | wanted))


def spent(before: State, after: State) -> Info:
    """Return what the moves between two states cost."""
    return Info(
        descents=after.descents - before.descents,
        ascents=after.ascents - before.ascents,
        gradients=after.gradients - before.gradients,
    )


def _restarted(problem: Problem, v: PyTree, key: Array, descents: int | Array) -> PyTree:
    """Return v as it starts at the batch that follows so many descents; `v` shows its shape."""
    batch = problem.kept(key, jnp.asarray(descents, jnp.int32))
    new = freeze(problem.restart(*batch.arguments))  # pyright: ignore[reportOptionalCall]
    shape = lambda tree: jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)  # noqa: E731
    if shape(new) != shape(v):
        raise ValueError(f"`v` must be as `restart(batch)` is, {shape(new)}, got {shape(v)}.")
    return new


def _adds(problem: Problem, state: State) -> Static:
    """Say whether rows of a separable v move by addition: plain steps, and no projection."""
    plain = state.ascent_state is None and problem.project_v is None
    # `is_moderate` rests on the range of the floats.
    wide = all(jnp.finfo(leaf.dtype).maxexp >= 128 for leaf in jax.tree.leaves(state.v))
    return Static(problem.separable and plain and wide, bool)


def _refusal(state: State, sound: Array, move: int) -> Array:
    return jnp.where(sound | (state.refused != 0), state.refused, move).astype(jnp.int32)
