"""Errata 48 to 51 of the paper, on robust learning: as printed it fails, as corrected it holds.

The corrected formulas come first, in NumPy. Losses with known curvature and autodiff judge them;
the steps of erratum 51 are those of the library on a separable problem.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

from rsgda import Problem
from rsgda.problem import Batch
from rsgda.robust import penalty

READING = {
    48: "phi = max_v F is printed as phi = F, F = max; dimensions of l and of v_j are mixed up",
}


# The corrected formulas.


def block_constants(gamma, curvature):
    """mu_blk and L_blk of l(z) - gamma |z - x|^2, from L_zz = `curvature`."""
    return 2 * gamma - curvature, 2 * gamma + curvature


def joint_smoothness(thth, cross, blk):
    """L in (theta, v_j / sqrt(n)): the norm of [[L_thth, L_thz], [L_thz, L_blk]]."""
    return (thth + blk + np.sqrt((thth - blk) ** 2 + 4 * cross**2)) / 2


def factor_per_visit(eta, batch, curvature):
    """What a row's distance to its maximiser is multiplied by: 1 - (eta / b) (-l'' + 2 gamma)."""
    return 1 - eta / batch * curvature


def gamma_of_sinha(eps):
    """Their eps l - |z - x|^2 / 2 in the form l - gamma |z - x|^2."""
    return penalty(eps=eps).gamma


# Losses.


def wave_loss(z, amplitude, frequency):
    """A loss whose curvature L_zz = amplitude |frequency|^2 is attained with either sign."""
    return amplitude * jnp.cos(frequency @ z)


def cross_entropy(logits, label):
    return jax.nn.logsumexp(logits) - logits[label]


def network(theta, z):
    """Three inputs, four classes, five units between them, smooth."""
    first, second = theta[:15].reshape(3, 5), theta[15:].reshape(5, 4)
    return jnp.tanh(z @ first) @ second


def piece(theta, z, x, label, gamma):
    """l(f_theta(z), y) - gamma |z - x|^2 for one row."""
    return cross_entropy(network(theta, z), label) - gamma * jnp.sum((z - x) ** 2)


def pieces(theta, v, x, labels, gamma):
    return jax.vmap(piece, (None, 0, 0, 0, None))(theta, v, x, labels, gamma)


def objective(theta, v, x, labels, gamma):
    return jnp.mean(pieces(theta, v, x, labels, gamma))


def instance(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=35), rng.normal(size=(n, 3)), rng.integers(0, 4, size=n)


def norm(matrix):
    return np.linalg.norm(matrix, ord=2)


def quadratic_rows(theta, v, batch):
    """A minibatch mean of l - gamma |v_j - x_j|^2 with l = -curvature v_j^2 / 2 and x = 0."""
    del theta
    doubled_gamma, curvature = batch
    return -jnp.mean((doubled_gamma + curvature) * v**2) / 2


# The errata.


@jax.jit
def piece_hessians(theta, v, x, labels, gamma):
    """The Hessian of each F_i in all of v, from the definition."""
    n, p = v.shape

    def flat(v):
        return pieces(theta, v.reshape(n, p), x, labels, gamma)

    return jax.hessian(flat)(v.ravel())


def test_erratum_49_the_pieces_are_not_strongly_concave():
    """Printed: each F_i satisfies A1; right: F_i is only concave, F is strongly concave."""
    n, gamma = 5, 30.0
    theta, x, labels = instance(n)
    v = x + 0.1 * np.random.default_rng(1).normal(size=x.shape)
    each = np.asarray(piece_hessians(theta, v, x, labels, gamma))
    for i, hessian in enumerate(each):
        own = np.zeros(3 * n, dtype=bool)
        own[3 * i : 3 * i + 3] = True
        assert not hessian[~own].any()
        assert not hessian[:, ~own].any()
        assert np.linalg.eigvalsh(hessian[np.ix_(own, own)]).max() < -1
        assert np.linalg.eigvalsh(hessian).max() == pytest.approx(0, abs=1e-12)
    whole = -each.mean(axis=0)
    curvature = max(
        norm(each[i] + np.kron(np.diag(np.eye(n)[i]), 2 * gamma * np.eye(3))) for i in range(n)
    )
    lowest, highest = block_constants(gamma, curvature)
    eigenvalues = np.linalg.eigvalsh(whole)
    rounding = 1e-13 * highest  # of the two computations of one number
    assert 0 < lowest / n <= eigenvalues.min() + rounding
    assert eigenvalues.max() <= highest / n + rounding


