"""What is wrong with a run: what can be told at its start, and what is measured once it failed."""

import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

from rsgda import _checks
from rsgda._concavity import ConcavityWarning
from rsgda._start import all_finite
from rsgda._trees import PyTree, freeze_values, is_float_array, thaw
from rsgda._update import size
from rsgda.moves import ASCENT_REFUSED, State
from rsgda.problem import Batch, Problem

REACHES = (1e1, 1e3, 1e5)  # how far v is moved, in units of 1 + its largest entry
LINE = (0.0, *(sign * reach for reach in REACHES for sign in (1.0, -1.0)))
SQUARE = 0.5e4  # how much more F bends from one reach to the next, if it grows as a square
MOST = 2**18  # numbers in theta, v and a batch: of more, a few values of the loss would be felt
OTHERS = 4  # batches that must say the same
PROBES = 4  # of a curvature, each along the change of slope that the one before saw
TWICE = 1e-3  # relative change of a loss, above rounding, if its batch is doubled

GENERAL = {
    "v": (
        "`eta` is too large: try a tenth. It is a step along the gradient of the mean, so do not "
        "multiply it by the number of rows",
        "the sign: v is maximised, so what it pays is subtracted in the loss",
        "the loss is not concave in v, as what v pays is too little: a larger gamma",
        "the loss is summed over the batch: take the mean",
        "`alpha` is too large, and theta ran away first",
        "the loss is not finite everywhere: a logarithm or root at zero, NaN in the data",
    ),
    "theta": (
        "`alpha` is too large: try a tenth",
        "the loss is summed over the batch: take the mean",
        "v ran away first: `eta` is too large, or the loss is not concave in v, as what v pays is "
        "too little (a larger gamma) or has the wrong sign",
        "the sign: theta is minimised, and the loss must not fall without end in theta",
        "the loss is not finite everywhere: a logarithm or root at zero, NaN in the data",
    ),
}


def words(refused: int) -> str:
    """Return the likely causes of a refused update, the likeliest first."""
    causes = GENERAL["v" if refused == ASCENT_REFUSED else "theta"]
    listed = "; ".join(f"({i}) {cause}" for i, cause in enumerate(causes, start=1))
    return f"Likely causes, the likeliest first: {listed}."


def check_data(problem: Problem, state: State) -> None:
    """Refuse rows of data that are not finite, if a batch with one has no finite loss."""
    if problem.data is None:
        return
    bad: dict[str, np.ndarray] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(problem.data):
        if is_float_array(leaf) and not bool(all_finite(leaf)):
            rows = np.asarray(jnp.isfinite(leaf).reshape(len(leaf), -1).all(axis=1))
            bad[f"`data`{jax.tree_util.keystr(path)}"] = np.flatnonzero(~rows)
    for where, rows in bad.items():
        # A loss may know what to do with missing numbers; then nothing is wrong with them.
        if not np.isfinite(float(_loss_with(problem, state, jnp.asarray(rows[0])))):
            raise ValueError(
                f"{where} must be finite, or the loss made for what is not: it has NaN or infinity "
                f"in {len(rows):,} of {problem.rows:,} rows, the first of them {rows[0]}, and a "
                "batch with that row has no finite loss. Leave these rows out, or fill them."
            )


def first_loss(problem: Problem, state: State) -> float:
    """Return the loss of a batch at the start."""
    if _may_be_moved(problem, state):
        return float(_along_a_line(problem, state, np.int32(0), np.int32(1))[0])
    return float(_loss(problem, state, problem.draw(jr.fold_in(state.key, 0))))


