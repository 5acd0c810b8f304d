"""TiAda, extragradient and optimistic gradients against their rules, written out in NumPy."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import rsgda
from rsgda import projections
from rsgda.problems import Toy

rng = np.random.default_rng(0)
A, B = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
X, Y = rng.normal(size=(7, 2)), rng.normal(size=7)  # rows of a separable v, often drawn twice
W = rng.normal(size=(3, 2))
KEY = jr.key(7)
THETA, V = np.array([0.3, -0.8, 0.5]), np.array([0.1, -0.2])
BOX, RADIUS = 0.6, 0.25
# Projected, each player is at the edge of its set at times and within it at others.
PROJECTED = [pytest.param(False, marks=pytest.mark.slow), True]
RIVALS = [
    rsgda.TiAda(alpha=0.3, eta=0.4),
    rsgda.Extragradient(alpha=0.1, eta=0.2),
    rsgda.Optimistic(alpha=0.1, eta=0.2),
]
NAMES = ["tiada", "extragradient", "optimistic"]


def loss(theta, v, batch):
    """Return the mean over rows of cos(a.theta) + (a.theta)(b.v) - |v|^2."""
    a, b = batch
    return jnp.mean(jnp.cos(a @ theta) + (a @ theta) * (b @ v)) - jnp.sum(v**2)


def slope_theta(theta, v, rows):
    a, b = A[rows], B[rows]
    return np.mean((-np.sin(a @ theta) + b @ v)[:, None] * a, axis=0)


def slope_v(theta, v, rows):
    a, b = A[rows], B[rows]
    return np.mean((a @ theta)[:, None] * b, axis=0) - 2 * v


def drawn(key, rows=40, size=6):
    return np.asarray(jr.randint(key, (size,), 0, rows))


def into_sets(theta, v, wanted):
    if not wanted:
        return theta, v
    return np.clip(theta, -BOX, BOX), v * min(1.0, RADIUS / max(np.linalg.norm(v), 1e-300))


def solve(algorithm, steps, projected=False, **options):
    if projected:
        options |= {"project_v": projections.ball(RADIUS)}
        options |= {"project_theta": projections.box(-BOX, BOX)}
    problem = rsgda.Problem(loss, data=(A, B), batch_size=6, **options)
    theta, v = into_sets(THETA, V, projected)
    return rsgda.solve(problem, algorithm, theta, v, key=KEY, steps=steps)


def assert_at(result, theta, v):
    np.testing.assert_allclose(result.theta, theta, rtol=1e-12)
    np.testing.assert_allclose(result.v, v, rtol=1e-12)


@pytest.mark.parametrize("projected", PROJECTED)
def test_tiada_by_hand(projected):
    """Each player has a sample; the sums hold this step's gradients before they divide."""
    theta, v = into_sets(THETA, V, projected)
    of_theta = of_v = 0.0
    larger = set()
    for k in range(40):
        key_theta, key_v = jr.split(jr.fold_in(KEY, k))
        g, h = slope_theta(theta, v, drawn(key_theta)), slope_v(theta, v, drawn(key_v))
        of_theta, of_v = of_theta + g @ g, of_v + h @ h
        larger.add(of_theta > of_v)
        theta = theta - 0.9 / np.sqrt(k + 1) / max(of_theta, of_v) ** 0.7 * g
        v = v + 0.4 / of_v**0.3 * h
        theta, v = into_sets(theta, v, projected)
    assert not projected or larger == {True, False}, "either sum should be larger at times"
    algorithm = rsgda.TiAda(
        alpha=lambda k: 0.9 / jnp.sqrt(k.astype(float) + 1), eta=0.4, power_theta=0.7, power_v=0.3
    )
    result = solve(algorithm, 40, projected)
    assert_at(result, theta, v)
    np.testing.assert_allclose(result.state.memory, (of_theta, of_v), rtol=1e-12)
    assert result.history["gradients"][-1] == 80


