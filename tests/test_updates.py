"""Each algorithm against its update rule, written out by hand in NumPy."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import rsgda
from rsgda.problems import Toy
from rsgda.testing import trees_equal

rng = np.random.default_rng(0)
A, B = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
KEY = jr.key(7)
THETA, V = np.array([0.3, -0.8, 0.5]), np.array([0.1, -0.2])


def bilinear(theta, v, batch):
    """Return the mean over rows of cos(a.theta) + (a.theta)(b.v) - |v|^2."""
    a, b = batch
    return jnp.mean(jnp.cos(a @ theta) + (a @ theta) * (b @ v)) - jnp.sum(v**2)


def grad_theta(theta, v, rows):
    a, b = A[rows], B[rows]
    return np.mean((-np.sin(a @ theta) + b @ v)[:, None] * a, axis=0)


def grad_v(theta, v, rows):
    a, b = A[rows], B[rows]
    return np.mean((a @ theta)[:, None] * b, axis=0) - 2 * v


def rows_of(key):
    return np.asarray(jr.randint(key, (6,), 0, 40))


def step_keys(k):
    return jr.split(jr.fold_in(KEY, k))


def into_ball(v, radius):
    return v * min(1.0, radius / np.linalg.norm(v))


@pytest.fixture
def problem():
    return rsgda.Problem(bilinear, data=(A, B), batch_size=6)


def run(problem, algorithm, steps=40):
    return rsgda.solve(problem, algorithm, jnp.asarray(THETA), jnp.asarray(V), key=KEY, steps=steps)


@pytest.mark.parametrize("p", [0.2, 0.5, 0.85])
@pytest.mark.parametrize("radius", [None, 0.25])
def test_rsgda_by_hand(p, radius):
    """One coin and one sample a step; k in the schedules counts all iterations."""
    project = None if radius is None else rsgda.projections.ball(radius)
    problem = rsgda.Problem(bilinear, data=(A, B), batch_size=6, project_v=project)
    theta, v, descents = THETA, V, 0
    for k in range(60):
        key_coin, key_batch = step_keys(k)
        rows = rows_of(key_batch)
        if jr.bernoulli(key_coin, p):
            theta = theta - 0.3 / (k + 1) * grad_theta(theta, v, rows)
            descents += 1
        else:
            v = v + 0.4 / (k + 1) ** 0.5 * grad_v(theta, v, rows)
            v = v if radius is None else into_ball(v, radius)
    algorithm = rsgda.RSGDA(
        p=p,
        alpha=lambda k: 0.3 / (k.astype(float) + 1),
        eta=lambda k: 0.4 / jnp.sqrt(k.astype(float) + 1),
    )
    result = run(problem, algorithm, 60)
    np.testing.assert_allclose(result.theta, theta, rtol=1e-12)
    np.testing.assert_allclose(result.v, v, rtol=1e-12)
    assert 0 < descents == result.history["descents"][-1]
    assert result.history["ascents"][-1] == 60 - descents
    assert result.history["gradients"][-1] == 60


@pytest.mark.parametrize("m", [1, 2, 5])
def test_esgda_by_hand(problem, m):
    """The m ascents come first, each with a fresh sample; the descent sees the last of them."""
    theta, v = THETA, V
    for k in range(12):
        key_ascents, key_descent = step_keys(k)
        for t in range(m):
            v = v + 0.2 * grad_v(theta, v, rows_of(jr.fold_in(key_ascents, t)))
        theta = theta - 0.1 * grad_theta(theta, v, rows_of(key_descent))
    result = run(problem, rsgda.ESGDA(m=m, alpha=0.1, eta=0.2), 12)
    np.testing.assert_allclose(result.theta, theta, rtol=1e-12)
    np.testing.assert_allclose(result.v, v, rtol=1e-12)
    last = {name: int(column[-1]) for name, column in result.history.items()}
    assert last == {"step": 12, "descents": 12, "ascents": 12 * m, "gradients": 12 * (m + 1)}


def test_sgda_is_esgda_with_one_ascent(problem):
    sgda = run(problem, rsgda.SGDA(alpha=0.1, eta=0.2)).state
    assert trees_equal(sgda, run(problem, rsgda.ESGDA(m=1, alpha=0.1, eta=0.2)).state)
    assert not trees_equal(sgda.v, run(problem, rsgda.ESGDA(m=2, alpha=0.1, eta=0.2)).state.v)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda alpha, eta: rsgda.RSGDA(p=0.4, alpha=alpha, eta=eta),
        lambda alpha, eta: rsgda.ESGDA(m=2, alpha=alpha, eta=eta),
    ],
)
def test_optax_sgd_is_a_number(problem, make):
    """The ascent's sign is taken care of: plain optax.sgd on both sides is the plain step."""
    plain = run(problem, make(0.1, 0.2))
    optaxed = run(problem, make(optax.sgd(0.1), optax.sgd(0.2)))
    np.testing.assert_allclose(optaxed.theta, plain.theta, rtol=1e-13)
    np.testing.assert_allclose(optaxed.v, plain.v, rtol=1e-13)


