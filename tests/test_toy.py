"""The toy family: every closed form against the table of SPEC, section 6, or brute force."""

import itertools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from rsgda.problems import Toy

KAPPAS = [1.5, 1.8, 100.0]  # both sides of 2, where C changes
L, R = 2.5, 0.3  # not 1, to tell L from L^2
EPS = np.finfo(np.float64).eps
MIXED = Toy(kinds="DABCA", kappa=6.0, L=L, r=R)
NOISY = Toy(kinds="DAC", kappa=6.0, L=L, r=R, s=0.3, t=0.7, rho=0.2)


def specified(kind, kappa):
    """m, b and q of a kind, typed from the table of SPEC."""
    mu, G = L / kappa, L / 4

    def wave(x):
        return G * (1 - np.cos(x))

    def tail(x):
        return L / (4 * R) * (1 + x * x) ** (-R / 2) - L * x * x / 8

    m_C = max(L / 2, mu)
    return {
        "A": (mu, math.sqrt((L - G) * (L - mu)), wave),
        "B": (mu, math.sqrt(G * mu) / 2, wave),
        "C": (m_C, min(L / 2, math.sqrt((L - G) * (L - m_C))), wave),
        "D": (mu, math.sqrt(L * mu) / 2, tail),
    }[kind]


def single(kind, kappa):
    return Toy(kinds=kind, kappa=kappa, L=L, r=R)


def states(toy, count, scale=4.0, seed=0):
    """Random (theta, v), a row each; v lies around v*, where it matters."""
    theta, v = scale * jr.normal(jr.key(seed), (2, count, toy.d))
    return theta, jax.vmap(toy.v_star)(theta) + v


