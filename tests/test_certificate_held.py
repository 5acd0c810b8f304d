"""Certificates of what is hard to see: far boundaries, random networks, narrow peaks."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from test_certificate import CURVATURE, LINEAR, UP, N, Peaked, X, Y, network

from rsgda import robust
from rsgda.robust import attacks, beyond

RHO = [0.5, 1.0, 2.0, 5.0]


def rows_of(made, X, y):
    return attacks.door(made, X, y, jr.key(0), "cross_entropy", 0.0, None)


def test_the_curvature_on_a_way_is_that_of_the_loss():
    """Of logits that are linear it is known, and largest where the boundary is crossed."""
    labels = Y % 2
    rows, places = rows_of(LINEAR, X, labels), np.arange(len(X))
    # The boundary is in the middle of the way from X - s UP to X + s UP, moved on to it.
    onto = X - (X @ UP)[:, None] * UP / (UP @ UP)
    span = 0.2 * UP / np.linalg.norm(UP)
    seen = beyond.curvature_between(rows, onto - span, onto + span, places)
    np.testing.assert_allclose(seen, CURVATURE, rtol=1e-3)
    assert np.all(seen <= CURVATURE)
    aside = 0.3 * np.array([-UP[1], UP[0]])
    assert np.all(np.abs(beyond.curvature_between(rows, X, X + aside, places)) < 1e-6)
    assert np.all(beyond.curvature_between(rows, X, X, places) == -np.inf)


def scaled(seed, scale):
    made = robust.mlp((2, 32, 32, 3), key=jr.key(seed))
    return jax.tree.map(lambda leaf: scale * leaf if hasattr(leaf, "dtype") else leaf, made)


def hold(made, X, y, found, *, key):
    """No attack of the library, also a stronger one, is above a bound of share 1."""
    assert found.share == 1
    for more in ({}, {"steps": 100, "restarts": 5}):
        attack = robust.transport_attack(made, X, y, found.rho, key=jr.key(key), **more)
        assert np.all(attack.loss <= found.bound + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("places", [[0, 1, 2], [1]])
def test_a_flat_network_with_a_far_boundary(places):
    """All around the second sample the loss is flat, and rises beyond a distance of two."""
    X = np.array([[-1.7466822, -0.80945563], [2.0088322, -1.642974], [-1.3804629, 1.7694988]])
    X, y, made = X.astype("f4")[places], np.zeros(len(places), int), scaled(163, 2.0)
    hold(made, X, y, robust.certificate(made, X, y, RHO), key=0)


@pytest.mark.slow
def test_a_classifier_that_learned_noise():
    rng = np.random.default_rng(3)
    for seed in range(1, 34):  # the last of these is one whose bound was once exceeded
        classes = int(rng.choice([2, 3]))
        X = (rng.normal(size=(40, 2)) * 1.5).astype("f4")
        y = rng.permutation(np.arange(40) % classes)
        gamma, alpha = float(rng.choice([np.inf, 0.3])), float(rng.choice([0.1, 0.2]))
        epochs = float(rng.choice([500, 3000, 8000]))
        for _ in range(6 * (seed < 33)):
            rng.choice(40, 3, replace=False)
    made = robust.RobustClassifier(gamma=gamma, alpha=alpha, epochs=epochs, random_state=33)
    made.fit(X, y)
    places = [29, 6, 35]
    assert y[places].tolist() == [0, 1, 0]
    found = made.certificate(X[places], y[places], RHO)
    hold(made.network_, made.inputs(X[places]), y[places], found, key=0)


@pytest.mark.slow
def test_random_networks_against_a_dense_grid():
    """Where the largest value of all is known, every gamma that certifies has it under its own."""
    rng = np.random.default_rng(11)
    side = np.linspace(-8, 8, 641, dtype="f4")
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    logits = jax.jit(lambda made, z: jax.vmap(made)(z))
    checked = 0
    for seed in range(40):
        made, n = scaled(1000 + seed, float(rng.choice([2.0, 4.0, 8.0]))), (1, 3)[seed % 2]
        X = (2 * rng.normal(size=(n, 2))).astype("f4")
        y = np.asarray(logits(made, X)).argmax(axis=1)
        on_grid = logits(made, points)
        found = robust.certificate(made, X, y, [0.1, 1.0])
        assert found.share == 1
        for j in range(n):
            loss = np.asarray(jax.nn.logsumexp(on_grid, axis=1) - on_grid[:, y[j]], float)
            moved = np.sum((points - X[j]) ** 2, axis=1)
            for at in found.inner:
                checked += 1
                most = at.values[j] + at.gaps[j]
                assert np.max(loss - at.gamma * moved) <= most + 1e-4 * (1 + abs(most))
    assert checked > 150


@pytest.mark.slow
def test_a_narrow_peak_is_missed_unless_the_curvature_is_known():
    """What is measured at points is no proof, and the message does not say that it is."""
    height, width = 20.0, 0.005
    peak = Peaked(*map(jnp.asarray, (np.zeros((2, 2)), [5.0, -5.0], height, width)))
    labels = np.zeros(N, int)
    rho = np.mean(np.sum((X - [2.0, 0.0]) ** 2, axis=1))
    true = 2 * height - 10  # the loss if all samples are moved to the peak
    found = robust.certificate(peak, X, labels, rho, gamma=2.0)
    assert found.bound < true
    assert found.share == 1
    assert "was not proved" in found.message
    # Of log(1 + exp(2 b - 10)): 2 b'' + b'^2 at most, of which b'' <= b / width^2.
    curvature = (2 * height + height**2) / width**2
    sure = robust.certificate(peak, X, labels, rho, gamma=curvature, curvature=curvature)
    assert sure.bound >= true
    assert "This is proved" in sure.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rho": -0.1}, "`rho` must hold finite"),
        ({"rho": []}, "`rho` must hold finite"),
        ({"rho": "far"}, "`rho` must hold finite"),
        ({"gamma": 0.0}, "`gamma` must hold positive"),
        ({"gamma": []}, "`gamma` must hold positive"),
        ({"gamma": [1.0, np.nan]}, "`gamma` must hold positive"),
        ({"gamma": "big"}, "`gamma` must hold positive"),
        ({"gamma": 1e-40}, "`gamma` must hold positive"),
        ({"rho": 1e40}, "`rho` must hold finite"),
        ({"curvature": -1.0}, "`curvature` must be a positive"),
        ({"curvature": "much"}, "`curvature` must be a positive"),
        ({"y": None}, "`y` must have one label"),
        ({"X": [[1.0, 2.0], [1.0]]}, "`X` must have samples of one shape"),
        ({"label_smoothing": "some"}, "`label_smoothing` must lie in"),
        ({"tol": 0.0}, "`tol` must be a positive"),
        ({"box": (0.0, 1.0)}, "`X` must lie in `box`"),
        ({"y": Y + 2}, "`y` must be from 0 to 2"),
        ({"loss": "hinge"}, "`loss` must be"),
    ],
)
def test_wrong_input_is_named(change, words):
    given = {"network": network(), "X": X, "y": Y, "rho": 0.1, "gamma": 1.0, **change}
    with pytest.raises(ValueError, match=words):
        robust.certificate(**given)
