"""One test for each erratum 1 to 33 of the theory: the printed formula fails, ours holds.

Errata 34 to 51 are in `test_errata_transport.py` and `test_errata_robust.py`.
"""

import dataclasses
import itertools
import math
import re

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import rsgda
from rsgda import theory
from rsgda.problems import Toy
from rsgda.theory import ConditionError, PowerLaw, Regularity
from rsgda.theory.schedules import power_sum

KEY = jr.key(5)

# Slips of the pen, without a number that could be compared.
READING = {
    32: "Robbins-Siegmund: U_{k+1} for U_k in the lemma's inequality; its conclusion is unchanged",
    52: "grad phi(theta_k) under a minimum over t, for theta_t: an index",
}


def constants(kappa, **others):
    """Constants with L = 1."""
    return Regularity(L=1.0, mu=1 / kappa, **others)


def a1(r, p, eta):
    """Section 2's a_1, written out."""
    root = np.sqrt(p * (2 * p + (1 - p) * eta * r.mu))
    return (1 - p) * eta / (r.kappa**2 * root)


def failing(r, **steps):
    return [c.name.split(":")[0] for c in theory.conditions(r, **steps) if not c.holds]


def slacks(case, thetas, vs, **steps):
    """The slack of the one-step inequality at many states, relative to its right side."""

    def at(theta, v):
        sides = theory.one_step(case, theta, v, **steps)
        return sides.slack, sides.right

    slack, right = jax.vmap(at)(thetas, vs)
    return np.asarray(slack / jnp.maximum(right, 1e-300))


def states(toy, count, seed=0):
    """Random states of all sizes, v near to v* and far from it."""
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-2, 1.5, (2, count, 1))
    thetas = jnp.asarray(size[0] * rng.normal(size=(count, toy.d)))
    lags = jnp.asarray(size[1] * rng.normal(size=(count, toy.d)))
    return thetas, jax.vmap(toy.v_star)(thetas) + lags


def solve(toy, alpha, eta, p, steps, **options):
    algorithm = rsgda.RSGDA(p=p, alpha=alpha, eta=eta)
    return rsgda.solve(toy.problem, algorithm, *toy.start(), key=KEY, steps=steps, **options)


def test_erratum_01_a_maximiser_up_to_delta():
    """Printed: F(theta, v) >= phi + delta; right: >= phi - delta, as phi is the maximum."""
    toy, delta = Toy(kinds="ABC", kappa=6.0), 1e-3
    theta, v = toy.start()
    anywhere = jax.vmap(toy.loss, (None, 0))(theta, jr.normal(KEY, (2000, 3)) * 5)
    at_best = toy.loss(theta, toy.v_star(theta))
    assert jnp.max(anywhere) <= at_best == pytest.approx(float(toy.phi(theta)), rel=1e-14)
    assert at_best < toy.phi(theta) + delta  # not even the best is good enough
    algorithm = rsgda.SGDmax(delta=delta, alpha=0.01, eta=1.0, mu=toy.mu)
    found = rsgda.solve(toy.problem, algorithm, theta, v, key=KEY, steps=1).v
    assert toy.phi(theta) - delta <= toy.loss(theta, found) <= toy.phi(theta)


def test_erratum_02_the_descent_of_sgdmax():
    """Printed (text): the descent of SGDmax is at v_k; right (box): at v_{k+1}."""
    toy = Toy(kinds="AB", kappa=6.0)
    theta, v = toy.start()
    algorithm = rsgda.SGDmax(delta=1e-4, alpha=0.01, eta=1.0, mu=toy.mu)
    result = rsgda.solve(toy.problem, algorithm, theta, v, key=KEY, steps=1)
    slope = jax.grad(toy.loss)
    np.testing.assert_allclose(result.theta, theta - 0.01 * slope(theta, result.v), rtol=1e-12)
    assert jnp.all(jnp.abs(result.theta - (theta - 0.01 * slope(theta, v))) > 1e-3)


def test_erratum_03_missing_clip():
    """Printed: alpha <= a_1/4 alone; right: and alpha <= 1/(4 kappa L), or a run diverges."""
    toy, p, eta = Toy(kinds="A", kappa=20.0), 1e-4, 0.5
    r = Regularity.of(toy, *toy.start())
    printed, ours = a1(r, p, eta) / 4, theory.alpha_max(r, p=p, eta=eta)
    assert failing(r, p=p, alpha=printed, eta=eta) == ["alpha_0 <= 1/(4 kappa L)"]
    assert failing(r, p=p, alpha=ours, eta=eta) == []
    thetas, vs = states(toy, 1000)
    assert slacks(toy, thetas, vs, p=p, alpha=ours, eta=eta, r=r).min() >= -1e-12
    vs = jax.vmap(toy.v_star)(thetas)
    assert slacks(toy, thetas, vs, p=p, alpha=printed, eta=eta, r=r).min() < -1e-4
    # Between two descents are 10^4 ascents, which leave v at v*: so the run looks.
    for step, grows in ((printed, True), (ours, False)):
        theta = toy.start()[0]
        for _ in range(80):
            theta = theta - step * toy.grad_phi(theta)
        assert bool(jnp.abs(theta[0]) > 1e17) is grows


@pytest.mark.slow
def test_erratum_03_run_diverges():
    """The run itself, with its rare descents: kappa = 20, p = 1e-4."""
    toy, p, eta = Toy(kinds="A", kappa=20.0), 1e-4, 0.5
    r = Regularity.of(toy, *toy.start())
    ends = [
        float(jnp.abs(solve(toy, alpha, eta, p, 1_500_000, every=10**6).theta[0]))
        for alpha in (a1(r, p, eta) / 4, theory.alpha_max(r, p=p, eta=eta))
    ]
    assert ends[0] > 1e17
    assert ends[1] < 1e-3