def test_adam_ascends(problem):
    """Adam on v climbs to the maximum that is known in closed form."""
    theta, full = jnp.asarray(THETA), rsgda.Problem(lambda theta, v: bilinear(theta, v, (A, B)))
    algorithm = rsgda.RSGDA(p=1e-9, alpha=1e-9, eta=optax.adam(0.05))
    result = rsgda.solve(full, algorithm, theta, jnp.asarray(V), key=KEY, steps=500)
    np.testing.assert_allclose(result.v, np.mean((A @ THETA)[:, None] * B, axis=0) / 2, atol=1e-6)


def test_optax_sees_the_value(problem):
    """Transformations that want the loss get it, as something to be minimised."""
    alpha = optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau(patience=1, cooldown=0))
    algorithm = rsgda.RSGDA(p=0.5, alpha=alpha, eta=0.2)
    assert run(problem, algorithm).status is rsgda.Status.FINISHED


def test_only_the_gradient_that_is_asked_for():
    """Count at run time: a step evaluates the loss once, for one of the players."""
    counts = {"theta": 0, "v": 0}

    @jax.custom_vjp
    def counted(theta, v):
        return jnp.sum(jnp.cos(theta)) + jnp.sum(theta) * jnp.sum(v) - jnp.sum(v**2)

    def count(name):
        counts[name] += 1

    def forward(theta, v):
        return counted(theta, v), (theta, v)

    def backward(saved, g):
        theta, v = saved
        d_theta = -jnp.sin(theta) + jnp.sum(v)
        d_v = jnp.sum(theta) - 2 * v
        # A token ties the count to the gradient: what is not needed is not computed.
        d_theta = d_theta + jax.pure_callback(
            lambda: (count("theta"), np.zeros(()))[1], jax.ShapeDtypeStruct((), d_theta.dtype)
        )
        d_v = d_v + jax.pure_callback(
            lambda: (count("v"), np.zeros(()))[1], jax.ShapeDtypeStruct((), d_v.dtype)
        )
        return g * d_theta, g * d_v

    counted.defvjp(forward, backward)
    problem = rsgda.Problem(counted)
    result = rsgda.solve(
        problem,
        rsgda.RSGDA(p=0.3, alpha=0.01, eta=0.1),
        jnp.ones(2),
        jnp.zeros(2),
        key=KEY,
        steps=200,
    )
    jax.effects_barrier()
    assert counts["theta"] == result.history["descents"][-1]
    assert counts["v"] == result.history["ascents"][-1]
    assert counts["theta"] + counts["v"] == 200


@pytest.mark.parametrize("kappa", [3.0, 30.0])
@pytest.mark.parametrize("given", [True, False])
def test_sgdmax_certificate(kappa, given):
    """After the ascents of every step v is a delta-maximiser, in closed form."""
    toy, delta = Toy(kinds="ABCD", kappa=kappa), 1e-3
    algorithm = rsgda.SGDmax(delta=delta, alpha=0.05, eta=1.0, mu=toy.mu if given else None)
    theta, v = toy.start()
    state = algorithm.init(toy.problem, theta, v, KEY)
    step = jax.jit(lambda state: algorithm.step(toy.problem, state))
    ascents = []
    for _ in range(60):
        old_theta = state.theta
        state, info = step(state)
        gap = toy.phi(old_theta) - toy.loss(old_theta, state.v)
        assert -1e-12 <= gap <= delta
        ascents.append(int(info.ascents))
    assert ascents[0] > ascents[-1]  # from a good v it takes few


def test_sgdmax_stops_as_soon_as_it_may():
    """With a known mu the number of ascents is that of a loop by hand."""
    toy, delta, eta = Toy(kinds="AB", kappa=10.0), 1e-4, 0.7
    theta, v = toy.start()
    ascents = 0
    gradient = jax.grad(toy.loss, argnums=1)
    while jnp.sum(gradient(theta, v) ** 2) / (2 * toy.mu) > delta:
        v, ascents = v + eta * gradient(theta, v), ascents + 1
    algorithm = rsgda.SGDmax(delta=delta, alpha=0.05, eta=eta, mu=toy.mu)
    result = rsgda.solve(toy.problem, algorithm, *toy.start(), key=KEY, steps=1)
    np.testing.assert_allclose(result.v, v, rtol=1e-12)
    assert result.history["ascents"][-1] == ascents > 5
    # The last gradient is the certificate: it was computed, and nothing was moved by it.
    assert result.history["gradients"][-1] == ascents + 2