@pytest.mark.parametrize("projected", PROJECTED)
def test_extragradient_by_hand(projected):
    """One sample a step; the step ahead is projected, too."""
    theta, v = into_sets(THETA, V, projected)
    for k in range(40):
        rows, alpha = drawn(jr.fold_in(KEY, k)), 0.5 / np.sqrt(k + 1)
        ahead = into_sets(
            theta - alpha * slope_theta(theta, v, rows),
            v + 0.4 * slope_v(theta, v, rows),
            projected,
        )
        theta, v = into_sets(
            theta - alpha * slope_theta(*ahead, rows), v + 0.4 * slope_v(*ahead, rows), projected
        )
    algorithm = rsgda.Extragradient(alpha=lambda k: 0.5 / jnp.sqrt(k.astype(float) + 1), eta=0.4)
    result = solve(algorithm, 40, projected)
    assert_at(result, theta, v)
    last = {name: int(column[-1]) for name, column in result.history.items()}
    assert last == {"step": 40, "descents": 40, "ascents": 40, "gradients": 160}


@pytest.mark.parametrize("projected", PROJECTED)
def test_optimistic_by_hand(projected):
    """The first step is plain; then twice the gradient less the one before."""
    theta, v = into_sets(THETA, V, projected)
    past = None
    for k in range(40):
        rows = drawn(jr.fold_in(KEY, k))
        g, h = slope_theta(theta, v, rows), slope_v(theta, v, rows)
        last_g, last_h = past or (g, h)
        theta = theta - 0.3 / np.sqrt(k + 1) * (2 * g - last_g)
        v = v + 0.2 * (2 * h - last_h)
        theta, v = into_sets(theta, v, projected)
        past = g, h
    algorithm = rsgda.Optimistic(alpha=lambda k: 0.3 / jnp.sqrt(k.astype(float) + 1), eta=0.2)
    result = solve(algorithm, 40, projected)
    assert_at(result, theta, v)
    assert result.history["gradients"][-1] == 80


def rows_loss(theta, v, batch):
    """Each row has a part of v: (tanh(theta W v) - y)^2 - 1.5 |v - x|^2."""
    x, y = batch
    out = jnp.tanh(v @ (theta @ W)) - y
    return jnp.mean(out**2 - 1.5 * jnp.sum((v - x) ** 2, axis=1))


def rows_slopes(theta, v, rows):
    """Return both gradients of the mean over a batch, that of v in full."""
    full, each, out = np.zeros_like(v), np.zeros(3), v @ (theta @ W)
    for row in rows:
        pull = 2 * (np.tanh(out[row]) - Y[row]) / np.cosh(out[row]) ** 2 / len(rows)
        full[row] += pull * (theta @ W) - 3 * (v[row] - X[row]) / len(rows)
        each += pull * (W @ v[row])
    return each, full


def rows_tiada(steps, clip):
    theta, v, of_theta, of_v = THETA, clip(X), 0.0, 0.0
    for k in range(steps):
        keys = jr.split(jr.fold_in(KEY, k))
        g = rows_slopes(theta, v, drawn(keys[0], 7, 5))[0]
        h = rows_slopes(theta, v, drawn(keys[1], 7, 5))[1]
        of_theta, of_v = of_theta + np.sum(g**2), of_v + np.sum(h**2)
        theta = theta - 0.3 / max(of_theta, of_v) ** 0.6 * g
        v = clip(v + 0.4 / of_v**0.4 * h)
    return theta, v


def rows_extragradient(steps, clip):
    theta, v = THETA, clip(X)
    for k in range(steps):
        rows = drawn(jr.fold_in(KEY, k), 7, 5)
        g, h = rows_slopes(theta, v, rows)
        g, h = rows_slopes(theta - 0.1 * g, clip(v + 0.2 * h), rows)
        theta, v = theta - 0.1 * g, clip(v + 0.2 * h)
    return theta, v


def rows_optimistic(steps, clip):
    theta, v, last_g, last_h = THETA, clip(X), None, {}
    for k in range(steps):
        rows = drawn(jr.fold_in(KEY, k), 7, 5)
        g, h = rows_slopes(theta, v, rows)
        theta = theta - 0.1 * (2 * g - (g if last_g is None else last_g))
        v, last_g = v.copy(), g
        for row in set(rows.tolist()):  # what others have remembered stays as it is
            v[row] = v[row] + 0.2 * (2 * h[row] - last_h.get(row, h[row]))
            last_h[row] = h[row]
        v = clip(v)
    return theta, v


