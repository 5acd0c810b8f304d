"""Attacks: within their sets, exact where there is a closed form, the same for the same key."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.optimize

from rsgda import robust
from rsgda.robust import attacks
from rsgda.robust.budget import _spent

N, SHAPE, BOX = 13, (3, 2), (-1.0, 1.25)
KEY = jr.key(5)
RNG = np.random.default_rng(0)
X = np.clip(RNG.normal(size=(N, *SHAPE)), *BOX)
Y = RNG.integers(2, size=N)
NORMS = {"l2": 2, "linf": np.inf}


class Network(eqx.Module):
    """Two logits of an image: linear in it, or with many local maxima."""

    weight: jax.Array
    bias: jax.Array
    waves: jax.Array

    def __call__(self, x):
        x = x.ravel()
        return self.weight @ (x + self.waves * jnp.sin(5 * x)) + self.bias


LINEAR = Network(
    jnp.asarray(RNG.normal(size=(2, 6))), jnp.asarray(RNG.normal(size=2)), jnp.asarray(0.0)
)
CURVED = eqx.tree_at(lambda network: network.waves, LINEAR, jnp.asarray(2.0))
# From the label's logit to the other: the direction in which the loss grows.
UP = np.asarray(LINEAR.weight)[1 - Y] - np.asarray(LINEAR.weight)[Y]
UP = UP.reshape(N, *SHAPE)
LENGTH = np.linalg.norm(UP.reshape(N, -1), axis=1)


def lost(network, z):
    """The loss of each sample, in NumPy."""
    a = np.asarray(jax.vmap(network)(z))
    return np.logaddexp(0, a[np.arange(N), 1 - Y] - a[np.arange(N), Y])


def lengths(d, norm="l2"):
    return np.linalg.norm(np.asarray(d).reshape(N, -1), ord=NORMS[norm], axis=1)


def single():
    """A network and samples in single precision."""
    return jax.tree.map(lambda leaf: leaf.astype("float32"), (LINEAR, jnp.asarray(X)))


def wide(row):
    return np.asarray(row)[:, None, None]


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("box", [None, BOX])
def test_pgd_stays_in_its_ball_and_box(norm, box):
    for radius, step_size in ((0.3, None), (0.3, 50.0), (2.0, None)):
        moved = robust.pgd(
            CURVED, X, Y, radius=radius, key=KEY, norm=norm, box=box, step_size=step_size
        )
        assert moved.shape == X.shape
        assert np.all(lengths(moved - X, norm) <= radius * (1 + 1e-12))
        assert np.all(lost(CURVED, moved) >= lost(CURVED, X))
        if box is not None:
            assert np.all((moved >= box[0]) & (moved <= box[1]))
    assert np.mean(lengths(moved - X, norm) > 0) > 0.8


@pytest.mark.parametrize("norm", NORMS)
def test_a_ball_may_be_a_point_and_not_too_large(norm):
    np.testing.assert_array_equal(robust.pgd(CURVED, X, Y, radius=0, key=KEY, norm=norm), X)
    linear, given = single()
    # Its square is infinite, so that projections would lead nowhere.
    with pytest.raises(ValueError, match=r"`radius` must lie in .* of type float32, got 1e\+30"):
        robust.pgd(linear, given, Y, radius=1e30, key=KEY, norm=norm)
    with pytest.raises(ValueError, match=r"`radii` must lie in .* of type float32"):
        robust.robustness(linear, given, Y, [0.0, 1e30], key=KEY, norm=norm)


@pytest.mark.slow
def test_nothing_moves_without_a_budget():
    linear, given = single()
    for rho in (0.0, 1e-40):  # and no warning
        found = robust.transport_attack(linear, given, Y, rho, key=KEY, steps=2)
        assert found.loss == pytest.approx(found.clean, rel=1e-12)


def test_pgd_finds_the_optimum_of_a_linear_network():
    radius = 0.7
    moved = robust.pgd(LINEAR, X, Y, radius=radius, key=KEY, norm="l2")
    np.testing.assert_allclose(moved, X + radius * UP / wide(LENGTH), atol=1e-6)
    moved = robust.pgd(LINEAR, X, Y, radius=radius, key=KEY, norm="linf")
    np.testing.assert_allclose(moved, X + radius * np.sign(UP), atol=1e-12)
    # In a box each entry goes as far as both allow.
    moved = robust.pgd(LINEAR, X, Y, radius=radius, key=KEY, norm="linf", box=BOX)
    np.testing.assert_allclose(moved, np.clip(X + radius * np.sign(UP), *BOX), atol=1e-12)


@pytest.mark.parametrize("gamma", [1.5, 6.0])
def test_the_wrm_attack_finds_the_optimum_of_a_linear_network(gamma):
    """Along the gradient it is a problem in one variable, solved by a grid and Brent's method."""
    assert 2 * gamma > LENGTH.max() ** 2 / 4, "strongly concave"
    moved = robust.wrm_attack(LINEAR, X, Y, gamma=gamma, key=KEY, steps=400)
    a = np.asarray(jax.vmap(LINEAR)(X))
    excess = a[np.arange(N), 1 - Y] - a[np.arange(N), Y]
    for j in range(N):

        def minus(s, j=j):
            return gamma * s**2 - np.logaddexp(0, excess[j] + s * LENGTH[j])

        s = np.linspace(-3, 3, 601)
        near = s[np.argmin(minus(s))]
        best = scipy.optimize.minimize_scalar(minus, (near - 0.01, near + 0.01), tol=1e-12).x
        assert best > 0
        np.testing.assert_allclose(moved[j], X[j] + best * UP[j] / LENGTH[j], atol=1e-5)


