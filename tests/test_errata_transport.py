"""Errata 34 to 47 of the paper, on entropic transport: as printed it fails, as corrected it holds.

The corrected formulas come first, in NumPy. What they are held against is found in another way:
primal plans by SLSQP, a linear programme, POT, autodiff of the definitions, suprema by search.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import LinearConstraint, NonlinearConstraint, linprog, minimize
from scipy.spatial.distance import cdist
from scipy.special import expit, softmax
from scipy.stats import chi2

from rsgda.projections import zero_sum_ball

READING = {
    41: "Appendix D leaves out 1/n in front of a sum of Dirac masses",
    47: "Pi(mu, nu) is a set of measures on a product; a minimum over theta where there is none",
}


# The corrected formulas.


def log_sum_exp(exponents, axis):
    """As SciPy's, which takes ten times as long on arrays as small as these."""
    top = exponents.max(axis=axis, keepdims=True)
    return np.log(np.exp(exponents - top).sum(axis=axis)) + top.squeeze(axis)


def semi_dual(v, costs, nu, eps):
    """h(x_i, v) for each row of `costs`, with the constant 0."""
    return v @ nu - eps * log_sum_exp((v - costs) / eps + np.log(nu), axis=-1)


def weights(v, costs, nu, eps):
    """w_j(x_i), a row for each row of `costs`."""
    return softmax((v - costs) / eps + np.log(nu), axis=-1)


def sinkhorn(costs, mu, nu, eps, iterations, v):
    """Log-domain iterations; the mean of v is moved to u."""
    for _ in range(iterations):
        u = -eps * log_sum_exp((v - costs) / eps + np.log(nu), axis=1)
        v = -eps * log_sum_exp((u[:, None] - costs) / eps + np.log(mu)[:, None], axis=0)
    return u + v.mean(), v - v.mean()


def scalings(costs, mu, nu, eps, iterations, b):
    """The same iterations on a = exp(u / eps) and b = exp(v / eps)."""
    kernel = np.exp(-costs / eps)
    for _ in range(iterations):
        a = 1 / (kernel @ (nu * b))
        b = 1 / (kernel.T @ (mu * a))
    return a, b


def hessian_theta(w, gradients, hessians, eps):
    """The Hessian of h in theta, from w_j and the derivatives of the c_j."""
    centred = gradients - w @ gradients
    return np.einsum("j,jkl->kl", w, hessians) - np.einsum("j,jk,jl->kl", w, centred, centred) / eps


def smoothness(lipschitz, smooth, eps):
    """L_vv, L_thv, L_thth and the joint L."""
    vv, cross, thth = 1 / (2 * eps), lipschitz / (np.sqrt(2) * eps), smooth + lipschitz**2 / eps
    return vv, cross, thth, (thth + vv + np.sqrt((thth - vv) ** 2 + 4 * cross**2)) / 2


def radius(y, lipschitz):
    """The paper's beta."""
    return lipschitz * cdist(y, y, "chebyshev").mean(axis=1).sum()


def sharper_radius(y, lipschitz):
    return lipschitz * np.linalg.norm(cdist(y, y, "chebyshev").mean(axis=1))


def least_weight(y, nu, lipschitz, eps, beta):
    """What no w_j falls below on V; divided by eps it is xi."""
    width = cdist(y, y, "chebyshev").max()
    return nu.min() * np.exp(-(np.sqrt(2) * beta + lipschitz * width) / eps)


# What is printed, and the oracles.


def printed_scalings(costs, eps, iterations, b):
    kernel = np.exp(-costs / eps)
    for _ in range(iterations):
        a = 1 / (kernel @ b)
        b = 1 / (kernel.T @ a)
    return a, b


def definition(v, costs, nu, eps):
    """The definition of h for one row of costs, for autodiff."""
    return nu @ v - eps * jnp.log(jnp.sum(nu * jnp.exp((v - costs) / eps)))