@pytest.mark.parametrize("projected", PROJECTED)
@pytest.mark.parametrize(
    ("algorithm", "by_hand"),
    list(zip(RIVALS, [rows_tiada, rows_extragradient, rows_optimistic], strict=True)),
    ids=NAMES,
)
def test_rows_by_hand(algorithm, by_hand, projected):
    """One row of v for each row of data; batches of five of seven hold most of them twice."""
    clip = (lambda v: np.clip(v, -0.9, 1.0)) if projected else np.asarray
    problem = rsgda.Problem(
        rows_loss, data=(X, Y), batch_size=5, separable=True,
        project_v=projections.box(-0.9, 1.0) if projected else None,
    )  # fmt: skip
    result = rsgda.solve(problem, algorithm, THETA, clip(X), key=KEY, steps=30)
    theta, v = by_hand(30, clip)
    np.testing.assert_allclose(result.theta, theta, rtol=1e-11)
    np.testing.assert_allclose(result.v, v, rtol=1e-11)


def squared(theta):
    return theta * jnp.abs(theta)


def prepared_loss(prepared, v):
    return jnp.sum(jnp.cos(prepared)) + prepared[:2] @ v - jnp.sum(v**2)


def plain_loss(theta, v):
    return prepared_loss(squared(theta), v)


@pytest.mark.parametrize("algorithm", RIVALS, ids=NAMES)
def test_prepared_is_the_same(algorithm):
    start = jnp.asarray(THETA), jnp.asarray(V)
    problems = rsgda.Problem(prepared_loss, prepare=squared), rsgda.Problem(plain_loss)
    ends = [rsgda.solve(one, algorithm, *start, key=KEY, steps=30) for one in problems]
    assert_at(ends[0], ends[1].theta, ends[1].v)
    assert not np.allclose(ends[0].theta, THETA)


def as_it_is(batch):
    return batch[1][0]


def test_extragradient_restarts():
    """Theta meets v a step ahead of where it started, on the one batch that is kept."""
    problem = rsgda.Problem(loss, data=(A, B), batch_size=6, restart=as_it_is)
    result = rsgda.solve(problem, RIVALS[1], THETA, jnp.zeros(2), key=KEY, steps=5)
    theta = THETA
    for k in range(6):
        rows = drawn(jr.fold_in(jr.split(KEY)[0], k))
        v = B[rows][0]
        if k < 5:
            ahead = theta - 0.1 * slope_theta(theta, v, rows), v + 0.2 * slope_v(theta, v, rows)
            theta = theta - 0.1 * slope_theta(*ahead, rows)
    assert_at(result, theta, v)


@pytest.mark.parametrize("algorithm", [RIVALS[0], RIVALS[2]], ids=["tiada", "optimistic"])
def test_a_v_that_restarts_is_refused(algorithm):
    problem = rsgda.Problem(loss, data=(A, B), batch_size=6, restart=as_it_is)
    with pytest.raises(ValueError, match=r"`problem` must be without `restart`.*Extragradient"):
        rsgda.solve(problem, algorithm, THETA, jnp.zeros(2), key=KEY, steps=5)


def game(theta, v):
    return theta * v


def on_the_game(algorithm, steps):
    start = jnp.asarray(1.0), jnp.asarray(1.0)
    result = rsgda.solve(rsgda.Problem(game), algorithm, *start, key=KEY, steps=steps)
    return float(np.hypot(result.theta, result.v))


@pytest.mark.parametrize("s", [0.1, 0.5, 0.9])
def test_extragradient_on_the_bilinear_game(s):
    """Every step shrinks the distance by sqrt((1 - s^2)^2 + s^2), the spectral radius."""
    away = on_the_game(rsgda.Extragradient(alpha=s, eta=s), 50)
    expected = np.sqrt(2) * ((1 - s**2) ** 2 + s**2) ** 25
    assert away == pytest.approx(expected, rel=1e-12)
    # The eigenvalues of SGDA's step have modulus 1.
    assert on_the_game(rsgda.SGDA(alpha=s, eta=s), 50) > 0.5


@pytest.mark.parametrize("s", [0.1, 0.3])
def test_optimistic_on_the_bilinear_game(s):
    """The distance shrinks by the spectral radius of z+ = (1 - 2is) z + is z-."""
    radius = max(abs(np.roots([1, -(1 - 2j * s), -1j * s])))
    assert radius < 1
    algorithm = rsgda.Optimistic(alpha=s, eta=s)
    rate = (on_the_game(algorithm, 240) / on_the_game(algorithm, 200)) ** (1 / 40)
    assert rate == pytest.approx(radius, rel=1e-6)
    assert on_the_game(rsgda.SGDA(alpha=s, eta=s), 240) > 0.5


