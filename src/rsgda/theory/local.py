"""Curvature and noise of a problem at one point, by Hessian-vector products and streamed sums."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax

from rsgda._lanczos import Spectrum, lanczos
from rsgda._trees import PyTree, freeze, thaw
from rsgda.problem import Batch
from rsgda.whole import Whole

BASIS = 2**26  # numbers that a Lanczos basis may hold: half a gigabyte of float64
CHUNK = 2**22  # numbers that samples looked at side by side may hold together
DRAWS = 32  # points of V whose mean lies inside of it


class Local(NamedTuple):
    """What was measured at one point.

    On a separable problem gradients in v are those of a row's own loss, and squares are means
    over the rows: the metric of w = v / sqrt(n).

    Attributes:
        value: F.
        joint: the Hessian of F in (theta, v).
        curvature: the Hessian of -F in v, along V.
        samples: the Hessian of -f(.; z) in v, along V, for each sample; None if F is the sample.
        noise: mean over the samples of |grad_theta f - grad_theta F|^2.
        noise_v: the same in v; on a separable problem the mean of |grad_v|^2 over the rows.
        steepness: the squared gradient mapping in v.
        gap: how far F can be from its maximum over v if it curves as `curvature` says.
        inside: how far V leaves the directions that were taken for its own, relative.
    """

    value: Array
    joint: Spectrum
    curvature: Spectrum
    samples: Spectrum | None
    noise: Array
    noise_v: Array
    steepness: Array
    gap: Array
    inside: Array


@functools.partial(jax.jit, static_argnames=("steps", "tol"))
def measure(
    F: Whole, theta: PyTree, v: PyTree, places: Array, key: Array, *, steps: int, tol: float
) -> Local:
    """Measure at (theta, v), as `freeze` returns them, looking closely at the samples `places`."""
    problem = F.problem
    key_start, key_inside = jr.split(key)
    # One for all: drawing is most of what there is to compile.
    start = jr.normal(key_start, (_size((theta, v)),), _dtype((theta, v)))
    unit = problem.rows if problem.separable else 1
    centre, inside = _centre(problem.project_v, v, key_inside)

    def along(u: PyTree) -> PyTree:
        return _along(problem.project_v, centre, u, inside)

    joint = _joint(F, theta, v, along, unit, start, steps, tol)
    samples = None
    if not problem.exact:
        samples = _samples(F, theta, v, centre, inside, places, start, steps, tol)
    if problem.separable and samples is not None:
        worst, stiff = jnp.argmin(samples.low), jnp.argmax(samples.high)
        curvature = Spectrum(
            samples.low[worst],
            samples.high[stiff],
            samples.low_error[worst],
            samples.high_error[stiff],
            jnp.zeros((), jnp.int32),
        )
    else:
        bend = functools.partial(F.product_v, theta, v)
        narrow = problem.project_v is not None
        curvature = _bent(bend, along, v, start, steps, tol, own_scale=True, narrow=narrow)

    value, slope = F.slope_v(theta, v)
    slope = jax.tree.map(lambda leaf: leaf * unit, slope)
    _, slope_theta = F.slope_theta(theta, v)
    noise, noise_v = _noise(F, theta, v, slope_theta, slope)
    L = jnp.maximum(jnp.abs(joint.low), jnp.abs(joint.high))
    move = _move(problem.project_v, v, slope, L)
    far = _move(problem.project_v, v, slope, curvature.low)
    climb, turn = _inner(slope, far), curvature.low * _inner(far, far)
    return Local(
        value=value,
        joint=joint,
        curvature=curvature,
        samples=samples,
        noise=noise,
        noise_v=noise_v,
        steepness=jnp.square(L) * _inner(move, move).astype(L.dtype) / unit,
        gap=(climb - 0.5 * turn) / unit,
        inside=inside,
    )


def _joint(
    F: Whole,
    theta: PyTree,
    v: PyTree,
    along: Callable[[PyTree], PyTree],
    unit: int,
    start: Array,
    steps: int,
    tol: float,
) -> Spectrum:
    """Measure the Hessian of F in (theta, v); of a separable v in its metric."""
    dtype = _dtype((theta, v))
    root = unit**0.5

    def restrict(x: Array) -> tuple[PyTree, PyTree]:
        a, u = _tree(x, (theta, v))
        return a, along(u)

    def product(x: Array) -> Array:
        a, u = restrict(x)
        u = jax.tree.map(lambda leaf: leaf * root, u)
        of_theta, of_v = F.product(theta, v, (a, u))
        of_v = along(jax.tree.map(lambda leaf: leaf * root, of_v))
        return _flat((of_theta, of_v), dtype)

    size = _size((theta, v))
    start = _flat(restrict(start), dtype)
    return lanczos(product, start, steps=_fitting(steps, size), tol=tol, own_scale=False)


def _samples(
    F: Whole,
    theta: PyTree,
    v: PyTree,
    centre: PyTree,
    inside: Array,
    places: Array,
    start: Array,
    steps: int,
    tol: float,
) -> Spectrum:
    """Measure the Hessian of each of the samples in v."""
    problem, prepared = F.problem, F.prepared(theta)

    def of(place: Array) -> Spectrum:
        mine, batch = _sample(F, v, place)
        middle = _row(centre, place) if problem.separable else centre

        def bend(u: PyTree) -> PyTree:
            return jax.jvp(lambda v: problem.slope_v(prepared, v, batch)[1], (mine,), (u,))[1]

        return _bent(
            bend,
            lambda u: _along(problem.project_v, middle, u, inside),
            mine,
            start,
            # Their norm and the sign of their curvature are wanted, mu only of rows of v.
            steps if problem.separable else min(steps, 64),
            tol,
            own_scale=problem.separable,
            narrow=problem.project_v is not None,
        )

    size = _size(v) // (problem.rows if problem.separable else 1)
    return _over(of, places, min(steps, size) * size)


def _bent(
    bend: Callable[[PyTree], PyTree],
    along: Callable[[PyTree], PyTree],
    like: PyTree,
    start: Array,
    steps: int,
    tol: float,
    *,
    own_scale: bool,
    narrow: bool,
) -> Spectrum:
    """Measure minus a Hessian in v along V, which is `narrow` if it may lack directions."""
    dtype, size = _dtype(like), _size(like)

    def onto(x: Array) -> Array:
        return _flat(along(_tree(x, like)), dtype)

    def hollow(x: Array) -> Array:
        return -_flat(along(bend(_tree(x, like))), dtype)

    start = onto(start[start.size - size :].astype(dtype))
    if not narrow:
        return lanczos(hollow, start, steps=_fitting(steps, size), tol=tol, own_scale=own_scale)
    start = start / jnp.maximum(jnp.linalg.norm(start), jnp.finfo(dtype).tiny)
    middle = jnp.vdot(start, hollow(start))

    def product(x: Array) -> Array:
        flat = onto(x)
        # Rounding may lead out of V's directions: there, the operator is given a value between
        # its ends, which is then neither.
        return hollow(flat) + middle * (x - flat)

    found = lanczos(product, start, steps=_fitting(steps, size), tol=tol, own_scale=own_scale)
    return found._replace(products=found.products + 1)


def _noise(
    F: Whole, theta: PyTree, v: PyTree, mean_theta: PyTree, mean: PyTree
) -> tuple[Array, Array]:
    """Return the mean squared distance of the samples' gradients from those of F."""
    problem, prepared = F.problem, F.prepared(theta)
    if problem.exact:
        return jnp.zeros(()), jnp.zeros(())

    def of(place: Array) -> tuple[Array, Array]:
        mine, batch = _sample(F, v, place)
        _, of_theta = problem.slope_theta(theta, mine, batch)
        _, of_v = problem.slope_v(prepared, mine, batch)
        if not problem.separable:
            of_v = jax.tree.map(jnp.subtract, of_v, mean)
        of_theta = jax.tree.map(jnp.subtract, of_theta, mean_theta)
        return _inner(of_theta, of_theta), _inner(of_v, of_v)

    count = F.batches if problem.sample is not None else problem.rows
    squares = _over(of, jnp.arange(count, dtype=jnp.int32), _size((theta, v)))
    return squares[0].mean(), squares[1].mean()


