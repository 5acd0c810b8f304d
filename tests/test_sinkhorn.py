"""Sinkhorn, streamed: held against POT, OTT, dense NumPy and its own certificate."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, rel_entr

from rsgda import transport
from rsgda.transport import stream
from rsgda.transport.costs import Given, Quadratic

N, M, D = 37, 23, 3


@pytest.fixture(scope="module")
def clouds():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, D)), 0.5 + 1.3 * rng.normal(size=(M, D))
    return x, y, rng.dirichlet(np.full(N, 2.0)), rng.dirichlet(np.full(M, 2.0))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Five rows of x at a time, so that there are several chunks and the last is not full."""
    monkeypatch.setattr(stream, "CHUNK", 5 * M)


def dense(costs, a, b, epsilon, count):
    """The value and the plan, by plain iterations on the whole matrix."""
    v = np.zeros(len(b))
    for _ in range(count):
        u = -epsilon * logsumexp((v - costs) / epsilon + np.log(b), axis=1)
        v = -epsilon * logsumexp((u[:, None] - costs) / epsilon + np.log(a)[:, None], axis=0)
    plan = a[:, None] * b * np.exp((u[:, None] + v - costs) / epsilon)
    return u @ a + v @ b, plan


@pytest.mark.parametrize("epsilon", [pytest.param(0.05, marks=pytest.mark.slow), 0.5, 5.0])
def test_it_equals_pot(clouds, epsilon):
    x, y, a, b = clouds
    costs = cdist(x, y, "sqeuclidean")
    plan = ot.sinkhorn(
        a, b, costs, epsilon, method="sinkhorn_log", stopThr=1e-12, numItermax=100_000
    )
    kept = np.maximum(plan, 1e-300)
    wanted = np.sum(plan * costs) + epsilon * np.sum(plan * np.log(kept / (a[:, None] * b)))
    found = transport.sinkhorn(x, y, epsilon=epsilon, a=a, b=b, tol=1e-10, max_iterations=20_000)
    assert found.converged
    np.testing.assert_allclose(found.value, wanted, rtol=1e-8)
    np.testing.assert_allclose(found.plan_rows(slice(None)), plan, atol=1e-8)


@pytest.mark.slow
def test_it_equals_ott(clouds):
    ott_pointcloud = pytest.importorskip("ott.geometry.pointcloud")
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    x, y, a, b = clouds
    with jax.numpy_dtype_promotion("standard"):
        geometry = ott_pointcloud.PointCloud(jnp.asarray(x), jnp.asarray(y), epsilon=0.3)
        problem = linear_problem.LinearProblem(geometry, jnp.asarray(a), jnp.asarray(b))
        theirs = sinkhorn.Sinkhorn(threshold=1e-11, max_iterations=20_000)(problem)
        plan = np.asarray(theirs.matrix)
    found = transport.sinkhorn(x, y, epsilon=0.3, a=a, b=b, tol=1e-10, max_iterations=20_000)
    np.testing.assert_allclose(found.plan_rows(slice(None)), plan, atol=1e-8)
    costs = cdist(x, y, "sqeuclidean")
    value = np.sum(plan * costs) + 0.3 * np.sum(plan * np.log(plan / (a[:, None] * b)))
    np.testing.assert_allclose(found.value, value, rtol=1e-6)


COSTS = {
    "quadratic": ("quadratic", lambda x, y: cdist(x, y, "sqeuclidean")),
    "cosine": ("cosine", lambda x, y: cdist(x, y, "cosine")),
    "city block": (transport.p_norm(1.0), lambda x, y: cdist(x, y, "cityblock")),
    "cube of the 3-norm": (
        transport.p_norm(3.0, power=3.0),
        lambda x, y: cdist(x, y, "minkowski", p=3) ** 3,
    ),
    "largest": (transport.p_norm(np.inf), lambda x, y: cdist(x, y, "chebyshev")),
    "given": (
        lambda x, y: jnp.sum(jnp.abs(x - 2 * y)),
        lambda x, y: cdist(x, 2 * y, "cityblock"),
    ),
}