@pytest.mark.parametrize("kappa", [1.5, 10.0, 100.0])
@pytest.mark.parametrize("p", [1e-3, 0.1, 0.5, 0.9])
def test_erratum_04_constant_two(kappa, p):
    """Printed: alpha <= a_1/4; right: a_1/2 suffices, a step twice as large."""
    toy = Toy(kinds="ABCD", kappa=kappa, s=0.3, t=0.2, rho=0.4 / kappa)
    for eta in (0.5, 0.05):
        r = Regularity.of(toy, *toy.start())
        eta = eta / r.smoothness
        alpha = theory.alpha_max(r, p=p, eta=eta)
        half = a1(r, p, eta) / 2
        assert alpha == pytest.approx(min(half, 1 / (4 * r.kappa * r.smoothness)), rel=1e-12)
        assert slacks(toy, *states(toy, 400), p=p, alpha=alpha, eta=eta, r=r).min() >= -1e-10
        # What the proof needs is 1 - 4 (alpha/a_1)^2 >= 0: nothing to spare at 2, 3/4 at 4.
        left = [1 - 4 * (size / a1(r, p, eta)) ** 2 for size in (half, half / 2)]
        assert left == pytest.approx([0, 0.75], abs=1e-12)
        if alpha == half:
            assert failing(r, p=p, alpha=1.001 * half, eta=eta) == ["alpha_0 <= a_1/2"]


def test_erratum_05_each_sample_must_be_smooth():
    """Printed: F smooth and concave; right: each sample, as f_z = -(m_z/2) v^2 shows."""
    mu = 1.0
    for N in (8, 100):
        curvature, chance = np.array([N * mu, 0.0]), np.array([1 / N, 1 - 1 / N])
        assert curvature @ chance == pytest.approx(mu)  # so that F has L = mu, kappa = 1

        def factor(eta, curvature=curvature, chance=chance):
            return chance @ (1 - eta * curvature) ** 2  # E |v_+|^2 / |v|^2

        printed = 1 / (2 * mu)
        assert factor(printed) == pytest.approx(N / 4)
        assert factor(printed) > 1 > 1 - printed * mu == 0.5  # what the proof claims
        r = Regularity(L=mu, mu=mu, L_max=N * mu)
        ours = theory.precision(r, eps=1.0).algorithm.eta
        assert ours == 1 / (2 * N * mu)
        assert factor(ours) <= 1 - ours * mu
        alpha = theory.alpha_max(r, p=0.5, eta=ours)
        assert failing(r, p=0.5, alpha=alpha, eta=ours) == []
        assert failing(r, p=0.5, alpha=alpha, eta=printed) == ["eta_0 <= 1/(2 L)"]


@dataclasses.dataclass(frozen=True)
class Edge:
    """F = theta v - v^2/2 with v in [-1, 1]: phi is Huber's function, v* is on the edge."""

    inf_phi = 0.0

    @property
    def problem(self):
        return rsgda.Problem(edge_loss, project_v=clip)

    def phi(self, theta):
        return jnp.sum(jnp.where(jnp.abs(theta) < 1, theta**2 / 2, jnp.abs(theta) - 0.5))

    def v_star(self, theta):
        return clip(theta)

    def grad_phi(self, theta):
        return clip(theta)


def edge_loss(theta, v):
    return jnp.sum(theta * v - v**2 / 2)


def clip(v):
    return jnp.clip(v, -1.0, 1.0)


def test_erratum_06_noise_at_the_maximiser_on_the_edge():
    """Printed: sigma~^2 = E|grad_v f(theta, v*)|^2; right: centred, over V, at the worst theta."""
    case = Edge()
    slope = jax.grad(edge_loss, argnums=1)
    thetas = jnp.asarray([[0.5], [2.0], [50.0]])
    printed = [float(slope(theta, case.v_star(theta))[0] ** 2) for theta in thetas]
    assert printed == pytest.approx([0, 1, 49**2])  # at one theta or another, none at all or any
    # The gradient is exact: with the centred sigma~ = 0 the inequality holds, on the edge too.
    r = Regularity(L=(1 + math.sqrt(5)) / 2, mu=1.0)  # the norm of [[0, 1], [1, -1]]
    rng = np.random.default_rng(0)
    thetas = jnp.asarray(rng.normal(size=(3000, 1)) * 10.0 ** rng.uniform(-2, 2, (3000, 1)))
    vs = jnp.asarray(rng.uniform(-1, 1, (3000, 1)))
    for p in (0.05, 0.5, 0.9):
        eta = 1 / r.L
        alpha = theory.alpha_max(r, p=p, eta=eta)
        steps = {"p": p, "alpha": alpha, "eta": eta, "r": r, "setting": "exact"}
        assert slacks(case, thetas, vs, **steps).min() >= -1e-12
    # And with the maximiser over all v, as printed, "phi" would not be the maximum over V.
    assert edge_loss(jnp.full(1, 5.0), jnp.full(1, 5.0)) > case.phi(jnp.full(1, 5.0))