def test_erratum_49_the_noise_vanishes_at_the_maximiser():
    """Right: sigma~ = 0 even so, as the maximiser of F is one of every F_i."""
    n, gamma = 5, 30.0
    theta, x, labels = instance(n)
    rise = jax.jit(jax.grad(lambda v: n * objective(theta, v, x, labels, gamma)))
    v = x
    for _ in range(200):
        v = v + rise(v) / (4 * gamma)

    def one(v):
        return jax.jacobian(lambda v: pieces(theta, v, x, labels, gamma))(v)

    assert np.abs(jax.jit(one)(v)).max() < 1e-9
    assert np.abs(jax.jit(one)(jnp.asarray(x))).max() > 0.1


@pytest.mark.parametrize("gamma", [0.4, 1.3])
def test_block_constants(gamma):
    """Section 5: curvature in [2 gamma - L_zz, 2 gamma + L_zz], concave iff gamma > L_zz/2."""
    rng = np.random.default_rng(2)
    frequency = rng.normal(size=3)
    hessian = jax.jit(jax.hessian(lambda z, a: wave_loss(z, a, frequency) - gamma * z @ z))
    along = np.pi * frequency / (frequency @ frequency)
    for share in (0.5, 0.99, 1.01):
        curvature = 2 * gamma * share
        amplitude = curvature / (frequency @ frequency)
        lowest, highest = block_constants(gamma, curvature)
        points = [0 * along, along, *rng.normal(size=(50, 3))]
        eigenvalues = -np.array([np.linalg.eigvalsh(hessian(z, amplitude)) for z in points])
        np.testing.assert_allclose(eigenvalues.min(), lowest, rtol=1e-9)
        np.testing.assert_allclose(eigenvalues.max(), highest, rtol=1e-9)
        assert (eigenvalues.min() > 0) == (gamma > curvature / 2)


@pytest.mark.slow
def test_curvature_of_the_softmax_cross_entropy():
    """Section 5: L_zz <= |J_f|^2/2 + sqrt2 |Hess f|, the first half attained by two classes."""
    theta, points, labels = instance(100, seed=3)

    @jax.jit
    @jax.vmap
    def derivatives(z, label):
        def loss(z):
            return cross_entropy(network(theta, z), label)

        def logits(z):
            return network(theta, z)

        return jax.hessian(loss)(z), jax.jacobian(logits)(z), jax.hessian(logits)(z)

    for hessian, slopes, bends in zip(*map(np.asarray, derivatives(points, labels)), strict=True):
        values, vectors = np.linalg.eigh(hessian)
        for value, u in zip(values, vectors.T, strict=True):
            bent = np.linalg.norm(np.einsum("qij,i,j->q", bends, u, u))
            assert abs(value) <= np.linalg.norm(slopes @ u) ** 2 / 2 + np.sqrt(2) * bent
    opposite = np.array([[1.0, 2.0, -1.0], [-1.0, -2.0, 1.0]])
    hessian = jax.hessian(lambda z: cross_entropy(opposite @ z, 0))(np.zeros(3))
    np.testing.assert_allclose(norm(hessian), norm(opposite) ** 2 / 2, rtol=1e-12)