def _sample(F: Whole, v: PyTree, place: Array) -> tuple[PyTree, Batch]:
    """Return one sample, a batch of its own, and what of v it is about."""
    problem = F.problem
    if problem.sample is not None and F.key is not None:
        return v, Batch((problem.sample(jr.fold_in(F.key, place)),), None)
    mine = _row(v, place) if problem.separable else v
    return mine, Batch((_row(problem.data, place),), None)


def _centre(project: Any, v: PyTree, key: Array) -> tuple[PyTree, Array]:
    """Return a point inside of V, and how far V leaves the directions that are tangent there.

    A mean of points of V has slack in every constraint in which one of them has.
    """
    if project is None:
        return v, jnp.zeros(())
    leaves, structure = jax.tree.flatten(v)
    size = jnp.sqrt(_inner(v, v) / max(_size(v), 1))
    size = jnp.where(size > 0, size, 1)

    def point(i: Array) -> PyTree:
        keys = jr.split(jr.fold_in(key, i), len(leaves))
        spread = size * jnp.power(10.0, (i % 6 - 3).astype(size.dtype))
        moved = [
            leaf + spread.astype(leaf.dtype) * jr.normal(k, leaf.shape, leaf.dtype)
            for leaf, k in zip(leaves, keys, strict=True)
        ]
        return freeze(project(thaw(jax.tree.unflatten(structure, moved))))

    def add(i: Array, total: PyTree) -> PyTree:
        return jax.tree.map(jnp.add, total, point(i))

    total = lax.fori_loop(0, DRAWS, add, v)
    centre = jax.tree.map(lambda leaf: leaf / (DRAWS + 1), total)

    def away(i: Array, worst: Array) -> Array:
        offset = jax.tree.map(jnp.subtract, point(i), centre)
        rest = jax.tree.map(jnp.subtract, _along(project, centre, offset, None), offset)
        share = _inner(rest, rest) / jnp.maximum(_inner(offset, offset), 1e-30)
        return jnp.maximum(worst, jnp.sqrt(share))

    return centre, lax.fori_loop(0, DRAWS, away, jnp.zeros_like(size))