def test_erratum_07_drift_of_the_maximiser():
    """Printed: alpha^2 kappa^2 sigma~^2 bounds the drift of v*; right: sigma^2, theta's noise."""
    toy, alpha = Toy(kinds="AB", kappa=5.0, s=0.5), 0.02
    theta, v = jnp.zeros(2), jnp.zeros(2)
    assert jnp.all(jax.grad(toy.loss)(theta, v) == 0)
    assert toy.sigma_v == 0

    def drift(batch):
        moved = theta - alpha * jax.grad(toy.sample_loss)(theta, v, batch)
        return jnp.sum((toy.v_star(moved) - toy.v_star(theta)) ** 2)

    mean = jnp.mean(jax.vmap(drift)(toy.signs()))
    right = alpha**2 * toy.kappa**2 * toy.sigma**2
    printed = alpha**2 * toy.kappa**2 * toy.sigma_v**2
    assert printed == 0 < mean <= right
    assert mean > right / 4
    # Prop. 1 itself, with sigma there, holds at this state, and with sigma~ there it does not.
    r = Regularity.of(toy, theta, v)
    steps = {"p": 0.5, "alpha": theory.alpha_max(r, p=0.5, eta=0.5), "eta": 0.5}
    assert theory.one_step(toy, theta, v, **steps, r=r).slack >= 0
    none = dataclasses.replace(r, sigma=0.0)
    assert theory.one_step(toy, theta, v, **steps, r=none).slack < 0


def test_erratum_08_joint_smoothness():
    """Printed: F is L-smooth on R^d; right: jointly in (theta, v), for the cross term is used."""
    b, m = 3.0, 1.0  # F = b theta v - m v^2 / 2: no curvature in theta, m in v
    for L, enough in ((m, False), (float(np.linalg.norm([[0, b], [b, -m]], 2)), True)):
        kappa = Regularity(L=L, mu=m).kappa
        assert (b / m <= kappa) is enough  # v* = (b/m) theta is kappa-Lipschitz
        assert (b**2 / m <= 2 * kappa * L) is enough  # phi = b^2 theta^2/(2m) is 2 kappa L-smooth


def test_erratum_09_the_steps_of_the_main_text():
    """Printed: alpha_k = a_1/(2 (k+1)^(1/5)) against a_1/4, no clip; right: 2, alpha_0 clipped."""
    r, p = constants(10.0, sigma=1.0, sigma_v=1.0), 0.3
    k = np.arange(100)
    eta = 0.5 * (k + 1.0) ** (-2 / 5)
    limits = np.array([a1(r, p, size) for size in eta])
    printed = limits / (2 * (k + 1.0) ** (1 / 5))
    assert np.flatnonzero(printed > limits / 4 * (1 + 1e-12)).tolist() == list(range(31))
    plan = theory.anytime(r, p=p)
    assert np.all(plan.algorithm.alpha(k) <= limits / 2 * (1 + 1e-12))
    # Where descents are rare the clip matters: printed is above 1/(4 kappa L), ours is not.
    p = 1e-3
    assert a1(r, p, 0.5) / 2 > 1.5 / (4 * r.kappa)
    for plan in (theory.anytime(r, p=p), theory.almost_sure(r, p=p)):
        assert plan.algorithm.alpha.value == 1 / (4 * r.kappa)
        assert all(condition.holds for condition in plan.conditions)


def test_erratum_10_zeta_and_the_root():
    """Printed: any zeta > 0, eta_k in the root; right: zeta < 2/5, eta_0 there."""
    r = constants(100.0, sigma=1.0, sigma_v=1.0)
    k = np.arange(50.0)

    def printed(p, zeta):
        """alpha_k / eta_k."""
        eta = 0.5 * (k + 1) ** (-2 / 5 - zeta)
        root = np.sqrt(p * (2 * p + (1 - p) * eta * r.mu))
        return (1 - p) / (2 * root * r.kappa**2 * (k + 1) ** (1 / 5))

    assert np.all(np.diff(printed(1e-4, 0.3)[:10]) > 0)  # increases: Prop. 1 does not apply
    for zeta in (0.05, 0.3):
        threshold = 5 * zeta / (8 * r.kappa + 5 * zeta)  # p = 5 zeta (1-p)/(8 kappa)
        close = np.array([0.0, 1e-6])
        for p, rises in ((0.99 * threshold, True), (1.01 * threshold, False)):
            eta = 0.5 * (close + 1) ** (-2 / 5 - zeta)
            ratio = 1 / (np.sqrt(2 * p + (1 - p) * eta * r.mu) * (close + 1) ** (1 / 5))
            assert bool(ratio[1] > ratio[0]) is rises
        ours = theory.almost_sure(r, p=1e-4, zeta=zeta).algorithm
        assert np.all(np.diff(ours.alpha(k) / ours.eta(k)) < 0)
    # From 2/5 on the steps have a finite sum, so that there is no rate at all.
    assert power_sum(3 / 5 + 0.5, 10**15) < 10.6 < power_sum(3 / 5 + 0.3, 10**15)
    for zeta in (0.4, 0.5):
        with pytest.raises(ConditionError, match="zeta < 2/5"):
            theory.almost_sure(r, zeta=zeta)


def test_erratum_11_the_steps_of_the_appendix():
    """Printed: alpha = (1-p) eta/(4 p kappa^2 ..), so p/(1-p) >= 1/(4 kappa); right: any p."""
    for kappa in (3.0, 50.0):
        r = constants(kappa, sigma=1.0, sigma_v=1.0)
        for factor, allowed in ((1.001, True), (0.999, False), (0.01, False)):
            ratio = factor / (4 * kappa)
            p = ratio / (1 + ratio)
            printed = (1 - p) * 0.5 / (4 * p * kappa**2)
            assert bool(printed <= a1(r, p, 0.5) / 2) is allowed
            found = failing(r, p=p, alpha=PowerLaw(printed, 3 / 5), eta=PowerLaw(0.5, 2 / 5))
            assert ("alpha_0 <= a_1/2" in found) is not allowed
            ours = theory.anytime(r, p=p).algorithm
            assert failing(r, p=p, alpha=ours.alpha, eta=ours.eta) == []