def primal(costs, mu, nu, eps):
    """W_eps and its plan, by SLSQP on the definition."""
    m, n = costs.shape
    product = np.outer(mu, nu).ravel()

    def objective(pi):
        density = np.log(pi / product)
        return pi @ (costs.ravel() + eps * density), costs.ravel() + eps * (density + 1)

    rows, columns = np.kron(np.eye(m), np.ones(n)), np.kron(np.ones(m), np.eye(n))
    found = minimize(
        objective,
        product,
        jac=True,
        method="SLSQP",
        bounds=[(1e-9, 1.0)] * (m * n),
        # The last column follows from the others.
        constraints=LinearConstraint(np.vstack([rows, columns[:-1]]), *2 * [np.r_[mu, nu[:-1]]]),
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success
    return found.fun, found.x.reshape(m, n)


def instance(seed, m, n, dimension=2):
    """Two clouds with weights that are not uniform."""
    rng = np.random.default_rng(seed)
    mu, nu = rng.dirichlet(np.full(m, 3.0)), rng.dirichlet(np.full(n, 3.0))
    return rng, rng.normal(size=(m, dimension)), rng.normal(size=(n, dimension)) + 1.0, mu, nu


def waves(theta, amplitudes, frequencies, phases):
    """Costs c_j(theta) whose Lipschitz and smoothness constants are known."""
    return amplitudes * jnp.cos(frequencies @ theta + phases)


def random_waves(cases, n, d, eps):
    """Many (theta, v), (amplitudes, frequencies, phases), nu; then L_c and the smoothness."""
    rng = np.random.default_rng(7)
    amplitudes = np.exp(rng.uniform(-5, 1, size=(cases, 1))) * rng.uniform(0.5, 1, (cases, n))
    frequencies = rng.normal(size=(cases, n, d))
    phases = rng.uniform(0, 2 * np.pi, size=(cases, n))
    theta, v = rng.normal(size=(cases, d)), eps[:, None] * rng.normal(size=(cases, n))
    nu = rng.dirichlet(np.ones(n), size=cases)
    steepness = np.linalg.norm(frequencies, axis=2)
    lipschitz = (amplitudes * steepness).max(axis=1)
    smooth = (amplitudes * steepness**2).max(axis=1)
    return (theta, v), (amplitudes, frequencies, phases), nu, lipschitz, smooth


def of_waves(theta, v, costs, nu, eps):
    return definition(v, waves(theta, *costs), nu, eps)


def norms(matrices):
    return np.linalg.norm(matrices, ord=2, axis=(-2, -1))


# The errata.


@pytest.mark.parametrize(("seed", "m", "n", "eps"), [(0, 4, 3, 0.7), (1, 3, 5, 2.0)])
def test_erratum_34_no_constant_in_h(seed, m, n, eps):
    """Printed: h ends in -eps (main text) or +eps (Appendix C); right: in 0."""
    _, x, y, mu, nu = instance(seed, m, n)
    costs = cdist(x, y, "sqeuclidean")
    _, v = sinkhorn(costs, mu, nu, eps, 2000, np.zeros(n))
    value = mu @ semi_dual(v, costs, nu, eps)
    expected, _ = primal(costs, mu, nu, eps)
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-8)
    for printed in (value - eps, value + eps):
        assert abs(printed - expected) > 0.9 * eps
    # One point on either side: there is one plan, and it costs c.
    one = np.ones(1)
    np.testing.assert_allclose(semi_dual(one, np.array([[1.7]]), one, eps), [1.7], rtol=1e-14)


@pytest.mark.parametrize("eps", [0.02, 0.3])
def test_erratum_34_a_linear_programme_bounds_the_value(eps):
    """With two points x the plan's KL is at most log 2 < 1, which leaves no room for eps."""
    _, x, y, mu, nu = instance(2, 2, 5)
    costs = cdist(x, y, "sqeuclidean")
    marginals = np.vstack([np.kron(np.eye(2), np.ones(5)), np.kron(np.ones(2), np.eye(5))])
    unregularised = linprog(costs.ravel(), A_eq=marginals, b_eq=np.r_[mu, nu]).fun
    _, v = sinkhorn(costs, mu, nu, eps, 5000, np.zeros(5))
    value = mu @ semi_dual(v, costs, nu, eps)
    assert unregularised <= value <= unregularised + eps * np.log(2)
    assert value - eps < unregularised
    assert value + eps > unregularised + eps * np.log(2)


def test_erratum_34_pot_has_the_same_value(monkeypatch):
    """POT's optimum has the corrected value, and its plan is that of the potentials."""
    monkeypatch.setenv("POT_BACKEND_DISABLE_PYTORCH", "1")  # else imported, which takes seconds
    ot = pytest.importorskip("ot")
    eps = 0.5
    _, x, y, mu, nu = instance(3, 6, 4)
    costs = cdist(x, y, "sqeuclidean")
    u, v = sinkhorn(costs, mu, nu, eps, 3000, np.zeros(4))
    found = ot.solve(costs, mu, nu, reg=eps, reg_type="KL", max_iter=10_000, tol=1e-13)
    np.testing.assert_allclose(mu @ semi_dual(v, costs, nu, eps), found.value, rtol=1e-9)
    density = eps * np.log(found.plan / np.outer(mu, nu))
    np.testing.assert_allclose(u[:, None] + v - costs, density, atol=1e-8)