def _along(project: Any, centre: PyTree, u: PyTree, inside: Array | None) -> PyTree:
    """Return the part of a direction that does not leave V's hull, all of it if none is known."""
    if project is None:
        return u
    flat = jax.jvp(lambda v: freeze(project(thaw(v))), (centre,), (u,))[1]
    if inside is None:
        return flat
    return jax.tree.map(lambda flat, u: jnp.where(is_inside(inside), flat, u), flat, u)


def is_inside(inside: Array) -> Array:
    """Say whether V's directions were found."""
    return inside < 1e-3


def _move(project: Any, v: PyTree, slope: PyTree, curvature: Array) -> PyTree:
    """Return the step of projected ascent with step size 1 / curvature."""
    by = 1 / jnp.where(curvature > 0, curvature, 1)
    if project is None:
        return jax.tree.map(lambda g: by.astype(g.dtype) * g, slope)
    moved = jax.tree.map(lambda v, g: v + by.astype(g.dtype) * g, v, slope)
    return jax.tree.map(jnp.subtract, freeze(project(thaw(moved))), v)


def _over(of: Callable[[Array], PyTree], places: Array, size: int) -> PyTree:
    """Return `of` at all places, so many side by side as fit, where one needs `size` numbers."""
    count = places.size
    chunk = min(max(CHUNK // max(size, 1), 1), count, 1024)
    if chunk == 1:
        return lax.map(of, places)  # no batching, which would copy what a loop carries
    if chunk == count:
        return jax.vmap(of)(places)
    rounds = -(-count // chunk)
    # Some of the places twice rather than a rest, which would be compiled by itself.
    filled = jnp.resize(places, (rounds, chunk))
    found = lax.map(jax.vmap(of), filled)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], found)


def _fitting(steps: int, size: int) -> int:
    """Return how many products a basis has room for."""
    return max(min(steps, size, BASIS // max(size, 1)), min(size, 8))


def _row(tree: PyTree, place: Array) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[place][None], tree)


def _inner(left: PyTree, right: PyTree) -> Array:
    dtype = _dtype((left, right))
    parts = jax.tree.map(lambda a, b: jnp.vdot(a.astype(dtype), b.astype(dtype)), left, right)
    return functools.reduce(jnp.add, jax.tree.leaves(parts))


def _size(tree: PyTree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def _dtype(tree: PyTree) -> Any:
    """Return the widest dtype of a tree, at least single precision."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(jnp.float32, *(leaf.dtype for leaf in jax.tree.leaves(tree)))


def _flat(tree: PyTree, dtype: Any) -> Array:
    return jnp.concatenate([leaf.astype(dtype).ravel() for leaf in jax.tree.leaves(tree)])


def _tree(flat: Array, like: PyTree) -> PyTree:
    leaves, structure = jax.tree.flatten(like)
    parts, first = [], 0
    for leaf in leaves:
        part = flat[first : first + leaf.size]
        parts.append(part.reshape(leaf.shape).astype(leaf.dtype))
        first += leaf.size
    return jax.tree.unflatten(structure, parts)