def test_erratum_12_the_rate_of_the_anytime_proof():
    """Printed: O(log k / sqrt k); right: O(log k k^(-2/5)), as sum alpha ~ k^(2/5)."""
    plan = theory.anytime(constants(4.0, sigma=1.0, sigma_v=1.0), p=0.5)
    k = 10.0 ** np.arange(9, 28, 3)
    bound = plan.bound(k)
    printed = bound / (np.log(k) / np.sqrt(k))
    right = bound / (np.log(k) * k ** (-2 / 5))
    ratios = printed[1:] / printed[:-1]
    assert np.all(ratios > 1.6)
    assert np.all(np.diff(ratios) > 0)  # to 1000^(1/10) = 2: unbounded
    assert np.all(np.diff(right) < 0)
    assert right[-1] > 0.4 * right[0]
    # It is the sum of the steps that says so.
    total = power_sum(3 / 5, k)
    np.testing.assert_allclose(total / k ** (2 / 5), 5 / 2, rtol=1e-3)


def test_erratum_13_what_the_anytime_bound_depends_on():
    """Printed: O(kappa log k k^(-2/5)); right: kappa^2 L D0 beside, and two terms with log k."""

    def bound(kappa, k=10**6, **others):
        return theory.anytime(constants(kappa, **others), p=0.5).bound(k)

    assert bound(1e4) / bound(1e3) == pytest.approx(100, rel=1e-2)  # kappa^2, and no noise at all
    # Two terms grow with log k: kappa sigma~^2, and sigma^2 without a kappa.
    far, near, start = 1e30, 1e15, {"D0": 0.0, "r0": 0.0}
    for noise, order in (({"sigma_v": 1.0}, 10), ({"sigma": 1.0}, 1)):
        logs = []
        for kappa in (1e3, 1e4):
            sums = [power_sum(3 / 5, k) for k in (far, near)]
            grown = [bound(kappa, k, **noise, **start) for k in (far, near)]
            logs.append((grown[0] * sums[0] - grown[1] * sums[1]) / math.log(far / near))
        assert logs[0] > 0.1
        assert logs[1] / logs[0] == pytest.approx(order, rel=1e-2)
    # The closed form against the sum of the one-step inequalities.
    r = constants(5.0, sigma=1.0, sigma_v=1.0)
    plan = theory.anytime(r, p=0.3)
    k = 10**6
    alpha, eta = plan.algorithm.alpha, plan.algorithm.eta
    summed = theory.telescoped(r, p=0.3, alpha=lambda t: alpha(t), eta=lambda t: eta(t), k=k)
    assert 1 <= plan.bound(k) / summed < 1.001


def test_erratum_14_constant_steps():
    """Printed: RGDA converges for any constant steps; right: for those that Prop. 1 allows."""
    toy = Toy(kinds="A", kappa=10.0)
    r = Regularity.of(toy, *toy.start())
    for alpha, eta in ((0.01, 30.0), (2.0, 1.0)):
        # `summability`, which is all that is printed, has no objection.
        assert all(condition.holds for condition in theory.summability(r, alpha, eta))
        assert solve(toy, alpha, eta, 0.5, 20_000).status is rsgda.Status.DIVERGED
        with pytest.raises(ConditionError):
            theory.almost_sure(r, p=0.5, exact=True, alpha=alpha, eta=eta)
    plan = theory.almost_sure(r, p=0.5, exact=True)
    result = solve(toy, plan.algorithm.alpha, plan.algorithm.eta, 0.5, 20_000)
    assert result.status is rsgda.Status.FINISHED
    assert toy.phi(result.theta) < 1e-3 * toy.phi(toy.start()[0])


def test_erratum_15_main_text_and_appendix():
    """Printed: two pairs of steps for RGDA; right: both are a_1/2, and 1/L needs the clip."""
    for kappa, p in itertools.product((3.0, 30.0), (0.1, 0.5, 0.8)):
        r = constants(kappa)
        main = (1 - p) / (4 * kappa**2) / math.sqrt(p * (2 * p + (1 - p) / (2 * kappa)))
        appendix = (1 - p) / (2 * kappa**2) / math.sqrt(p * (2 * p + (1 - p) / kappa))
        assert main == pytest.approx(a1(r, p, 0.5) / 2)
        assert appendix == pytest.approx(a1(r, p, 1.0) / 2)
    # The appendix violates alpha <= 1/(4 kappa L) at p = 1/kappa, from kappa = 7 on.
    for kappa in (4, 6, 7, 50, 1000):
        r, p = constants(float(kappa)), 1 / kappa
        appendix = (1 - p) / (2 * kappa**2) / math.sqrt(p * (2 * p + (1 - p) / kappa))
        found = failing(r, p=p, alpha=appendix, eta=1.0, setting="exact")
        assert found == (["alpha_0 <= 1/(4 kappa L)"] if kappa >= 7 else [])
        for main_text in (False, True):
            plan = theory.exact(r, p=p, main_text=main_text)
            assert all(condition.holds for condition in plan.conditions)


def test_erratum_16_weight_of_r0():
    """Printed: kappa L^2 r0/((1-p) k); right: 2 times that at eta = 1/L, 4 times at 1/(2L)."""
    for kappa, p in ((3.0, 0.5), (40.0, 0.1)):
        r = Regularity(L=2.0, mu=2.0 / kappa, D0=0.0, r0=1.7)
        printed = kappa * 2.0**2 * 1.7 / ((1 - p) * 100)
        for main_text, factor in ((False, 2), (True, 4)):
            plan = theory.exact(r, p=p, main_text=main_text)
            # The energy at the start is all there is, without noise.
            alpha, eta = plan.algorithm.alpha, plan.algorithm.eta
            energy = kappa * 2.0 * p * alpha / ((1 - p) * eta) * 1.7
            assert plan.bound(100) == pytest.approx(2 * energy / (p * alpha * 100))
            assert plan.bound(100) == pytest.approx(factor * printed)


