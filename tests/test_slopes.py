r"""Measured rates: the exponent of k in |grad phi|^2, and that of kappa in the iterations.

Kind D with r = 0.1 has a tail so slow that the gradient flow has |grad phi|^2 ~ time^(-22/21). The
algorithms follow the flow at time p sum(alpha_t), that is k, k^(1/2) and k^(2/5), and start at v*.
With decreasing steps the tail begins late: with kappa = 2, p = 1/4 the flow has slopes of -0.33 at
k = 10^6, -0.40 at 10^7 and -0.42 beyond. Runs are compared with the flow, which is integrated.

In kappa it is kind B that is slow: it has small gradients of phi and a v that moves at mu.
"""

import functools

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import integrate

import rsgda
from rsgda import theory
from rsgda.problems import Toy
from rsgda.theory import Regularity

TAIL = -2.2 / 2.1  # -(2 r + 2)/(r + 2)
SMALL = 1e-2


def record(problem, state):
    toy = problem.loss.__self__
    square = jnp.sum(jnp.square(toy.grad_phi(state.theta)))
    return {"square": square, "theta": state.theta[0]}


def flow(theta, times):
    """Return theta and |grad phi|^2 along the gradient flow of kind D with L = 1, r = 0.1."""

    def speed(_, theta):
        return 0.25 * theta * (1 + theta**2) ** -1.05

    solved = integrate.solve_ivp(
        speed, (0, times[-1]), [theta], t_eval=times, rtol=1e-10, atol=1e-12
    )
    return solved.y[0], speed(0, solved.y[0]) ** 2


@functools.cache
def run(make, p, steps, seeds, noise, kappa):
    """Return times, theta and the mean of |grad phi|^2, and both along the flow."""
    toy = Toy(kinds="D", kappa=kappa, r=0.1, **dict(noise))
    theta, _ = toy.start()
    v = toy.v_star(theta)
    algorithm = make(Regularity.of(toy, theta, v), p=p).algorithm
    keys = jr.split(jr.key(0), seeds)
    table = rsgda.sweep(
        toy.problem, [algorithm], theta, v, keys=keys, steps=steps, every=steps // 100,
        record=record,
    )  # fmt: skip
    times = table.history["step"][0, 0]
    alpha = algorithm.alpha
    alphas = alpha(np.arange(steps)) if callable(alpha) else np.full(steps, alpha)
    found = (table.history[name][0].mean(axis=0) for name in ("theta", "square"))
    return times, tuple(found), flow(float(theta[0]), p * np.cumsum(alphas)[times - 1])


def slope(times, values):
    """The slope over the second half of the run."""
    return np.polyfit(np.log(times[50:]), np.log(values[50:]), 1)[0]


def check_flow(make, p, steps, seeds, noise, low, high, accuracy, kappa=1.5):
    times, found, flowed = run(make, p, steps, seeds, noise, kappa)
    for name, mine, its in zip(("theta", "square"), found, flowed, strict=True):
        np.testing.assert_allclose(mine, its, rtol=accuracy, err_msg=name)
    assert low < slope(times, found[1]) < high
    assert abs(slope(times, found[1]) - slope(times, flowed[1])) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.25, 0.5])
def test_exact_gradients_follow_the_flow_in_k(p):
    # Steps that do not fall let v lag by a fixed share, which is a fixed factor of the speed.
    check_flow(theory.exact, p, 300_000, 4, (), TAIL - 0.01, TAIL + 0.01, 0.1)


V = (("t", 0.1),)
THETA = (("s", 0.1), ("rho", 0.1))


@pytest.mark.slow
def test_interpolation_follows_the_flow_in_the_root_of_k():
    make = theory.interpolation_anytime
    check_flow(make, 0.25, 400_000, 8, THETA, -0.52, -0.48, 0.01)


@pytest.mark.slow
def test_decreasing_steps_follow_the_flow():
    # Before the tail, where it would be 2/5 of that.
    check_flow(theory.anytime, 0.25, 200_000, 8, THETA + V, -0.29, -0.24, 0.02)


@pytest.mark.slow
def test_interpolation_has_nearly_its_final_slope():
    make = theory.interpolation_anytime
    check_flow(make, 0.5, 1_000_000, 16, THETA, -0.52, -0.50, 0.01)


@pytest.mark.slow
def test_decreasing_steps_have_nearly_their_final_slope():
    make = theory.anytime
    check_flow(make, 0.25, 5_000_000, 8, THETA + V, 0.4 * TAIL, -0.36, 0.01, kappa=2.0)


def test_the_flow_has_the_slopes_that_the_runs_are_said_to_tend_to():
    alpha = theory.anytime(Regularity(L=1.0, mu=0.5), p=0.25).algorithm.alpha
    for k, expected in ((1e6, -0.33), (1e7, -0.40), (1e8, -0.42), (1e9, -0.42)):
        around = np.array([0.9, 1.1]) * k
        # -1.953 is zeta(3/5): the sum of t^(-3/5) without the integral.
        spent = 0.25 * alpha.value * (2.5 * around**0.4 - 1.953)
        _, squares = flow(1.0, spent)
        found = np.diff(np.log(squares))[0] / np.log(1.1 / 0.9)
        assert abs(found - expected) < 0.01, k


def stop_when_small(problem, state):
    square = record(problem, state)["square"]
    return {"stop": square <= SMALL**2}


KAPPAS = (4.0, 8.0, 16.0, 32.0)
RULES = {
    "1/2": lambda kappa: 0.5,
    "1/4": lambda kappa: 0.25,
    "1/kappa": lambda kappa: 1 / kappa,
    "kappa^(-1/2)": lambda kappa: kappa**-0.5,
}
# Measured with four seeds from theta = 2, v = 0. That of kappa^(-1/2) is below 2, as the constant
# falls with p there.
EXPONENTS = {"1/2": 1.98, "1/4": 1.94, "1/kappa": 1.97, "kappa^(-1/2)": 1.75}


def iterations(kappa, ps, every):
    """Return the iterations until |grad phi| <= SMALL, a mean over four seeds for each p."""
    toy = Toy(kinds="B", kappa=kappa)
    theta, v = toy.start()
    r = Regularity.of(toy, theta, v)
    algorithms = [theory.exact(r, p=p).algorithm for p in ps]
    keys = jr.split(jr.key(0), 4)
    table = rsgda.sweep(
        toy.problem, algorithms, theta, v, keys=keys, steps=200 * every, every=every,
        record=stop_when_small,
    )  # fmt: skip
    assert np.all(table.status == rsgda.Status.STOPPED)
    return table.history["step"][..., -1].mean(axis=1)


def exponent(kappas, counts):
    return np.polyfit(np.log(kappas), np.log(counts), 1)[0]


@pytest.mark.slow
def test_iterations_grow_with_the_square_of_kappa():
    rules = RULES.values()
    counts = [iterations(kappa, [p(kappa) for p in rules], int(kappa**2)) for kappa in KAPPAS]
    for (name, expected), column in zip(EXPONENTS.items(), np.transpose(counts), strict=True):
        assert abs(exponent(KAPPAS, column) - expected) < 0.05, name


def check_cube(kappas):
    counts = [iterations(kappa, [kappa**-2], int(kappa**3))[0] for kappa in kappas]
    assert abs(exponent(kappas, counts) - 3) < 0.05


@pytest.mark.slow
def test_iterations_grow_with_the_cube_of_kappa_where_p_is_too_small():
    check_cube(KAPPAS[:3])


@pytest.mark.slow
def test_iterations_grow_with_the_cube_of_larger_kappa_where_p_is_too_small():
    check_cube(KAPPAS)