def test_the_wrm_attack_never_loses_and_keeps_to_its_box():
    for step_size in (None, 30.0):
        moved = robust.wrm_attack(
            CURVED, X, Y, gamma=0.8, key=KEY, box=BOX, restarts=3, step_size=step_size
        )
        assert np.all((moved >= BOX[0]) & (moved <= BOX[1]))
        gain = lost(CURVED, moved) - 0.8 * lengths(moved - X) ** 2 - lost(CURVED, X)
        assert np.all(gain >= -1e-12)
    one = robust.wrm_attack(CURVED, X, Y, gamma=0.1, key=KEY, box=BOX, restarts=1)
    more = robust.wrm_attack(CURVED, X, Y, gamma=0.1, key=KEY, box=BOX, restarts=4)
    gains = [lost(CURVED, z) - 0.1 * lengths(z - X) ** 2 for z in (one, more)]
    assert np.all(gains[1] >= gains[0] - 1e-12)
    assert np.any(gains[1] > gains[0] + 1e-3)


def test_equal_keys_give_equal_samples_and_restarts_help():
    def attacked(key, restarts=1):
        return np.asarray(robust.pgd(CURVED, X, Y, radius=1.5, key=key, steps=5, restarts=restarts))

    np.testing.assert_array_equal(attacked(KEY), attacked(KEY))
    assert not np.array_equal(attacked(KEY), attacked(jr.key(6)))
    more = lost(CURVED, attacked(KEY, 4))
    assert np.all(more >= lost(CURVED, attacked(KEY)) - 1e-12)
    assert np.any(more > lost(CURVED, attacked(KEY)) + 1e-3)


def test_chunks_make_no_difference(monkeypatch):
    whole = robust.pgd(CURVED, X, Y, radius=1.5, key=KEY, steps=5)
    monkeypatch.setattr(attacks, "CHUNK", 5)
    np.testing.assert_allclose(robust.pgd(CURVED, X, Y, radius=1.5, key=KEY, steps=5), whole)