def test_erratum_17_fixed_steps():
    """Printed: 2 alpha^2 kappa^4 p^2 sigma^2/((1-p) eta)^2; right: 4, or up to 50 % are missing."""
    missing = []
    for kappa, p in itertools.product((2.0, 20.0, 500.0), (0.02, 0.3, 0.9)):
        r = constants(kappa, sigma=1.0, D0=0.0, r0=0.0)
        eta = 0.5
        alpha = a1(r, p, eta) / 2
        fifth = alpha**2 * kappa**4 * p**2 / ((1 - p) * eta) ** 2
        sixth = 2 * alpha**2 * kappa**3 * p / ((1 - p) * eta)
        # The noise of one step by Prop. 1, over p alpha, and without its part of alpha^2.
        one = p**2 * (2 * p + (1 - p) * eta * r.mu) * alpha**3 * kappa**4 / ((1 - p) * eta) ** 2
        drift = 2 * one / (p * alpha)
        assert drift == pytest.approx(0.5)
        assert 4 * fifth + sixth == pytest.approx(drift)
        ours = theory.fixed_steps(r, p=p, alpha=alpha, eta=eta, k=10**9) - 2 * alpha * kappa
        assert ours == pytest.approx(drift)
        missing.append(1 - (2 * fifth + sixth) / drift)
    assert min(missing) > 0
    assert 0.499 < max(missing) < 0.5


def fixed_entries(kappa, p, eps, sigma, root=6, last=48):
    """The entries of the fixed-step corollary's minimum, L = 1, as corrected."""
    q, eta = 1 - p, eps**2 / (24 * kappa * sigma**2)
    inside = np.sqrt(p * (2 * p + q * eta / kappa))
    return [
        eps**2 / (12 * kappa * sigma**2),
        q / p * eps**3 / (48 * np.sqrt(root) * kappa**3 * sigma**3),
        np.sqrt(q / p) * eps**2 / (12 * np.sqrt(2) * kappa**2 * sigma**2),
        q * eps**2 / (last * kappa**3 * sigma**2 * inside),
    ]


def printed_entries(kappa, p, eps, sigma):
    """The same as printed: root 3, and a last entry without eps^2/(12 kappa L sigma^2)."""
    first, second, third, last = fixed_entries(kappa, p, eps, sigma, root=3, last=96)
    return [first, second, third, last * 12 * kappa * sigma**2 / eps**2]


def printed_count(kappa, p, eps, sigma, D0, r0):
    q = 1 - p
    root = np.sqrt(2 + q * eps**2 / (24 * p * kappa**2 * sigma**2))
    return (12 / eps**2) * max(
        12 * D0 * kappa * sigma**2 / (p * eps**2),
        48 * np.sqrt(3) * D0 * kappa**3 * sigma**3 / (q * eps**3),
        12 * np.sqrt(2) * D0 * kappa**2 * sigma**2 / (np.sqrt(p * q) * eps**2),
        8 * kappa**2 * root / q,
        kappa**2 * r0 / q,
    )


def test_erratum_18_prefactor():
    """Printed: alpha = eps^2/(12 kappa L sigma^2) min{..}; right: none, but for the last."""
    worst = []
    for kappa, eps, p in itertools.product((4.0, 64.0, 1024.0), (0.3, 0.03), (0.1, 0.5)):
        r = constants(kappa, sigma=1.0, sigma_v=1.0)
        eta = eps**2 / (24 * kappa)
        printed = eps**2 / (12 * kappa) * min(printed_entries(kappa, p, eps, 1.0))
        k = np.ceil(printed_count(kappa, p, eps, 1.0, 1.0, 1.0))
        worst.append(theory.fixed_steps(r, p=p, alpha=printed, eta=eta, k=k) / eps**2)
        plan = theory.precision(r, p=p, eps=eps)
        assert plan.algorithm.alpha == pytest.approx(min(fixed_entries(kappa, p, eps, 1.0)))
        assert plan.bound(float(plan.steps)) <= eps**2
    assert min(worst) > 80
    assert max(worst) > 9e4
    # Without the prefactor, and nothing else changed, Prop. 1 fails for eps > 1.2247 sigma.
    kappa, p = 1000.0, 0.5
    r = constants(kappa, sigma=1.0, sigma_v=1.0)
    for eps, allowed in ((1.22, True), (1.23, False), (3.0, False)):
        naive = min(printed_entries(kappa, p, eps, 1.0))
        eta = eps**2 / (24 * kappa)
        assert (failing(r, p=p, alpha=naive, eta=eta) == []) is allowed
        ours = theory.precision(r, p=p, eps=eps).algorithm
        assert ours.eta == pytest.approx(eta)
        assert failing(r, p=p, alpha=ours.alpha, eta=ours.eta) == []


def test_erratum_19_root_six():
    """Printed: 48 sqrt(3) in the second entry, whose term is then eps^2/3; right: 48 sqrt(6)."""
    kappa, p, eps, sigma = 30.0, 0.4, 0.2, 1.3
    eta = eps**2 / (24 * kappa * sigma**2)
    for root, sixths in ((3, 2), (6, 1)):
        alpha = fixed_entries(kappa, p, eps, sigma, root=root)[1]
        term = 4 * alpha**2 * kappa**4 * p**2 * sigma**2 / ((1 - p) * eta) ** 2
        assert term == pytest.approx(sixths * eps**2 / 6)
    plan = theory.precision(constants(kappa, sigma=sigma, sigma_v=sigma), p=p, eps=eps)
    assert plan.algorithm.alpha == pytest.approx(alpha)  # this entry is the smallest here