def test_joint_smoothness_is_free_of_n_in_the_scaled_variable():
    """Section 5: with w_j = v_j/sqrt(n), L and mu do not depend on n; a batch has (n/b) L_blk."""
    gamma = 30.0
    theta, x, labels = instance(2, seed=4)
    found = []
    for copies in (1, 3):
        n = 2 * copies

        @jax.jit
        @jax.hessian
        def hessian(both, shares, n=n, copies=copies):
            v = jnp.sqrt(1.0 * n) * both[35:].reshape(n, 3)
            at, of = jnp.tile(x, (copies, 1)), jnp.tile(labels, copies)
            return shares @ pieces(both[:35], v, at, of, gamma)

        both = np.r_[theta, np.tile(x, (copies, 1)).ravel() / np.sqrt(n)]
        whole = np.asarray(hessian(both, np.full(n, 1 / n)))
        batch = np.asarray(hessian(both, np.eye(n)[0]))
        found.append([norm(whole), *np.linalg.eigvalsh(whole[35:, 35:])[[0, -1]]])
        np.testing.assert_allclose(norm(batch[35:, 35:]), n * norm(whole[35:38, 35:38]), rtol=1e-9)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
    thth, cross = np.zeros(2), np.zeros(2)
    blocks = jax.jit(jax.hessian(piece, (0, 1)))
    for j in range(2):
        one = blocks(theta, x[j], x[j], labels[j], gamma)
        thth[j], cross[j] = norm(one[0][0]), norm(one[0][1])
    bound = joint_smoothness(thth.max(), cross.max(), -found[0][1])
    assert -found[0][1] < found[0][0] <= bound


def test_erratum_50_their_eps_is_not_gamma():
    """Printed: gamma = 1.3 as Sinha et al.; right: their 1.3 is 0.5/gamma, hence gamma = 0.385."""
    gamma = gamma_of_sinha(1.3)
    assert round(gamma, 3) == 0.385
    theta, x, labels = instance(4, seed=5)
    theta = 0.3 * theta  # flat enough for one maximiser at this gamma

    @jax.jit
    @jax.value_and_grad
    def fall(z, row, scale, gamma):
        """Minus scale l - gamma |z - x|^2."""
        loss = cross_entropy(network(theta, z), jnp.asarray(labels)[row])
        return gamma * jnp.sum((z - jnp.asarray(x)[row]) ** 2) - scale * loss

    def maximiser(row, scale, gamma):
        start, options = x[row], {"gtol": 1e-9}
        found = minimize(fall, start, (row, scale, gamma), jac=True, method="BFGS", options=options)
        return found.x

    for row in range(4):
        theirs = maximiser(row, 1.3, 0.5)
        np.testing.assert_allclose(maximiser(row, 1.0, gamma), theirs, atol=1e-7)
        printed = maximiser(row, 1.0, 1.3)
        # Their adversary goes more than twice as far.
        assert np.linalg.norm(theirs - x[row]) > 2 * np.linalg.norm(printed - x[row]) > 0


def measured_factor(eta, batch, curvature):
    """One ascent of the library on a batch of distinct rows, gamma = 1.3."""
    v = jnp.linspace(0.5, 2.0, batch)
    data = (jnp.full(batch, 2.6), jnp.full(batch, float(curvature)))
    problem = Problem(quadratic_rows, data=data, batch_size=batch, separable=True)
    drawn = Batch((data,), jnp.arange(batch))
    _, gradient = problem.slope_v(jnp.zeros(()), problem.look(v, drawn), drawn)
    factors = np.asarray((v + eta * gradient) / v)
    np.testing.assert_allclose(factors, factors[0], rtol=1e-9)
    return factors[0]


@pytest.mark.parametrize(
    ("batch", "factor"),
    [(1, -25), (13, -1), (27, 0.037), (128, 0.797), (256, 0.898), (60_000, 0.99957)],
)
def test_erratum_51_eta_is_for_minibatch_means(batch, factor):
    """Printed: eta = 10, scaling unstated; right: on minibatch means, a row then moves by eta/b."""
    found = measured_factor(10.0, batch, 0.0)
    np.testing.assert_allclose(found, factor_per_visit(10.0, batch, 2.6), rtol=1e-12)
    np.testing.assert_allclose(found, factor, rtol=2e-3)
    assert (abs(found) < 1 - 1e-9) == (batch > 13)
    # A sum over the batch moves each row as b = 1 does, whatever b is.
    np.testing.assert_allclose(1 + batch * (found - 1), -25, rtol=1e-6)


