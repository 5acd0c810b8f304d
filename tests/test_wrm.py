"""Robust problems: the loss, its units, the two readings of the adversaries."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import rsgda
from rsgda.robust import cross_entropy, double_softmax, penalty, presets, wrm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(23, 3)).astype(np.float32)
Y = RNG.integers(0, 4, 23)


class Linear(eqx.Module):
    weight: jax.Array
    name: str = "linear"  # a leaf that is no array

    def __call__(self, x):
        return x @ self.weight


NETWORK = Linear(jnp.asarray(RNG.normal(size=(3, 4)), jnp.float32))


def by_hand(v, rows, gamma, smoothing=0.0, twice=False):
    logits = v @ np.asarray(NETWORK.weight, np.float64)
    if twice:
        logits = softmax(logits, axis=1)
    target = (1 - smoothing) * np.eye(4)[Y[rows]] + smoothing / 4
    losses = -np.sum(target * log_softmax(logits, axis=1), axis=1)
    return np.mean(losses - gamma * np.sum((v - X[rows]) ** 2, axis=1))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("loss", ["cross_entropy", "double_softmax"])
def test_the_loss_is_the_paper_s(loss, smoothing):
    problem, theta, v = wrm(
        NETWORK, X, Y, gamma=0.7, batch_size=5, loss=loss, label_smoothing=smoothing
    )
    rows = np.array([3, 1, 20, 7, 11])
    moved = np.asarray(v)[rows] + RNG.normal(size=(5, 3))
    batch = jax.tree.map(lambda leaf: leaf[rows], problem.data)
    value = problem.loss(theta, jnp.asarray(moved, jnp.float32), batch)
    expected = by_hand(moved, rows, 0.7, smoothing, loss == "double_softmax")
    # Its two terms are of order one in float32, and may all but cancel.
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    assert problem.separable
    assert theta is NETWORK
    np.testing.assert_array_equal(v, X)


def test_the_double_softmax_is_kept_between_two_numbers():
    low, high = np.log(1 + 9 / np.e), np.log(np.e + 9)
    assert round(low, 4) == 1.4612
    logits = jnp.asarray(RNG.normal(scale=30, size=(200, 10)), jnp.float32)
    values = np.asarray(jax.vmap(double_softmax)(logits, jnp.arange(200) % 10))
    assert low - 1e-6 <= values.min() < 1.5
    assert 2.4 < values.max() <= high + 1e-6


def test_smoothing_is_that_of_sinha_et_al():
    # They clip targets to 0.1/9 and 0.9; ours shares s/q out to all classes.
    s = presets["sinha"]["label_smoothing"]
    assert np.isclose(1 - s + s / 10, 0.9)
    assert np.isclose(s / 10, 0.1 / 9)
    logits = RNG.normal(size=10)
    target = np.full(10, 0.1 / 9)
    target[3] = 0.9
    expected = -np.sum(target * log_softmax(logits))
    np.testing.assert_allclose(cross_entropy(jnp.asarray(logits), 3, s), expected, rtol=1e-5)


def test_a_custom_loss_is_mapped_over_samples():
    def hinge(logits, label, label_smoothing):
        return jnp.maximum(0.0, 1 - logits[label])

    problem, theta, v = wrm(NETWORK, X, Y, batch_size=5, loss=hinge)
    value = problem.loss(theta, v, problem.data)
    expected = np.mean(np.maximum(0, 1 - (X @ np.asarray(NETWORK.weight))[np.arange(23), Y]))
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_another_gamma_is_not_another_program():
    traces = []

    def counting(logits, label, label_smoothing):
        traces.append(1)
        return cross_entropy(logits, label, label_smoothing)

    algorithm = rsgda.RSGDA(p=0.5, alpha=0.1, eta=1.0)
    counts = []
    for gamma in (1.0, 2.0, 3.0):
        problem, theta, v = wrm(NETWORK, X, Y, gamma=gamma, batch_size=5, loss=counting)
        rsgda.solve(problem, algorithm, theta, v, key=jr.key(0), steps=4)
        counts.append(len(traces))
    assert counts[0] == counts[1] == counts[2] > 0


@pytest.mark.slow
def test_ascents_climb_and_stay_in_the_box():
    problem, theta, v = wrm(NETWORK, np.clip(X, -1, 1), Y, gamma=0.05, batch_size=8, box=(-1, 1))
    algorithm = rsgda.RSGDA(p=0.01, alpha=1e-6, eta=20.0)
    result = rsgda.solve(problem, algorithm, theta, v, key=jr.key(0), steps=200)
    assert np.abs(result.v).max() <= 1
    assert np.any(np.abs(result.v - v) > 0.1)
    F = lambda v: float(problem.loss(theta, v, problem.data))  # noqa: E731
    assert F(result.v) > F(v) + 0.1


def test_adversaries_of_a_minibatch_start_at_its_samples():
    problem, theta, v = wrm(NETWORK, X, Y, gamma=1.0, batch_size=6, per_batch=True)
    assert v.shape == (6, 3)
    key = jr.key(4)
    algorithm = rsgda.ESGDA(m=2, alpha=0.1, eta=1.0)
    result = rsgda.solve(problem, algorithm, theta, v, key=key, steps=5)
    np.testing.assert_array_equal(result.v, problem.kept(key, jnp.int32(5)).arguments[0]["x"])
    assert not np.array_equal(result.theta.weight, NETWORK.weight)


def test_samples_of_another_byte_order_are_taken():
    for order in "<>":
        problem, _, v = wrm(NETWORK, X.astype(f"{order}f4"), Y, batch_size=5)
        assert v.dtype == problem.data["x"].dtype == np.float32
        np.testing.assert_array_equal(v, X.astype("f4"))


def test_penalties_are_numbers():
    there = penalty(gamma=np.float32(2.0), pixels=np.array([0.0, 1.0]), to=np.array([-3.0, 5.0]))
    numbers = [there.gamma, there.eps, *there.pixels]
    assert [type(number) for number in numbers] == [float] * 4
    assert there == penalty(gamma=2.0, pixels=(0, 1), to=(-3, 5))


def test_penalties_are_converted():
    assert np.isclose(penalty(eps=1.3).gamma, 0.5 / 1.3)
    assert np.isclose(penalty(gamma=penalty(eps=1.3).gamma).eps, 1.3)
    there = penalty(gamma=2.0, pixels=(0, 1), to=(-3, 5))
    back = penalty(gamma=there.gamma, pixels=there.pixels, to=(0, 1))
    assert np.isclose(back.gamma, 2.0)
    # The same picture, moved in the same way, costs the same.
    x, z = RNG.random(9), RNG.random(9)
    scaled = [-3 + 8 * a for a in (x, z)]
    cost = there.gamma * np.sum((scaled[0] - scaled[1]) ** 2)
    assert np.isclose(cost, 2.0 * np.sum((x - z) ** 2))


def test_presets_say_what_was_published():
    assert np.isclose(presets["sinha"]["gamma"], 0.385, atol=5e-4)
    assert (presets["sinha"]["algorithm"].m, presets["sinha"]["per_batch"]) == (15, True)
    assert (presets["paper"]["gamma"], presets["paper"]["loss"]) == (1.3, "cross_entropy")
    assert presets["authors"]["loss"] == "double_softmax"
    assert presets["authors"]["pixels"] == (-1.0, 1.0)


@pytest.mark.parametrize("b", [256, 16])
def test_sinha_s_steps_are_theirs(b):
    """Their update of one sample, by hand, against ours on a batch mean, however large it is."""
    problem = rsgda.Problem(lambda theta, v, rows: rows, data=jnp.zeros(b), batch_size=b)
    eta, eps = presets["sinha"]["algorithm"].eta.of_problem(problem), 1.3
    slope_of_loss, x, z = 0.4, 0.2, 0.5
    theirs = [1 / np.sqrt(t + 2) * (eps * slope_of_loss - (z - x)) for t in range(3)]
    mean_slope = (slope_of_loss - presets["sinha"]["gamma"] * 2 * (z - x)) / b
    state = eta.init(jnp.zeros(()))
    for expected in theirs:
        with jax.numpy_dtype_promotion("standard"):
            update, state = eta.update(-jnp.asarray(mean_slope, jnp.float32), state)
        np.testing.assert_allclose(update, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": X[0]}, r"`X` must have one sample along its first axis"),
        ({"X": X.astype(int)}, r"`X` must be floating, got int64; scale it first"),
        ({"X": np.where(X > 1, np.nan, X)}, r"`X` must be finite"),
        ({"y": Y[:-1]}, r"`y` must have one label for each of the 23 samples"),
        ({"y": Y.astype(float)}, r"`y` must hold whole numbers"),
        ({"y": Y + 1}, r"`y` must be from 0 to 3, as the network has 4 logits"),
        ({"y": Y - 1}, r"`y` must be from 0 to 3"),
        ({"network": "mlp"}, r"`network` must be callable"),
        ({"network": lambda x: x.sum()}, r"to a vector of logits"),
        ({"X": X[:, :2]}, r"`network` must take one sample of shape \(2,\)"),
        ({"gamma": 0.0}, r"`gamma` must be a positive finite number"),
        ({"gamma": 1e50, "X": X.astype("f4")}, r"`gamma` must lie in .* float32, got 1e\+50"),
        ({"gamma": 1e-50, "X": X.astype("f4")}, r"`gamma` must lie in .* float32, got 1e-50"),
        ({"label_smoothing": 1.5}, r"`label_smoothing` must lie in \[0, 1\]"),
        ({"label_smoothing": None}, r"`label_smoothing` must lie in \[0, 1\], got None"),
        ({"label_smoothing": "some"}, r"`label_smoothing` must lie in \[0, 1\], got 'some'"),
        ({"X": [[1.0, 2.0], [3.0]]}, "`X` must have samples of one shape"),
        ({"batch_size": 24}, r"`batch_size` must be at most the 23 rows"),
        ({"loss": "mse"}, r"`loss` must be 'cross_entropy' or 'double_softmax', or a function"),
        ({"box": (1, 0)}, r"`box` must be a pair \(low, high\)"),
        ({"box": (0, 1)}, r"`X` must lie in `box`"),
        ({"per_batch": 1}, r"`per_batch` must be True or False"),
    ],
)
def test_wrong_input_is_refused(change, message):
    given = {"network": NETWORK, "X": X, "y": Y, "batch_size": 5} | change
    with pytest.raises(ValueError, match=message):
        wrm(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give `gamma` or `eps`"),
        ({"gamma": 1.0, "eps": 1.0}, "give `gamma` or `eps`"),
        ({"eps": -1.0}, "`eps` must be a positive"),
        ({"gamma": 1.0, "pixels": (1, 1)}, "`pixels` must be a pair"),
        ({"gamma": 1.0, "to": 3}, "`to` must be a pair"),
        ({"gamma": 1e-320, "to": (0, 1e200)}, "`gamma` must come to a gamma from"),
        ({"gamma": 1.0, "pixels": (0, 1e200), "to": (0, 1e-200)}, "`gamma` must come to a gamma"),
        ({"eps": 1e-320}, "`eps` must come to a gamma"),
    ],
)
def test_wrong_penalties_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        penalty(**given)