def warn_of_no_maximum(problem: Problem, state: State) -> None:
    """Warn of a loss that grows without end in v; never of one that is merely not concave.

    F is seen on both sides of the start along a line: the sum of both, less twice the start, is
    not positive for a concave function, and for one that has a maximum it does not grow with the
    square of a distance of 10 to 100,000 times the scale of v.
    """
    if not _may_be_moved(problem, state):
        return
    for turn in range(1 + OTHERS):
        line = _along_a_line(problem, state, np.int32(turn), np.int32(len(LINE)))
        if not _grows(np.asarray(line, float)):
            return
    warnings.warn(
        "the loss has no maximum in v: along a line through the start it grows with the square of "
        "the distance, in all of the batches looked at. Check the sign: v is maximised, so what "
        "holds it back is subtracted, as in `... - gamma * jnp.sum(v**2)`. If the sign is right, "
        "keep v in a set by `project_v`.",
        ConcavityWarning,
        stacklevel=4,
    )


def seen_at_start(problem: Problem, algorithm: Any, state: State) -> str:
    """Return in words what the start of a run that failed has to say; "" if that is nothing."""
    said = []
    once, twice = (float(value) for value in _doubled(problem, state))
    if abs(twice - once) > TWICE * abs(once) and np.isfinite(twice):
        said.append(
            f"the loss is no mean over the batch: it is {once:.4g} for one, and {twice:.4g} for "
            "the same rows twice"
        )
    of_v, of_theta = _bends(problem, state)
    for name, player, bend in (("eta", "v", of_v), ("alpha", "theta", of_theta)):
        curvature, step = float(bend), _first_size(getattr(algorithm, name, None))
        if not np.isfinite(curvature):
            continue
        if player == "v" and curvature > 0:
            said.append(
                f"the loss curves upward in v, by {curvature:.3g}, where it should be concave"
            )
        # What overshoots is a step across a valley of -F in v, or of F in theta.
        elif step is not None and step * (curvature if player == "theta" else -curvature) > 2:
            said.append(
                f"`{name}` = {step:.4g} overshoots, as the loss curves by {abs(curvature):.3g} in "
                f"{player}: take less than 2 / {abs(curvature):.3g} = {2 / abs(curvature):.3g}"
            )
    return f"Measured on a batch at the start: {'; '.join(said)}. " if said else ""


def _grows(values: np.ndarray) -> bool:
    """Say whether F bends upward at each reach, and at each a square as much as before."""
    start, sides = values[0], values[1:].reshape(len(REACHES), 2)
    if not np.isfinite(values).all():
        return False
    bends = sides.sum(axis=1) - 2 * start
    # Beyond what rounding makes of numbers of this size.
    above = bends[0] > 1e-3 * (abs(sides[0]).sum() + 2 * abs(start))
    return bool(above and np.all(bends[1:] >= SQUARE * bends[:-1]))


def _may_be_moved(problem: Problem, state: State) -> bool:
    """Say whether v is free to go anywhere, and all is small enough that nobody notices."""
    if problem.project_v is not None or problem.prepare is not None:
        return False
    batch = jax.eval_shape(problem.draw, state.key)
    parts = jax.tree.leaves((state.theta, state.v, batch.arguments))
    return sum(math.prod(leaf.shape) for leaf in parts) <= MOST


@jax.jit
def _along_a_line(problem: Problem, state: State, turn: Array, count: Array) -> Array:
    """Return the loss of one batch at the first `count` places of `LINE`, and else zero."""
    batch = problem.draw(jr.fold_in(state.key, turn))
    scale = 1 + jnp.max(jnp.stack([_largest(leaf) for leaf in jax.tree.leaves(state.v)]))
    line, signs = jnp.asarray(LINE, scale.dtype), _signs(state.v)

    def look(i: Array, values: Array) -> Array:
        far = line[i] * scale
        v = jax.tree.map(lambda x, u: x + far.astype(x.dtype) * u, state.v, signs)
        value = problem.value(state.theta, problem.look(v, batch), batch)
        return values.at[i].set(value.astype(values.dtype))

    # One program for one look and for all of them.
    return jax.lax.fori_loop(0, count, look, jnp.zeros(len(LINE), scale.dtype))