def test_sgdmax_under_a_projection():
    """The maximum over a ball lies on its edge; the certificate holds for the projected point."""
    toy, delta = Toy(kinds="AC", kappa=10.0), 1e-6
    ball = rsgda.projections.ball(0.5)
    problem = rsgda.Problem(toy.loss, project_v=ball)
    theta, v = toy.start()
    algorithm = rsgda.SGDmax(delta=delta, alpha=1e-9, eta=1.0, mu=toy.mu, max_ascents=5000)
    result = rsgda.solve(problem, algorithm, theta, v, key=KEY, steps=1)
    angles = np.linspace(0, 2 * np.pi, 200_001)
    edge = jnp.asarray(0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    best = jnp.max(jax.vmap(lambda v: toy.loss(theta, v))(edge))
    assert -1e-9 <= best - toy.loss(theta, result.v) <= delta
    assert np.linalg.norm(result.v) == pytest.approx(0.5)


def test_sgdmax_cap():
    toy = Toy(kinds="A", kappa=30.0)
    algorithm = rsgda.SGDmax(delta=1e-12, alpha=0.05, eta=0.1, mu=toy.mu, max_ascents=7)
    result = rsgda.solve(toy.problem, algorithm, *toy.start(), key=KEY, steps=3)
    assert result.history["ascents"][-1] == 21


@pytest.mark.parametrize("separable", [False, True])
def test_sgdmax_counts_with_minibatches(separable):
    """With minibatches the number of ascents is ceil(log(L r / delta) / (eta mu))."""
    n = 2000 if separable else 20  # many rows, so that none is drawn twice
    x = np.random.default_rng(1).normal(size=(n, 2))

    def loss(theta, v, x):
        return jnp.mean(jnp.sum(x * v - v**2, axis=-1)) + jnp.sum(jnp.cos(theta))

    problem = rsgda.Problem(loss, data=x, batch_size=5, separable=separable)
    v = jnp.zeros((n, 2)) if separable else jnp.zeros(2)
    mu = 2 / n if separable else 2.0
    eta, delta = (1.0, 1e-3) if separable else (0.1, 1e-3)
    algorithm = rsgda.SGDmax(delta=delta, alpha=0.01, eta=eta, mu=mu, max_ascents=50_000)
    state = algorithm.init(problem, jnp.ones(2), v, KEY)
    rows = problem.draw(jr.fold_in(jr.split(jr.fold_in(KEY, 0))[0], 0)).arguments[0]
    if separable:
        _, counts = np.unique(np.asarray(rows)[:, 0], return_counts=True)
        assert counts.max() == 1, "the formula below is for rows that are drawn once"
        distance = np.sum((np.asarray(rows) / 2) ** 2) * n / 5
    else:
        distance = np.sum((np.asarray(rows).mean(axis=0) / 2) ** 2)
    expected = np.ceil(np.log(distance / (2 * eta) / delta) / (eta * mu))
    _, info = algorithm.step(problem, state)
    assert int(info.ascents) == expected > 1
    assert int(info.gradients) == expected + 1


def test_sgdmax_measures_on_minibatches():
    """The first step takes all ascents there are; then the measured curvature sets the number."""
    toy = Toy(kinds="BC", kappa=5.0, s=0.1, t=0.1)
    algorithm = rsgda.SGDmax(delta=1e-2, alpha=0.01, eta=0.5, max_ascents=400)
    state = algorithm.init(toy.problem, *toy.start(), KEY)
    step = jax.jit(lambda state: algorithm.step(toy.problem, state))
    state, first = step(state)
    state, second = step(state)
    assert int(first.ascents) == 400 > int(second.ascents) > 10
    assert int(first.gradients) == 402
    assert float(state.memory) >= toy.mu * (1 - 1e-9)
    gap = toy.phi(state.theta) - toy.loss(state.theta, state.v)
    assert gap < 0.1


@pytest.mark.parametrize(
    ("curvatures", "delta", "eta"),
    [([1.0, 0.01], 1e-3, 0.5), ([1.0, 1e-3], 1e-4, 1.0), ([1.0, 1 / 30], 1e-2, 0.05)],
)
def test_sgdmax_is_not_fooled_by_steep_directions(curvatures, delta, eta):
    """Steep directions hide the flat one at first; what is measured must wait for it."""
    m = jnp.asarray(curvatures)

    def loss(theta, v):
        return jnp.sum(theta**2) + m @ v - jnp.sum(m * v**2) / 2

    algorithm = rsgda.SGDmax(delta=delta, alpha=0.1, eta=eta, max_ascents=100_000)
    problem = rsgda.Problem(loss)
    result = rsgda.solve(problem, algorithm, jnp.ones(1), jnp.zeros(2), key=KEY, steps=5)
    assert jnp.sum(m) / 2 - loss(jnp.zeros(1), result.v) <= delta


def test_sgdmax_says_when_the_cap_ended_the_ascents():
    toy = Toy(kinds="A", kappa=30.0)
    for most, certified in ((3, False), (3000, True)):
        algorithm = rsgda.SGDmax(delta=1e-3, alpha=0.1, eta=0.5, mu=toy.mu, max_ascents=most)
        state = algorithm.init(toy.problem, *toy.start(), KEY)
        _, info = algorithm.step(toy.problem, state)
        assert bool(info.certified) is certified
