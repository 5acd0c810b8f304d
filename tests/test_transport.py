"""Learning with the semi-dual: matching, generation, steps in units of n epsilon, Sinkhorn."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, softmax
from scipy.stats import chisquare

import rsgda
from rsgda import transport
from rsgda._trees import freeze, thaw
from rsgda.drive.solve import _advance
from rsgda.problem import Batch
from rsgda.transport.clouds import Weighted, alias
from rsgda.transport.semidual import semi_dual, weights

N, M, D, WIDE = 40, 12, 3, 5
EPSILON = 0.4


@pytest.fixture(scope="module")
def clouds():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)), rng.normal(size=(M, WIDE)), rng.dirichlet(np.full(M, 2.0))


@pytest.fixture(scope="module")
def network():
    return eqx.nn.MLP(WIDE, D, 6, 1, activation=jnp.tanh, key=jr.key(0))


@pytest.fixture(scope="module")
def matched(clouds, network):
    x, y, b = clouds
    return transport.matching(x, y, network, epsilon=EPSILON, batch_size=8, b=b)


def at(rows):
    return Batch((jnp.asarray(rows),), None)


def by_hand(v, costs, nu, epsilon):
    return v @ nu - epsilon * np.mean(logsumexp((v - costs) / epsilon + np.log(nu), axis=1))


# The loss and its gradients


def test_the_semi_dual():
    rng = np.random.default_rng(1)
    costs, v, nu = 3 * rng.random((7, 5)), rng.normal(size=5), rng.dirichlet(np.ones(5))
    arrays = [jnp.asarray(array) for array in (v, costs, nu)]
    value, (of_v, of_costs) = jax.value_and_grad(semi_dual, (0, 1))(*arrays, jnp.asarray(0.3))
    np.testing.assert_allclose(value, by_hand(v, costs, nu, 0.3), rtol=1e-12)
    w = softmax((v - costs) / 0.3 + np.log(nu), axis=1)
    np.testing.assert_allclose(weights(*arrays, jnp.asarray(0.3)), w, rtol=1e-10)
    np.testing.assert_allclose(of_v, nu - w.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(of_costs, w / 7, atol=1e-12)
    # It does not change with a constant that is added to v.
    np.testing.assert_allclose(semi_dual(arrays[0] + 2, *arrays[1:], jnp.asarray(0.3)), value)


def test_matching_gradients_by_hand(clouds, network, matched):
    x, y, b = clouds
    problem, theta, _ = matched
    rows, v = x[[3, 1, 30]], np.random.default_rng(2).normal(size=M)
    value, of_theta = problem.slope_theta(freeze(theta), jnp.asarray(v), at(rows))
    targets = np.asarray(jax.vmap(network)(jnp.asarray(y)))
    costs = cdist(rows, targets, "sqeuclidean")
    np.testing.assert_allclose(value, by_hand(v, costs, b, EPSILON), rtol=1e-10)
    w = softmax((v - costs) / EPSILON + np.log(b), axis=1)
    # G_j = mean over the batch of w_j(x_i) 2 (T_j - x_i), then one product with the Jacobian.
    G = np.einsum("ij,ijd->jd", w, 2 * (targets[None] - rows[:, None])) / len(rows)
    arrays, rest = eqx.partition(network, eqx.is_array)
    jacobian = jax.jacobian(lambda a: jax.vmap(eqx.combine(a, rest))(jnp.asarray(y)))(arrays)
    wanted = jax.tree.map(lambda leaf: jnp.tensordot(jnp.asarray(G), leaf, 2), jacobian)
    for got, one in zip(jax.tree.leaves(of_theta), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(got, one, rtol=1e-8, atol=1e-10)
    _, of_v = problem.slope_v(problem.prepare(theta), jnp.asarray(v), at(rows))
    np.testing.assert_allclose(of_v, b - w.mean(axis=0), atol=1e-12)


COSTS = {
    "cosine": ("cosine", "cosine", {}),
    "city block": (transport.p_norm(1.0), "cityblock", {}),
    "norm": (transport.p_norm(2.0), "euclidean", {}),
    "1.5-norm": (transport.p_norm(1.5), "minkowski", {"p": 1.5}),
}


@pytest.mark.parametrize("name", COSTS)
def test_other_costs_by_finite_differences(clouds, name):
    x, y, _ = clouds
    cost, scipys, options = COSTS[name]
    problem, theta, _ = linear_matching(x, y, cost)
    v = np.random.default_rng(2).normal(size=M)
    direction = np.random.default_rng(3).normal(size=(D, WIDE))

    def value(t):
        targets = y @ (np.asarray(theta.weight) + t * direction).T
        return by_hand(v, cdist(x[:6], targets, scipys, **options), np.full(M, 1 / M), EPSILON)

    found, slope = problem.slope_theta(freeze(theta), jnp.asarray(v), at(x[:6]))
    np.testing.assert_allclose(found, value(0), rtol=1e-9)
    wanted = (value(1e-6) - value(-1e-6)) / 2e-6
    np.testing.assert_allclose(np.sum(np.asarray(slope.weight) * direction), wanted, rtol=1e-5)


def linear_matching(x, y, cost):
    layer = eqx.nn.Linear(WIDE, D, use_bias=False, key=jr.key(4))
    return transport.matching(x, y, layer, epsilon=EPSILON, batch_size=8, cost=cost)


def test_a_norm_has_no_gradient_at_zero_and_says_zero(clouds):
    x, y, _ = clouds
    problem, theta, v = linear_matching(x, y, transport.p_norm(2.0))
    on_target = np.asarray(jax.vmap(theta)(jnp.asarray(y)))[:2]
    _, slope = problem.slope_theta(freeze(theta), v, at(on_target))
    assert np.isfinite(slope.weight).all()


def test_generation_gradients_by_hand(clouds):
    targets, _, _ = clouds
    nu = np.random.default_rng(5).dirichlet(np.full(N, 2.0))
    layer = eqx.nn.Linear(2, D, key=jr.key(1))
    problem, theta, v = transport.generation(
        lambda key: jr.normal(key, (2,)), targets, layer, epsilon=EPSILON, batch_size=6, b=nu
    )
    z, v = np.random.default_rng(6).normal(size=(6, 2)), np.random.default_rng(7).normal(size=N)
    value, slope = problem.slope_theta(freeze(theta), jnp.asarray(v), at(z))
    made = z @ np.asarray(layer.weight).T + np.asarray(layer.bias)
    costs = cdist(made, targets, "sqeuclidean")
    np.testing.assert_allclose(value, by_hand(v, costs, nu, EPSILON), rtol=1e-10)
    w = softmax((v - costs) / EPSILON + np.log(nu), axis=1)
    moves = 2 * np.einsum("ij,ijd->id", w, made[:, None] - targets[None]) / 6
    np.testing.assert_allclose(slope.weight, moves.T @ z, rtol=1e-8)
    np.testing.assert_allclose(slope.bias, moves.sum(axis=0), rtol=1e-8)


# Where samples come from


def test_weighted_samples_come_by_their_weights(clouds, network):
    x, y, _ = clouds
    a = np.random.default_rng(8).dirichlet(np.full(N, 0.5))
    a[3] = 0
    a /= a.sum()
    problem, *_ = transport.matching(x, y, network, batch_size=200, a=a)
    drawn = np.concatenate(
        [np.asarray(problem.draw(jr.fold_in(jr.key(0), i)).arguments[0]) for i in range(50)]
    )
    counts = np.array([np.all(drawn == row, axis=1).sum() for row in x])
    assert counts.sum() == len(drawn)
    assert counts[3] == 0
    often = a * len(drawn) > 5
    expected = a[often] / a[often].sum() * counts[often].sum()
    assert chisquare(counts[often], expected).pvalue > 1e-3


def one(key):
    return jr.normal(key, (D,))


def many(key):
    return jr.normal(key, (8, D))


@pytest.mark.parametrize("sampler", [one, pytest.param(many, marks=pytest.mark.slow)])
def test_samplers(clouds, network, sampler):
    problem, theta, v = transport.matching(sampler, clouds[1], network, batch_size=8)
    assert problem.draw(jr.key(0)).arguments[0].shape == (8, D)
    algorithm = rsgda.RSGDA(alpha=0.01, eta=transport.relative())
    assert rsgda.solve(problem, algorithm, theta, v, key=jr.key(1), steps=4).status.name == (
        "FINISHED"
    )


@pytest.mark.slow
def test_phi_of_a_matching_is_w_eps(clouds, network):
    x, y, b = clouds
    # Strongly concave is it only where a constant cannot be added to v: on the paper's set.
    problem, theta, v = transport.matching(
        x, y, network, epsilon=EPSILON, batch_size=8, b=b, beta=100.0
    )
    assert repr(problem).startswith("Problem(Matched, ")
    found = rsgda.phi(problem, theta, v, tol=1e-7)
    exact = transport.sinkhorn(
        x, jax.vmap(network)(jnp.asarray(y)), epsilon=EPSILON, b=b, tol=1e-10
    )
    np.testing.assert_allclose(found.value, exact.value, rtol=1e-6)


def test_the_papers_set(clouds, network):
    problem, theta, v = transport.matching(*clouds[:2], network, batch_size=8, beta=0.05)
    algorithm = rsgda.RSGDA(alpha=0.01, eta=transport.relative(0.5))
    v = rsgda.solve(problem, algorithm, theta, v, key=jr.key(0), steps=20).v
    np.testing.assert_allclose(v.sum(), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(v), 0.05, rtol=1e-6)


# Steps


def test_relative_steps(matched):
    problem, theta, v = matched
    run = lambda eta: rsgda.solve(  # noqa: E731
        problem, rsgda.RSGDA(alpha=0.01, eta=eta), theta, v, key=jr.key(0), steps=10
    )
    relative, absolute = run(transport.relative(0.25)), run(0.25 * M * EPSILON)
    np.testing.assert_array_equal(relative.v, absolute.v)
    np.testing.assert_array_equal(run(transport.relative()).v, run(M * EPSILON).v)


@pytest.mark.slow
def test_relative_steps_in_a_sweep(matched):
    problem, theta, v = matched
    both = [rsgda.RSGDA(alpha=0.01, eta=transport.relative(r)) for r in (0.25, 0.1)]
    table = rsgda.sweep(problem, both, theta, v, keys=jr.split(jr.key(3), 2), steps=5)
    assert table.algorithms[0].eta == transport.relative(0.25)
    alone = rsgda.solve(problem, both[1], theta, v, key=jr.split(jr.key(3), 2)[1], steps=5)
    np.testing.assert_allclose(table[1, 1].v, alone.v, rtol=1e-9)


@pytest.mark.slow
def test_the_algorithm_changes_each_array_by_a_share_that_falls(matched):
    problem, theta, v = matched
    seen = [np.asarray(theta.layers[0].weight)]

    def look(problem, state):
        seen.append(np.asarray(thaw(state.theta).layers[0].weight))
        return {}

    algorithm = transport.algorithm(40, p=0.5)
    rsgda.solve(problem, algorithm, theta, v, key=jr.key(0), steps=40, record=look, every=1)
    shares = [
        np.linalg.norm(after - before) / np.linalg.norm(before)
        for before, after in itertools.pairwise(seen)
        if np.any(after != before)
    ]
    assert len(shares) > 10
    expected = 0.003 * (1 + np.cos(np.pi * np.arange(20) / 20)) / 2
    np.testing.assert_allclose(shares, expected[: len(shares)], rtol=1e-6)


def test_relative_steps_elsewhere():
    problem = rsgda.Problem(lambda theta, v: theta * v - v**2)
    with pytest.raises(ValueError, match="`eta` is relative to n epsilon"):
        rsgda.solve(
            problem, rsgda.RSGDA(alpha=0.1, eta=transport.relative(1.0)), jnp.asarray(1.0),
            jnp.asarray(0.0), key=jr.key(0), steps=1,
        )  # fmt: skip
    with pytest.raises(ValueError, match="`value` must be a positive"):
        transport.relative(-1.0)
    with pytest.raises(ValueError, match="`steps` must be a whole number"):
        transport.algorithm(0)
    with pytest.raises(ValueError, match="`p` must lie in"):
        transport.algorithm(10, p=1.0)


def test_other_numbers_compile_nothing(clouds, network, matched):
    x, y, b = clouds
    algorithm = rsgda.RSGDA(alpha=0.01, eta=1.0)
    rsgda.solve(matched[0], algorithm, *matched[1:], key=jr.key(0), steps=3)
    before = _advance._cache_size()  # pyright: ignore
    other = transport.matching(x + 1, 2 * y, network, epsilon=0.7, batch_size=8, b=b[::-1])
    rsgda.solve(other[0], algorithm, *other[1:], key=jr.key(0), steps=3)
    assert _advance._cache_size() == before  # pyright: ignore


def test_the_algorithm_compiles_once(clouds, network, matched):
    x, y, b = clouds
    rsgda.solve(matched[0], transport.algorithm(3), *matched[1:], key=jr.key(0), steps=3)
    before = _advance._cache_size()  # pyright: ignore
    other = transport.matching(x + 1, 2 * y, network, epsilon=0.7, batch_size=8, b=b[::-1])
    rsgda.solve(other[0], transport.algorithm(3), *other[1:], key=jr.key(0), steps=3)
    assert _advance._cache_size() == before  # pyright: ignore


def test_a_run_is_resumed_and_another_is_refused(clouds, network, matched, tmp_path):
    problem, theta, v = matched
    algorithm = rsgda.RSGDA(alpha=0.01, eta=transport.relative(0.2))
    whole = rsgda.solve(problem, algorithm, theta, v, key=jr.key(0), steps=12)
    for steps in (7, 12):
        result = rsgda.solve(
            problem, algorithm, theta, v, key=jr.key(0), steps=steps, checkpoint=tmp_path
        )
    np.testing.assert_array_equal(result.v, whole.v)
    other = dataclasses.replace(
        problem, loss=dataclasses.replace(problem.loss, epsilon=jnp.asarray(0.5))
    )
    with pytest.raises(rsgda.CheckpointMismatch, match="another run"):
        rsgda.solve(other, algorithm, theta, v, key=jr.key(0), steps=12, checkpoint=tmp_path)


# Learning with Sinkhorn


@pytest.mark.parametrize(("m_sin", "warm_start"), [(1, True), (3, False)])
def test_sinkhorn_descent_by_hand(clouds, network, m_sin, warm_start):
    x, y, b = clouds
    problem, theta, v = transport.matching(x, y, network, epsilon=EPSILON, batch_size=8, b=b)
    algorithm = transport.SinkhornDescent(m_sin=m_sin, alpha=0.05, warm_start=warm_start)
    result = rsgda.solve(problem, algorithm, theta, v, key=jr.key(2), steps=3)
    potentials = np.zeros(M)
    for k in range(3):
        (rows,) = problem.draw(jr.fold_in(jr.key(2), k)).arguments
        targets = np.asarray(jax.vmap(theta)(jnp.asarray(y)))
        costs = cdist(np.asarray(rows), targets, "sqeuclidean")
        potentials = potentials if warm_start else np.zeros(M)
        for _ in range(m_sin):
            u = -EPSILON * logsumexp((potentials - costs) / EPSILON + np.log(b), axis=1)
            potentials = -EPSILON * (logsumexp((u[:, None] - costs) / EPSILON, axis=0) - np.log(8))
        potentials = potentials - potentials.mean()
        _, slope = problem.slope_theta(freeze(theta), jnp.asarray(potentials), at(rows))
        theta = jax.tree.map(
            lambda leaf, g: leaf - 0.05 * g if eqx.is_array(leaf) else leaf, theta, slope
        )
    np.testing.assert_allclose(result.v, potentials, atol=1e-9)
    for got, wanted in zip(
        jax.tree.leaves(eqx.filter(result.theta, eqx.is_array)),
        jax.tree.leaves(eqx.filter(theta, eqx.is_array)),
        strict=True,
    ):
        np.testing.assert_allclose(got, wanted, atol=1e-9)
    assert result.history["gradients"][-1] == 3 * (m_sin + 1)
    assert result.history["ascents"][-1] == 3 * m_sin


def test_sinkhorn_descent_is_an_algorithm_like_the_others(matched, tmp_path):
    problem, theta, v = matched
    algorithm = transport.SinkhornDescent(m_sin=2, alpha=0.05)
    whole = rsgda.solve(problem, algorithm, theta, v, key=jr.key(0), steps=6)
    for steps in (2, 6):
        result = rsgda.solve(
            problem, algorithm, theta, v, key=jr.key(0), steps=steps, checkpoint=tmp_path
        )
    np.testing.assert_array_equal(result.v, whole.v)
    table = rsgda.sweep(problem, [algorithm], theta, v, keys=jr.key(0)[None], steps=6)
    np.testing.assert_allclose(table[0, 0].v, whole.v, rtol=1e-9)
    lost = rsgda.solve(
        problem, transport.SinkhornDescent(alpha=1e200), theta, v, key=jr.key(0), steps=6
    )
    assert lost.status.name == "DIVERGED"
    assert np.isfinite(lost.v).all()


def test_sinkhorn_descent_is_for_transport():
    problem = rsgda.Problem(lambda theta, v: theta * v - v**2)
    with pytest.raises(ValueError, match="for problems of rsgda"):
        rsgda.solve(
            problem, transport.SinkhornDescent(alpha=0.1), jnp.asarray(1.0), jnp.asarray(0.0),
            key=jr.key(0), steps=1,
        )  # fmt: skip
    for wrong, match in (
        ({"m_sin": 0}, "`m_sin` must be a whole"),
        ({"alpha": -1.0}, "`alpha` must be a positive"),
        ({"warm_start": 1}, "`warm_start` must be True or False"),
    ):
        with pytest.raises(ValueError, match=match):
            transport.SinkhornDescent(**{"alpha": 0.1} | wrong)


# What is refused


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"x": np.full((9, D), np.inf)}, "`x` must be finite"),
        ({"x": np.zeros((9, D + 1))}, "`network` must take a y to the 4 dimensions of x, got 3"),
        ({"x": lambda key: jr.normal(key, (3, D))}, "`x` must draw one point, or a minibatch of"),
        ({"x": lambda key: jr.randint(key, (D,), 0, 9)}, "`x` must draw floating arrays"),
        ({"x": one, "a": np.ones(3) / 3}, "`a` weighs points; `x` is a sampler"),
        ({"a": np.ones(N)}, "`a` must sum to one"),
        ({"y": np.zeros((0, WIDE))}, "`y` must be an array of points"),
        ({"y": np.zeros((4, WIDE + 1))}, "`network` must map one point of shape"),
        ({"network": 3}, "`network` must be callable"),
        ({"network": lambda y: y.sum()}, "`network` must make a vector of each point"),
        ({"epsilon": -0.1}, "`epsilon` must be a positive"),
        ({"b": np.full(M, 0.5)}, "`b` must sum to one"),
        ({"batch_size": 0}, "`batch_size` must be a whole"),
        ({"beta": -1.0}, "`beta` must be"),
        ({"cost": 7}, "`cost` must be 'quadratic'"),
    ],
)
def test_wrong_input(clouds, network, wrong, match):
    arguments = {"x": clouds[0], "y": clouds[1], "network": network} | wrong
    x, y, net = (arguments.pop(name) for name in ("x", "y", "network"))
    with pytest.raises(ValueError, match=match):
        transport.matching(x, y, net, **arguments)


def test_wrong_generation(clouds):
    layer = eqx.nn.Linear(2, D + 1, key=jr.key(1))
    with pytest.raises(ValueError, match="`network` must take a z to the 3 dimensions of y, got 4"):
        transport.generation(lambda key: jr.normal(key, (2,)), clouds[0], layer)


@pytest.mark.parametrize("n", [1, 2, 7, 5_000])
def test_weighted_samples_have_their_weights(n):
    rng = np.random.default_rng(n)
    weights = rng.dirichlet(np.full(n, 0.3))
    if n > 2:
        weights[1] = 0
        weights /= weights.sum()
    kept, other = alias(weights)
    # What the tables say, summed up: exactly the weights.
    implied = kept / n
    np.add.at(implied, other, (1 - kept) / n)
    np.testing.assert_allclose(implied, weights, atol=1e-14)
    assert np.all((kept >= 0) & (kept <= 1))
    points = jnp.arange(n, dtype=jnp.float32)[:, None]
    draw = Weighted.of(points, jnp.asarray(weights, jnp.float32), 20_000)
    counts = np.bincount(np.asarray(draw(jr.key(0)))[:, 0].astype(int), minlength=n)
    assert counts[weights == 0].sum() == 0
    top = np.argsort(weights)[-5:]
    spread = np.sqrt(20_000 * weights[top] * (1 - weights[top])) + 1e-9
    assert np.all(np.abs(counts[top] - 20_000 * weights[top]) <= 5 * spread)


@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("relative", [1.0, 1e-3])
@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_the_loss_is_accurate_in_float32(scale, relative, shift):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(60, 8)) * scale, (rng.normal(size=(45, 8)) + 0.3) * scale
    x, y = ((points + shift * scale).astype(np.float32) for points in (x, y))
    nu = rng.dirichlet(np.full(45, 2.0))
    costs = cdist(x.astype(float), y.astype(float), "sqeuclidean")
    assert scale < 1e3 or costs.max() > 1e6
    epsilon = float(np.float32(relative * costs.mean()))
    v = (rng.normal(size=45) * costs.std() / 4).astype(np.float32)
    problem, network, _ = transport.matching(
        x, y, eqx.nn.Identity(), epsilon=epsilon, batch_size=60, b=nu
    )
    given = problem.prepare(network)
    value = problem.loss(given, jnp.asarray(v), jnp.asarray(x))
    assert value.dtype == jnp.float32
    weight = np.asarray(problem.loss.nu, float)
    logs = (v.astype(float) - costs) / epsilon + np.log(weight)
    exact = v.astype(float) @ weight - epsilon * logsumexp(logs, axis=1).mean()
    # Relative to what is summed: v may cancel the costs.
    assert abs(float(value) - exact) <= 1e-5 * np.abs(costs).mean()
    slope = jax.grad(problem.loss, argnums=1)(given, jnp.asarray(v), jnp.asarray(x))
    wanted = weight - softmax(logs, axis=1).mean(axis=0)
    assert np.all(np.isfinite(slope))
    # A softmax of costs over epsilon has their error over epsilon.
    tolerance = 1e-5 if relative == 1 else 1e-2
    np.testing.assert_allclose(slope, wanted, atol=tolerance * np.abs(wanted).max())


# Pairs


def test_pairs_add_their_mean_cost(clouds, network):
    x, y, b = clouds
    pairs = np.array([[3, 5], [30, 0], [7, 5]])
    plain, theta, v = transport.matching(x, y, network, epsilon=EPSILON, batch_size=8, b=b)
    pulled, _, _ = transport.matching(
        x, y, network, epsilon=EPSILON, batch_size=8, b=b, pairs=pairs, pull=2.5
    )
    batch = (jnp.asarray(x[:8]),)
    v = jnp.linspace(-1, 1, M)

    def added(net):
        made = jax.vmap(net)(jnp.asarray(y))
        return 2.5 * jnp.mean(jnp.sum((x[pairs[:, 0]] - made[pairs[:, 1]]) ** 2, axis=1))

    def loss(problem):
        return lambda net: problem.loss(problem.prepare(net), v, *batch)

    np.testing.assert_allclose(loss(pulled)(theta), loss(plain)(theta) + added(theta), rtol=1e-12)
    slopes = [eqx.filter_grad(each)(theta) for each in (loss(pulled), loss(plain), added)]
    for one, other, more in zip(*map(jax.tree.leaves, slopes), strict=True):
        np.testing.assert_allclose(one, other + more, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_pairs_are_pulled_together(clouds, network):
    x, y, _ = clouds
    pairs = np.array([[3, 5], [30, 0], [7, 5]])

    def apart(**options):
        problem, theta, v = transport.matching(x, y, network, batch_size=8, **options)
        algorithm = transport.algorithm(200, p=0.5)
        net = rsgda.solve(problem, algorithm, theta, v, key=jr.key(0), steps=200).theta
        made = np.asarray(jax.vmap(net)(jnp.asarray(y)))
        return np.mean(np.sum((x[pairs[:, 0]] - made[pairs[:, 1]]) ** 2, axis=1))

    assert apart(pairs=pairs, pull=2.5) < 0.9 * apart()


@pytest.mark.parametrize(
    ("pairs", "wrong"),
    [
        ([[0, 1, 2]], "k × 2"),
        ([], "k × 2"),
        ([[0.5, 1.0]], "whole numbers"),
        ([[0, M]], r"got \[0, 12\] in row 0"),
        ([[1, 1], [-1, 0]], "in row 1"),
    ],
)
def test_wrong_pairs(clouds, network, pairs, wrong):
    with pytest.raises(ValueError, match=f"`pairs` must be .*{wrong}"):
        transport.matching(*clouds[:2], network, pairs=pairs)


def test_pairs_of_a_sampler(clouds, network):
    with pytest.raises(ValueError, match="not a sampler"):
        transport.matching(one, clouds[1], network, batch_size=8, pairs=[[0, 1]])
    with pytest.raises(ValueError, match="`pull` must be a positive"):
        transport.matching(*clouds[:2], network, pairs=[[0, 1]], pull=0.0)


@pytest.mark.slow
def test_pairs_pull_in_learning_with_sinkhorn_too():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 2)), rng.normal(size=(15, 3))
    net = eqx.nn.Linear(3, 2, key=jr.key(0), dtype=jnp.float64)
    ends = []
    for pull in (1.0, 1e3):
        problem, theta, v = transport.matching(
            x, y, net, epsilon=0.5, batch_size=5, pairs=[[0, 1], [5, 7]], pull=pull
        )
        algorithm = transport.SinkhornDescent(alpha=1e-4)
        result = rsgda.solve(problem, algorithm, theta, v, key=jr.key(1), steps=1)
        ends.append(np.asarray(result.theta.weight))
    start = np.asarray(net.weight)
    gradient = jax.grad(
        lambda w: jnp.mean(jnp.sum((y[[1, 7]] @ w.T + net.bias - x[[0, 5]]) ** 2, axis=1))
    )(jnp.asarray(start))
    np.testing.assert_allclose(ends[1] - ends[0], -1e-4 * (1e3 - 1.0) * gradient, rtol=1e-9)


def test_steps_in_units_are_numbers():
    with pytest.raises(ValueError, match="`value` must be a number"):
        transport.relative(lambda k: 1.0)