LONG = ("cube of the 3-norm", "largest", "city block")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in COSTS]
)
def test_costs(clouds, name):
    x, y, a, b = clouds
    cost, by_scipy = COSTS[name]
    value, plan = dense(by_scipy(x, y), a, b, 0.4, count=1_000)
    found = transport.sinkhorn(x, y, epsilon=0.4, a=a, b=b, cost=cost, tol=1e-9)
    np.testing.assert_allclose(found.value, value, rtol=1e-8)
    np.testing.assert_allclose(found.plan_rows(slice(None)), plan, atol=1e-8)
    # Not all of these costs are symmetric.
    np.testing.assert_allclose(found.potential_y(y), found.potentials[1], atol=1e-7)


def test_what_comes_with_the_plan(clouds):
    x, y, a, b = clouds
    _, plan = dense(cdist(x, y, "sqeuclidean"), a, b, 0.4, count=1_000)
    found = transport.sinkhorn(x, y, epsilon=0.4, a=a, b=b, tol=1e-10)
    np.testing.assert_allclose(found.plan_rows([4, 31]), plan[[4, 31]], atol=1e-9)
    np.testing.assert_allclose(
        found.plan_block([4, 31], slice(2, 9)), plan[[4, 31], 2:9], atol=1e-9
    )
    np.testing.assert_allclose(found.barycentric(), plan @ y / a[:, None], atol=1e-7)
    labels = np.eye(3)[np.arange(M) % 3]
    np.testing.assert_allclose(
        found.barycentric(values=labels), plan @ labels / a[:, None], atol=1e-7
    )
    np.testing.assert_array_equal(found.assignment(), plan.argmax(axis=1))
    u, v = found.potentials
    np.testing.assert_allclose(found.potential_x(x), u, atol=1e-12)
    np.testing.assert_allclose(v.sum(), 0, atol=1e-12)
    new = np.random.default_rng(1).normal(size=(7, D))
    wanted = -0.4 * logsumexp((v - cdist(new, y, "sqeuclidean")) / 0.4 + np.log(b), axis=1)
    np.testing.assert_allclose(found.potential_x(new), wanted, rtol=1e-10)
    # Rows are exact whatever v is; columns are off by the error that is told.
    whole = found.plan_rows(slice(None))
    np.testing.assert_allclose(whole.sum(axis=1), a, rtol=1e-10)
    np.testing.assert_allclose(np.abs(whole.sum(axis=0) - b).sum(), found.error, atol=1e-12)
    assert "37 × 23" in repr(found)


def test_the_certificate(clouds):
    x, y, a, b = clouds
    exact, _ = dense(cdist(x, y, "sqeuclidean"), a, b, 0.2, count=2_000)
    for iterations in (1, 2, 5, 20):
        found = transport.sinkhorn(
            x, y, epsilon=0.2, a=a, b=b, tol=1e-12, max_iterations=iterations
        )
        assert not found.converged
        assert found.iterations == iterations
        assert found.value <= exact + 1e-10 <= found.value + found.gap
        # The plan behind the certificate, as a whole: both marginals, and no dearer than it says.
        costs, got = cdist(x, y, "sqeuclidean"), found.plan_rows(slice(None))
        kept = got * np.minimum(1, b / got.sum(axis=0))
        left, lacking = (np.maximum(w - kept.sum(axis=k), 0) for w, k in ((a, 1), (b, 0)))
        whole = kept + np.outer(left, lacking) / lacking.sum()
        np.testing.assert_allclose(whole.sum(axis=1), a, rtol=1e-9)
        np.testing.assert_allclose(whole.sum(axis=0), b, rtol=1e-9)
        price = np.sum(whole * costs) + 0.2 * np.sum(rel_entr(whole, np.outer(a, b)))
        by_concavity = found.error / 2 * (np.ptp(costs, axis=1).max() + np.ptp(found.v))
        high = min(price, found.value + by_concavity)
        assert exact <= high <= found.value + found.gap + 1e-10
        assert found.gap <= by_concavity + 1e-12
        # No more than what splitting the entropy in two can cost, epsilon times log 2.
        assert found.value + found.gap <= price + 0.2 * np.log(2) + 1e-10


