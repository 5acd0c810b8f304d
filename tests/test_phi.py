"""Certified phi: the value is right, the gap holds, and what does not hold is said."""

import dataclasses
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.optimize

import rsgda
import rsgda.whole
from rsgda import projections
from rsgda.inner import maximise, numbers
from rsgda.whole import whole

KEY = jr.key(2)
D = 8


def quadratic(theta, v):
    """b(theta) v - v H v / 2, with H and b in theta: one program for all of them."""
    return jnp.sin(theta["a"]) @ theta["B"] @ v - 0.5 * v @ theta["H"] @ v


def case(seed, d=D, kappa=50.0):
    """A quadratic, not square in theta and v, with curvatures from 1 / kappa to 1."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(d, d)))
    curvatures = np.exp(rng.uniform(-np.log(kappa), 0, size=d))
    curvatures[0], curvatures[-1] = 1 / kappa, 1
    H = (axes * curvatures) @ axes.T
    parts = {"a": rng.normal(size=5), "B": rng.normal(size=(5, d)), "H": (H + H.T) / 2}
    return jax.tree.map(jnp.asarray, parts), jnp.asarray(10 * rng.normal(size=d))


def holds(found, exact, tol):
    """Whether the interval holds the exact phi, up to the rounding of F."""
    rounding = 1e-12 * (1 + abs(exact))
    assert found.certified
    assert found.gap <= tol
    assert found.value - rounding <= exact <= found.value + found.gap + rounding


@pytest.mark.parametrize(("kinds", "kappa"), [("A", 3.0), ("ABCD", 1000.0)])
def test_toy_problems(kinds, kappa):
    toy = rsgda.problems.Toy(kinds=kinds, kappa=kappa)
    theta, v = toy.start()
    found = rsgda.phi(toy.problem, theta, v, tol=1e-8)
    holds(found, float(toy.phi(theta)), 1e-8)
    assert found.mu == pytest.approx(toy.mu / 2, rel=1e-6)
    # |v - v*| <= sqrt(2 gap / mu), and L bounds the cross derivative.
    error = np.sqrt(2 * 1e-8 / toy.mu)
    np.testing.assert_allclose(found.v, toy.v_star(theta), atol=error)
    norm = float(jnp.linalg.norm(toy.grad_phi(theta)))
    assert found.grad_norm == pytest.approx(norm, abs=toy.L * error)
    assert found.grad_norm == pytest.approx(
        float(jnp.linalg.norm(jax.grad(toy.loss)(theta, found.v))), rel=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [10.0, 1e4])
def test_the_interval_holds_on_many_quadratics(kappa):
    problem = rsgda.Problem(quadratic)
    for seed in range(12):
        theta, v = case(seed, kappa=kappa)
        b = jnp.sin(theta["a"]) @ theta["B"]
        exact = float(0.5 * b @ jnp.linalg.solve(theta["H"], b))
        for tol in (1e-1, 1e-5):
            found = rsgda.phi(problem, theta, v, tol=tol)
            holds(found, exact, tol)
            assert found.mu <= 1 / kappa


@pytest.mark.slow
def test_the_constant_is_seen_among_many_curvatures():
    """More dimensions than Lanczos takes steps: what it takes for the smallest is small enough."""
    theta, v = case(0, d=150, kappa=1000.0)
    found = rsgda.phi(rsgda.Problem(quadratic), theta, v, tol=1e-5)
    b = jnp.sin(theta["a"]) @ theta["B"]
    holds(found, float(0.5 * b @ jnp.linalg.solve(theta["H"], b)), 1e-5)
    assert 0.2e-3 < found.mu <= 1e-3


def test_a_user_constant_is_used():
    theta, v = case(1)
    problem = rsgda.Problem(quadratic)
    found = rsgda.phi(problem, theta, v, tol=1e-6, mu=1 / 50)
    assert (found.mu, found.certified) == (1 / 50, True)
    b = jnp.sin(theta["a"]) @ theta["B"]
    holds(found, float(0.5 * b @ jnp.linalg.solve(theta["H"], b)), 1e-6)
    careful = rsgda.phi(problem, theta, v, tol=1e-6, mu=1 / 5000)
    assert careful.gradients > found.gradients


# Projections, against SciPy.

START = {"simplex": np.eye(D)[0]}
SETS = {
    "box": (projections.box(-0.3, 0.5), {"bounds": [(-0.3, 0.5)] * D}),
    "ball": (
        projections.ball(0.5),
        {"constraints": [{"type": "ineq", "fun": lambda v: 0.25 - v @ v, "jac": lambda v: -2 * v}]},
    ),
    "simplex": (
        projections.simplex(),
        {"bounds": [(0, 1)] * D, "constraints": [{"type": "eq", "fun": lambda v: v.sum() - 1}]},
    ),
    "zero sum": (
        projections.zero_sum_ball(0.8),
        {
            "constraints": [
                {"type": "eq", "fun": lambda v: v.sum()},
                {"type": "ineq", "fun": lambda v: 0.64 - v @ v, "jac": lambda v: -2 * v},
            ]
        },
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("ball", "box", "simplex")))
        for name in SETS
    ],
)
def test_projections_against_scipy(name):
    project, constraints = SETS[name]
    problem = rsgda.Problem(quadratic, project_v=project)
    for seed in range(3):
        theta, outside = case(seed)
        inside = START.get(name, np.zeros(D))
        oracle = scipy.optimize.minimize(
            lambda v, theta=theta: -float(quadratic(theta, jnp.asarray(v))),
            inside,
            jac=lambda v, theta=theta: -np.asarray(jax.grad(quadratic, 1)(theta, jnp.asarray(v))),
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
            **constraints,
        )
        for start in (jnp.asarray(inside), outside):  # a start outside is projected first
            found = rsgda.phi(problem, theta, start, tol=1e-7)
            assert found.certified
            assert found.gap <= 1e-7
            assert found.value - 1e-8 <= -oracle.fun <= found.value + found.gap + 1e-8
            np.testing.assert_allclose(project(found.v), found.v, atol=1e-12)


def centred(theta, v):
    """Flat along the vector of ones."""
    return quadratic(theta, v - jnp.mean(v))


@pytest.mark.slow
def test_flat_along_what_the_set_leaves_out():
    theta, v = case(3)
    centre = np.eye(D) - 1 / D
    H = centre @ np.asarray(theta["H"]) @ centre
    b = centre @ np.asarray(jnp.sin(theta["a"]) @ theta["B"])
    exact = 0.5 * b @ np.linalg.pinv(H, rcond=1e-10) @ b
    project = projections.zero_sum_ball(1e4)  # the ball is too wide to matter
    found = rsgda.phi(rsgda.Problem(centred, project_v=project), theta, v, tol=1e-7)
    holds(found, float(exact), 1e-7)
    assert found.mu == pytest.approx(np.linalg.eigvalsh(H)[1] / 2, rel=0.3)
    with pytest.warns(rsgda.ConcavityWarning, match="not strongly concave"):
        found = rsgda.phi(rsgda.Problem(centred), theta, v, tol=1e-7)
    assert (found.certified, found.gap, found.mu) == (False, np.inf, 0)
    assert found.value == pytest.approx(exact, abs=1e-4)


@pytest.mark.slow
def test_a_set_that_is_one_point():
    theta, v = case(4)
    found = rsgda.phi(rsgda.Problem(quadratic, project_v=projections.box(0.5, 0.5)), theta, v)
    assert found.certified
    assert found.value == pytest.approx(float(quadratic(theta, jnp.full(D, 0.5))))
    assert found.gap == 0


# Data, samplers, separable v.

rng = np.random.default_rng(5)
X, Y, WEIGHT = rng.normal(size=(13, 3)), rng.normal(size=13), rng.uniform(0.5, 2.0, size=13)
THETA = jnp.asarray(rng.normal(size=3))


def rows_loss(theta, v, batch):
    x, y, weight = batch
    row = (jnp.tanh(v["z"] @ theta) - y) ** 2 - 5 * jnp.sum((v["z"] - x) ** 2, axis=1)
    return jnp.mean(weight * row)


def all_rows(theta, v):
    return rows_loss(theta, v, (X, Y, WEIGHT))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("project", "prepare"),
    [
        (None, None),
        (projections.ball(0.8, rows=True), jnp.sin),
    ],
)
def test_rows_by_themselves_or_all_together(project, prepare, monkeypatch):
    monkeypatch.setattr(rsgda.whole, "CHUNK", 4)
    options = {"project_v": project, "prepare": prepare}
    start = {"z": jnp.asarray(X)}
    rows = rsgda.Problem(rows_loss, data=(X, Y, WEIGHT), batch_size=4, separable=True, **options)
    found = rsgda.phi(rows, THETA, start, tol=1e-8)
    dense = rsgda.phi(rsgda.Problem(all_rows, **options), THETA, start, tol=1e-10)
    holds(found, dense.value, 1e-8)
    assert (found.rows_certified, found.rest) == (1, 0)
    assert found.rows_gap == pytest.approx(found.gap)
    assert dense.rows_certified is None
    np.testing.assert_allclose(found.v["z"], dense.v["z"], atol=1e-3)
    assert found.grad_norm == pytest.approx(dense.grad_norm, abs=1e-3)
    # The constant is that of the mean over rows, with the projection or without.
    assert found.mu == pytest.approx(dense.mu, rel=0.2)
    if project is not None:
        return
    given = rsgda.phi(rows, THETA, start, tol=1e-8, mu=dense.mu)
    holds(given, dense.value, 1e-8)
    assert given.mu == pytest.approx(dense.mu)
    with pytest.warns(rsgda.ConcavityWarning, match="of 13 rows"):
        assert not rsgda.phi(rows, THETA, start, mu=100 * dense.mu).certified


def some_bent(theta, v, x):
    """Rows with x > 0 are concave with the maximum x; the others are double wells."""
    return jnp.mean(jnp.where(x > 0, x - (v - theta) ** 2, -((v**2 - 1) ** 2) + 3))


@pytest.mark.slow
def test_the_rows_that_fail_are_told():
    data = jnp.array([1.0, 2.0, -1.0, 3.0, -1.0])
    problem = rsgda.Problem(some_bent, data=data, batch_size=2, separable=True)
    with pytest.warns(rsgda.ConcavityWarning, match="2 of 5 rows of F are not strongly concave"):
        found = rsgda.phi(problem, jnp.asarray(1.0), jnp.full(5, 0.1), tol=1e-6)
    assert (found.certified, found.gap) == (False, np.inf)
    assert found.rows_certified == pytest.approx(3 / 5)
    assert 0 <= found.rows_gap <= 1e-6
    assert found.rest == pytest.approx(2 * 3 / 5, abs=1e-4)  # the wells' bottoms, 3, were found
    assert found.value == pytest.approx((1 + 2 + 3 + 3 + 3) / 5, abs=1e-4)


def moments(theta, v, x):
    return jnp.mean(theta * x * v - 0.5 * (1 + x**2) * v**2)


def test_all_rows_of_the_data(monkeypatch):
    monkeypatch.setattr(rsgda.whole, "CHUNK", 4)
    x = np.random.default_rng(0).exponential(size=13)
    found = rsgda.phi(
        rsgda.Problem(moments, data=x, batch_size=3), jnp.asarray(2.0), jnp.asarray(9.0)
    )
    holds(found, float((2 * x.mean()) ** 2 / (2 * (1 + (x**2).mean()))), 1e-6)


@pytest.mark.slow
def test_a_sampler_is_a_mean_over_its_batches():
    toy = rsgda.problems.Toy(kinds="AC", kappa=5.0, s=0.2, t=0.5)
    theta, v = toy.start()
    found = rsgda.phi(toy.problem, theta, v, key=KEY, batches=7)
    # The noise is linear: s <xi, theta> + t <zeta, v> with the means over the seven batches.
    xi, zeta, _ = jax.vmap(toy.sample)(jax.vmap(lambda i: jr.fold_in(KEY, i))(jnp.arange(7)))
    shift = 0.5 * zeta.astype(float).mean((0, 1))
    m = -jax.vmap(jax.grad(lambda v: toy.loss(theta, v).sum()))(jnp.eye(2)).diagonal()
    m = m + jax.grad(toy.loss, 1)(theta, jnp.zeros(2))
    slope = jax.grad(toy.loss, 1)(theta, jnp.zeros(2)) + shift
    exact = toy.loss(theta, jnp.zeros(2)) + jnp.sum(slope**2 / (2 * m))
    exact += 0.2 * jnp.sum(xi.astype(float).mean((0, 1)) * theta)
    holds(found, float(exact), 1e-6)


# Trees.


class Player(eqx.Module):
    weight: jax.Array
    power: int
    act: object


def tree_loss(theta, v):
    inner = theta["net"].act(theta["net"].weight) ** theta["net"].power
    return jnp.sum(inner * v["w"]) - jnp.sum(v["w"] ** 2) - v["b"].astype(float) ** 2


@pytest.mark.slow
def test_trees_keep_their_structure():
    theta = {"net": Player(jnp.array([0.3, -1.0, 2.0]), 2, jnp.tanh)}
    v = {"w": np.ones(3), "b": jnp.ones((), "float32"), "name": "potential"}
    found = rsgda.phi(rsgda.Problem(tree_loss), theta, v, tol=1e-8)
    assert found.v["name"] == "potential"
    assert (found.v["w"].dtype, found.v["b"].dtype) == (jnp.float64, jnp.float32)
    holds(found, float(jnp.sum(jnp.tanh(theta["net"].weight) ** 4) / 4), 1e-8)
    np.testing.assert_allclose(found.v["w"], jnp.tanh(theta["net"].weight) ** 2 / 2, atol=1e-4)


# Floats of 32 bits.


def test_single_precision():
    toy = rsgda.problems.Toy(kinds="ABC", kappa=1000.0)
    theta, v = toy.start("float32")
    found = rsgda.phi(toy.problem, theta, v, tol=1e-4)
    exact = float(toy.phi(theta.astype(float)))
    assert found.certified
    assert found.gap <= 1e-4
    assert found.v.dtype == jnp.float32
    assert abs(found.value - exact) <= 1e-4 + 4e-7 * exact
    assert found.gradients < 200


@pytest.mark.slow
def test_single_precision_beyond_its_means():
    """What rounding does not allow is not waited for, and is not claimed."""
    theta, v = jax.tree.map(lambda leaf: leaf.astype("float32"), case(6, kappa=100.0))
    found = rsgda.phi(rsgda.Problem(quadratic), theta, v, tol=1e-30, max_gradients=300)
    assert found.gradients <= 301
    assert 1e-30 < found.gap < 1e-6
    assert "tol = 1e-30 was not reached" in found.message


# What does not hold.


def double_well(theta, v):
    return theta - jnp.sum((v**2 - 1) ** 2)


@pytest.mark.parametrize("start", [0.0, 0.1, -0.4, 0.56])
def test_not_concave(start):
    theta, v = jnp.asarray(1.0), jnp.full(2, start)
    with pytest.warns(rsgda.ConcavityWarning, match="a lower bound of phi only") as warned:
        found = rsgda.phi(rsgda.Problem(double_well), theta, v)
    assert warned[0].filename == __file__
    assert str(warned[0].message) == found.message
    assert (found.certified, found.gap, found.mu) == (False, np.inf, 0)
    assert float(double_well(theta, v)) <= found.value <= 1
    assert found.value == pytest.approx(float(double_well(theta, found.v)), abs=1e-15)
    if start:
        assert found.value > 1 - 1e-5


def test_a_wrong_constant_is_told():
    theta, v = case(7, kappa=20.0)
    with pytest.warns(rsgda.ConcavityWarning, match=r"a curvature of 0\.05 was seen"):
        found = rsgda.phi(rsgda.Problem(quadratic), theta, v, mu=0.06)
    assert (found.certified, found.gap) == (False, np.inf)
    rsgda.phi(rsgda.Problem(quadratic), theta, v, mu=0.04999)


def sharp(theta, v):
    """Curvature 0.06 at the start, 0, and 0.01 around the maximum, near 5."""
    return -0.005 * (v - 10 * theta) ** 2 - 0.05 * jnp.logaddexp(v, -v)


@pytest.mark.slow
def test_a_constant_that_holds_at_the_start_only():
    """Curvature falls on the way: the constant is measured again and the ascent goes on."""
    theta, v = jnp.asarray(1.0), jnp.asarray(0.0)
    found = rsgda.phi(rsgda.Problem(sharp), theta, v, tol=1e-7)
    oracle = scipy.optimize.minimize_scalar(
        lambda v: -float(sharp(theta, jnp.asarray(v))), bracket=(0.0, 3.0), options={"xtol": 1e-12}
    )
    holds(found, -oracle.fun, 1e-7)
    assert found.mu == pytest.approx(0.005, rel=1e-2)


def test_never_below_the_start():
    """From a start that is the maximum nothing is lost."""
    theta, _ = case(8)
    b = jnp.sin(theta["a"]) @ theta["B"]
    best = jnp.linalg.solve(theta["H"], b)
    found = rsgda.phi(rsgda.Problem(quadratic), theta, best, tol=1e-12)
    assert found.value >= float(quadratic(theta, best))


def kinked(theta, v):
    """Strongly concave with 0.01, but far steeper near the start."""
    a, c = theta
    return -0.01 * jnp.sum(jnp.logaddexp(a @ v, -a @ v)) - 0.005 * jnp.sum((v - c) ** 2)


@pytest.mark.slow
def test_a_limit_far_from_the_maximum_gives_an_honest_gap():
    """The constant is small where the maximiser is, which few gradients do not come near."""
    problem, draw = rsgda.Problem(kinked), np.random.default_rng(0)
    for _ in range(12):
        theta = jnp.asarray(100 * draw.normal(size=(8, 6))), jnp.asarray(30 * draw.normal(size=6))
        best = rsgda.phi(problem, theta, theta[1], tol=1e-9, mu=0.01).value
        for limit in (1, 2, 5):
            found = rsgda.phi(problem, theta, jnp.zeros(6), tol=1e-9, max_gradients=limit)
            assert found.gap > 1e-9
            assert found.value <= best <= found.value + found.gap


def log_spread(theta, v):
    return -0.5 * jnp.sum(theta * v**2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kappa", "count"), [(1e3, 600), pytest.param(1e6, 2000, marks=pytest.mark.slow)]
)
def test_a_constant_that_is_not_resolved_certifies_nothing(kappa, count):
    """All that is lacking lies along the softest of many directions."""
    curvatures = np.geomspace(1 / kappa, 1, count)
    start = jnp.zeros(count).at[0].set(np.sqrt(2 * kappa))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rsgda.ConcavityWarning)
        found = rsgda.phi(rsgda.Problem(log_spread), jnp.asarray(curvatures), start, tol=1.0)
    assert 0 <= -found.value <= found.gap
    assert found.certified == (kappa == 1e3)


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_a_limit_gives_an_honest_gap(limit):
    for seed in range(4):
        theta, v = case(seed, kappa=1000.0)
        found = rsgda.phi(rsgda.Problem(quadratic), theta, v, max_gradients=limit)
        b = jnp.sin(theta["a"]) @ theta["B"]
        exact = float(0.5 * b @ jnp.linalg.solve(theta["H"], b))
        assert found.gradients <= limit + 1
        assert found.certified
        assert found.gap > 1e-6
        assert float(quadratic(theta, v)) <= found.value <= exact <= found.value + found.gap
        assert f"not reached within {limit} gradients" in found.message


# The program.


@pytest.mark.slow
def test_counts_are_what_the_program_asks_for():
    """Gradients and products are counted where they are computed."""
    asked = {"slope": 0, "product": 0, "value": 0}

    class Counting(rsgda.whole.Whole):
        def _told(self, name, result):
            def add(_):
                asked[name] += 1

            leaf = jax.tree.leaves(result)[0]
            jax.debug.callback(add, leaf)
            return result

        def value_from(self, prepared, v):
            return self._told("value", super().value_from(prepared, v))

        def slope_v_from(self, prepared, v):
            return self._told("slope", super().slope_v_from(prepared, v))

        def product_v_from(self, prepared, v, u):
            return self._told("product", super().product_v_from(prepared, v, u))

    F = Counting(rsgda.Problem(quadratic, project_v=projections.ball(5.0)), None, 1)
    found = maximise(F, *case(9), numbers(1e-6, None, 1000), jr.key(0))
    jax.effects_barrier()
    assert asked["slope"] + 1 == found.gradients  # and one in theta
    assert asked["value"] == found.values
    assert asked["product"] == found.products


def test_compiled_once():
    traced = []

    def counted(theta, v):
        traced.append(None)
        return theta * v - v**2

    problem = rsgda.Problem(counted)
    rsgda.phi(problem, jnp.asarray(1.0), jnp.asarray(0.0), mu=1.0)
    before = len(traced)
    for tol, mu, limit in ((1e-3, 2, 50), (1, 0.5, 7)):
        rsgda.phi(problem, jnp.asarray(3.0), jnp.asarray(1.0), tol=tol, mu=mu, max_gradients=limit)
    assert len(traced) == before


@pytest.mark.slow
def test_it_maps():
    problem = rsgda.Problem(quadratic)
    cases = [case(seed) for seed in range(3)]
    thetas, vs = jax.tree.map(lambda *leaves: jnp.stack(leaves), *cases)
    wanted = numbers(1e-6, None, 1000)
    many = jax.vmap(lambda theta, v: maximise(whole(problem), theta, v, wanted, jr.key(0)))(
        thetas, vs
    )
    for i, (theta, v) in enumerate(cases):
        alone = rsgda.phi(problem, theta, v)
        np.testing.assert_allclose(many.value[i], alone.value, rtol=1e-12)
        assert many.gap[i] <= 1e-6


def test_wrong_input():
    theta, v = case(0)
    problem = rsgda.Problem(quadratic)
    for name, value in (
        ("tol", 0.0), ("tol", "small"), ("mu", -1.0), ("max_gradients", 0), ("max_gradients", 1.5),
        ("batches", 0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"`{name}` must be"):
            rsgda.phi(problem, theta, v, **{name: value})
    with pytest.raises(ValueError, match=r"`problem` must be an rsgda\.Problem"):
        rsgda.phi(quadratic, theta, v)
    with pytest.raises(ValueError, match="`v` must be finite"):
        rsgda.phi(problem, theta, v * jnp.nan)
    with pytest.raises(ValueError, match="`theta` must hold at least one floating array"):
        rsgda.phi(problem, 3, v)
    with pytest.raises(ValueError, match="`key` must be given"):
        rsgda.phi(rsgda.problems.Toy(t=1.0).problem, jnp.ones(3), jnp.ones(3))
    with pytest.raises(ValueError, match="`loss` must be finite at the start"):
        rsgda.phi(rsgda.Problem(lambda theta, v: jnp.log(-(v**2)) * theta), v[0] * 0 + 1, v[0])
    with pytest.raises(ValueError, match="`v` must hold at least one number"):
        rsgda.phi(problem, theta, jnp.zeros(0))
    rows = rsgda.Problem(rows_loss, data=(X, Y, WEIGHT), batch_size=4, separable=True)
    with pytest.raises(ValueError, match="`loss` must be finite at all rows of the start"):
        rsgda.phi(
            dataclasses.replace(rows, data=(X, np.where(np.arange(13) == 3, np.nan, Y), WEIGHT)),
            THETA,
            {"z": jnp.asarray(X)},
        )
    with pytest.raises(ValueError, match="one row for each of the 13 rows"):
        rsgda.phi(rows, THETA, {"z": jnp.asarray(X[:5])})
    coupled = dataclasses.replace(rows, project_v=projections.ball(1.0))
    with pytest.raises(ValueError, match="`project_v` must treat each row by itself"):
        rsgda.phi(coupled, THETA, {"z": jnp.asarray(X)})