@jax.jit
def _loss_with(problem: Problem, state: State, place: Array) -> Array:
    """Return the loss of a batch of which the first row is a given one."""
    places = jr.randint(jr.fold_in(state.key, 0), (problem.batch_size or 0,), 0, problem.rows)
    places = places.at[0].set(place.astype(places.dtype))
    rows = jax.tree.map(lambda leaf: leaf[places], problem.data)
    batch = Batch((rows,), places if problem.separable else None)
    return problem.value(state.theta, problem.look(state.v, batch), batch)


def _doubled(problem: Problem, state: State) -> tuple[Any, Any]:
    """Return the loss of a batch, and of one that has each of its rows twice."""
    if problem.data is None or problem.restart is not None:
        return 0.0, 0.0
    batch = problem.draw(jr.fold_in(state.key, 0))
    (rows,), places = batch
    again = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), (rows, places))
    try:
        return _loss(problem, state, batch), _loss(problem, state, Batch((again[0],), again[1]))
    except (TypeError, ValueError):  # of a loss that counts on the size of its batch
        return 0.0, 0.0


@jax.jit
def _loss(problem: Problem, state: State, batch: Batch) -> Array:
    return problem.value(state.theta, problem.look(state.v, batch), batch)


@jax.jit
def _bends(problem: Problem, state: State) -> tuple[Array, Array]:
    """Return the curvature of a batch's loss in v and in theta, along where it bends most."""
    batch = problem.draw(jr.fold_in(state.key, 0))
    theta, v = state.theta, problem.look(state.v, batch)
    prepared = theta
    if problem.prepare is not None:
        prepared = freeze_values(problem.prepare(thaw(theta)))
    return (
        _bend(lambda v: problem.slope_v(prepared, v, batch, summed=False)[1], v),
        _bend(lambda theta: problem.slope_theta(theta, v, batch)[1], theta),
    )


def _bend(slope: Any, x: PyTree) -> Array:
    """Return a curvature by differences of slopes, which any loss that has a gradient has."""
    leaves = jax.tree.leaves(x)
    far = 1e-2 * (1 + jnp.max(jnp.stack([_largest(leaf) for leaf in leaves])))
    here = slope(x)
    along = _unit(here, _signs(x))
    curvature = jnp.zeros(())
    for _ in range(PROBES):
        there = slope(jax.tree.map(lambda x, u: x + far.astype(x.dtype) * u, x, along))
        change = jax.tree.map(lambda a, b: (a - b) / far.astype(a.dtype), there, here)
        bend = _dot(along, change)
        seen = jnp.abs(bend) * far > 1e-4 * jnp.sqrt(_dot(here, here))  # above rounding
        curvature = jnp.where(seen, bend, 0)
        along = _unit(change, along)
    return curvature


def _first_size(step: Any) -> float | None:
    if step is None or _checks.is_optimiser(step):
        return None
    return float(size(step, jnp.zeros((), jnp.int32)))


def _signs(tree: PyTree) -> PyTree:
    """Return a direction that no problem is made for: signs without a pattern."""

    def signs(leaf: Array) -> Array:
        i = jnp.arange(leaf.size, dtype=jnp.float32).reshape(leaf.shape)
        return jnp.where(jnp.sin(12.9898 * i + 78.233 * jnp.sin(i)) < 0, -1, 1).astype(leaf.dtype)

    return jax.tree.map(signs, tree)


def _unit(tree: PyTree, otherwise: PyTree) -> PyTree:
    length, other = (jnp.sqrt(_dot(x, x)) for x in (tree, otherwise))
    return jax.tree.map(
        lambda x, y: jnp.where(
            length > 0,
            x / jnp.where(length > 0, length, 1).astype(x.dtype),
            y / other.astype(y.dtype),
        ),
        tree,
        otherwise,
    )


def _dot(one: PyTree, other: PyTree) -> Array:
    products = jax.tree.map(lambda a, b: jnp.vdot(a, b).astype(jnp.zeros(()).dtype), one, other)
    return jnp.sum(jnp.stack(jax.tree.leaves(products)))


def _largest(leaf: Array) -> Array:
    return jnp.max(jnp.abs(leaf), initial=0).astype(jnp.zeros(()).dtype)