def test_erratum_51_batches_that_are_stable_and_provable():
    """Right: stable iff eta/b < 2/L_blk, so 14 to 26 rows by L_zz; Prop. 1 wants 52 to 104."""
    gamma, eta = 1.3, 10.0
    curvatures = np.linspace(0, 2 * gamma, 100, endpoint=False)  # those with mu_blk > 0
    steepest = np.array([block_constants(gamma, c)[1] for c in curvatures])
    for batch in range(1, 200):
        factors = factor_per_visit(eta, batch, steepest)
        assert (np.abs(factors) < 1).all() == (batch >= 26)
        assert (np.abs(factors) < 1).any() == (batch > 13)
        provable = batch >= 2 * eta * steepest * (1 - 1e-12)
        assert provable.any() == (batch >= 52)
        assert provable.all() == (batch >= 104)
    # Below 26 it depends on l; at L_blk = 4 gamma itself, where mu_blk = 0, 26 is marginal.
    assert measured_factor(eta, 14, 0.0) > -1
    assert measured_factor(eta, 14, 2.5) < -1
    assert measured_factor(eta, 27, 2.6) > -1
    np.testing.assert_allclose(measured_factor(eta, 26, 2.6), -1, rtol=1e-12)


def test_erratum_51_a_row_drawn_twice_moves_twice():
    """The library draws with replacement: in mean square, b must exceed 13 (1 + (b - 1)/n)."""
    for rows, batch, stable in [(60_000, 14, True), (60_000, 13, False), (14, 14, False)]:
        # Batches in which a row is not drawn leave it alone.
        times = np.arange(batch + 1)
        chances = binom.pmf(times, batch, 1 / rows)
        mean_square = chances @ factor_per_visit(10.0, batch / np.maximum(times, 1e-300), 2.6) ** 2
        assert (mean_square < 1) == stable == (batch > 13 * (1 + (batch - 1) / rows))
    data = (jnp.full(14, 2.6), jnp.zeros(14))
    problem = Problem(quadratic_rows, data=data, batch_size=14, separable=True)
    places = jnp.array([0, 0, *range(2, 14)])
    drawn = Batch((data,), places)
    v = jnp.ones(14)
    _, gradient = problem.slope_v(jnp.zeros(()), problem.look(v, drawn), drawn)
    np.testing.assert_allclose(
        1 + 10.0 * gradient[:3], [1 - 52 / 14, 1 - 52 / 14, 1 - 26 / 14], rtol=1e-12
    )


def test_the_certificate_bounds_phi():
    """Section 5: 0 <= phi - F <= mean_j |grad_{v_j}|^2/(2 mu_blk) if mu_blk > 0."""
    rng, gamma = np.random.default_rng(6), 1.3
    frequency = rng.normal(size=3)
    amplitude = 0.8 * 2 * gamma / (frequency @ frequency)
    lowest, highest = block_constants(gamma, 0.8 * 2 * gamma)
    x = rng.normal(size=(6, 3))

    def total(v):
        losses = jax.vmap(lambda z: wave_loss(z, amplitude, frequency))(v)
        return jnp.sum(losses - gamma * jnp.sum((v - x) ** 2, axis=1))

    both = jax.jit(jax.value_and_grad(total))
    found = minimize(
        lambda v: [-np.asarray(part, float).ravel() for part in both(v.reshape(6, 3))],
        x.ravel(),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-10},
    )
    phi = -float(found.fun) / 6
    v = jnp.asarray(x)
    gaps = []
    for _ in range(30):
        value, gradient = both(v)
        gaps.append(phi - float(value) / 6)
        certificate = np.sum(np.asarray(gradient) ** 2) / 6 / (2 * lowest)
        assert -1e-12 <= gaps[-1] <= certificate + 1e-12
        v = v + gradient / highest
    assert gaps[0] > 1e-2
    assert gaps[-1] < 1e-2 * gaps[0]


def test_every_erratum_from_48_to_51_is_covered():
    tested = {int(name.split("_")[2]) for name in globals() if name.startswith("test_erratum_")}
    assert tested | READING.keys() == set(range(48, 52))
    assert not tested & READING.keys()