def test_erratum_35_scalings_need_the_weights():
    """Printed: a = 1/(K b), b = 1/(K'a); right: 1/(K(nu b)), 1/(K'(mu a)), or b drifts by n/m."""
    _, x, y, mu, nu = instance(4, 3, 5)
    costs, eps = cdist(x, y), 0.5
    for iterations in (1, 5):
        _, b = scalings(costs, np.full(3, 1 / 3), np.full(5, 1 / 5), eps, iterations, np.ones(5))
        _, printed = printed_scalings(costs, eps, iterations, np.ones(5))
        np.testing.assert_allclose(printed / b, (5 / 3) ** iterations, rtol=1e-12)
    a, b = scalings(costs, mu, nu, eps, 500, np.ones(5))
    plan = (mu * a)[:, None] * np.exp(-costs / eps) * (nu * b)
    np.testing.assert_allclose(plan.sum(axis=1), mu, rtol=1e-12)
    np.testing.assert_allclose(plan.sum(axis=0), nu, rtol=1e-12)
    # In the log domain it is the same iteration.
    _, v = sinkhorn(costs, mu, nu, eps, 500, np.zeros(5))
    np.testing.assert_allclose(v, eps * (np.log(b) - np.log(b).mean()), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_erratum_35_printed_scalings_overflow(dtype):
    """Printed: the drift leaves the floats within 26 or 207 batches at n/b = 31; right: never."""
    rng, _, y, _, _ = instance(5, 4, 124)
    rows, columns = np.full(4, 1 / 4, dtype), np.full(124, 1 / 124, dtype)
    printed, b = np.ones(124, dtype), np.ones(124, dtype)
    room = np.log(np.finfo(dtype).max)
    predicted = None
    with np.errstate(all="ignore"):
        for k in range(1, 250):
            costs = cdist(rng.uniform(size=(4, 2)), y, "chebyshev").astype(dtype)
            printed = printed_scalings(costs, dtype(0.5), 1, printed)[1]
            b = scalings(costs, rows, columns, dtype(0.5), 1, b)[1]
            if predicted is None and k * np.log(31) + np.log(b).max() > room:
                predicted = k
            if not np.isfinite(printed).all():
                break
    assert predicted is None or predicted <= k <= predicted + 1
    assert np.ceil(room / np.log(31)) - 4 <= k <= np.ceil(room / np.log(31))
    assert np.isfinite(b).all()
    assert np.abs(np.log(b)).max() < 20


@pytest.mark.parametrize("seed", [6, 7, 8])
def test_erratum_36_v_is_plus_eps_log_b(seed):
    """Printed: v = -eps log b; right: v = +eps log b, as u + v - c = eps log(pi/(mu nu))."""
    _, x, y, mu, nu = instance(seed, 4, 3)
    costs, eps = cdist(x, y, "sqeuclidean"), 0.7
    a, b = scalings(costs, mu, nu, eps, 2000, np.ones(3))
    expected, plan = primal(costs, mu, nu, eps)
    np.testing.assert_allclose(
        mu @ semi_dual(eps * np.log(b), costs, nu, eps), expected, rtol=0, atol=1e-8
    )
    assert mu @ semi_dual(-eps * np.log(b), costs, nu, eps) < expected - 0.25
    density = eps * np.log(plan / np.outer(mu, nu))
    large = plan > 1e-3
    potentials = eps * np.log(np.outer(a, b)) - costs
    np.testing.assert_allclose(potentials[large], density[large], atol=1e-3)


def test_an_iteration_is_a_preconditioned_ascent():
    """Section 1: the step is eps (log nu - log wbar), near the optimum eta = eps/nu_j."""
    rng, x, y, mu, nu = instance(7, 5, 4)
    costs, eps = cdist(x, y, "sqeuclidean"), 0.8

    def step(v):
        return eps * (np.log(nu) - np.log(mu @ weights(v, costs, nu, eps)))

    v = rng.normal(size=4)
    v_next = v + step(v)
    np.testing.assert_allclose(
        sinkhorn(costs, mu, nu, eps, 1, v)[1], v_next - v_next.mean(), atol=1e-13
    )
    best = sinkhorn(costs, mu, nu, eps, 3000, v)[1]
    v = best + 1e-5 * rng.normal(size=4)
    gradient = jax.grad(lambda v: mu @ jax.vmap(lambda c: definition(v, c, nu, eps))(costs))(v)
    np.testing.assert_allclose(step(v), eps / nu * gradient, rtol=1e-3)


def test_the_certificate_bounds_the_gap():
    """Section 4: W_eps - F(v) <= ||nu - wbar||_1 (max_i osc_j C_ij + osc(v)) / 2; F(v) <= W_eps."""
    rng, x, y, mu, nu = instance(8, 5, 4)
    costs, eps = cdist(x, y, "sqeuclidean"), 0.8
    best = mu @ semi_dual(sinkhorn(costs, mu, nu, eps, 3000, np.zeros(4))[1], costs, nu, eps)
    for scale in (0.01, 0.3, 5.0):
        v = scale * rng.normal(size=4)
        gap = best - mu @ semi_dual(v, costs, nu, eps)
        error = np.abs(nu - mu @ weights(v, costs, nu, eps)).sum()
        assert 0 < gap <= 0.5 * error * (np.ptp(costs, axis=1).max() + np.ptp(v))


@jax.jit
def matching(theta, y):
    matrix, shift = theta
    return jnp.tanh(y @ matrix + shift)


@jax.jit
def matching_loss(theta, v, x, y, nu, eps, offset=0.0):
    """The mean of h(x_i, f_theta(y); v) over a batch, from the definition."""
    costs = jnp.sum((x[:, None] - matching(theta, y)) ** 2, axis=2) + offset
    return jnp.mean(jax.vmap(lambda row: definition(v, row, nu, eps))(costs))


def test_erratum_37_the_step_is_along_the_gradient():
    """Printed: theta - (alpha/b) sum h; right: grad_theta h, sum_j w_j grad_theta c_j."""
    rng, x, y, _, nu = instance(9, 6, 4)
    y = rng.normal(size=(4, 3))
    theta, v, eps = (rng.normal(size=(3, 2)), rng.normal(size=2)), rng.normal(size=4), 0.6
    moved, pull = jax.vjp(lambda theta: matching(theta, y), theta)
    w = weights(v, cdist(x, moved, "sqeuclidean"), nu, eps)
    pushes = 2 * (w.mean(axis=0)[:, None] * moved - w.T @ x / len(x))  # 2 E_i w_j(x_i) (T_j - x_i)
    (ours,) = pull(jnp.asarray(pushes))
    expected = jax.jit(jax.grad(matching_loss))(theta, v, x, y, nu, eps)
    for leaf, right in zip(ours, expected, strict=True):
        np.testing.assert_allclose(leaf, right, rtol=1e-10)

    def moved_by(direction, offset):
        stepped = jax.tree.map(lambda leaf, d: leaf - 1e-4 * d, theta, direction)
        return float(
            matching_loss(stepped, v, x, y, nu, eps, offset)
            - matching_loss(theta, v, x, y, nu, eps, offset)
        )

    assert moved_by(ours, 0.0) < 0
    # A number has not theta's shape; spread over theta its sign follows a constant in the cost.
    changes = []
    for offset in (-10.0, 10.0):
        h = matching_loss(theta, v, x, y, nu, eps, offset)
        assert h.shape == ()
        changes.append(moved_by(jax.tree.map(lambda leaf, h=h: jnp.full_like(leaf, h), theta), 0.0))
    assert min(changes) < 0 < max(changes)


def test_erratum_38_the_batch_is_over_x_and_y_is_mapped():
    """Printed: B in [n], Sinkhorn of x and y_j; right: B in [m], Sinkhorn of x and f_theta(y_j)."""
    rng, x, _, _, nu = instance(10, 7, 4)
    y, eps, mu = rng.normal(size=(4, 3)), 0.6, np.full(7, 1 / 7)
    theta, v = (rng.normal(size=(3, 2)), rng.normal(size=2)), rng.normal(size=4)
    full = jax.jit(jax.grad(matching_loss))(theta, v, x, y, nu, eps)[0]
    one = jax.jit(jax.grad(matching_loss))
    single = np.array([one(theta, v, x[i : i + 1], y, nu, eps)[0] for i in range(7)])
    np.testing.assert_allclose(single.mean(axis=0), full, rtol=1e-10)
    assert np.abs(single[:4].mean(axis=0) - full).max() > 0.05
    with pytest.raises(IndexError):
        x[np.arange(8)]  # what [n] asks for with n = 8 > m
    with pytest.raises(ValueError, match="same number of columns"):
        cdist(x, y)
    # Where the dimensions agree by accident, v is that of another problem.
    mapped = np.asarray(matching(theta, y))
    costs = cdist(x, mapped, "sqeuclidean")
    ours = sinkhorn(costs, mu, nu, eps, 3000, v)[1]
    printed = sinkhorn(cdist(x, y[:, :2], "sqeuclidean"), mu, nu, eps, 3000, v)[1]
    best = -minimize(lambda v: -mu @ semi_dual(v, costs, nu, eps), np.zeros(4)).fun
    np.testing.assert_allclose(mu @ semi_dual(ours, costs, nu, eps), best, atol=1e-9)
    assert mu @ semi_dual(printed, costs, nu, eps) < best - 0.05


def test_erratum_39_a_is_never_read():
    """Printed: a is kept, K is n x n, the loop writes b_{k+1}; right: b alone, |B| x n, b_{l+1}."""
    rng, x, y, mu, nu = instance(11, 3, 5)
    costs, eps = cdist(x, y), 0.5
    kernel = np.exp(-costs / eps)
    assert kernel.shape == (3, 5)

    def from_start(a, b, iterations=2, written="l"):
        read = b
        for _ in range(iterations):
            a = 1 / (kernel @ (nu * read))
            b = 1 / (kernel.T @ (mu * a))
            read = b if written == "l" else read
        return b

    b = from_start(np.ones(3), np.ones(5))
    np.testing.assert_array_equal(from_start(rng.exponential(size=3), np.ones(5)), b)
    np.testing.assert_array_equal(scalings(costs, mu, nu, eps, 2, np.ones(5))[1], b)
    assert np.abs(from_start(np.ones(3), rng.exponential(size=5)) - b).max() > 1e-3
    # With b_{k+1} in the loop, b_l stays b_0 and further iterations change nothing.
    stuck = from_start(np.ones(3), np.ones(5), written="k")
    np.testing.assert_array_equal(stuck, from_start(np.ones(3), np.ones(5), 1))
    assert np.abs(stuck - b).max() > 1e-3


@pytest.mark.parametrize(("dtype", "largest"), [(np.float32, 103.98), (np.float64, 745.14)])
def test_erratum_40_the_kernel_underflows(dtype, largest):
    """Printed: K = exp(-c/eps); right: the log domain, as K is 0 in 41 dimensions with eps 0.1."""
    rng, eps = np.random.default_rng(12), dtype(0.1)
    x, y = rng.normal(size=(200, 41)), rng.normal(size=(300, 41))
    costs = cdist(x, y, "sqeuclidean").astype(dtype)
    np.testing.assert_allclose(np.median(costs / eps), 812, rtol=0.03)
    with np.errstate(all="ignore"):
        zeros = (np.exp(-costs / eps) == 0).mean()
        printed = printed_scalings(costs, eps, 2, np.ones(300, dtype))[1]
        # c is twice a chi-square variable of 41 degrees of freedom.
        expected = chi2.sf(largest * 0.1 / 2, 41)
    np.testing.assert_allclose(zeros, expected, atol=0.03)
    assert zeros == 1 if dtype is np.float32 else 0.6 < zeros < 0.7
    if dtype is np.float32:
        assert not np.isfinite(printed).any()
    mu, nu = rng.dirichlet(np.ones(200) * 3).astype(dtype), rng.dirichlet(np.ones(300) * 3)
    u, v = sinkhorn(costs, mu, nu.astype(dtype), eps, 3, np.zeros(300, dtype))
    assert u.dtype == v.dtype == dtype
    log_plan = (u[:, None] + v - costs) / eps + np.log(mu)[:, None] + np.log(nu)
    # u / eps is some thousand: this many digits are left.
    np.testing.assert_allclose(
        np.exp(log_plan).sum(axis=0), nu, rtol=1e4 * float(np.finfo(dtype).eps)
    )


def test_erratum_42_smoothness_in_theta():
    """Printed: (calL_c + 2 L_c^2)/eps, false for eps > 1; right: calL_c + L_c^2/eps."""
    cases = 2000
    eps = np.exp(np.linspace(np.log(0.05), np.log(50), cases))
    point, costs, nu, lipschitz, smooth = random_waves(cases, 3, 2, eps)
    found = norms(jax.jit(jax.vmap(jax.hessian(of_waves)))(*point, costs, nu, eps))
    printed = (smooth + 2 * lipschitz**2) / eps
    assert (found <= smoothness(lipschitz, smooth, eps)[2]).all()
    assert (found > printed)[eps > 1].sum() > 100
    assert (found / printed).max() > 10
    assert not (found > printed)[eps <= 1].any()
    # One point y: h = c whatever eps is.
    amplitude = np.array([0.01])
    curvature = jax.jit(jax.hessian(of_waves))
    for large in (1.1, 10.0):
        one = (amplitude, np.array([[3.0]]), np.zeros(1))
        hessian = curvature(np.zeros(1), np.zeros(1), one, np.ones(1), large)
        np.testing.assert_allclose(hessian, [[-0.09]], rtol=1e-12)
        assert (0.09 + 2 * 0.03**2) / large < 0.09


def test_erratum_42_the_constant_is_approached():
    """Right: no smaller constant will do, for costs that keep L_c and calL_c everywhere."""
    lipschitz, smooth, width = 1.3, 0.7, 1e-5

    def slope(t):
        """A cost's c' and c'': from L_c to -L_c at the slope -calL_c, with rounded corners."""
        ends = np.array([t, t - 2 * lipschitz / smooth]) / width
        soft = width * np.logaddexp(0, ends)
        return lipschitz - smooth * (soft[0] - soft[1]), -smooth * np.subtract(*expit(ends))

    for t in np.linspace(-1, 5, 50):
        first, second = slope(t)
        assert abs(first) <= lipschitz + 1e-12
        assert abs(second) <= smooth
    early, late = slope(10 * width), slope(2 * lipschitz / smooth - 10 * width)
    for eps in (0.2, 1.0, 5.0):
        gradients = np.array([[early[0]], [late[0]]])
        hessians = np.array([[[early[1]]], [[late[1]]]])
        found = abs(hessian_theta(np.full(2, 0.5), gradients, hessians, eps)).item()
        bound = smoothness(lipschitz, smooth, eps)[2]
        assert 0.999 * bound < found <= bound


@pytest.mark.parametrize("eps", [0.3, 2.0])
def test_erratum_43_hessian_in_theta(eps):
    """Printed: Hess c_j over eps, gg' not, and a product too many; right: as `hessian_theta`."""
    point, costs, nu, _, _ = random_waves(1, 4, 3, np.array([eps]))
    theta, v, nu = point[0][0], point[1][0], nu[0]
    costs = tuple(part[0] for part in costs)
    values = waves(theta, *costs)
    g = jax.jit(jax.jacobian(waves))(theta, *costs)
    second = jax.jit(jax.hessian(waves))(theta, *costs)
    w = weights(v, np.asarray(values), nu, eps)
    exact = jax.jit(jax.hessian(of_waves))(theta, v, costs, nu, eps)
    np.testing.assert_allclose(hessian_theta(w, g, second, eps), exact, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        w @ g, jax.jit(jax.grad(of_waves))(theta, v, costs, nu, eps), rtol=1e-10, atol=1e-12
    )
    mean = w @ g
    mean_hessian = np.einsum("j,jkl->kl", w, second)
    square = np.einsum("j,jk,jl->kl", w, g, g)
    product = (mean_hessian - square) @ mean / eps
    assert product.shape == (3,)  # a vector, to which the display adds a matrix
    without_product = (mean_hessian - square) / eps + np.outer(mean, mean)
    last_line = (mean_hessian + np.outer(mean, mean) - square) / eps
    for printed in (without_product, last_line):
        assert np.abs(printed - exact).max() > 0.05 * np.abs(exact).max()


def test_erratum_44_tight_constants():
    """Printed: 1/eps, 2 L_c/eps and diag(w) >= I; right: 1/(2 eps), L_c/(sqrt2 eps), <= I."""
    rng = np.random.default_rng(13)
    vv, cross, _, _ = smoothness(1.0, 0.0, 1.0)
    w = rng.dirichlet(np.full(4, 0.3), size=20_000)
    curvatures = norms(w[:, :, None] * np.eye(4) - w[:, :, None] * w[:, None, :])
    assert 0.49 < curvatures.max() <= vv + 1e-12
    directions = rng.normal(size=(20_000, 4, 2))
    g = directions / np.linalg.norm(directions, axis=2, keepdims=True)
    mixed = norms(w[:, :, None] * (g - np.einsum("cj,cjk->ck", w, g)[:, None]))
    assert 0.69 < mixed.max() <= cross + 1e-12
    half, opposite = np.full(2, 0.5), np.array([[1.0, 0.0], [-1.0, 0.0]])
    np.testing.assert_allclose(norms(np.diag(half) - np.outer(half, half)), vv, rtol=1e-14)
    np.testing.assert_allclose(norms(half[:, None] * opposite), cross, rtol=1e-14)
    assert vv < 1
    assert cross < 2
    assert (np.linalg.eigvalsh(np.eye(4) - np.diag(w[0])) >= 0).all()
    assert np.linalg.eigvalsh(np.diag(w[0]) - np.eye(4)).min() < 0


def test_erratum_44_blocks_and_joint_constant_by_autodiff():
    """Right: the blocks of the Hessian in (theta, v) and the whole keep to their constants."""
    cases, n, d = 1000, 3, 2
    eps = np.exp(np.linspace(np.log(0.05), np.log(5), cases))
    point, costs, nu, lipschitz, smooth = random_waves(cases, n, d, eps)

    def joined(both, costs, nu, eps):
        return of_waves(both[:d], both[d:], costs, nu, eps)

    hessians = np.asarray(jax.jit(jax.vmap(jax.hessian(joined)))(np.hstack(point), costs, nu, eps))
    vv, cross, thth, joint = smoothness(lipschitz, smooth, eps)
    for block, bound, reached in [
        (hessians[:, d:, d:], vv, 0.9),
        (hessians[:, :d, d:], cross, 0.5),
        (hessians[:, :d, :d], thth, 0.5),
        (hessians, joint, 0.5),
    ]:
        ratio = norms(block) / bound
        assert reached < ratio.max() <= 1 + 1e-9


def test_erratum_45_printed_bound_on_w_fails():
    """Printed: w_i >= e^{-(n+2)L_c D/eps} min nu/n; right: min nu e^{-(sqrt2 beta + L_c D)/eps}."""
    n, eps = 20, 1 / 3
    y, nu = np.eye(n), np.full(n, 1 / n)
    beta = radius(y, 1.0)
    np.testing.assert_allclose(beta, n - 1)
    v = np.zeros(n)
    v[:2] = beta / np.sqrt(2), -beta / np.sqrt(2)  # in V
    lowest = np.log(weights(v, cdist(y[:1], y, "chebyshev"), nu, eps)).min()
    printed = -(n + 2) / eps + np.log(nu.min() / n)
    ours = np.log(least_weight(y, nu, 1.0, eps, beta))
    assert ours <= lowest < printed
    np.testing.assert_allclose([lowest, printed], [-83.6, -72.0], atol=0.05)
    # For the product of two weights min nu is printed, which has to be squared.
    nu = np.array([0.01, 0.01, 0.98])
    first, second, _ = weights(np.zeros(3), np.zeros((1, 3)), nu, eps)[0]
    assert nu.min() ** 2 <= first * second * (1 + 1e-12) < nu.min() / 3**2


def test_erratum_45_curvature_on_the_sum_zero_subspace():
    """Printed: sum a d^2 without /1'a, and a tiny xi; right: Var_w(d)/eps >= w_min |d|^2/eps."""
    rng, eps, n = np.random.default_rng(14), 0.7, 5
    basis = null_space(np.ones((1, n)))
    hessian = jax.jit(jax.hessian(definition))
    for _ in range(50):
        x, y = rng.normal(size=(1, 2)), rng.normal(size=(n, 2))
        nu = rng.dirichlet(np.ones(n))
        beta = radius(y, 1.0)
        v = basis @ rng.normal(size=n - 1)
        v *= beta / np.linalg.norm(v)
        assert np.ptp(v) <= np.sqrt(2) * np.linalg.norm(v) + 1e-12
        costs = cdist(x, y, "chebyshev")[0]
        w = weights(v, costs, nu, eps)
        exact = -np.asarray(hessian(v, costs, nu, eps))
        d = basis @ rng.normal(size=n - 1)
        np.testing.assert_allclose(d @ exact @ d, (w @ d**2 - (w @ d) ** 2) / eps, rtol=1e-7)
        a = nu * np.exp((v - costs) / eps)
        assert abs((a @ d**2 - (w @ d) ** 2) / eps / (d @ exact @ d) - 1) > 1e-3
        least = np.linalg.eigvalsh(basis.T @ exact @ basis).min()
        ours = least_weight(y, nu, 1.0, eps, beta) / eps
        width = cdist(y, y, "chebyshev").max()
        printed = nu.min() * np.exp(-2 * (n + 2) * width / eps) / (2 * n * eps)
        assert least >= w.min() / eps * (1 - 1e-6)
        assert w.min() / eps >= ours > 10 * printed
    np.testing.assert_allclose(np.ptp([1.0, 0.0, -1.0]), np.sqrt(2) * np.linalg.norm([1, 0, -1]))


def test_erratum_46_potentials_are_lipschitz_in_y():
    """Printed: as theta -> c is L_c-Lipschitz; right: as y -> c is, in the sup norm."""
    ratios = []
    for seed in range(20):
        _, z, y, mu, nu = instance(20 + seed, 6, 5)
        eps = 0.1 * (1 + seed)
        # x = z + theta / 100: theta -> c is Lipschitz with 0.01, y -> c with 1.
        costs = cdist(z, y, "chebyshev")
        v = sinkhorn(costs, mu, nu, eps, 2000, np.zeros(5))[1]
        apart = np.abs(v[:, None] - v)
        pairs = np.triu_indices(5, 1)
        ratios.append((apart[pairs] / cdist(y, y, "chebyshev")[pairs]).max())
        assert (apart <= np.abs(costs[:, :, None] - costs[:, None]).max(axis=0) + 1e-9).all()
        assert np.linalg.norm(v) <= sharper_radius(y, 1.0) <= radius(y, 1.0)
        # xi at the maximiser itself.
        width = cdist(y, y, "chebyshev").max()
        assert weights(v, costs, nu, eps).min() >= nu.min() * np.exp(-2 * width / eps)
    assert 0.5 < max(ratios) <= 1 + 1e-9  # attained where every x sees y_k behind y_i
    assert min(ratios) > 0.01  # what the Lipschitz constant in theta would allow


def test_erratum_46_projection_on_v():
    """Right: centre, then scale; the printed beta v/max(|v|, beta) needs a sum of zero."""
    rng, beta = np.random.default_rng(15), 1.5
    project = zero_sum_ball(beta)
    for scale in (0.1, 3.0):
        v = scale * rng.normal(size=6) + 1.0
        centred = v - v.mean()
        ours = centred * min(1, beta / np.linalg.norm(centred))
        inside = NonlinearConstraint(lambda y: y @ y, -np.inf, beta**2, jac=lambda y: 2 * y)
        nearest = minimize(
            lambda y, v=v: ((y - v) @ (y - v), 2 * (y - v)),
            np.zeros(6),
            jac=True,
            method="SLSQP",
            constraints=[LinearConstraint(np.ones((1, 6)), 0, 0), inside],
            options={"ftol": 1e-15},
        ).x
        np.testing.assert_allclose(ours, nearest, atol=1e-6)
        np.testing.assert_allclose(project(jnp.asarray(v)), ours, atol=1e-14)
        printed = beta * centred / max(np.linalg.norm(centred), beta)
        np.testing.assert_allclose(printed, ours, atol=1e-14)
        assert abs((beta * v / max(np.linalg.norm(v), beta)).sum()) > 0.1


def test_noise_bounds():
    """Section 4: sigma^2 <= L_c^2, and sigma~^2 <= 1 - |nu|^2, at the maximiser."""
    for seed in range(6):
        rng, x, y, mu, nu = instance(40 + seed, 6, 4)
        costs = cdist(x, y)
        eps = 0.05 * 4 ** rng.uniform(0, 3)
        v = sinkhorn(costs, mu, nu, eps, 2000, np.zeros(4))[1]
        w = weights(v, costs, nu, eps)
        np.testing.assert_allclose(mu @ w, nu, atol=1e-4)
        assert mu @ ((nu - w) ** 2).sum(axis=1) <= 1 - nu @ nu
        # c = |x - y| is 1-Lipschitz in x, here theta.
        g = np.einsum("ij,ijk->ik", w, (x[:, None] - y) / costs[:, :, None])
        assert mu @ ((g - mu @ g) ** 2).sum(axis=1) <= 1


def test_batch_mean_ascent_is_stable_below_two_eps_over_the_largest_mean_weight():
    """Section 4: eta max_j wbar_j/eps < 2 suffices, is sharp for n = 2, yet is not needed."""
    rng = np.random.default_rng(16)
    for _ in range(50):
        w = rng.dirichlet(np.full(5, 0.5), size=7)
        mean = w.mean(axis=0)
        curvature = np.diag(mean) - w.T @ w / 7
        assert np.linalg.eigvalsh(curvature).max() <= mean.max() + 1e-12
    half = np.full(2, 0.5)
    np.testing.assert_allclose(norms(np.diag(half) - np.outer(half, half)), half.max())
    certain = np.array([1 - 1e-6, 1e-6])
    assert norms(np.diag(certain) - np.outer(certain, certain)) < 1e-5 * certain.max()


def test_every_erratum_from_34_to_47_is_covered():
    tested = {int(name.split("_")[2]) for name in globals() if name.startswith("test_erratum_")}
    assert tested | READING.keys() == set(range(34, 48))
    assert not tested & READING.keys()
