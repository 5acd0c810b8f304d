"""`Auto`: the contract, what it spends on looking around, invariance, and what it reaches."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import rsgda
from rsgda import testing
from rsgda.problems import Toy
from rsgda.problems.rescaled import rescaled

SHARE = 0.15


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, marks=[] if check.__name__ in QUICK else pytest.mark.slow)
        for QUICK in [{"check_protocol", "check_counters", "check_projections", "check_resume"}]
        for check in testing.CONTRACT
    ],
    ids=lambda check: check.__name__,
)
def test_contract(check):
    check(rsgda.Auto())


@pytest.mark.slow
def test_contract_with_a_budget():
    testing.check_counters(rsgda.Auto(budget=200))
    testing.check_sweep(rsgda.Auto(budget=200))


def off(toy, dtype="float64"):
    """A start where v has a way to go, also in the end."""
    theta, _ = toy.start(dtype)
    return theta, -0.5 * toy.v_star(theta)


def run(toy, steps, *, seed=0, budget=None, **told):
    return rsgda.solve(
        toy.problem, rsgda.Auto(budget=budget), *off(toy), key=jr.key(seed), steps=steps, **told
    )


def merit(toy, theta, v):
    lag = theta * toy._constants(theta).slope - v
    return toy.phi(theta) + jnp.sum(0.5 * toy._constants(theta).m * lag**2)


NOISY = Toy(kinds="ABC", kappa=5.0, s=0.3, t=0.3)
EXACT = Toy(kinds="ABC", kappa=5.0)


def followed(theta, v):
    """Theta bends by 1 by itself, and by b^2 / m = 1/100 more by the answer of v."""
    return jnp.sum(jnp.square(theta) / 2 + theta * v / 10 - jnp.square(v) / 2)


@pytest.mark.parametrize(("steps", "budget"), [(450, None), (90, 100), (2_000, None)])
def test_looking_around_takes_its_share_at_most(steps, budget):
    state = run(NOISY, steps, budget=budget).state
    probes, gradients = int(state.memory.probes), int(state.gradients)
    assert gradients == int(state.descents) + int(state.ascents) + probes
    assert gradients >= (budget or 500)
    assert 11 <= probes <= SHARE * gradients


def coins(problem, theta, v):
    """Of 600 steps, whether each was a descent, and the p before it."""
    auto = rsgda.Auto()
    told = rsgda.solve(problem, auto, theta, v, key=jr.key(1), steps=600, every=1,
                       record=rsgda.record.steps())  # fmt: skip
    assert list(told.history["step"]) == list(range(1, 601))
    return np.diff(told.history["descents"], prepend=0) > 0, np.append(0.5, told.history["p"][:-1])


def test_the_coin_is_a_draw_of_the_key_held_against_a_p_of_the_past():
    """And descents are more where v can follow longer steps than theta's curvature allows."""
    draws = jax.vmap(lambda k: rsgda.Auto().toss(jr.key(1), k)[0])(jnp.arange(600))
    slow = dataclasses.replace(EXACT, kappa=30.0)
    one = jnp.ones(2)
    for problem, start, end in (
        (rsgda.Problem(followed), (one, one), 0.75),
        (slow.problem, off(slow), 0.5),
    ):
        descended, p = coins(problem, *start)
        np.testing.assert_array_equal(descended, draws < p)
        assert (abs(p[-100:] - end) < 0.01).all()


def flat(theta, v):
    """Linear in v, which is on a simplex: the worst of three parabolas, least at 1."""
    losses = jnp.stack([jnp.square(theta - 1) + 1, jnp.square(theta + 1), jnp.square(theta - 3)])
    return jnp.sum(v * losses)


def test_linear_in_v_goes_to_the_worst_case():
    problem = rsgda.Problem(flat, project_v=rsgda.projections.simplex())
    start = jnp.asarray(6.0), jnp.full(3, 1 / 3)
    result = rsgda.solve(problem, rsgda.Auto(), *start, key=jr.key(0), steps=3_000, every=5,
                         record=lambda problem, state: {"theta": state.theta})  # fmt: skip
    assert result.status is rsgda.Status.FINISHED
    last = result.history["theta"][-300:]
    assert abs(last.mean() - 1) < 0.3  # both parabolas are 4 there, and more on either side


def test_a_stationary_start_stays():
    toy = EXACT
    zero = jnp.zeros(3)
    result = rsgda.solve(toy.problem, rsgda.Auto(), zero, zero, key=jr.key(0), steps=100)
    assert result.status is rsgda.Status.FINISHED
    assert float(jnp.max(jnp.abs(result.theta))) == 0


def test_theta_stationary_at_first_moves_once_v_has():
    """At v = 0 theta's gradient is zero, and its curvature, too."""

    def loss(theta, v):
        return jnp.sum(theta * v) - 0.5 * jnp.sum(jnp.square(v - theta + 1))

    one = jnp.ones(2)
    result = rsgda.solve(rsgda.Problem(loss), rsgda.Auto(), one, 0 * one, key=jr.key(0), steps=600)
    # phi = max_v theta v - (v - theta + 1)^2 / 2 = theta (theta - 1) + theta^2 / 2.
    np.testing.assert_allclose(result.theta, 1 / 3, atol=1e-3)


@pytest.mark.parametrize("toy", [EXACT, NOISY], ids=["exact", "noisy"])
def test_twenty_seeds_converge(toy):
    start = off(toy)
    table = rsgda.sweep(
        toy.problem, [rsgda.Auto()], *start, keys=jr.split(jr.key(3), 20), steps=2_000
    )
    assert (table.status == rsgda.Status.FINISHED).all()
    ends = [merit(toy, table[0, j].theta, table[0, j].v) for j in range(20)]
    limit = 1e-6 if toy is EXACT else 0.05
    assert np.median(ends) < limit * merit(toy, *start)
    assert max(ends) < merit(toy, *start)


