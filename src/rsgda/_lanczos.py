"""Both ends of the spectrum of a symmetric operator that is known by its products alone."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax


class Spectrum(NamedTuple):
    """What a Lanczos run knows of an operator.

    Attributes:
        low: the smallest Ritz value; the smallest eigenvalue lies at or below it.
        high: the largest Ritz value; the largest eigenvalue lies at or above it.
        low_error: an eigenvalue lies within this distance of `low`.
        high_error: an eigenvalue lies within this distance of `high`.
        products: products with the operator that were spent, int32.
    """

    low: Array
    high: Array
    low_error: Array
    high_error: Array
    products: Array


class _Run(NamedTuple):
    basis: Array  # (size, dim), rows orthonormal, those not reached yet zero
    diagonal: Array  # of the operator in this basis, which is tridiagonal
    beside: Array  # beside[j] couples row j to row j + 1
    scale: Array  # the longest product so far, a lower bound of the operator's norm
    done: Array  # products so far
    over: Array  # the Krylov space is exhausted, or a product was not finite


def lanczos(
    product: Callable[[Array], Array],
    start: Array,
    *,
    steps: int,
    tol: float,
    own_scale: bool = True,
) -> Spectrum:
    r"""Measure the smallest and the largest eigenvalue of a symmetric operator.

    $$ |\lambda - \mathtt{low}| \le \mathtt{low\_error} = |A x - \mathtt{low}\, x|
       \quad \text{for some eigenvalue } \lambda \text{ and the Ritz vector } x $$

    The basis is orthogonalised twice against all of itself, so that no Ritz value appears that
    the operator does not have. A start that has no part in an eigenspace cannot see it: draw it
    at random. Rounding is part of the errors: they do not fall below a few units in the last
    place of the operator's norm.

    Args:
        product: `product(x)` for a flat x; may be traced, batched and differentiated over.
        start: the first direction, of any length; zero gives a spectrum of zeros.
        steps: most products to spend; `dim` of them see everything.
        tol: stop once `low_error` is at most `tol |low|` and `high_error` at most `tol` times
            the larger end, or where rounding allows no more.
        own_scale: whether `low` is wanted relative to itself; otherwise both ends are wanted
            relative to the larger one, which is all that a norm needs.

    >>> import jax.numpy as jnp
    >>> diagonal = jnp.array([-1.0, 2.0, 5.0])
    >>> found = lanczos(lambda x: diagonal * x, jnp.ones(3), steps=3, tol=1e-3)
    >>> [round(float(end), 4) for end in found[:2]]
    [-1.0, 5.0]

    Source: Paige, The computation of eigenvalues and eigenvectors of very large sparse matrices,
    1971; Parlett, The Symmetric Eigenvalue Problem, Sections 11.4 and 13.2.
    """
    size, dtype = min(steps, start.size), start.dtype
    if size == 0:
        zero = jnp.zeros((), dtype)
        return Spectrum(zero, zero, zero, zero, jnp.zeros((), jnp.int32))
    eps = float(jnp.finfo(dtype).eps)

    def extend(run: _Run) -> _Run:
        row = run.basis[run.done]
        image = product(row).astype(dtype)
        rest = _orthogonal(image, run)
        rest = _orthogonal(rest, run)  # once leaves what cancelled, twice is enough
        length = jnp.linalg.norm(rest)
        scale = jnp.maximum(run.scale, jnp.linalg.norm(image))
        last = run.done + 1 == start.size
        over = last | (length <= eps * scale) | ~jnp.isfinite(length)
        following = jnp.where(over, 0, rest / jnp.where(length > 0, length, 1))
        return _Run(
            basis=run.basis.at[run.done + 1].set(following, mode="drop"),
            diagonal=run.diagonal.at[run.done].set(_dot(row, image)),
            beside=run.beside.at[run.done].set(jnp.where(over & (length >= 0), 0, length)),
            scale=scale,
            done=run.done + 1,
            over=over,
        )

    def ends(run: _Run) -> tuple[Spectrum, Array]:
        found = _ends(run)
        larger = jnp.maximum(jnp.abs(found.low), jnp.abs(found.high))
        wanted = tol * (jnp.abs(found.low) if own_scale else larger)
        met = found.low_error <= jnp.maximum(wanted, eps * run.scale)
        met &= found.high_error <= jnp.maximum(tol * larger, eps * run.scale)
        return found, met | run.over | (run.done == size)

    def stretch(carry: tuple[_Run, Spectrum, Array]) -> tuple[_Run, Spectrum, Array]:
        run = carry[0]
        # The small eigenproblem is solved after a quarter more products each time: seldom enough
        # to cost little, often enough to waste few.
        until = jnp.minimum(jnp.maximum(run.done + 4, run.done * 5 // 4), size)
        run = lax.while_loop(lambda run: (run.done < until) & ~run.over, extend, run)
        return run, *ends(run)

    length = jnp.linalg.norm(start)
    first = jnp.where(length > 0, start / jnp.where(length > 0, length, 1), 0)
    run = _Run(
        basis=jnp.zeros((size, start.size), dtype).at[0].set(first),
        diagonal=jnp.zeros(size, dtype),
        beside=jnp.zeros(size, dtype),
        scale=jnp.zeros((), dtype),
        done=jnp.zeros((), jnp.int32),
        over=length == 0,
    )
    zero = jnp.zeros((), dtype)
    empty = Spectrum(zero, zero, zero, zero, run.done)
    run, found, _ = lax.while_loop(lambda carry: ~carry[2], stretch, (run, empty, run.over))
    rounding = 4 * eps * run.scale
    return found._replace(
        low_error=found.low_error + rounding,
        high_error=found.high_error + rounding,
        products=run.done,
    )


def _ends(run: _Run) -> Spectrum:
    r"""Return the ends of the tridiagonal matrix of a run, by bisection and inverse iteration.

    Its leading minors have the ratios $q_i = a_i - x - b_{i-1}^2 / q_{i-1}$, of which as many are
    negative as there are eigenvalues below x (Sturm). A full eigenproblem would cost the cube.
    """
    size, dtype = run.diagonal.size, run.diagonal.dtype
    eps, tiny = float(jnp.finfo(dtype).eps), float(jnp.finfo(dtype).tiny)
    inside = jnp.arange(size, dtype=jnp.int32) < run.done
    a = jnp.where(inside, run.diagonal, 0)
    b = jnp.where(inside[1:], run.beside[:-1], 0)
    before = jnp.concatenate([jnp.zeros(1, dtype), jnp.square(b)])

    def below(x: Array) -> Array:
        """Return how many eigenvalues are below each x."""

        def following(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            q, count = carry
            q = a[i] - x - before[i] / jnp.where(jnp.abs(q) < tiny, -tiny, q)
            return q, count + (q < 0).astype(jnp.int32)

        first = (jnp.ones_like(x), jnp.zeros(x.shape, jnp.int32))
        return lax.fori_loop(0, run.done, following, first)[1]

    radius = jnp.zeros(size, dtype).at[1:].add(b).at[:-1].add(b)
    bottom = jnp.min(jnp.where(inside, a - radius, jnp.inf))
    top = jnp.max(jnp.where(inside, a + radius, -jnp.inf))
    # One eigenvalue is at or below the smallest, all are at or below the largest.
    enough = jnp.stack([jnp.ones_like(run.done), run.done])

    def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        left, right = bounds
        middle = 0.5 * left + 0.5 * right
        high = below(middle) >= enough
        return jnp.where(high, left, middle), jnp.where(high, middle, right)

    whole = (jnp.stack([bottom, bottom]), jnp.stack([top, top]))
    left, right = lax.fori_loop(0, jnp.finfo(dtype).nmant + 4, halve, whole)
    found = 0.5 * left + 0.5 * right
    found += 0 * (jnp.sum(a) + jnp.sum(b))  # NaN where a product was not finite
    # From just outside of the spectrum the shifted matrix is definite, and its solution stable.
    width = jnp.maximum(jnp.abs(bottom), jnp.abs(top))
    width = jnp.where(width > 0, width, 1)
    outside = found + 4 * eps * jnp.stack([-width, width])
    shifted = jnp.where(inside, a - outside[:, None], 1)
    lower = jnp.broadcast_to(jnp.concatenate([jnp.zeros(1, dtype), b]), (2, size))
    upper = jnp.broadcast_to(jnp.concatenate([b, jnp.zeros(1, dtype)]), (2, size))
    x = jnp.broadcast_to(jnp.where(inside, 1.0, 0.0).astype(dtype), (2, size))
    for _ in range(2):
        x = lax.linalg.tridiagonal_solve(lower, shifted, upper, x[..., None])[..., 0]
        x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    # The last coupling leads out of the basis: what it carries is the residual.
    last = jnp.maximum(run.done - 1, 0)
    errors = run.beside[last] * jnp.abs(x[:, last])
    return Spectrum(found[0], found[1], errors[0], errors[1], run.done)


def _orthogonal(vector: Array, run: _Run) -> Array:
    """Return what is left of a vector beside the rows of the basis that are reached."""
    size = run.diagonal.size
    block = min(size, 16)

    def remove(i: Array, left: Array) -> Array:
        # The last block overlaps the one before; what was removed once is removed again.
        rows = lax.dynamic_slice_in_dim(run.basis, jnp.minimum(i * block, size - block), block)
        return left - _dot(_dot(rows, left), rows)

    return lax.fori_loop(0, run.done // block + 1, remove, vector)


def _dot(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right, precision=lax.Precision.HIGHEST)
