"""Measured constants, against closed forms and against Hessians that the tests write down."""

import dataclasses
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import psutil
import pytest

import rsgda
from rsgda.problems import Toy
from rsgda.theory.measured import Estimate, estimate
from rsgda.theory.regularity import Regularity

rng = np.random.default_rng(3)
KEY = jr.key(7)


def near(value, true, rtol=0.01):
    np.testing.assert_allclose(value, true, rtol=rtol)


# The toy family.

EXACT = [
    Toy(kinds="ABCD", kappa=10.0),
    Toy(kinds="AC", kappa=1000.0, L=3.0),
    Toy(kinds="AD", L=0.5),
]
NOISY = [
    Toy(kinds="ABC", kappa=10.0, s=0.3, t=0.2, rho=0.02),
    Toy(kinds="AD", kappa=30.0, L=2.0, s=0.1, t=0.4, rho=0.05, batch_size=3),
]


@pytest.mark.parametrize(
    "toy", [EXACT[0], *(pytest.param(toy, marks=pytest.mark.slow) for toy in EXACT[1:])], ids=repr
)
def test_exact_toys_to_rounding(toy):
    theta = jnp.full(toy.d, jnp.pi)
    v = toy.v_star(theta) + 0.3
    r = estimate(toy.problem, theta, v, key=KEY, inf_phi=toy.inf_phi)
    near([r.L, r.mu, r.L_max], [toy.L, toy.mu, toy.L_max], 1e-9)
    assert (r.sigma, r.sigma_v, r.worst, r.concave) == (0, 0, None, True)
    assert r.r0 >= 0.09 * toy.d * (1 - 1e-9)
    assert toy.phi(theta) <= r.D0
    assert r.products <= 4 * toy.d
    if len({*toy.kinds} & set("ABD")) == toy.d:  # one curvature only: the bounds are attained
        near([r.r0, r.D0], [0.09 * toy.d, toy.phi(theta)], 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("toy", NOISY, ids=repr)
def test_noisy_toys_within_a_hundredth(toy):
    theta = jnp.full(toy.d, jnp.pi)
    far = estimate(toy.problem, theta, toy.v_star(theta) + 300.0, key=KEY)
    near([far.L, far.mu], [toy.L, toy.mu], 1e-6)
    near(far.sigma, toy.sigma)
    top = estimate(toy.problem, theta, toy.v_star(theta), key=KEY)
    near(top.sigma_v, toy.sigma_v)
    near(top.sigma, toy.s * (toy.d / toy.batch_size) ** 0.5)
    near(top.L_max, toy.L_max, 1e-9)  # some of the draws have all signs alike
    assert top.concave
    along = estimate(toy.problem, theta, toy.v_star(theta), key=KEY, points=[(theta, theta + 300)])
    near([along.sigma, along.L_max], [toy.sigma, toy.L_max])
    assert along.kind == "largest along a run of 2 points, not a global constant"


# Quadratics with rows: theta and v of different sizes, everything known.


def quadratic(theta, v, rows):
    """1/2 theta' P theta + theta' B v - 1/2 v' M v + <c, theta> + <d, v>, a mean over rows."""
    P, B, M, c, d = rows
    curved = jnp.einsum("i,kij,j->k", theta, P, theta) - jnp.einsum("i,kij,j->k", v, M, v)
    crossed = jnp.einsum("i,kij,j->k", theta, B, v)
    return jnp.mean(0.5 * curved + crossed + c @ theta + d @ v)


def rows_of(n, p, q):
    P = rng.normal(size=(n, p, p))
    M = rng.normal(size=(n, q, 2 * q))
    M = M @ M.transpose(0, 2, 1) / q + 0.3 * np.eye(q)
    B = rng.normal(size=(n, p, q))
    return P + P.transpose(0, 2, 1), B, M, rng.normal(size=(n, p)), rng.normal(size=(n, q))


DATA = rows_of(23, 5, 3)
THETA, V = rng.normal(size=5), rng.normal(size=3)


def by_hand(data, theta, v, basis=None):
    """(L, mu, L_max, sigma^2, sigma_v^2) of single rows, by dense linear algebra."""
    P, B, M, c, d = data
    q = np.eye(len(v)) if basis is None else basis
    Pm, Bm, Mm = P.mean(0), B.mean(0) @ q, q.T @ M.mean(0) @ q
    joint = np.block([[Pm, Bm], [Bm.T, -Mm]])
    of_theta = P @ theta + B @ v + c
    of_v = np.einsum("kij,i->kj", B, theta) - M @ v + d
    return (
        np.linalg.norm(joint, 2),
        np.linalg.eigvalsh(Mm)[0],
        max(np.linalg.norm(q.T @ m @ q, 2) for m in M),
        np.sum((of_theta - of_theta.mean(0)) ** 2, axis=1).mean(),
        np.sum((of_v - of_v.mean(0)) ** 2, axis=1).mean(),
    )


@pytest.mark.parametrize("b", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_quadratics_to_rounding(b):
    problem = rsgda.Problem(quadratic, data=DATA, batch_size=b)
    r = estimate(problem, jnp.asarray(THETA), jnp.asarray(V), key=KEY)
    L, mu, L_max, noise, noise_v = by_hand(DATA, THETA, V)
    near([r.L, r.mu, r.L_max], [L, mu, L_max], 1e-9)
    near([r.sigma, r.sigma_v], [(noise / b) ** 0.5, (noise_v / b) ** 0.5], 1e-9)
    assert r.worst == min(range(23), key=lambda j: np.linalg.eigvalsh(DATA[2][j])[0])
    assert (r.D0, r.points, r.eta_scale, r.concave) == (None, 1, 1.0, True)
    assert r.gradients == 4 * 23
    gradient = DATA[1].mean(0).T @ THETA - DATA[2].mean(0) @ V + DATA[4].mean(0)
    near(r.r0, gradient @ gradient / mu**2, 1e-9)


def test_the_noise_is_that_of_the_minibatches_drawn():
    problem = rsgda.Problem(quadratic, data=DATA, batch_size=4)
    theta, v = jnp.asarray(THETA), jnp.asarray(V)

    def gradient(key):
        return problem.slope_theta(theta, v, problem.draw(key))[1]

    drawn = jax.jit(jax.vmap(gradient))(jr.split(KEY, 40_000))
    near(estimate(problem, theta, v, key=KEY).sigma ** 2, np.var(drawn, axis=0).sum(), 0.02)


ZERO_SUM = np.linalg.svd(np.ones((1, 3)))[2][1:].T  # columns span {sum v = 0}


@pytest.mark.slow
def test_curvature_is_that_along_V():
    radius = 1.0  # the point is at the boundary
    P, B, M, c, d = DATA
    # Flat, even convex, across V: without the projection there is no mu.
    M = np.einsum("ij,kjl,lm->kim", (H := ZERO_SUM @ ZERO_SUM.T), M, H) - 9 * np.ones((3, 3))
    data = (P, B, M, c, d)
    problem = rsgda.Problem(
        quadratic, data=data, batch_size=2, project_v=rsgda.projections.zero_sum_ball(radius)
    )
    v = np.array([2.0, -1.0, -1.0]) / 6**0.5
    r = estimate(problem, jnp.asarray(THETA), jnp.asarray(v), key=KEY)
    L, mu, L_max, *_ = by_hand(data, THETA, v, ZERO_SUM)
    near([r.L, r.mu, r.L_max], [L, mu, L_max], 1e-9)
    assert r.concave
    assert "along V" in r.how["mu"]
    # r0 is a true bound: the maximum over V by many small projected steps.
    x = v
    g0, Mm = B.mean(0).T @ THETA + d.mean(0), M.mean(0)
    project = rsgda.projections.zero_sum_ball(radius)
    for _ in range(3000):
        x = np.asarray(project(jnp.asarray(x + 0.02 * (g0 - Mm @ x))))
    assert r.r0 >= np.sum((x - v) ** 2) > 1e-4

    def value(x):
        return 0.5 * THETA @ P.mean(0) @ THETA + g0 @ x - 0.5 * x @ Mm @ x + c.mean(0) @ THETA

    r = estimate(problem, jnp.asarray(THETA), jnp.asarray(v), key=KEY, inf_phi=-50.0)
    assert value(v) + 50 < value(x) + 50 <= r.D0 <= value(v) + 50 + np.sum(g0**2 + 99) / mu
    with pytest.warns(UserWarning, match="not strongly concave"):
        free = estimate(
            dataclasses.replace(problem, project_v=None),
            jnp.asarray(THETA),
            jnp.asarray(v),
            key=KEY,
        )
    near(free.mu, -27, 1e-9)
    assert (free.r0, free.D0, free.concave) == (None, None, False)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["inside", "corner"])
def test_a_box_and_a_simplex_have_their_directions(start):
    theta = jnp.asarray(THETA)
    for project, corner, inside, basis in (
        (rsgda.projections.box(0.0, 1.0), [0.0, 1.0, 1.0], [0.2, 0.5, 0.9], None),
        (rsgda.projections.simplex(), [0.0, 1.0, 0.0], [0.2, 0.5, 0.3], ZERO_SUM),
    ):
        problem = rsgda.Problem(quadratic, data=DATA, batch_size=2, project_v=project)
        v = np.array(inside if start == "inside" else corner)
        r = estimate(problem, theta, jnp.asarray(v), key=KEY)
        near([r.L, r.mu, r.L_max], by_hand(DATA, THETA, v, basis)[:3], 1e-9)


# Samples of the wrong curvature.


def test_a_sample_that_is_not_concave_is_named():
    P, B, M, c, d = DATA
    M = M.copy()
    M[17] -= 1.5 * np.linalg.eigvalsh(M[17])[0] * np.eye(3)
    problem = rsgda.Problem(quadratic, data=(P, B, M, c, d), batch_size=2)
    with pytest.warns(UserWarning, match="row 17 curves the wrong way"):
        r = estimate(problem, jnp.asarray(THETA), jnp.asarray(V), key=KEY)
    assert (r.worst, r.concave) == (17, False)
    near(r.mu, np.linalg.eigvalsh(M.mean(0))[0], 1e-9)
    assert r.mu > 0


def test_flat_samples_are_concave_enough():
    P, B, _, c, d = DATA
    u = rng.normal(size=(23, 3))
    flat = u[:, :, None] * u[:, None, :]  # of rank one: curvature 0 but for rounding
    r = estimate(
        rsgda.Problem(quadratic, data=(P, B, flat, c, d), batch_size=2),
        jnp.asarray(THETA),
        jnp.asarray(V),
        key=KEY,
    )
    assert r.concave
    near([r.mu, r.L_max], [np.linalg.eigvalsh(flat.mean(0))[0], (u**2).sum(1).max()], 1e-9)


# One row of v for each row of data.

X = rng.normal(size=(12, 3))
STIFF = np.linspace(1.5, 4, 12)[rng.permutation(12)]


def moved(theta, v, rows):
    x, stiff = rows
    spread = jnp.sum((v["z"] - x) ** 2 * jnp.array([1.0, 1.3, 1.7]), axis=1)
    return jnp.mean(jnp.tanh(v["z"] @ theta) - 0.5 * stiff * spread)


@pytest.mark.slow
def test_rows_of_v_are_blocks():
    b, n = 4, 12
    problem = rsgda.Problem(moved, data=(X, STIFF), batch_size=b, separable=True)
    theta, z = jnp.asarray(THETA[:3]), jnp.asarray(X + 0.3 * rng.normal(size=X.shape))
    r = estimate(problem, theta, {"z": z}, key=KEY)

    def row(theta, z, x, stiff):
        return moved(theta, {"z": z[None]}, (x[None], stiff[None]))

    blocks = jax.vmap(jax.hessian(row, 1), (None, 0, 0, 0))(theta, z, X, STIFF)
    low = np.linalg.eigvalsh(-blocks)[:, 0]
    near(r.mu, low.min(), 1e-9)
    assert r.worst == low.argmin()
    near(r.L_max, n / b * np.linalg.norm(blocks, 2, axis=(1, 2)).max(), 1e-9)

    def in_w(both):
        v = (both[3:] * n**0.5).reshape(n, 3)  # w = v / sqrt(n)
        return moved(both[:3], {"z": v}, (X, STIFF))

    both = jnp.concatenate([theta, z.ravel() / n**0.5])
    near(r.L, np.linalg.norm(jax.hessian(in_w)(both), 2), 1e-9)
    in_theta, in_v = jax.vmap(jax.grad(row, (0, 1)), (None, 0, 0, 0))(theta, z, X, STIFF)
    near(r.sigma**2, np.var(in_theta, axis=0).sum() / b, 1e-9)
    near(r.r0, np.mean(np.sum(in_v**2, axis=1)) / r.mu**2, 1e-9)
    assert r.eta_scale == n

    # The noise in w, by drawing: a row that is drawn has sqrt(n) / b times its gradient.
    def noise(key):
        places = jr.randint(key, (b,), 0, n)
        drawn = jnp.zeros_like(z).at[places].add(n**0.5 / b * in_v[places])
        return jnp.sum((drawn - in_v / n**0.5) ** 2)

    near(r.sigma_v**2, jax.vmap(noise)(jr.split(KEY, 40_000)).mean(), 0.02)


@pytest.mark.slow
def test_some_of_many_rows():
    n = 400
    x, stiff = np.random.default_rng(0).normal(size=(n, 3)), np.full(n, 2.0)
    problem = rsgda.Problem(moved, data=(x, stiff), batch_size=4, separable=True)
    theta, v = jnp.asarray(THETA[:3]), {"z": jnp.asarray(x)}
    some = estimate(problem, theta, v, key=KEY, rows=100)
    for name in ("L", "mu", "L_max", "sigma", "sigma_v", "concave", "worst"):
        assert "100 rows of 400 at random" in some.how[name]
    assert some.gradients == 4 * 100
    # At v = x only tanh has a slope, and rows differ in it alone.
    t = np.tanh(x @ THETA[:3])
    in_theta, in_v = (1 - t**2)[:, None] * x, (1 - t**2)[:, None] * THETA[:3]
    near(some.sigma**2, np.var(in_theta, axis=0).sum() / 4, 0.2)
    near(some.sigma_v**2, (n - 1) / 4 * np.sum(in_v**2, axis=1).mean(), 0.2)
    bent = [
        -2 * a * (1 - a**2) * np.outer(THETA[:3], THETA[:3]) - 2 * np.diag([1, 1.3, 1.7]) for a in t
    ]
    lows = np.linalg.eigvalsh(-np.array(bent))[:, 0]
    near(some.mu, lows[some.worst], 1e-9)  # numbered as in the data
    assert np.sum(lows < some.mu - 1e-9) < 40
    assert estimate(problem, theta, v, key=KEY, rows=100) == some


@pytest.mark.slow
def test_a_row_of_v_that_is_not_concave_is_named():
    stiff = STIFF.copy()
    stiff[5] = -0.5
    problem = rsgda.Problem(moved, data=(X, stiff), batch_size=4, separable=True)
    with pytest.warns(UserWarning, match="not strongly concave .* in row 5"):
        r = estimate(problem, jnp.zeros(3), {"z": jnp.asarray(X)}, key=KEY)
    near(r.mu, -0.5 * 1.7, 1e-9)
    assert r.worst == 5


@pytest.mark.slow
def test_rows_of_v_in_a_set_of_their_own():
    project = rsgda.projections.ball(50.0, rows=True)
    problem = rsgda.Problem(moved, data=(X, STIFF), batch_size=4, separable=True)
    held = dataclasses.replace(problem, project_v=project)
    theta, v = jnp.asarray(THETA[:3]), {"z": jnp.asarray(X)}
    free, inside = (estimate(one, theta, v, key=KEY) for one in (problem, held))
    near(
        [inside.L, inside.mu, inside.L_max, inside.r0], [free.L, free.mu, free.L_max, free.r0], 1e-9
    )


# Samplers.


def sampled(theta, v, batch):
    scale, shift = batch
    return jnp.sum(theta**2) + theta[0] * v[0] - 0.5 * scale * jnp.sum(v**2) + shift @ v


def sample(key):
    key_scale, key_shift = jr.split(key)
    scale = jr.uniform(key_scale, minval=1.0, maxval=3.0)
    return scale, 0.5 * jr.normal(key_shift, (4,))


@pytest.mark.slow
def test_a_sampler_is_measured_by_draws():
    problem = rsgda.Problem(sampled, sample=sample)
    theta, v = jnp.ones(2), jnp.zeros(4)
    r = estimate(problem, theta, v, key=KEY, rows=300, batches=40_000)
    near(r.mu, 2.0)
    near(r.sigma_v, 0.5 * 4**0.5)
    assert r.sigma < 1e-12
    scales = jax.vmap(sample)(jax.vmap(lambda i: jr.fold_in(jr.split(KEY)[0], i))(jnp.arange(300)))[
        0
    ]
    near(r.L_max, scales.max(), 1e-9)
    assert r.worst == scales.argmin()
    with pytest.warns(UserWarning, match="those of a mean of 2 draws"):
        few = [
            estimate(problem, theta, v, key=jr.key(i), batches=2).sigma_v ** 2 for i in range(60)
        ]
    near(np.mean(few), 1.0, 0.3)  # unbiased: two draws would show half without the correction


@pytest.mark.slow
def test_the_error_of_sampling_is_measured_and_told():
    toy = Toy(kinds="A", kappa=100.0, rho=0.004)
    theta = jnp.full(1, jnp.pi)
    # theta sees rho slope^2 tau, whose mean over the draws is not 0.
    slope = float(toy.v_star(theta)[0]) / np.pi
    true = toy.rho * slope**2 / 40_000**0.5
    told, errors = [], []
    for i in range(20):
        with pytest.warns(UserWarning, match="a mean of 40000 draws .* % in L .* raise `batches`"):
            r = estimate(toy.problem, theta, toy.v_star(theta), key=jr.key(i), batches=40_000)
        told.append(float(r.how["L"].split("± ")[1].split(" %")[0]) / 100)
        errors.append(r.L - 1)
        assert "from sampling" in r.how["mu"]
    share = np.array([true * slope**2 / (1 + slope**2), true])  # the stiff direction has both
    assert share[0] / 3 < np.mean(np.square(errors)) ** 0.5 < 2 * share[1]
    near(np.mean(np.square(told)) ** 0.5, np.mean(np.square(errors)) ** 0.5, 0.6)


@pytest.mark.slow
def test_small_samplers_are_drawn_often():
    toy = Toy(kinds="ABC", kappa=10.0, s=0.3, t=0.2, rho=0.05)
    theta = jnp.full(3, jnp.pi)
    for i in range(4):
        r = estimate(toy.problem, theta, toy.v_star(theta), key=jr.key(i))
        near(r.L, toy.L)
        assert "1048576 draws" in r.how["L"]


# What was not resolved.


def diagonal(curvatures):
    def loss(theta, v):
        return 0.05 * jnp.sum(theta**2) - 0.5 * jnp.sum(jnp.asarray(curvatures, v.dtype) * v**2)

    return rsgda.Problem(loss)


@pytest.mark.slow
def test_mu_is_on_the_safe_side_where_it_is_not_resolved():
    problem = diagonal(np.geomspace(1e-3, 1, 400))
    with pytest.warns(UserWarning, match="mu was not resolved.* raise `steps`, now 30") as told:
        r = estimate(problem, jnp.zeros(1), jnp.ones(400), key=KEY, steps=30)
    assert not any("not strongly concave" in str(one.message) for one in told)
    assert r.mu <= 0
    assert (r.concave, r.r0) == (False, None)
    near(estimate(problem, jnp.zeros(1), jnp.ones(400), key=KEY).mu, 1e-3, 1e-6)


def test_mu_of_a_run_that_stopped_early_is_less_its_residual():
    problem = diagonal(np.linspace(0.1, 1, 400))
    with pytest.warns(UserWarning, match="mu is known only to .* %"):
        r = estimate(problem, jnp.zeros(1), jnp.ones(400), key=KEY, steps=18)
    assert 0 < r.mu < 0.1
    assert r.concave
    assert " of it" in r.how["mu"]


@pytest.mark.slow
def test_ill_conditioned_quadratics_are_resolved_or_told():
    for size, kappa in ((1000, 1e5), (2000, 1e6)):
        problem = diagonal(np.geomspace(1 / kappa, 1, size))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            r = estimate(problem, jnp.zeros(1), jnp.ones(size), key=KEY)
        assert r.mu * kappa <= 1 + 1e-3
        assert told or r.mu * kappa >= 0.99


@pytest.mark.slow
def test_below_the_rounding_of_single_precision():
    v = jnp.ones(50, "float32")
    problem = diagonal(np.geomspace(1e-6, 1, 50))
    with pytest.warns(UserWarning, match="below the rounding of float32 .* use float64") as told:
        r = estimate(problem, jnp.zeros(1, "float32"), v, key=KEY)
    assert "not strongly concave" not in str(told[0].message)
    assert not r.concave
    near(estimate(problem, jnp.zeros(1), v.astype(float), key=KEY).mu, 1e-6, 1e-6)


def test_a_flat_direction_is_not_strongly_concave():
    with pytest.warns(UserWarning, match="not strongly concave in `v`.* zero up to the rounding"):
        r = estimate(diagonal([0.0, 1.0, 2.0]), jnp.zeros(1), jnp.ones(3), key=KEY)
    assert not r.concave


@pytest.mark.slow
def test_all_rows_are_looked_at_where_that_is_cheap():
    n = 5000
    M = np.tile(np.eye(3), (n, 1, 1))
    M[4321, 1, 1] = -2
    data = (np.zeros((n, 5, 5)), np.ones((n, 5, 3)), M, np.ones((n, 5)), np.ones((n, 3)))
    problem = rsgda.Problem(quadratic, data=data, batch_size=2)
    with pytest.warns(UserWarning, match="row 4321 curves the wrong way"):
        r = estimate(problem, jnp.asarray(THETA), jnp.asarray(V), key=KEY)
    assert (r.worst, r.concave) == (4321, False)
    assert r.how["concave"] == "F and each of the 5000 rows looked at"
    assert "\n  concave False" in str(r)
    assert "of the 5000 rows looked at" in str(r)


# Trees, prepared values, size, refusals.


@pytest.mark.slow
def test_trees_modules_and_prepared_values():
    def loss(model, v, rows):
        return quadratic(
            jnp.concatenate([model.weight[0], model.bias]),
            jnp.concatenate([v["a"], v["b"][0]]),
            rows,
        )

    def twice(model):
        return jax.tree.map(lambda leaf: 2 * leaf if eqx.is_array(leaf) else leaf, model)

    linear = eqx.tree_at(
        lambda one: (one.weight, one.bias),
        eqx.nn.Linear(4, 1, key=KEY),
        (jnp.asarray(THETA[None, :4]), jnp.asarray(THETA[4:])),
    )
    v = {"a": jnp.asarray(V[:1]), "b": jnp.asarray(V[None, 1:])}
    r = estimate(rsgda.Problem(loss, data=DATA, batch_size=1, prepare=twice), linear, v, key=KEY)
    P, B, M, c, d = DATA
    want = by_hand((4 * P, 2 * B, M, 2 * c, d), THETA, V)
    near([r.L, r.mu, r.L_max, r.sigma**2, r.sigma_v**2], want, 1e-9)


@pytest.mark.slow
def test_single_precision():
    problem = rsgda.Problem(
        quadratic, data=tuple(part.astype("float32") for part in DATA), batch_size=2
    )
    r = estimate(problem, jnp.asarray(THETA, "float32"), jnp.asarray(V, "float32"), key=KEY)
    near([r.L, r.mu, r.L_max], by_hand(DATA, THETA, V)[:3], 1e-4)


def large(theta, v, rows):
    size = v.shape[0]
    scale = jnp.linspace(0.5, 2.0, size)
    return jnp.mean(rows * theta.sum()) * v.sum() / size**0.5 - 0.5 * jnp.sum(scale * v**2)


@pytest.mark.slow
def test_no_hessian_is_formed():
    size = 20_000  # its Hessian would take 3.2 GB
    problem = rsgda.Problem(large, data=jnp.linspace(0.0, 1.0, 6), batch_size=2)
    before = psutil.Process().memory_info().rss
    r = estimate(problem, jnp.ones(3), jnp.zeros(size), key=KEY, steps=120, tol=1e-3)
    near([r.mu, r.L_max], [0.5, 2.0])
    assert psutil.Process().memory_info().rss - before < 5e8


def test_compiled_once_and_in_words():
    traced = []

    def loss(theta, v):
        traced.append(1)
        return jnp.sum(theta * v) - jnp.sum(v**2) / 2

    problem = rsgda.Problem(loss)
    estimate(problem, jnp.ones(2), jnp.ones(2), key=KEY)
    count = len(traced)
    r = estimate(problem, jnp.zeros(2), 2 * jnp.ones(2), key=jr.key(1), points=[(jnp.ones(2),) * 2])
    assert len(traced) <= count + 3  # the door looks at shapes
    near([r.L, r.mu], [(1 + 5**0.5) / 2, 1], 1e-9)
    assert repr(r).startswith(
        "Estimate(L=1.61803, mu=1, sigma=0, sigma_v=0, L_max=1, D0=None, r0=8"
    )
    assert "not a global constant" in repr(r)
    for name in ("L", "mu", "L_max", "sigma", "sigma_v", "r0", "D0"):
        assert r.how[name]
        assert f"\n  {name} " in str(r)
    assert isinstance(r, Regularity)
    assert dataclasses.replace(r, D0=2.0).D0 == 2.0
    assert isinstance(hash(r), int)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problem": None}, "`problem` must be an rsgda.Problem"),
        ({"key": 0}, "`key` must be a key"),
        ({"key": jr.split(KEY)}, "`key` must be a single key"),
        ({"theta": jnp.arange(5)}, "`theta` must be a floating array"),
        ({"v": jnp.array([0.0, jnp.nan, 0.0])}, "`v` must be finite"),
        ({"v": jnp.zeros(4)}, "`loss` must be a function"),
        ({"points": [jnp.zeros(3)]}, "`points` must be a list of pairs"),
        ({"points": [(jnp.zeros(5), jnp.zeros(2))]}, r"`points\[0\]\[1\]` must have the structure"),
        ({"rows": 0}, "`rows` must be a whole number, at least 1"),
        ({"rows": 2.0}, "`rows` must be a whole number"),
        ({"batches": 0}, "`batches` must be a whole number"),
        ({"steps": True}, "`steps` must be a whole number"),
        ({"tol": -1.0}, "`tol` must be a positive"),
        ({"inf_phi": float("nan")}, "`inf_phi` must be a finite number or None"),
        ({"inf_phi": "0"}, "`inf_phi` must be a finite number or None"),
    ],
)
def test_wrong_input_is_refused(change, message):
    arguments = {
        "problem": rsgda.Problem(quadratic, data=DATA, batch_size=2),
        "theta": jnp.zeros(5),
        "v": jnp.zeros(3),
        "key": KEY,
        **change,
    }
    with pytest.raises(ValueError, match=message):
        estimate(**arguments)


def test_a_point_outside_of_V_is_refused():
    project = rsgda.projections.ball(1.0)
    problem = rsgda.Problem(quadratic, data=DATA, batch_size=2, project_v=project)
    with pytest.raises(ValueError, match="`v` must lie in the set of `project_v`"):
        estimate(problem, jnp.zeros(5), jnp.ones(3), key=KEY)


def test_a_loss_without_curvature_is_refused():
    problem = rsgda.Problem(lambda theta, v: jnp.sum(theta) - jnp.sum(jnp.abs(v) ** 1.5))
    with pytest.raises(ValueError, match="not finite"):
        estimate(problem, jnp.ones(1), jnp.zeros(1), key=KEY)


def test_an_estimate_is_what_it_says():
    numbers = {"L": 1.0, "mu": -0.5, "kind": "x", "concave": False, "worst": 3, "points": 1}
    r = Estimate(**numbers, eta_scale=1.0, products=1, gradients=1, how={})
    assert r.mu == -0.5
    with pytest.raises(ValueError, match="`sigma` must be"):
        Estimate(
            **{**numbers, "mu": 0.5}, sigma=-1.0, eta_scale=1.0, products=1, gradients=1, how={}
        )
