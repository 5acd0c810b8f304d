"""Curvature and noise of a problem at one point, by Hessian-vector products and streamed sums."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array, lax

from rsgda._flat import flattened, unflattened, widest
from rsgda._lanczos import Spectrum, lanczos
from rsgda._trees import PyTree, freeze_values, thaw
from rsgda.theory import pieces
from rsgda.whole import Whole

GROUPS = 8  # parts of the draws of a sampler, whose spread is the error of their mean
BLOCK = 2**14  # numbers that draws which are summed side by side may hold together


class Local(NamedTuple):
    """What was measured at one point.

    On a separable problem gradients in v are those of a row's own loss, and squares are means
    over the rows: the metric of w = v / sqrt(n).

    Attributes:
        value: F.
        joint: the Hessian of F in (theta, v).
        curvature: the Hessian of -F in v, along V.
        mu: the smallest curvature, less what is not known of it where that matters.
        L_spread: standard error of the norm of `joint` as F is a mean of draws; else 0.
        mu_spread: the same of the smallest curvature.
        samples: the Hessian of -f(.; z) in v, along V, for each sample; None if F is the sample.
        noise: mean over the samples of |grad_theta f - grad_theta F|^2.
        noise_v: the same in v; on a separable problem the mean of |grad_v|^2 over the rows.
        noise_spread: relative standard errors of these two means, if the samples are draws.
        steepness: the squared gradient mapping in v.
        gap: how far F can be from its maximum over v if it curves as `curvature` says.
        inside: how far V leaves the directions that were taken for its own, relative.
        products: products with the Hessian of F that were spent.
    """

    value: Array
    joint: Spectrum
    curvature: Spectrum
    mu: Array
    L_spread: Array
    mu_spread: Array
    samples: Spectrum | None
    noise: Array
    noise_v: Array
    noise_spread: tuple[Array, Array]
    steepness: Array
    gap: Array
    inside: Array
    products: Array


@functools.partial(jax.jit, static_argnames=("steps", "tol"))
def measure(
    F: Whole, theta: PyTree, v: PyTree, places: Array, key: Array, *, steps: int, tol: float
) -> Local:
    """Measure at (theta, v), as `freeze` returns them, looking closely at the samples `places`."""
    problem = F.problem
    key_start, key_inside = jr.split(key)
    # One for all: drawing is most of what there is to compile.
    start = jr.normal(key_start, (pieces.size_of((theta, v)),), widest((theta, v)))
    unit = problem.rows if problem.separable else 1
    centre, inside = pieces.centre_of(problem.project_v, v, key_inside)

    def along(u: PyTree) -> PyTree:
        return pieces.along(problem.project_v, centre, u, inside)

    narrow = problem.project_v is not None

    def ends(F: Any) -> tuple[Spectrum, Spectrum]:
        joint = _joint(F, theta, v, along, unit, start, steps, tol)
        if problem.separable:
            return joint, joint  # its curvature is that of the rows
        bend = functools.partial(F.product_v, theta, v)
        return joint, _bent(bend, along, v, start, steps, tol, own_scale=True, narrow=narrow)

    samples = None
    if not problem.exact:
        samples = _samples(F, theta, v, centre, inside, places, start, steps, tol)
    L_spread = mu_spread = jnp.zeros((), start.dtype)
    if problem.sample is not None:
        joint, curvature, L_spread, mu_spread, products = _spread(
            F, pieces.size_of((theta, v)), ends
        )
    else:
        joint, curvature = ends(F)
        products = (joint.products + curvature.products).astype(start.dtype)
    if problem.separable and samples is not None:
        worst = jnp.argmin(safely(samples.low, samples.low_error))
        stiff = jnp.argmax(samples.high)
        products = joint.products.astype(start.dtype)
        curvature = Spectrum(
            samples.low[worst],
            samples.high[stiff],
            samples.low_error[worst],
            samples.high_error[stiff],
            jnp.zeros((), jnp.int32),
        )
    mu = safely(curvature.low, curvature.low_error)

    value, slope = F.slope_v(theta, v)
    slope = jax.tree.map(lambda leaf: leaf * unit, slope)
    _, slope_theta = F.slope_theta(theta, v)
    (noise, noise_v), noise_spread = _noise(F, theta, v, slope_theta, slope)
    L = norm(joint)
    move = pieces.move(problem.project_v, v, slope, L)
    far = pieces.move(problem.project_v, v, slope, mu)
    climb, turn = pieces.inner(slope, far), mu * pieces.inner(far, far)
    return Local(
        value=value,
        joint=joint,
        curvature=curvature,
        mu=mu,
        L_spread=L_spread,
        mu_spread=mu_spread,
        samples=samples,
        noise=noise,
        noise_v=noise_v,
        noise_spread=noise_spread,
        steepness=jnp.square(L) * pieces.inner(move, move).astype(L.dtype) / unit,
        gap=(climb - 0.5 * turn) / unit,
        inside=inside,
        products=products,
    )


def safely(low: Array, error: Array) -> Array:
    """Return the smallest curvature, less its error unless that is below a thousandth."""
    return jnp.where(error > 1e-3 * jnp.abs(low), low - error, low)


def norm(spectrum: Spectrum) -> Array:
    """Return the larger end in size."""
    return jnp.maximum(jnp.abs(spectrum.low), jnp.abs(spectrum.high))


class _Draws(NamedTuple):
    """The Hessian of a mean of draws, those of the groups from `first` up to `last`."""

    F: Whole  # of one group
    key: Array
    first: Array
    last: Array

    def _mean(self, of: Callable[[Whole], PyTree]) -> PyTree:
        def add(i: Array, total: PyTree) -> PyTree:
            group = Whole(self.F.problem, jr.fold_in(self.key, i), self.F.batches)
            return jax.tree.map(jnp.add, total, of(group))

        blank = jax.tree.map(
            lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(lambda: of(self.F))
        )
        total = lax.fori_loop(self.first, self.last, add, blank)
        count = self.last - self.first
        return jax.tree.map(lambda leaf: leaf / count.astype(leaf.dtype), total)

    def product(self, theta: PyTree, v: PyTree, along: tuple[PyTree, PyTree]) -> PyTree:
        return self._mean(lambda F: F.product(theta, v, along))

    def product_v(self, theta: PyTree, v: PyTree, u: PyTree) -> PyTree:
        return self._mean(lambda F: F.product_v(theta, v, u))


def _spread(
    F: Whole, size: int, ends: Callable[[Any], tuple[Spectrum, Spectrum]]
) -> tuple[Spectrum, Spectrum, Array, Array, Array]:
    """Measure a sampler's F, and the standard errors of L and mu by that of groups of its draws.

    A group's deviation from the mean of all has G - 1 times the variance that this mean has.
    """
    groups = min(GROUPS, F.batches)
    block = max(min(BLOCK // max(size, 1), 256, F.batches // groups), 1)
    rounds = -(-F.batches // (groups * block))
    problem = F.problem
    if block > 1:
        loss = _MeanLoss(freeze_values(problem.loss))
        sample = _SideBySide(freeze_values(problem.sample), block)
        problem = dataclasses.replace(problem, loss=loss, sample=sample)
    # Other draws than those that are looked at one by one, which have a loop of their own.
    key = jr.split(F.key)[1]  # pyright: ignore[reportArgumentType]
    draws = Whole(problem, key, rounds)
    first = np.r_[0, np.arange(groups)].astype(np.int32)
    last = np.r_[groups, np.arange(groups) + 1].astype(np.int32)

    def of(bounds: tuple[Array, Array]) -> tuple[Spectrum, Spectrum]:
        return ends(_Draws(draws, key, *bounds))

    joint, curvature = lax.map(of, (jnp.asarray(first), jnp.asarray(last)))

    def error(of: Array) -> Array:
        return jnp.sqrt(jnp.mean(jnp.square(of[1:] - of[0])) / max(groups - 1, 1))

    spent = (joint.products + curvature.products).astype(joint.low.dtype)
    products = spent[0] + spent[1:].sum() / groups
    mine, mine_v = jax.tree.map(lambda leaf: leaf[0], (joint, curvature))
    return mine, mine_v, error(norm(joint)), error(curvature.low), products


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _MeanLoss:
    """The mean loss of batches that are drawn side by side."""

    loss: PyTree

    def __call__(self, theta: PyTree, v: PyTree, batches: PyTree) -> Array:
        return jnp.mean(jax.vmap(lambda batch: thaw(self.loss)(theta, v, batch))(batches))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _SideBySide:
    """A sampler of so many batches at once."""

    sample: PyTree
    count: int = dataclasses.field(metadata={"static": True})

    def __call__(self, key: Array) -> PyTree:
        return jax.vmap(thaw(self.sample))(jr.split(key, self.count))


def _joint(
    F: Any,
    theta: PyTree,
    v: PyTree,
    along: Callable[[PyTree], PyTree],
    unit: int,
    start: Array,
    steps: int,
    tol: float,
) -> Spectrum:
    """Measure the Hessian of F in (theta, v); of a separable v in its metric."""
    dtype = widest((theta, v))
    root = unit**0.5

    def restrict(x: Array) -> tuple[PyTree, PyTree]:
        a, u = unflattened(x, (theta, v))
        return a, along(u)

    def product(x: Array) -> Array:
        a, u = restrict(x)
        u = jax.tree.map(lambda leaf: leaf * root, u)
        of_theta, of_v = F.product(theta, v, (a, u))
        of_v = along(jax.tree.map(lambda leaf: leaf * root, of_v))
        return flattened((of_theta, of_v), dtype)

    size = pieces.size_of((theta, v))
    start = flattened(restrict(start), dtype)
    tol = max(tol, 1e-4)  # a norm errs by the square of it where the spectrum has a gap
    return lanczos(product, start, steps=pieces.fitting(steps, size), tol=tol, own_scale=False)


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
        mine, batch = pieces.of_sample(F, v, place)
        middle = pieces.row_of(centre, place) if problem.separable else centre

        def bend(u: PyTree) -> PyTree:
            return jax.jvp(lambda v: problem.slope_v(prepared, v, batch)[1], (mine,), (u,))[1]

        return _bent(
            bend,
            lambda u: pieces.along(problem.project_v, middle, u, inside),
            mine,
            start,
            # Their norm and the sign of their curvature are wanted, mu only of rows of v.
            sample_steps(problem.separable, steps, pieces.size_of(mine)),
            max(tol, 1e-3 if problem.separable else 1e-2),
            own_scale=problem.separable,
            narrow=problem.project_v is not None,
        )

    size = pieces.size_of(v) // (problem.rows if problem.separable else 1)
    return pieces.over(of, places, sample_steps(problem.separable, steps, size) * size)


def sample_steps(separable: bool, steps: int, size: int) -> int:
    """Return how many products a sample is given at most."""
    return min(steps if separable else min(steps, 64), size)


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
    dtype, size = widest(like), pieces.size_of(like)

    def onto(x: Array) -> Array:
        return flattened(along(unflattened(x, like)), dtype)

    def hollow(x: Array) -> Array:
        return -flattened(along(bend(unflattened(x, like))), dtype)

    start = onto(start[start.size - size :].astype(dtype))
    if not narrow:
        return lanczos(
            hollow, start, steps=pieces.fitting(steps, size), tol=tol, own_scale=own_scale
        )
    start = start / jnp.maximum(jnp.linalg.norm(start), jnp.finfo(dtype).tiny)
    middle = jnp.vdot(start, hollow(start))

    def product(x: Array) -> Array:
        flat = onto(x)
        # Rounding may lead out of V's directions: there, the operator is given a value between
        # its ends, which is then neither.
        return hollow(flat) + middle * (x - flat)

    found = lanczos(product, start, steps=pieces.fitting(steps, size), tol=tol, own_scale=own_scale)
    return found._replace(products=found.products + 1)


def _noise(
    F: Whole, theta: PyTree, v: PyTree, mean_theta: PyTree, mean: PyTree
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return the mean squared distance of the samples' gradients from those of F, and its error.

    The errors are relative, as if the samples had been drawn.
    """
    problem, prepared = F.problem, F.prepared(theta)
    if problem.exact:
        none = (jnp.zeros(()), jnp.zeros(()))
        return none, none

    def of(place: Array) -> tuple[Array, Array]:
        mine, batch = pieces.of_sample(F, v, place)
        _, of_theta = problem.slope_theta(theta, mine, batch)
        _, of_v = problem.slope_v(prepared, mine, batch)
        if not problem.separable:
            of_v = jax.tree.map(jnp.subtract, of_v, mean)
        of_theta = jax.tree.map(jnp.subtract, of_theta, mean_theta)
        return pieces.inner(of_theta, of_theta), pieces.inner(of_v, of_v)

    count = F.batches if problem.sample is not None else problem.rows
    squares = pieces.over(of, jnp.arange(count, dtype=jnp.int32), pieces.size_of((theta, v)))
    means = squares[0].mean(), squares[1].mean()
    errors = [
        jnp.std(one) / count**0.5 / jnp.where(one.mean() > 0, one.mean(), 1) for one in squares
    ]
    return means, (errors[0], errors[1])