def test_erratum_20_count_of_fixed_steps():
    """Printed: k without D0, kappa sigma^2/eps^2 and 24/eps^2 in its last two; right: C4's max."""
    # Only r0 matters; only the entry of a_1 does (eps > 1.22 sigma).
    for D0, r0, sigma, eps, p in ((1e-6, 50.0, 1.0, 0.1, 0.4), (40.0, 0.0, 0.02, 0.3, 0.4)):
        kappa = 20.0
        r = constants(kappa, sigma=sigma, sigma_v=sigma, D0=D0, r0=r0)
        plan = theory.precision(r, p=p, eps=eps)
        printed = math.ceil(printed_count(kappa, p, eps, sigma, D0, r0))
        assert plan.bound(printed) > 1.5 * eps**2
        assert plan.bound(plan.steps) <= eps**2
    # In other units the printed entry stays as it is, ours grows with D0 as a count must.
    far = dataclasses.replace(r, D0=1e3 * D0)
    assert theory.precision(far, p=p, eps=eps).steps == pytest.approx(1e3 * plan.steps, rel=1e-6)


def test_erratum_21_eta_of_fixed_steps():
    """Printed: eta = eps^2/(24 kappa L sigma^2), sigma >= sigma~ >= 1; right: and eta <= 1/(2L)."""
    for kappa, sigma, eps in ((2.0, 1.0, 6.0), (2.0, 0.1, 1.0), (50.0, 0.01, 0.3)):
        r = constants(kappa, sigma=sigma, sigma_v=sigma)
        printed = eps**2 / (24 * kappa * sigma**2)
        alpha = theory.alpha_max(r, p=0.5, eta=0.5)
        assert "eta_0 <= 1/(2 L)" in failing(r, p=0.5, alpha=alpha, eta=printed)
        ours = theory.precision(r, p=0.5, eps=eps).algorithm
        assert ours.eta == 0.5
    # A floor of 1 on sigma costs a factor without bound, and depends on the units of f.
    r = constants(10.0, sigma=1e-3, sigma_v=1e-3)
    floored = dataclasses.replace(r, sigma=1.0, sigma_v=1.0)
    few, many = (theory.precision(x, p=0.5, eps=0.1).steps for x in (r, floored))
    assert many > 1e4 * few
    c = 100.0
    scaled = Regularity(L=c, mu=c / 10, sigma=c * 1e-3, sigma_v=c * 1e-3, D0=c)
    assert theory.precision(scaled, p=0.5, eps=0.1 * c).steps == pytest.approx(few, abs=1)


def test_erratum_22_large_batch_mixes_two_etas():
    """Printed: D0 of eta = 1/(2L) beside r0 of 1/L; right: both of one eta."""
    for kappa, p in ((5.0, 0.5), (60.0, 0.1)):
        q, k = 1 - p, 1000
        printed_D0 = 8 * kappa**2 / (q * k) * math.sqrt(2 + q / (2 * p * kappa))
        printed_r0 = 2 * kappa / (q * k)
        of = {}
        for bounded, D0, r0 in itertools.product((False, True), (0.0, 1.0), (0.0, 1.0)):
            plan = theory.large_batch(constants(kappa, D0=D0, r0=r0), p=p, eps=0.1, bounded=bounded)
            of[bounded, D0, r0] = plan.bound(k)
        assert of[False, 1.0, 0.0] == pytest.approx(printed_D0)
        assert of[False, 0.0, 1.0] == pytest.approx(2 * printed_r0)  # printed: too small
        assert of[True, 0.0, 1.0] == pytest.approx(printed_r0)
        if p == 0.5:  # where nothing is clipped; printed: looser
            exactly = 4 * kappa**2 / (q * k) * math.sqrt(2 + q / (p * kappa))
            assert of[True, 1.0, 0.0] == pytest.approx(exactly)
        assert of[True, 1.0, 0.0] < printed_D0


def test_erratum_23_noise_of_large_batches():
    """Printed: 2 (p/(2 kappa^2 s) + (1-p)/(4 kappa s)), s = 2p + (1-p)/(2 kappa); right: 1/2."""
    for kappa, p in itertools.product((3.0, 40.0, 1e4), (0.05, 0.5, 0.9)):
        s = 2 * p + (1 - p) / (2 * kappa)
        printed = 2 * (p / (2 * kappa**2 * s) + (1 - p) / (4 * kappa * s))
        without_stray = 2 * (p / (2 * s) + (1 - p) / (8 * kappa * s))  # of the same two terms
        assert without_stray == pytest.approx(0.5)
        r = constants(kappa, sigma=1.0, D0=0.0, r0=0.0)
        alpha = a1(r, p, 0.5) / 2
        ours = theory.fixed_steps(r, p=p, alpha=alpha, eta=0.5, k=10**9)
        assert ours - 2 * alpha * kappa == pytest.approx(0.5)
        if p * kappa >= 1.5:
            assert printed < 0.4
    assert printed < 1e-4


def test_erratum_24_counts_of_large_batches():
    """Printed: k >= (2/eps^2) (kappa^2 L/((1-p) k) ..), M undefined; right: C5's k and M."""
    kappa, p, eps = 20.0, 0.5, 0.1
    r = constants(kappa, sigma=1.0, sigma_v=1.0)
    plan = theory.large_batch(r, p=p, eps=eps)
    root = math.sqrt(2 + (1 - p) / (2 * p * kappa))
    inside = kappa**2 / (1 - p) * root + 2 * kappa / (1 - p)
    solved = math.ceil(math.sqrt(2 / eps**2 * inside))  # with k on both sides
    struck = math.ceil(2 / eps**2 * inside)  # with the k on the right struck out
    quiet = theory.large_batch(constants(kappa), p=p, eps=eps)  # the terms in k alone
    assert quiet.bound(solved) > 1e3 * eps**2 / 2
    assert quiet.bound(struck) > 6 * eps**2 / 2
    assert quiet.bound(plan.steps) <= eps**2 / 2
    assert plan.bound(plan.steps) <= eps**2
    assert plan.batch_size == math.ceil(2 * (2 * kappa + 1) / eps**2)
    # A third of that minibatch would not do: the noise alone is above eps^2.
    few = dataclasses.replace(r, sigma=1.0, sigma_v=1.0)
    noise = theory.fixed_steps(few, p=p, alpha=plan.algorithm.alpha, eta=0.5, k=10**15)
    assert noise / (plan.batch_size / 3) > eps**2 > noise / plan.batch_size