def test_the_limit_is_transport_without_entropy(clouds):
    x, y, a, b = clouds
    costs = cdist(x, y, "sqeuclidean")
    rows, columns = np.kron(np.eye(N), np.ones(M)), np.kron(np.ones(N), np.eye(M))
    cheapest = linprog(costs.ravel(), A_eq=np.r_[rows, columns], b_eq=np.r_[a, b]).fun
    found = transport.sinkhorn(
        x, y, epsilon=1e-3, a=a, b=b, scaling=0.5, tol=1e-6, max_iterations=50_000
    )
    assert found.converged
    # The entropy of a plan is between zero and that of nu.
    assert cheapest - 1e-8 <= found.value + found.gap
    assert found.value <= cheapest + 1e-3 * -np.sum(b * np.log(b))


@pytest.mark.slow
def test_acceleration_and_scaling_never_end_worse():
    rng = np.random.default_rng(5)
    for n, m, spread, epsilon in itertools.product((20,), (30,), (0.1, 1.0, 10.0), (0.02, 0.3)):
        x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) * spread
        passes = {}
        for accelerate, scaling in itertools.product((False, True), (None, 0.5)):
            found = transport.sinkhorn(
                x, y, epsilon=epsilon, tol=1e-6, max_iterations=4_000, accelerate=accelerate,
                scaling=scaling,
            )  # fmt: skip
            passes[accelerate, scaling] = found.iterations, found.value
        # At most the few passes that were taken back, and most often far fewer.
        assert passes[True, None][0] <= passes[False, None][0] + 2
        for _, value in passes.values():
            assert value >= passes[False, None][1] - 1e-5


def test_a_warm_start_is_shorter(clouds):
    x, y, a, b = clouds
    cold = transport.sinkhorn(x, y, epsilon=0.1, a=a, b=b, tol=1e-8)
    warm = transport.sinkhorn(x, y, epsilon=0.1, a=a, b=b, tol=1e-8, v=cold.potentials[1])
    assert warm.iterations == 1
    near = transport.sinkhorn(x, y + 1e-3, epsilon=0.1, a=a, b=b, tol=1e-8, v=cold.potentials[1])
    assert near.iterations < cold.iterations


@pytest.mark.slow
def test_chunks_make_no_difference(clouds, monkeypatch):
    x, y, a, b = clouds
    one = transport.sinkhorn(x, y, epsilon=0.3, a=a, b=b, max_iterations=7, tol=1e-12)
    monkeypatch.setattr(stream, "CHUNK", 10**6)
    other = transport.sinkhorn(x, y, epsilon=0.3, a=a, b=b, max_iterations=7, tol=1e-12)
    np.testing.assert_allclose(one.value, other.value, rtol=1e-13)
    np.testing.assert_allclose(one.potentials[1], other.potentials[1], atol=1e-12)


