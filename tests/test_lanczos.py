"""Both ends of a spectrum, against NumPy's eigenvalues."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rsgda._lanczos import lanczos

rng = np.random.default_rng(11)

N = 120  # one size, so that little is compiled

SPECTRA = {
    "random": rng.normal(size=N),
    "clustered at the ends": np.r_[-1 - 1e-5 * np.arange(9), 0.2 * rng.normal(size=109), 3, 3.0001],
    "kappa 1e3": np.geomspace(1e-3, 1, N),
    "kappa 1e6": np.geomspace(1e-6, 1, N),
    "kappa 1e6, gap": np.r_[1e-6, np.linspace(0.1, 1, N - 1)],
    "repeated": np.repeat([1.0, 2.0, 5.0], N // 3),
    "identity": np.full(N, 2.5),
    "negative": -np.geomspace(0.5, 4, N),
    "low rank": np.r_[np.zeros(N - 4), [-3.0, 1.0, 2.0, 7.0]],
    "one": np.array([-3.0]),
    "zero": np.zeros(N),
}


def matrix(eigenvalues):
    q, _ = np.linalg.qr(rng.normal(size=(len(eigenvalues), len(eigenvalues))))
    a = (q * eigenvalues) @ q.T
    return (a + a.T) / 2


def times(a):
    return lambda x: a @ x


@functools.partial(jax.jit, static_argnames=("steps", "own_scale"))
def compiled(a, start, steps=500, tol=1e-6, own_scale=True):
    return lanczos(times(a), start, steps=steps, tol=tol, own_scale=own_scale)


def ends(a, start, **options):
    return jax.tree.map(np.asarray, compiled(a, start, **options))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SPECTRA)
def test_ends_are_those_of_numpy(name, dtype):
    a = matrix(SPECTRA[name]).astype(dtype)
    true = np.linalg.eigvalsh(a.astype("float64"))
    found = ends(a, rng.normal(size=len(a)).astype(dtype))
    assert {leaf.dtype for leaf in found[:4]} == {np.dtype(dtype)}
    assert found.products.dtype == np.int32
    assert 1 <= found.products <= len(a)
    scale = np.abs(true).max()
    close = 1e-9 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(found.low, true[0], rtol=close, atol=close * scale / 10)
    np.testing.assert_allclose(found.high, true[-1], rtol=close, atol=close * scale / 10)
    # The errors are true: an eigenvalue lies that close, but for rounding of the matrix itself.
    slack = 1e-3 * close * scale if dtype == "float64" else 0
    assert np.abs(true - float(found.low)).min() <= found.low_error + slack
    assert np.abs(true - float(found.high)).min() <= found.high_error + slack
    if dtype == "float64" and name != "zero":
        assert found.low_error <= 1e-6 * abs(found.low) + 1e-14


def test_small_eigenvalues_keep_their_digits():
    """What mu of an ill-conditioned problem needs: digits of the small end, not of the large."""
    found = ends(matrix(SPECTRA["kappa 1e6"]), rng.normal(size=N))
    np.testing.assert_allclose(found.low, 1e-6, rtol=1e-8)


def test_stops_early_and_says_how_far_it_is():
    a = matrix(np.r_[0.01, np.linspace(1, 2, 160)])
    start = rng.normal(size=161)
    early = ends(a, start, steps=161, tol=1e-2)
    late = ends(a, start, steps=161, tol=1e-8)
    assert early.products < late.products < 161
    assert early.low_error <= 1e-2 * early.low
    few = ends(a, start, steps=5, tol=1e-8)
    assert few.products == 5
    assert few.low > 0.011
    assert few.low_error > 1e-3
    true = np.linalg.eigvalsh(a)
    assert np.abs(true - float(few.low)).min() <= few.low_error


def test_a_norm_needs_less():
    a = matrix(np.r_[1e-5, np.geomspace(1e-4, 0.5, 100), 1])
    start = rng.normal(size=102)
    norm = ends(a, start, steps=102, tol=1e-3, own_scale=False)
    both = ends(a, start, steps=102, tol=1e-3)
    assert norm.products < both.products / 2
    np.testing.assert_allclose(norm.high, 1, rtol=1e-5)


def test_the_errors_are_residuals_where_it_stopped_short():
    """Without convergence there is no luck in the bound: the factor of the residual is exact."""
    a = np.diag([0.0, 1.0, 4.0])
    start = np.array([1.0, 1.0, 1.0])
    found = ends(a, start, steps=1, tol=1e-9)
    x = start / np.sqrt(3)
    ritz = x @ a @ x
    np.testing.assert_allclose(found.low, ritz)
    np.testing.assert_allclose(found.low_error, np.linalg.norm(a @ x - ritz * x), rtol=1e-12)


def test_mapped_over_operators_and_starts():
    stack = np.stack([matrix(e) for e in (rng.normal(size=12), np.ones(12), np.zeros(12))])
    starts = rng.normal(size=(3, 12))
    starts[1, 3:] = 0
    found = jax.vmap(compiled)(stack, starts)
    alone = [ends(a, start) for a, start in zip(stack, starts, strict=True)]
    for i, name in enumerate(found._fields[:2]):
        np.testing.assert_allclose(found[i], [getattr(one, name) for one in alone], atol=1e-12)
    np.testing.assert_allclose(found.low[0], np.linalg.eigvalsh(stack[0])[0], rtol=1e-10)
    assert found.products[2] == 1


def test_an_invariant_subspace_is_all_it_sees():
    a = np.diag([1.0, 2.0, 3.0, 100.0, -100.0])
    found = ends(a, np.array([1.0, 1.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose([found.low, found.high], [1, 2], rtol=1e-14)
    assert found.products == 2
    assert max(found.low_error, found.high_error) < 1e-14


def test_a_start_of_zero_gives_zeros():
    found = ends(matrix(np.ones(4)), np.zeros(4))
    assert [float(number) for number in found] == [0, 0, 0, 0, 0]


def test_no_product_is_wasted_on_what_is_not_finite():
    found = lanczos(lambda x: x * jnp.nan, jnp.ones(50), steps=50, tol=1e-6)
    assert np.isnan(found.low)
    assert np.isnan(found.high)
    assert found.products < 5


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scale_does_not_matter(scale):
    e = np.linspace(-1, 2, N)
    found = ends(scale * matrix(e), rng.normal(size=N))
    np.testing.assert_allclose([found.low, found.high], [-scale, 2 * scale], rtol=1e-9)