def test_erratum_25_interpolation_almost_surely():
    """Printed: alpha_k = eta/(4 (k+1)^(1/2-e) ..), no (1-p)/kappa^2; right: 1/2+zeta, C6."""
    e = 0.1
    sums = {sign: power_sum(2 * (0.5 + sign * e), [10**6, 10**12, 10**18]) for sign in (-1, 1)}
    assert np.all(sums[-1][1:] / sums[-1][:-1] > 10)  # sum alpha^2 = inf
    assert sums[1][-1] - sums[1][-2] < 0.03 * sums[1][-1]
    for kappa, p in ((10.0, 0.5), (100.0, 0.1)):
        r = constants(kappa, sigma=1.0)
        printed = 0.5 / (4 * math.sqrt(p * (2 * p + (1 - p) * 0.5 * r.mu)))
        assert printed / (a1(r, p, 0.5) / 2) == pytest.approx(kappa**2 / (2 * (1 - p)))
        assert "alpha_0 <= a_1/2" in failing(r, p=p, alpha=printed, eta=0.5)
        judged = theory.summability(r, PowerLaw(printed, 0.5 - e), 0.5)
        assert [condition.holds for condition in judged] == [True, False, True, True]
        with pytest.raises(ConditionError, match=r"sum alpha_k\^2"):
            theory.almost_sure(r, p=p, alpha=PowerLaw(1e-9, 0.5 - e), eta=0.5)
        plan = theory.interpolation_almost_sure(r, p=p, zeta=e)
        assert all(condition.holds for condition in plan.conditions)
        assert plan.algorithm.alpha.exponent == 0.5 + e


def test_erratum_26_interpolation_anytime():
    """Printed: alpha_k = eta/(4 sqrt(k+1) ..), a run explodes; right: (1-p)/kappa^2 of it, C7."""
    toy, p = Toy(kinds="A", kappa=50.0, s=0.1), 1 / 50
    r = Regularity.of(toy, *toy.start())
    printed = 0.5 / (4 * math.sqrt(p * (2 * p + (1 - p) * 0.5 * r.mu)))

    def farthest(alpha):
        def record(problem, state):
            return {"phi": toy.phi(state.theta)}

        result = solve(toy, alpha, 0.5, p, 3000, every=20, record=record)
        return result.history["phi"].max() / float(toy.phi(toy.start()[0]))

    plan = theory.interpolation_anytime(r, p=p)
    assert farthest(PowerLaw(printed, 0.5)) > 1e8
    assert farthest(plan.algorithm.alpha) <= 1.01
    # And the bound has kappa^2 D0 in it, not kappa log k alone.
    bounds = [
        theory.interpolation_anytime(constants(kappa), p=p).bound(100) for kappa in (1e3, 1e4)
    ]
    assert bounds[1] / bounds[0] == pytest.approx(100, rel=1e-2)


def test_erratum_27_eta_mu():
    """Printed: 2p + (1-p)/kappa for eta = 1/(2L); right: (1-p)/(2 kappa), printed is looser."""
    for kappa, p in ((2.0, 0.01), (30.0, 0.2), (1e4, 0.9)):
        r = constants(kappa, sigma=1.0, D0=0.0, r0=0.0)
        alpha = theory.alpha_max(r, p=p, eta=0.5)
        noise = {
            said: 2 * (p * kappa + 4 * p**2 * (2 * p + x) * alpha * kappa**4 / (1 - p) ** 2)
            for said, x in (("printed", (1 - p) / kappa), ("right", (1 - p) / (2 * kappa)))
        }
        ours = theory.fixed_steps(r, p=p, alpha=alpha, eta=0.5, k=7)
        assert noise["right"] * alpha / p == pytest.approx(ours)
        assert noise["printed"] > noise["right"]


def test_erratum_28_coefficients_of_interpolation():
    """Printed: 8, 2 sqrt(10) and 20 sqrt(10); right: 16, 4 sqrt(5) and 40 sqrt(5)."""
    kappa, p, eps, sigma = 40.0, 0.5, 0.5, 1.0
    r = constants(kappa, sigma=sigma, D0=0.0, r0=0.0)
    for root, fifths in ((2 * math.sqrt(10), 2), (4 * math.sqrt(5), 1)):
        alpha = (1 - p) * eps / (root * kappa**2 * p * sigma)
        unit = alpha**2 * kappa**4 * p**2 * sigma**2 / (1 - p) ** 2
        others = 2 * alpha * kappa + 4 * alpha**2 * kappa**3 * p / (1 - p)
        ours = theory.fixed_steps(r, p=p, alpha=alpha, eta=0.5, k=10**9)
        assert ours == pytest.approx(16 * unit + others)
        assert 16 * unit == pytest.approx(fifths * eps**2 / 5)
    r = constants(kappa, sigma=sigma)
    plan = theory.interpolation_precision(r, p=p, eps=eps)
    assert plan.algorithm.alpha == pytest.approx(alpha)  # this entry is the smallest here
    assert plan.bound(plan.steps) <= eps**2
    printed = math.ceil(20 * math.sqrt(10) * kappa**2 * sigma / ((1 - p) * eps**3))
    assert plan.steps == math.ceil(40 * math.sqrt(5) * kappa**2 * sigma / ((1 - p) * eps**3))
    assert 2 / (plan.algorithm.alpha * p * printed) > 1.4 * eps**2 / 5