def test_points_of_no_weight(clouds):
    x, y, a, b = clouds
    none = np.where(np.arange(N) % 3 == 0, 0, a)
    none /= none.sum()
    held = none > 0
    one = transport.sinkhorn(x, y, epsilon=0.3, a=none, b=b, tol=1e-9)
    other = transport.sinkhorn(x[held], y, epsilon=0.3, a=none[held], b=b, tol=1e-9)
    np.testing.assert_allclose(one.value, other.value, rtol=1e-9)
    np.testing.assert_allclose(one.potential_y(y), one.potentials[1], atol=1e-7)


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (700.0, 0.0), (1.0, 300.0)])
def test_float32_is_accurate(scale, offset):
    """With epsilon a thousandth of the mean cost, costs up to 1e6, far from the origin, too."""
    rng = np.random.default_rng(2)
    x = (scale * rng.normal(size=(60, 2)) + offset).astype(np.float32)
    y = (scale * rng.normal(size=(40, 2)) + offset).astype(np.float32)
    costs = cdist(x.astype(float), y.astype(float), "sqeuclidean")
    epsilon = 1e-3 * costs.mean()
    v = transport.sinkhorn(x, y, epsilon=epsilon, max_iterations=300, tol=1e-12).potentials[1]
    v = np.asarray(v, np.float64)
    wanted = v.mean() - epsilon * np.mean(logsumexp((v - costs) / epsilon - np.log(40), axis=1))
    found = transport.sinkhorn(
        x, y, epsilon=epsilon, max_iterations=1, tol=1e-12, v=v.astype(np.float32)
    )
    assert found.potentials[1].dtype == jnp.float32
    np.testing.assert_allclose(found.value, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    "group", [4, *(pytest.param(more, marks=pytest.mark.slow) for more in (9, 256))]
)
@pytest.mark.parametrize("far", [0, 1, 9, M - 1])
def test_a_pass_sees_targets_that_get_next_to_nothing(monkeypatch, clouds, group, far):
    """In float32, several groups of them or one, held against float64 and the whole matrix."""
    monkeypatch.setattr(stream, "GROUP", group)
    x, y, a, b = clouds
    y = y.copy()
    y[3 : 3 + far] += 9.0
    v = np.linspace(-0.5, 0.5, M)
    logs = (v - cdist(x, y, "sqeuclidean")) / 0.2 + np.log(b)
    log_sums = logsumexp(logs, axis=1)
    wanted = logsumexp(logs - log_sums[:, None] + np.log(a)[:, None], axis=0)
    assert np.sum(wanted < np.log(stream.SMALL)) >= min(far, M - 3) * 0.9
    x, y, v, a, b, epsilon = (jnp.asarray(each, jnp.float32) for each in (x, y, v, a, b, 0.2))
    for cost in (Quadratic(), Given(lambda x, y: jnp.sum((x - y) ** 2))):
        rows = stream.chunked(x, a, M)
        seen = stream.look(rows, cost.targets(y), v, b, epsilon, cost=cost)
        # Squares of 300, of which float32 keeps 3e-5, over epsilon.
        np.testing.assert_allclose(seen.log_mean, wanted, rtol=1e-6, atol=5e-4)
        np.testing.assert_allclose(np.ravel(seen.u)[:N], -0.2 * log_sums, rtol=1e-6, atol=1e-4)


def test_far_targets_that_get_nothing_in_float32():
    """What a target gets underflows in every chunk; its potential must come up all the same."""
    x = np.linspace(0, 1, 20, dtype=np.float32)[:, None]
    y = np.array([[0.5], [60.0]], np.float32)
    found = transport.sinkhorn(x, y, epsilon=1.0, tol=1e-4)
    assert found.converged
    np.testing.assert_allclose(found.plan_rows(slice(None)).sum(axis=0), [0.5, 0.5], atol=1e-4)


@pytest.mark.slow
def test_divergence(clouds):
    x, y, a, b = clouds
    parts = [
        dense(cdist(one, other, "sqeuclidean"), p, q, 0.5, count=1_000)[0]
        for one, other, p, q in ((x, y, a, b), (x, x, a, a), (y, y, b, b))
    ]
    wanted = parts[0] - (parts[1] + parts[2]) / 2
    found = transport.divergence(x, y, epsilon=0.5, a=a, b=b, tol=1e-9)
    np.testing.assert_allclose(found.value, wanted, rtol=1e-8)
    rough = transport.divergence(x, y, epsilon=0.5, a=a, b=b, tol=0.3)
    assert rough.low <= wanted <= rough.high
    assert rough.high - rough.low > 1e-3
    np.testing.assert_allclose(transport.divergence(x, x, epsilon=0.5, a=a, b=a).value, 0)