def test_gradients_whose_squares_are_zero_have_a_direction():
    g = jnp.asarray([[3e-30, -4e-30], [0.0, 0.0]], jnp.float32)
    np.testing.assert_allclose(attacks._unit(g), [[0.6, -0.8], [0.0, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_robust_accuracy_of_a_linear_network_is_exact(norm):
    """A sample stands where it is further from the boundary than the radius, in the dual norm."""
    a = np.asarray(jax.vmap(LINEAR)(X))
    ahead = a[np.arange(N), Y] - a[np.arange(N), 1 - Y]
    far = ahead / np.linalg.norm(UP.reshape(N, -1), ord={"l2": 2, "linf": 1}[norm], axis=1)
    radii = np.array([0.2, 0.0, 1.1, 0.45]) * {"l2": 1, "linf": 0.4}[norm]
    found = robust.robustness(LINEAR, X, Y, radii, key=KEY, norm=norm)
    assert np.all(np.abs(far[:, None] - radii) > 1e-3)
    np.testing.assert_array_equal(found.accuracy, np.mean(far[:, None] > radii, axis=0))
    assert 0 < found.accuracy[2] < found.accuracy[0] < 1
    assert found.clean == np.mean(far > 0) == found.accuracy[1]
    first = [min([r for r in radii if r > d], default=np.inf) if d > 0 else 0.0 for d in far]
    np.testing.assert_array_equal(found.broken, first)
    assert (found.norm, found.n) == (norm, N)


def test_robust_accuracy_does_not_rise():
    radii = np.linspace(2.0, 0.0, 9)
    found = robust.robustness(CURVED, X, Y, radii, key=KEY, steps=2)
    assert np.all(np.diff(found.accuracy) >= 0)
    assert found.accuracy[0] < found.accuracy[-1] == found.clean


@pytest.mark.parametrize("norm", NORMS)
def test_rounding_does_not_take_a_sample_out_of_its_ball(norm):
    """In single precision, and far from the origin, where x + d is rounded coarsely."""
    single = jax.tree.map(lambda leaf: leaf.astype("f4"), CURVED)
    far = (X * [[1.0, 40.0], [7.0, 3.0], [0.1, 100.0]]).astype("f4")
    for radius in (1e-5, 1e-3, 0.3):
        moved = robust.pgd(single, far, Y, radius=radius, key=KEY, norm=norm)
        moved = np.asarray(moved, float) - far
        assert np.all(lengths(moved, norm) <= radius)
        assert radius < 1e-3 or np.max(lengths(moved, norm)) > 0.9 * radius


def test_budgets_are_spent_as_a_linear_program_would():
    rng = np.random.default_rng(3)
    costs, gains = rng.uniform(0, 1, size=(6, 5)), rng.normal(size=(6, 5))
    costs[0] = 0
    costs[3, 2], gains[4, 1] = costs[4, 2], gains[0, 1]
    corners = _spent(costs, gains)
    marginals = np.kron(np.ones(6), np.eye(5))
    for rho in (0.0, 0.03, 0.2, 0.4, 5.0):
        solved = scipy.optimize.linprog(
            -gains.ravel(), A_ub=costs.reshape(1, -1), b_ub=[5 * rho], A_eq=marginals,
            b_eq=np.ones(5),
        )  # fmt: skip
        assert np.interp(rho, *corners) == pytest.approx(-solved.fun / 5, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"radius": -1.0}, "`radius` must be a positive"),
        ({"radius": 1e-320}, "`radius` must lie in .* of type float64"),
        ({"norm": "l1"}, "`norm` must be 'l2' or 'linf'"),
        ({"steps": 0}, "`steps` must be a whole number"),
        ({"restarts": 1.5}, "`restarts` must be a whole number"),
        ({"step_size": -1.0}, "`step_size` must be a positive"),
        ({"key": 3}, "`key` must be a single key"),
        ({"label_smoothing": 2.0}, r"`label_smoothing` must lie in \[0, 1\]"),
        ({"label_smoothing": "some"}, r"`label_smoothing` must lie in \[0, 1\], got 'some'"),
        ({"X": [[1.0], [1.0, 2.0]]}, "`X` must have samples of one shape"),
        ({"box": (1.0, 0.0)}, "`box` must be a pair"),
        ({"box": (0.0, 1.0)}, "`X` must lie in `box`.* from -1 to 1.25"),
        ({"y": Y[1:]}, "`y` must have one label"),
        ({"loss": "hinge"}, "`loss` must be"),
    ],
)
def test_wrong_input_is_named(change, words):
    given = {"network": LINEAR, "X": X, "y": Y, "radius": 1.0, "key": KEY, **change}
    with pytest.raises(ValueError, match=words):
        robust.pgd(**given)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: robust.wrm_attack(LINEAR, X, Y, gamma=-1.0, key=KEY), "`gamma` must be"),
        (lambda: robust.robustness(LINEAR, X, Y, [-1.0], key=KEY), r"`radii` must.*\[-1.0\]"),
        (lambda: robust.robustness(LINEAR, X, Y, 0.5, key=KEY), "`radii` must be a list.* got 0.5"),
        (lambda: robust.robustness(LINEAR, X, Y, "far", key=KEY), "`radii` must be a list.*'far'"),
        (lambda: robust.transport_attack(LINEAR, X, Y, -1.0, key=KEY), "`rho` must hold"),
        (
            lambda: robust.transport_attack(LINEAR, X, Y, 1.0, key=KEY, gammas=[0.0]),
            "`gammas` must be",
        ),
        (
            lambda: robust.transport_attack(LINEAR, X, Y, 1.0, key=KEY, radii="far"),
            "`radii` must hold",
        ),
    ],
)
def test_wrong_numbers_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