def test_erratum_29_third_entry_of_interpolation():
    """Printed: eps^2 in the third entry, so that its term is eps^4/5; right: eps."""
    kappa, p, sigma = 30.0, 0.02, 2.0
    for eps in (0.2, 3.0):
        term = {}
        for power in (2, 1):
            alpha = math.sqrt((1 - p) / p) * eps**power / (2 * math.sqrt(5) * kappa**1.5 * sigma)
            term[power] = 4 * alpha**2 * kappa**3 * p * sigma**2 / (1 - p)
        assert term[1] == pytest.approx(eps**2 / 5)
        assert (term[2] > eps**2 / 5) is (eps > 1)  # else smaller than need be
    # In other units, too: f -> c f makes every other alpha c times smaller, the printed one not.
    c, eps = 10.0, 0.5
    r = constants(kappa, sigma=sigma)
    scaled = Regularity(L=c, mu=c / kappa, sigma=c * sigma, D0=c)
    ours = theory.interpolation_precision(r, p=p, eps=eps).algorithm.alpha
    other = theory.interpolation_precision(scaled, p=p, eps=c * eps).algorithm.alpha
    assert other == pytest.approx(ours / c)


def test_erratum_30_count_of_interpolation():
    """Printed: 100 ../(p eps^2), 20 sqrt(5) ../eps^4, a root below the line; right: C8's max."""
    eps = 0.1
    # The first entry alone matters: alpha = eps^2/(10 kappa L sigma^2).
    kappa, p, sigma = 3.0, 1e-3, 10.0
    plan = theory.interpolation_precision(constants(kappa, sigma=sigma, r0=0.0), p=p, eps=eps)
    assert plan.algorithm.alpha == pytest.approx(eps**2 / (10 * kappa * sigma**2))
    printed = math.ceil(100 * kappa * sigma**2 / (p * eps**2))
    assert plan.bound(printed) > 0.2 > 19 * eps**2
    assert plan.steps == pytest.approx(printed / eps**2, rel=1e-6)
    assert plan.bound(plan.steps) <= eps**2
    # The third, by eps^4, asks for four times what suffices; with eps^3 it never matters.
    kappa, p, sigma, fine = 25.0, 0.01, 0.05, 0.01
    plan = theory.interpolation_precision(constants(kappa, sigma=sigma, r0=0.0), p=p, eps=fine)
    third = 20 * math.sqrt(5) * kappa**1.5 * sigma / math.sqrt(p * (1 - p))
    assert third / fine**4 > 4 * plan.steps > plan.steps > third / fine**3
    assert plan.bound(plan.steps) <= fine**2
    # The fourth, with its own constant 8 and without noise.
    kappa, p = 50.0, 0.3
    r = constants(kappa, r0=0.0)
    root = math.sqrt(2 + (1 - p) / (p * kappa))
    alpha = (1 - p) / (8 * kappa**2 * p * root)
    for said, count, enough in (
        ("printed", 80 * kappa**2 / ((1 - p) * eps**2 * root), False),
        ("right", 80 * kappa**2 * root / ((1 - p) * eps**2), True),
    ):
        bound = theory.fixed_steps(r, p=p, alpha=alpha, eta=0.5, k=math.ceil(count))
        assert (bound <= eps**2 / 5) is enough, said
    plan = theory.interpolation_precision(r, p=p, eps=eps)
    assert plan.steps < 80 * kappa**2 * root / ((1 - p) * eps**2)  # constant 2: twice as fast
    assert plan.bound(plan.steps) <= eps**2


def test_erratum_31_first_weight():
    """Printed: w_k in [0, 1]; right: w_0 = 2, which is harmless, as g_1 = g_0."""
    alpha = theory.almost_sure(constants(4.0, sigma=1.0, sigma_v=1.0)).algorithm.alpha
    steps = alpha(np.arange(200))
    weights = 2 * steps / np.cumsum(steps)
    assert weights[0] == 2
    assert np.all((weights[1:] >= 0) & (weights[1:] <= 1))
    squares = np.random.default_rng(0).exponential(size=200)
    g = [squares[0]]
    for weight, square in zip(weights, squares, strict=True):
        g.append((1 - weight) * g[-1] + weight * square)
    assert g[1] == g[0]
    assert np.all(np.asarray(g[1:]) >= np.minimum.accumulate(squares) * (1 - 1e-12))


def test_erratum_33_p_must_not_change():
    """Printed: p_t; right: p, or p_t alpha_t/((1-p_t) eta_t) must not increase."""
    toy, eta = Toy(kinds="AB", kappa=5.0), 0.5
    r = Regularity.of(toy, *toy.start())
    thetas, vs = states(toy, 1000)
    alpha = min(theory.alpha_max(r, p=p, eta=eta) for p in (0.2, 0.8))

    def worst(now, then):
        """The weight of r_{k+1} in the energy has the next p, which a next alpha stands for."""
        grown = then / (1 - then) / (now / (1 - now))
        steps = {"p": now, "alpha": alpha, "eta": eta, "next_alpha": alpha * grown, "r": r}
        return slacks(toy, thetas, vs, **steps).min()

    assert worst(0.2, 0.8) < -1
    assert worst(0.2, 0.2) >= -1e-12
    assert worst(0.8, 0.2) >= -1e-12  # falling, which is what the condition allows


def test_every_erratum_is_covered():
    """A test for each of 1 to 33 and 52, or a reason why there is none."""
    named = {
        int(found[1]) for name in globals() if (found := re.match(r"test_erratum_(\d\d)_", name))
    }
    assert not named & set(READING)
    assert named | set(READING) == {*range(1, 34), 52}