def gradients(toy, player):
    """Gradients of one player, for many states (rows) and all batches (columns)."""
    of_batch = jax.vmap(jax.grad(toy.sample_loss, player), in_axes=(None, None, 0))
    return jax.jit(jax.vmap(lambda theta, v: of_batch(theta, v, toy.signs())))


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("kinds", ["A", "D", "DDBACA"])
def test_loss_is_the_table(kinds, kappa):
    toy = Toy(kinds=kinds, kappa=kappa, L=L, r=R)
    loss = jax.jit(toy.loss)
    for theta, v in zip(*states(toy, 5), strict=True):
        rows = [specified(kind, kappa) for kind in kinds]
        terms = [
            q(x) + b * x * y - m * y * y / 2
            for (m, b, q), x, y in zip(rows, np.asarray(theta), np.asarray(v), strict=True)
        ]
        np.testing.assert_allclose(loss(theta, v), sum(terms), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("kind", "ABCD")
def test_phi_is_the_maximum_and_v_star_where_it_is_attained(kind, kappa):
    toy = single(kind, kappa)
    loss = jax.jit(toy.loss)
    for x in (-7.0, -1.3, 0.4, 3.0):
        theta = jnp.array([x])
        best = minimize_scalar(lambda y, theta=theta: -float(loss(theta, jnp.array([y]))))
        np.testing.assert_allclose(toy.phi(theta), -best.fun, rtol=1e-10)
        np.testing.assert_allclose(toy.v_star(theta), [best.x], rtol=1e-5)
        np.testing.assert_allclose(loss(theta, toy.v_star(theta)), toy.phi(theta), rtol=1e-12)


def test_gradients_agree_with_finite_differences_and_the_envelope():
    thetas, vs = states(MIXED, 20)
    phi = jax.jit(jax.vmap(MIXED.phi))
    slopes = jax.jit(jax.vmap(MIXED.grad_phi))(thetas)
    for i, h in enumerate(1e-6 * np.eye(MIXED.d)):
        difference = (phi(thetas + h) - phi(thetas - h)) / 2e-6
        np.testing.assert_allclose(slopes[:, i], difference, atol=1e-7)
    at_star = jax.jit(jax.vmap(lambda x: jax.grad(MIXED.loss)(x, MIXED.v_star(x))))(thetas)
    np.testing.assert_allclose(at_star, slopes, rtol=1e-11, atol=1e-11)
    ascent = jax.jit(jax.vmap(jax.grad(MIXED.loss, 1)))(thetas, vs)
    # Towards v*, by the curvature m times the distance.
    m = np.array([specified(kind, MIXED.kappa)[0] for kind in MIXED.kinds])
    np.testing.assert_allclose(ascent, m * (jax.vmap(MIXED.v_star)(thetas) - vs), atol=1e-12)


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("kind", "ABCD")
def test_smoothness_and_concavity_are_exact(kind, kappa):
    toy = single(kind, kappa)
    grid = jnp.concatenate([jnp.linspace(-12.0, 12.0, 2001), jnp.array([0.0, jnp.pi, -jnp.pi])])

    def hessian(x):
        return jax.hessian(lambda z: toy.loss(z[:1], z[1:]))(jnp.array([x, 0.3]))

    found = np.asarray(jax.jit(jax.vmap(hessian))(grid))
    largest = np.abs(np.linalg.eigvalsh(found)).max()
    assert largest <= L * (1 + 4 * EPS)
    if kind == "A":
        assert largest == pytest.approx(L, rel=4 * EPS)
    concavity = max(L / 2, L / kappa) if kind == "C" else L / kappa
    np.testing.assert_allclose(-found[:, 1, 1], concavity, rtol=4 * EPS)
    assert toy.mu == L / kappa <= concavity
    assert toy.L_max == pytest.approx(concavity, rel=4 * EPS)


@pytest.mark.parametrize("kappa", KAPPAS)
def test_v_star_has_the_lipschitz_constants_of_the_table(kappa):
    toy = Toy(kinds="ABCD", kappa=kappa, L=L, r=R)
    slopes = jnp.diag(jax.jacobian(toy.v_star)(jnp.ones(4)))
    m_C = max(1 / 2, 1 / kappa)
    wanted = [kappa * math.sqrt(0.75 * (1 - 1 / kappa)), math.sqrt(kappa) / 4]
    wanted += [0.5 / m_C, math.sqrt(kappa) / 2]
    np.testing.assert_allclose(slopes, wanted, rtol=1e-14)
    assert max(wanted) <= kappa


@pytest.mark.parametrize("kappa", KAPPAS)
def test_shapes_of_phi(kappa):
    grid = jnp.linspace(1e-3, 60.0, 4001)
    toy = Toy(kinds="ABCD", kappa=kappa, L=L, r=R)
    slopes = jax.jit(jax.vmap(toy.grad_phi))(jnp.tile(grid[:, None], 4)).T
    slope = dict(zip("ABCD", slopes, strict=True))
    for kind in "ABC":  # one stationary point, at 0, where phi is 0
        assert slope[kind].min() > 0
        assert single(kind, kappa).phi(jnp.zeros(1)) == single(kind, kappa).inf_phi == 0
    assert jnp.diff(slope["B"]).min() < 0  # and B is not convex
    assert slope["D"].max() < 0
    value = jax.jit(jax.vmap(single("D", kappa).phi))(grid[:, None])
    np.testing.assert_allclose(value, L / (4 * R) * (1 + grid**2) ** (-R / 2), rtol=1e-14)
    far = single("D", kappa).phi(jnp.array([1e60]))
    assert 0 < far < 1e-17  # the infimum 0 is approached, however slowly


def test_phi_keeps_its_digits_near_the_minimum():
    tiny = 1e-9
    for kind, wanted in (("B", L / 8 + L / 32), ("C", L / 8 + L / 4)):
        toy = single(kind, 3.0)
        np.testing.assert_allclose(toy.phi(jnp.array([tiny])), wanted * tiny**2, rtol=1e-12)


def test_mean_over_all_signs_is_the_exact_problem():
    thetas, vs = states(NOISY, 50)
    losses = jax.jit(jax.vmap(jax.vmap(NOISY.sample_loss, (None, None, 0)), (0, 0, None)))
    exact = jax.vmap(NOISY.loss)(thetas, vs)
    np.testing.assert_allclose(losses(thetas, vs, NOISY.signs()).mean(1), exact, atol=1e-11)
    for player in (0, 1):
        exact = jax.vmap(jax.grad(NOISY.loss, player))(thetas, vs)
        found = gradients(NOISY, player)(thetas, vs).mean(1)
        np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_variances_are_the_exact_suprema(batch_size):
    toy = Toy(kinds="DAC", kappa=6.0, L=L, r=R, s=0.3, t=0.7, rho=0.2, batch_size=batch_size)
    thetas, vs = states(toy, 200, scale=1.0)

    def variance(player, thetas, vs):
        found = gradients(toy, player)(thetas, vs)
        return np.asarray(jnp.square(found - found.mean(1, keepdims=True)).sum(-1).mean(1))

    slopes = np.array([math.sqrt(6.0) / 2, 6.0 * math.sqrt(0.75 * 5 / 6), 1.0])
    sigma2 = (0.3**2 * 3 + 0.2**2 * (slopes**2).sum()) / batch_size
    assert toy.sigma**2 == pytest.approx(sigma2, rel=1e-14)
    assert variance(0, thetas, vs).max() <= sigma2 * (1 - 1e-6)
    np.testing.assert_allclose(variance(0, thetas, vs + 30.0), sigma2, rtol=1e-12)

    stars = jax.vmap(toy.v_star)(thetas)
    assert toy.sigma_v**2 == pytest.approx(0.7**2 * 3 / batch_size, rel=1e-14)
    np.testing.assert_allclose(variance(1, thetas, stars), toy.sigma_v**2, rtol=1e-12)


def test_every_sample_is_concave_and_smooth_in_v():
    thetas, vs = states(NOISY, 100)
    vs = vs.at[0].set(NOISY.v_star(thetas[0]))  # where log cosh bends most
    hessian = jax.vmap(jax.hessian(NOISY.sample_loss, 1), (None, None, 0))
    found = jax.jit(jax.vmap(lambda theta, v: hessian(theta, v, NOISY.signs())))(thetas, vs)
    eigenvalues = np.linalg.eigvalsh(np.asarray(found))
    assert eigenvalues.max() == pytest.approx(-(NOISY.mu - NOISY.rho), rel=1e-13)
    assert -eigenvalues.min() == pytest.approx(NOISY.L_max, rel=1e-13)
    assert NOISY.L_max == L / 2 + 0.2


def test_without_t_every_sample_is_stationary_at_v_star():
    toy = Toy(kinds="ABCD", kappa=6.0, L=L, r=R, s=0.3, rho=0.2)
    thetas = states(toy, 50)[0]
    stars = jax.vmap(toy.v_star)(thetas)
    assert np.abs(gradients(toy, 1)(thetas, stars)).max() <= 20 * EPS * np.abs(stars).max()
    assert toy.sigma_v == 0 < toy.sigma
    # and with t none is
    assert (
        np.abs(gradients(NOISY, 1)(thetas[:, :3], jax.vmap(NOISY.v_star)(thetas[:, :3]))).min()
        > 0.69
    )


def test_shared_signs_give_each_gradient_its_law():
    toy = Toy(kinds="AD", kappa=6.0, L=L, r=R, s=0.3, t=0.7, rho=0.2)
    thetas, vs = states(toy, 1)
    all_signs = np.array(list(itertools.product([-1, 1], repeat=5)), np.int8)[:, None]
    full = all_signs[..., :2], all_signs[..., 2:4], all_signs[..., 4]
    for player in (0, 1):
        gradient = jax.jit(jax.vmap(jax.grad(toy.sample_loss, player), (None, None, 0)))
        listed = np.sort(gradients(toy, player)(thetas, vs)[0] @ np.array([1.0, math.pi]))
        every = np.sort(gradient(thetas[0], vs[0], full) @ np.array([1.0, math.pi]))
        np.testing.assert_allclose(np.repeat(listed, 4), every, atol=1e-12)


def test_sample_draws_independent_fair_signs():
    toy = Toy(kinds="ABCDABCD", kappa=6.0, t=1.0, batch_size=3)  # 51 signs, more than a word
    draws = jax.jit(jax.vmap(toy.sample))(jr.split(jr.key(5), 10_000))
    assert [draw.shape[1:] for draw in draws] == [(3, 8), (3, 8), (3,)]
    signs = np.concatenate([np.reshape(draw, (10_000, -1)) for draw in draws], 1).astype(float)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    # 1,326 means of 10,000 signs: 5 standard deviations are exceeded once in a thousand seeds.
    assert np.abs(signs.mean(0)).max() < 0.05
    assert np.abs(signs.T @ signs / 10_000 - np.eye(51)).max() < 0.05


def test_signs_lists_every_batch_once():
    for toy in (NOISY, Toy(kinds="AB", kappa=6.0, t=1.0, batch_size=2)):
        xi, zeta, tau = (np.asarray(signs) for signs in toy.signs())
        count = 2 ** (toy.batch_size * (toy.d + 1))
        assert np.array_equal(xi, zeta)
        rows = np.concatenate([xi.reshape(count, -1), tau.reshape(count, -1)], 1)
        assert len(np.unique(rows, axis=0)) == count
        assert set(np.unique(rows)) == {-1, 1}


def test_a_batch_is_a_mean():
    toy = Toy(kinds="ABCD", kappa=6.0, L=L, r=R, s=0.3, t=0.7, rho=0.2, batch_size=4)
    (theta,), (v,) = states(toy, 1)
    batch = toy.sample(jr.key(1))
    loss = jax.jit(toy.sample_loss)
    rows = [loss(theta, v, tuple(signs[i : i + 1] for signs in batch)) for i in range(4)]
    xi, zeta, tau = (np.asarray(signs, float) for signs in batch)
    distance = np.asarray(v - toy.v_star(theta))
    wanted = toy.loss(theta, v) + 0.3 * xi @ theta + 0.7 * zeta @ v
    wanted += 0.2 * tau * np.log(np.cosh(distance)).sum()
    np.testing.assert_allclose(rows, wanted, rtol=1e-12)
    np.testing.assert_allclose(loss(theta, v, batch), wanted.mean(), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_cosh_is_stable_far_out_and_exact_near_its_minimum(dtype):
    toy = Toy(kinds="B", kappa=6.0, rho=0.1)
    batch = tuple(jnp.ones(shape, "int8") for shape in ((1, 1), (1, 1), (1,)))
    theta = jnp.zeros(1, dtype)

    def noise(v):
        return toy.sample_loss(theta, v, batch) - toy.loss(theta, v)

    for distance in (-1e4, -3.0, 1e-6, 0.0, 2.0, 1e4):
        v = jnp.array([distance], dtype)
        both = jax.grad(toy.sample_loss, 1)(theta, v, batch), jax.grad(toy.loss, 1)(theta, v)
        rtol = 3e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(both[0] - both[1], 0.1 * np.tanh(distance), rtol=rtol, atol=rtol)
        assert jnp.isfinite(noise(v))
    np.testing.assert_allclose(
        noise(jnp.array([2.0], dtype)), 0.1 * np.log(np.cosh(2.0)), rtol=1e-5
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_everything_has_the_dtype_of_theta(dtype):
    theta, v = NOISY.start(dtype)
    batch = NOISY.sample(jr.key(0))

    @jax.jit
    def everything(theta, v):
        found = [NOISY.loss(theta, v), NOISY.sample_loss(theta, v, batch), NOISY.phi(theta)]
        found += [NOISY.grad_phi(theta), NOISY.v_star(theta)]
        return found + [jax.grad(NOISY.sample_loss, i)(theta, v, batch) for i in (0, 1)]

    for result in [theta, v, *everything(theta, v)]:
        assert result.dtype == dtype
        assert not result.weak_type
    assert theta.shape == v.shape == (NOISY.d,)


@pytest.mark.parametrize("kind", "ABCD")
def test_phi_falls_from_the_start(kind):
    toy = Toy(kinds=kind)
    theta, _ = toy.start()
    after = theta - toy.grad_phi(theta) / (2 * toy.kappa * toy.L)
    for _ in range(100):
        after = after - toy.grad_phi(after) / (2 * toy.kappa * toy.L)
    assert toy.phi(after) < 0.99 * toy.phi(theta)


def test_the_problem_carries_noise_only_if_there_is_some():
    assert Toy().problem.exact
    for noise in ({"s": 0.1}, {"t": 0.1}, {"rho": 0.05}):
        assert not Toy(**noise).problem.exact
    theta, v = NOISY.start()
    batch = NOISY.problem.draw(jr.key(3))
    # To rounding: the problem's own is compiled, which may change the order of a sum.
    value = NOISY.sample_loss(theta, v, NOISY.sample(jr.key(3)))
    assert NOISY.problem.value(theta, v, batch) == pytest.approx(value, rel=4 * EPS)
    value = Toy().problem.value(*Toy().start(), Toy().problem.draw(jr.key(3)))
    assert value == pytest.approx(Toy().loss(*Toy().start()), rel=4 * EPS)


def test_equal_toys_are_one_problem():
    first, second = Toy(kappa=10, s=np.float32(0.5)), Toy(kappa=10.0, s=0.5)
    assert first == second
    assert hash(first) == hash(second)
    assert repr(first) == repr(second)
    assert first.problem is second.problem
    assert Toy(kappa=11.0).problem is not Toy(kappa=10.0).problem


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kinds": ""}, "`kinds` must be one or more letters of ABCD, got ''"),
        ({"kinds": "ABE"}, "`kinds` must be .* got 'ABE'"),
        ({"kinds": ("A",)}, "`kinds` must be .* got"),
        ({"kappa": 1.4}, r"`kappa` must be a finite number >= 1\.5, got 1\.4"),
        ({"kappa": math.nan}, "`kappa` must be .* got nan"),
        ({"kappa": math.inf}, "`kappa` must be .* got inf"),
        ({"L": 0.0}, r"`L` must be a positive finite number, got 0\.0"),
        ({"L": "1"}, "`L` must be .* got '1'"),
        ({"s": -0.1}, r"`s` must be a finite number >= 0, got -0\.1"),
        ({"t": -0.1}, r"`t` must be a finite number >= 0, got -0\.1"),
        ({"rho": -0.1}, r"`rho` must be a finite number >= 0, got -0\.1"),
        ({"rho": 0.1}, r"`rho` must be below L / kappa = 0\.1 and .*, got 0\.1"),
        ({"rho": 0.6, "kappa": 1.5}, r"`rho` must be below .* at most L / 2 = 0\.5, got 0\.6"),
        ({"r": 0.0}, r"`r` must be a positive finite number, got 0\.0"),
        ({"batch_size": 0}, "`batch_size` must be a whole number, at least 1, got 0"),
        ({"batch_size": 1.0}, r"`batch_size` must be a whole number, at least 1, got 1\.0"),
    ],
)
def test_wrong_numbers_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Toy(**wrong)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"`theta` must have shape \(3,\), got \(1,\)"):
        Toy().phi(jnp.ones(1))
    with pytest.raises(ValueError, match=r"`v` must have shape \(3,\), got \(\)"):
        Toy().loss(jnp.ones(3), jnp.ones(()))
    with pytest.raises(
        ValueError, match=r"`batch_size` \* \(d \+ 1\) must be at most 20 .* got 24"
    ):
        Toy(batch_size=6, t=0.1).signs()