@pytest.mark.parametrize("epsilon", [0.5, 30.0, 1e3, 1e5])
@pytest.mark.parametrize("shape", [(30, 20), (1, 20), (30, 1)])
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_the_certificate_holds_whatever_rounding_does(dtype, shape, epsilon):
    """On both sides: where epsilon is far above all costs, too, and for a v far from zero."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(shape[0], 2)).astype(dtype), rng.normal(size=(shape[1], 2))
        y, b = y.astype(dtype), rng.dirichlet(np.ones(shape[1])).astype(dtype)
        costs = cdist(x.astype(float), y.astype(float), "sqeuclidean")
        weights = b.astype(float) / b.astype(float).sum()
        exact, _ = dense(costs, np.full(len(x), 1 / len(x)), weights, float(epsilon), count=2_000)
        for start in (None, np.full(shape[1], 1e3) + rng.normal(size=shape[1])):
            found = transport.sinkhorn(x, y, epsilon=epsilon, b=b, tol=1e-5, v=start)
            assert found.value <= exact <= found.value + found.gap
            assert abs(float(np.sum(found.v))) < 1e-3


def test_a_block_is_that_part_of_the_rows():
    """In float32, of clusters that lie far apart."""
    rng = np.random.default_rng(0)
    side = np.where(np.arange(30) < 15, -70.0, 70.0)[:, None]
    x = (side + rng.normal(size=(30, 3))).astype(np.float32)
    y = (side[5:25] + rng.normal(size=(20, 3))).astype(np.float32)
    found = transport.sinkhorn(x, y, epsilon=5.0, tol=1e-2)
    rows = found.plan_rows(slice(None))
    for i, j in (([0, 3], [1, 2, 7]), (slice(15, 30), slice(10, 20)), ([29], slice(None))):
        block = rows[i][:, j]
        np.testing.assert_allclose(found.plan_block(i, j), block, rtol=1e-3, atol=1e-7)
    assert found.plan_rows([]).shape == (0, 20)
    for wrong in ([[0, 1]], [30], [0.5], "a"):
        with pytest.raises(ValueError, match="`rows` must be"):
            found.plan_rows(wrong)


def bad(**changes):
    def call(x, y):
        arguments = {"x": x, "y": y, "epsilon": 0.1} | changes
        return transport.sinkhorn(arguments.pop("x"), arguments.pop("y"), **arguments)

    return call


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"x": np.full((4, D), np.nan)}, "`x` must be finite.*NaN or infinity in 4 of 4 rows"),
        ({"x": np.ma.masked_less(np.arange(12.0).reshape(4, D), 3)}, "`x` must be plain real"),
        ({"y": np.ones((4, D)) * 1j}, "`y` must be plain real numbers"),
        ({"x": np.full((4, D), 1e200)}, "costs between `x` and `y` must be finite in float64"),
        ({"epsilon": 5e-324}, "`epsilon` must be one that float64 can hold"),
        ({"v": np.zeros(M, complex)}, "`v` must hold one finite number"),
        ({"tol": np.ones(2)}, "`tol` must be a single number"),
        ({"tol": lambda k: 1.0}, "`tol` must be a single number"),
        ({"accelerate": "no"}, "`accelerate` must be True or False"),
        ({"cost": np.zeros((N, M))}, "`cost` must be 'quadratic', 'cosine'"),
        ({"cost": lambda x, y: x - y}, r"`cost` must make one number.*shape \(3,\)"),
        ({"cost": lambda x: x.sum()}, "`cost` must be a function.*it failed on them"),
        ({"cost": lambda x, y: np.sum(np.asarray(x))}, "`cost` must be a function.*jax.numpy"),
        ({"y": np.zeros((0, D))}, r"`y` must be an array of points.*\(0, 3\)"),
        ({"x": np.zeros(5)}, r"`x` must be an array of points.*\(5,\)"),
        ({"x": "cloud"}, "`x` must be an array of points"),
        ({"y": np.zeros((4, D + 1))}, "`x` and `y` must have one dimension, got 3 and 4"),
        ({"epsilon": 0.0}, "`epsilon` must be a positive"),
        ({"epsilon": np.ones(2)}, "`epsilon` must be a single number"),
        ({"a": np.full(N, 1.0)}, "`a` must sum to one, got a sum of 37"),
        ({"b": np.full(M + 1, 1 / (M + 1))}, r"`b` must hold one weight for each of 23 points"),
        ({"b": np.r_[-0.1, np.full(M - 1, 1.1 / (M - 1))]}, "`b` must be positive.*got -0.1 at 0"),
        ({"b": np.r_[0.0, np.full(M - 1, 1 / (M - 1))]}, "`b` must be positive.*got 0 at 0"),
        ({"a": "heavy"}, "`a` must hold 37 numbers"),
        ({"v": np.zeros(3)}, r"`v` must hold one finite number for each of the 23 points"),
        ({"v": np.full(M, np.nan)}, "`v` must hold one finite number"),
        ({"tol": -1.0}, "`tol` must be a positive"),
        ({"max_iterations": 0}, "`max_iterations` must be a whole"),
        ({"scaling": 2.0}, "`scaling` must be above 0 and at most 0.99"),
        ({"scaling": 0.9999999}, "`scaling` must be above 0 and at most 0.99"),
        ({"cost": "manhattan"}, "`cost` must be 'quadratic', 'cosine'"),
    ],
)
def test_wrong_input(clouds, changes, match):
    with pytest.raises(ValueError, match=match):
        bad(**changes)(*clouds[:2])


def test_wrong_norms():
    with pytest.raises(ValueError, match=r"`p` must be a number of at least 1, got 0\.5"):
        transport.p_norm(0.5)
    with pytest.raises(ValueError, match="`power` must be"):
        transport.p_norm(2.0, power=np.inf)


def test_wrong_questions(clouds):
    x, y, *_ = clouds
    found = transport.sinkhorn(x, y, epsilon=1.0)
    with pytest.raises(ValueError, match="`points` must have 3 dimensions, got 2"):
        found.potential_x(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="`values` must have a row for each of the 23"):
        found.barycentric(values=np.zeros((4, 2)))
    with pytest.raises(ValueError, match="`values` must be"):
        found.barycentric(values=np.full((M, 1), "T"))
    with pytest.raises(ValueError, match="`a` must be positive"):
        transport.divergence(x, y, epsilon=1.0, a=np.r_[0.0, np.full(N - 1, 1 / (N - 1))])


@pytest.mark.parametrize("p", [1.0, 1.5, 3.0, 10.0, 100.0])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_norms_of_any_size(p, power):
    """Held against NumPy; also near zero, and where powers of float32 would overflow."""
    y = np.array([[0, 0], [1e-4, 0], [3, 4], [-1e4, 1], [1e6, 2e5]], np.float32)
    x = np.zeros((1, 2), np.float32)
    cost = transport.p_norm(p, power=power)
    found = cost.matrix(jnp.asarray(x), jnp.asarray(y))[0]
    assert found.dtype == jnp.float32

    def norm(point):
        largest = np.abs(point).max()
        return largest * np.linalg.norm(point / largest, ord=p) if largest else 0.0

    wanted = [norm(point) ** power for point in y.astype(float)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    slopes = jax.grad(lambda y: jnp.sum(cost.matrix(jnp.asarray(x), y)))(jnp.asarray(y))
    assert np.all(np.isfinite(slopes))
    for k, axis in ((1, 0), (2, 0), (2, 1), (4, 0), (4, 1)):
        step = 1e-5 * abs(y[k]).max() * np.eye(2)[axis]
        ends = [norm(y[k] + s * step) ** power for s in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * np.abs(step).max())
        np.testing.assert_allclose(slopes[k, axis], slope, rtol=1e-3, atol=1e-4)


def test_weights_that_vanish_in_their_type_are_refused():
    x, y = np.zeros((2, 1), np.float32), np.arange(3, dtype=np.float32)[:, None]
    for least in (1e-50, 1e-39):
        with pytest.raises(ValueError, match="`b` must be positive"):
            transport.sinkhorn(x, y, epsilon=0.5, b=[0.5, 0.5, least])


@pytest.mark.slow
def test_the_certificate_allows_for_rounding():
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(n, 5)).astype(np.float32) for n in (200, 150))
    x += 100
    found = transport.sinkhorn(x, y, epsilon=1.0, tol=1e-5)
    assert found.x.dtype == jnp.float32
    exact = transport.sinkhorn(x.astype(float), y.astype(float), epsilon=1.0, tol=1e-9)
    assert found.value <= exact.value <= found.value + found.gap