def test_optimistic_takes_optax():
    """Plain optax is the plain step; with Adam the past update is taken off twice the new one."""
    plain = solve(rsgda.Optimistic(alpha=0.1, eta=0.2), 20)
    optaxed = solve(rsgda.Optimistic(alpha=optax.sgd(0.1), eta=optax.sgd(0.2)), 20)
    assert_at(optaxed, plain.theta, plain.v)
    theta, v, past, first, second = THETA, V, None, 0.0, 0.0
    for k in range(20):
        rows = drawn(jr.fold_in(KEY, k))
        g, h = slope_theta(theta, v, rows), slope_v(theta, v, rows)
        first, second = 0.9 * first + 0.1 * h, 0.999 * second + 0.001 * h**2
        move = 0.05 * (first / (1 - 0.9 ** (k + 1)))
        move = move / (np.sqrt(second / (1 - 0.999 ** (k + 1))) + 1e-8)
        last_g, last_move = past or (g, move)
        theta, v = theta - 0.1 * (2 * g - last_g), v + 2 * move - last_move
        past = g, move
    assert_at(solve(rsgda.Optimistic(alpha=0.1, eta=optax.adam(0.05)), 20), theta, v)


def test_extragradient_takes_optax():
    """The step ahead leaves no trace in an optimiser, so that momentum is that of the steps."""
    algorithm = rsgda.Extragradient(alpha=optax.sgd(0.1, momentum=0.5), eta=0.2)
    theta, v, trace = THETA, V, np.zeros(3)
    for k in range(20):
        rows = drawn(jr.fold_in(KEY, k))
        ahead = theta - 0.1 * (slope_theta(theta, v, rows) + 0.5 * trace)
        ahead = ahead, v + 0.2 * slope_v(theta, v, rows)
        trace = slope_theta(*ahead, rows) + 0.5 * trace
        theta, v = theta - 0.1 * trace, v + 0.2 * slope_v(*ahead, rows)
    assert_at(solve(algorithm, 20), theta, v)


def test_tiada_mends_a_bad_ratio_of_steps():
    """With a theta that is far too fast, SGDA goes round for ever and TiAda slows down."""
    toy = Toy(kinds="B", kappa=10.0)
    steps = {"alpha": 9.0, "eta": 0.3}
    sizes = {}
    for algorithm in (rsgda.TiAda(**steps), rsgda.SGDA(**steps)):
        result = rsgda.solve(toy.problem, algorithm, *toy.start(), key=KEY, steps=3_000)
        sizes[type(algorithm)] = float(jnp.linalg.norm(toy.grad_phi(result.theta)))
    assert sizes[rsgda.TiAda] < 1e-9
    assert sizes[rsgda.SGDA] > 0.1


def flat(theta, v):
    return 0.0 * jnp.sum(theta) + jnp.sum(v) - jnp.sum(v**2)


def test_tiada_without_a_gradient_stays():
    """Nothing is divided by a sum that is still zero."""
    start = jnp.ones(2), jnp.full(3, 0.5)
    result = rsgda.solve(rsgda.Problem(flat), RIVALS[0], *start, key=KEY, steps=3)
    assert result.status is rsgda.Status.FINISHED
    assert_at(result, *start)


def steep(theta, v):
    return 1e200 * jnp.sum(theta) + jnp.sum(v) - jnp.sum(v**2)


def test_tiada_refuses_a_sum_that_overflows():
    """A step of zero for ever after would be worse."""
    start = jnp.ones(2), jnp.zeros(3)
    result = rsgda.solve(rsgda.Problem(steep), RIVALS[0], *start, key=KEY, steps=3)
    assert result.status is rsgda.Status.DIVERGED
    assert "theta" in result.message
    assert np.all(np.isfinite(jax.tree.leaves(result.state.memory)))


def far(theta, v):
    return jnp.sum(theta) + 1e10 * jnp.sum(v)


@pytest.mark.parametrize("kind", [rsgda.Extragradient, rsgda.Optimistic])
def test_both_players_move_or_none(kind):
    """A refused ascent takes the descent of the same step with it."""
    start = jnp.ones(2), jnp.zeros(3)
    algorithm = kind(alpha=0.1, eta=1e300)
    result = rsgda.solve(rsgda.Problem(far), algorithm, *start, key=KEY, steps=3)
    assert result.status is rsgda.Status.DIVERGED
    assert "the update of v" in result.message
    assert_at(result, *start)
