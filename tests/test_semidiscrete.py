"""Averaged ascent on the potentials of fixed targets, held against Sinkhorn and NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import softmax

from rsgda import transport

N, M, D, EPSILON = 96, 12, 3, 0.4


@pytest.fixture(scope="module")
def clouds():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, D)), 0.3 + rng.normal(size=(M, D))
    return x, y, rng.dirichlet(np.full(N, 2.0)), rng.dirichlet(np.full(M, 2.0))


def test_three_steps_by_hand(clouds):
    x, y, _, b = clouds
    found = transport.semidiscrete(
        x, y, epsilon=EPSILON, b=b, key=jr.key(3), samples=3 * 32, batch_size=32, eta=2.0
    )
    orders = np.random.default_rng(np.asarray(jr.key_data(jr.key(3))))
    order = orders.permutation(N).reshape(3, 32)
    v = average = np.zeros(M)
    for k, places in enumerate(order):
        costs = cdist(x[places], y, "sqeuclidean")
        w = softmax((v - costs) / EPSILON + np.log(b), axis=1)
        v = v + 2.0 / np.sqrt(1 + k / 10) * (b - w.mean(axis=0))
        average = average + 4 / (k + 4) * (v - average)
    np.testing.assert_allclose(found.v, average - average.mean(), atol=1e-10)
    assert found.iterations == 1


@pytest.mark.parametrize("weighted", [False, True])
def test_it_comes_close_to_the_optimum(clouds, weighted):
    x, y, a, b = clouds
    weights = {"a": a, "b": b} if weighted else {}
    exact = transport.sinkhorn(x, y, epsilon=EPSILON, tol=1e-9, **weights)
    found = transport.semidiscrete(
        x, y, epsilon=EPSILON, key=jr.key(0), samples=100_000, batch_size=32, **weights
    )
    # Points that are drawn by weights come with noise, which a cloud in random order has not.
    assert 0 <= exact.value - found.value < (1e-3 if weighted else 1e-6)
    assert exact.value <= found.value + found.gap
    short = transport.semidiscrete(
        x, y, epsilon=EPSILON, key=jr.key(0), samples=1_000, batch_size=32, **weights
    )
    assert short.value < found.value


def noise(key):
    return jr.normal(key, (D,))


def test_a_sampler(clouds):
    y = clouds[1]
    found = transport.semidiscrete(
        noise, y, epsilon=EPSILON, key=jr.key(0), samples=60_000, batch_size=64
    )
    assert not isinstance(found, transport.Sinkhorn)
    assert "12 targets" in repr(found)
    many = np.random.default_rng(5).normal(size=(40_000, D))
    w = found.weights(many)
    np.testing.assert_allclose(w.sum(axis=1), 1, rtol=1e-10)
    # Each target gets what it should, of samples that were not used.
    np.testing.assert_allclose(w.mean(axis=0), 1 / M, atol=0.01)
    np.testing.assert_allclose(found.barycentric(many[:9]), w[:9] @ y, atol=1e-10)
    np.testing.assert_array_equal(found.assignment(many[:9]), w[:9].argmax(axis=1))
    again = transport.semidiscrete(
        noise, y, epsilon=EPSILON, key=jr.key(0), samples=60_000, batch_size=64
    )
    np.testing.assert_array_equal(again.v, found.v)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"key": 0}, "`key` must be"),
        ({"samples": 0}, "`samples` must be a whole"),
        ({"batch_size": 0}, "`batch_size` must be a whole"),
        ({"eta": -1.0}, "`eta` must be a positive"),
        ({"epsilon": 0}, "`epsilon` must be a positive"),
        ({"y": np.zeros((4, D + 1))}, "`x` and `y` must have one dimension, got 3 and 4"),
        ({"x": np.zeros((0, D))}, "`x` must be an array of points"),
    ],
)
def test_wrong_input(clouds, wrong, match):
    given = {
        "x": clouds[0], "y": clouds[1], "epsilon": EPSILON, "key": jr.key(0), "samples": 64,
    } | wrong  # fmt: skip
    x, y = given.pop("x"), given.pop("y")
    with pytest.raises(ValueError, match=match):
        transport.semidiscrete(x, y, **given)


class Cloudy(eqx.Module):
    """A user's sampler that holds points, but draws others."""

    points: jax.Array

    def __call__(self, key):
        return self.points[:32] + jr.normal(key, (32, 3))


def test_a_sampler_with_points_is_no_cloud(clouds):
    x, y, *_ = clouds
    sampler = Cloudy(jnp.asarray(x[:, :3]))
    found = transport.semidiscrete(
        sampler, y, epsilon=EPSILON, key=jr.key(0), samples=64, batch_size=32
    )
    assert type(found) is transport.Potentials


def test_samplers_and_steps_that_are_none(clouds):
    x, y, *_ = clouds

    def solve(x, **changes):
        return transport.semidiscrete(
            x, y, epsilon=EPSILON, key=jr.key(0), samples=64, batch_size=32, **changes
        )

    with pytest.raises(ValueError, match="`x` must draw from a key; it failed"):
        solve(lambda key, size: key)
    with pytest.raises(ValueError, match="`x` must draw floating arrays"):
        solve(lambda key: jnp.zeros((32, 3, 3)))
    with pytest.raises(ValueError, match="must be finite in float64"):
        solve(lambda key: jnp.full((32, y.shape[1]), jnp.nan))
    for eta in (transport.relative(), lambda k: 1.0, np.ones(2)):
        with pytest.raises(ValueError, match="`eta` must be a single number"):
            solve(x, eta=eta)