def test_default_sgda_is_left_behind():
    toy = Toy(kinds="ABC", kappa=5.0, L=400.0)
    ends = [
        rsgda.solve(toy.problem, algorithm, *off(toy), key=jr.key(0), steps=600)
        for algorithm in (rsgda.Auto(), rsgda.SGDA(alpha=0.01, eta=0.1))
    ]
    auto, sgda = (float(merit(toy, end.theta, end.v)) for end in ends)
    assert auto < 1e-3 * float(merit(toy, *off(toy)))
    assert not sgda < auto  # it may be NaN or infinite


def needed(toy, units=(1.0, 1.0, 1.0), *, part=1e-4, seeds=3):
    """The median of the gradients until the merit is a part of what it was at the start."""
    theta, v = off(toy)
    a, b, c = units
    problem, theta_, v_ = rescaled(toy.problem, theta, v, scale_theta=a, scale_v=b, scale_loss=c)
    goal = part * merit(toy, theta, v)

    def record(problem, state):
        return {"stop": merit(toy, state.theta / a, state.v / b) <= goal}

    found = []
    for seed in range(seeds):
        told = rsgda.solve(problem, rsgda.Auto(), theta_, v_, key=jr.key(seed), steps=8_000,
                           record=record, every=10)  # fmt: skip
        assert told.status is rsgda.Status.STOPPED
        found.append(int(told.state.gradients))
    return float(np.median(found))


UNITS = [(100.0, 1.0, 1.0), (1.0, 0.01, 1.0), (1.0, 1.0, 100.0), (0.01, 100.0, 0.01)]


@pytest.mark.slow
@pytest.mark.parametrize("units", UNITS, ids=str)
@pytest.mark.parametrize("kappa", [5.0, 30.0])
def test_units_do_not_matter(units, kappa):
    toy = Toy(kinds="ABC", kappa=kappa)
    usual, other = needed(toy), needed(toy, units)
    assert max(usual, other) < 1.5 * min(usual, other)


@pytest.mark.slow
def test_the_batch_size_does_not_matter_without_noise_at_the_end():
    """With noise that vanishes at the solution, larger batches need about as many gradients."""
    toys = [Toy(kinds="ABC", kappa=5.0, rho=0.1, batch_size=size) for size in (1, 16)]
    one, many = (needed(toy, seeds=5) for toy in toys)
    assert max(one, many) < 1.5 * min(one, many)


def rows_loss(theta, v, batch):
    """Rows of v by themselves; theta is to be near all of them."""
    x, c = batch
    return jnp.mean(c * jnp.square(v - theta) / 4 - c * jnp.square(v - x))


def test_rows_of_v_are_touched_by_the_batch_alone():
    x, c = jr.normal(jr.key(0), (200,)), jnp.ones(200)
    problem = rsgda.Problem(rows_loss, data=(x, c), batch_size=4, separable=True)
    auto = rsgda.Auto()
    state = auto.init(problem, jnp.asarray(3.0), x, jr.key(0))
    np.testing.assert_array_equal(state.v, x)
    step = jax.jit(lambda state: auto.step(problem, state))
    seen = []
    for _ in range(20):
        new, info = step(state)
        for rows, before in ((new.v, state.v), (new.ascent_state, state.ascent_state)):
            assert int(jnp.sum(rows != before)) <= 4 * int(info.ascents)
        seen.append(int(info.ascents))
        state = new
    assert sum(seen) > 3
    # Nothing else has as many entries as there are rows: a step costs what the batch costs.
    others = state._replace(v=None, ascent_state=None)
    assert max(leaf.size for leaf in jax.tree.leaves(others)) < 200


def test_steps_are_recorded_and_drawn():
    result = run(NOISY, 200, every=10, record=rsgda.record.steps())
    alpha, L, room = (result.history[name] for name in ("alpha", "L_theta", "slack"))
    assert (alpha[1:] > 0).all()
    assert (alpha <= 1.5 * room * (1 + 1e-6)).mean() > 0.8  # room may have fallen since
    assert (L > 0).all()
    figure = rsgda.plots.trace(result)
    assert [axes.get_xscale() for axes in figure.axes] == ["log"] * 3
    drawn = {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}
    np.testing.assert_allclose(drawn["η"], result.history["eta"])
    with pytest.raises(ValueError, match="lacks p, alpha"):
        rsgda.plots.trace(run(NOISY, 10))
    sgda = rsgda.SGDA(alpha=0.1, eta=0.1)
    with pytest.raises(ValueError, match="finds its steps"):
        rsgda.solve(NOISY.problem, sgda, *off(NOISY), key=jr.key(0), steps=1,
                    record=rsgda.record.steps())  # fmt: skip


def test_each_key_of_a_sweep_has_a_start_of_its_own():
    keys = jr.split(jr.key(0), 3)
    table = rsgda.sweep(NOISY.problem, [rsgda.Auto()], *off(NOISY), keys=keys, steps=0)
    looks = [np.asarray(table[0, j].state.memory.steep_v) for j in range(3)]
    single = rsgda.Auto().init(NOISY.problem, *off(NOISY), keys[2])
    np.testing.assert_allclose(looks[2], single.memory.steep_v, rtol=1e-6)
    assert (looks[0] != looks[2]).any()


@pytest.mark.parametrize("budget", [50, 1.5e3, "many"])
def test_a_wrong_budget_is_refused(budget):
    with pytest.raises(ValueError, match="`budget` must be a whole number, at least 100"):
        rsgda.Auto(budget=budget)
