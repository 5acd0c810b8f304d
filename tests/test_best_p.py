"""The cheapest p, against a search by brute force."""

import functools
import itertools
import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import rsgda
from rsgda import theory
from rsgda.problems import Toy
from rsgda.theory import ConditionError, Regularity, best_p

KEY = jr.key(4)
CLEAN = Regularity(L=1.0, mu=0.02)
HALF = Regularity(L=1.0, mu=0.02, sigma=0.7)
FULL = Regularity(L=1.0, mu=0.02, sigma=0.7, sigma_v=0.4)
PLANS = {
    "exact": (CLEAN, theory.exact),
    "interpolation_precision": (HALF, theory.interpolation_precision),
    "precision": (FULL, theory.precision),
    "large_batch": (FULL, theory.large_batch),
}


def total(plan, r, p, eps, descent=1.0, ascent=1.0):
    made = plan(r, p=p, eps=eps)
    return made.steps * (made.batch_size or 1) * (p * descent + (1 - p) * ascent)


@pytest.mark.parametrize("costs", [(1.0, 1.0), (40.0, 1.0), (1.0, 25.0)])
@pytest.mark.parametrize("name", PLANS)
def test_against_brute_force(name, costs):
    """No p of a fine grid is cheaper by more than a thousandth."""
    r, plan = PLANS[name]
    eps = 0.3
    found = best_p(r, eps=eps, descent_cost=costs[0], ascent_cost=costs[1], plan=plan)
    grid = 1 / (1 + np.exp(-np.linspace(-14, 12, 2000)))
    least = min(total(plan, r, p, eps, *costs) for p in grid.tolist())
    assert found.cost <= 1.001 * least
    assert found.cost == total(plan, r, found.p, eps, *costs)
    assert found.plan.algorithm.p == found.p
    assert found.plan == plan(r, p=found.p, eps=eps)


@pytest.mark.slow
def test_steps_that_are_searched_for():
    """A plan whose steps invert a bound, which takes a search for each p."""
    found = best_p(FULL, eps=0.3, plan=theory.anytime)
    grid = 1 / (1 + np.exp(-np.linspace(-10, 10, 100)))
    least = min(total(theory.anytime, FULL, p, 0.3) for p in grid.tolist())
    assert found.cost <= 1.001 * least


def test_the_curve_is_what_it_says():
    found = best_p(FULL, eps=0.2, descent_cost=3.0, ascent_cost=0.5, plan=theory.large_batch)
    p, costs = found.curve
    assert p.shape == costs.shape
    assert np.all(np.diff(p) > 0)
    assert 0 < p[0] < 1e-3 * 0.02
    assert p[-1] > 0.99999
    for i in range(0, p.size, 23):
        assert costs[i] == total(theory.large_batch, FULL, float(p[i]), 0.2, 3.0, 0.5)
    assert found.cost <= costs.min()
    low, high = found.range
    inside = (p >= low) & (p <= high)
    assert np.all(costs[inside] <= 2 * found.cost)
    assert low < found.p < high
    assert np.all(costs[~inside] > 2 * found.cost)


def test_minibatches_are_counted():
    found = best_p(FULL, eps=0.2, plan=theory.large_batch)
    assert found.plan.batch_size > 1000
    assert found.cost == found.plan.steps * found.plan.batch_size


def test_only_the_ratio_of_costs_matters():
    one = best_p(CLEAN, eps=0.1, descent_cost=3.0, ascent_cost=0.5)
    other = best_p(CLEAN, eps=0.1, descent_cost=3000.0, ascent_cost=500.0)
    assert one.p == other.p
    assert other.cost == pytest.approx(1000 * one.cost)
    assert best_p(CLEAN, eps=0.1).p == best_p(CLEAN, eps=0.1, descent_cost=7, ascent_cost=7).p
    half = best_p(CLEAN, eps=0.1, descent_cost=4.0)  # the other is 1
    assert half.p == best_p(CLEAN, eps=0.1, descent_cost=4.0, ascent_cost=1.0).p
    assert (half.descent_cost, half.ascent_cost) == (4.0, 1.0)


@pytest.mark.parametrize("name", ["exact", "precision", "interpolation_precision"])
def test_dear_descents_are_tossed_rarely(name):
    """The paper's remark, in numbers: the cheaper a descent, the larger p."""
    r, plan = PLANS[name]
    ratios = (0.01, 0.1, 1.0, 10.0, 1000.0)
    found = [best_p(r, eps=0.2, descent_cost=ratio, plan=plan).p for ratio in ratios]
    assert np.all(np.diff(found) <= 1e-9)
    # With noise the kink of the largest two terms is best whatever a descent costs.
    assert (found[0] > 1.5 * found[-1]) is (name == "exact")


@pytest.mark.parametrize(
    ("r", "name"),
    [(CLEAN, "exact"), (HALF, "interpolation_precision"), (FULL, "precision")],
)
def test_default_plan_is_that_of_the_noise(r, name):
    found = best_p(r, eps=0.3)
    assert found.plan.corollary == name
    assert found.p == best_p(r, eps=0.3, plan=getattr(theory, name)).p


def test_noise_in_v_alone():
    assert best_p(Regularity(L=1.0, mu=0.1, sigma_v=1.0), eps=0.3).plan.corollary == "precision"


def test_a_plan_with_options():
    bounded = functools.partial(theory.large_batch, bounded=True)
    found = best_p(FULL, eps=0.3, plan=bounded)
    assert found.plan.algorithm.eta == 1.0
    assert found.cost < best_p(FULL, eps=0.3, plan=theory.large_batch).cost


@pytest.mark.parametrize("mu", [0.9, 0.1, 1e-3, 1e-6])
def test_bars_do_not_saturate(mu):
    """What costs clearly more has a longer bar, at any size."""
    lines = str(best_p(Regularity(L=1.0, mu=mu), eps=0.1)).splitlines()[1:]
    rows = sorted((float(line.split()[3]), line.count("#")) for line in lines)
    assert all(1 <= bar <= 40 for _, bar in rows)
    for (low, short), (high, long) in itertools.pairwise(rows):
        assert short <= long
        assert short < long or high < 1.7 * low


def test_text():
    found = best_p(CLEAN, eps=0.1, descent_cost=10.0)
    text = str(found)
    lines = text.splitlines()
    assert f"p = {found.p:.4g}" in lines[0]
    assert "exact" in lines[0]
    assert len(lines) == 11
    bars = [line.count("#") for line in lines[1:]]
    times = [float(line.split()[3]) for line in lines[1:]]
    assert min(times) >= 0.99
    each = min(20, 39 / math.log10(max(times)))  # of a factor of ten
    for bar, factor in zip(bars, times, strict=True):
        assert bar == pytest.approx(1 + each * math.log10(max(factor, 1)), abs=0.6)
    assert "curve" not in repr(found)
    assert f"p={found.p!r}" in repr(found)


def test_refused():
    with pytest.raises(ValueError, match="`r` must be a Regularity"):
        best_p(None, eps=0.1)
    for eps in (0.0, -1.0, None, np.nan, "a"):
        with pytest.raises(ValueError, match="`eps` must"):
            best_p(CLEAN, eps=eps)
    for name in ("descent_cost", "ascent_cost"):
        for wrong in (0.0, -1.0, np.inf, "a", jnp.ones(2)):
            with pytest.raises(ValueError, match=f"`{name}` must"):
                best_p(CLEAN, eps=0.1, **{name: wrong})
    with pytest.raises(ValueError, match="`D0` must be known"):
        best_p(Regularity(L=1.0, mu=0.1, D0=None), eps=0.1)
    with pytest.raises(ConditionError, match="sigma = 0"):
        best_p(FULL, eps=0.1, plan=theory.exact)


def test_refused_measurements():
    toy = Toy(kinds="A", kappa=4.0)
    theta, v = toy.start()
    given = {"problem": toy.problem, "theta": theta, "v": v, "key": KEY}
    for name in given:
        with pytest.raises(ValueError, match=f"`{name}` must be given to be measured"):
            best_p(CLEAN, eps=0.1, measure=True, **{k: x for k, x in given.items() if k != name})
    with pytest.raises(ValueError, match="`measure` finds the costs"):
        best_p(CLEAN, eps=0.1, measure=True, descent_cost=1.0, **given)
    with pytest.raises(ValueError, match="`problem` is for `measure=True`"):
        best_p(CLEAN, eps=0.1, problem=toy.problem)


@pytest.mark.parametrize("plan", [theory.almost_sure, theory.interpolation_almost_sure, 3])
def test_a_plan_without_steps_is_refused(plan):
    with pytest.raises(ValueError, match="`plan` must"):
        best_p(CLEAN, eps=0.1, plan=plan)


def test_measured_on_a_toy(monkeypatch):
    """Both steps of a toy cost about the same: microseconds, and p is not extreme."""
    monkeypatch.setattr(theory.cost, "SECONDS", 0.02)
    toy = Toy(kinds="ABC", kappa=50.0, s=0.1, t=0.1)
    theta, v = toy.start()
    r = Regularity.of(toy, theta, v)
    found = best_p(r, eps=1.0, measure=True, problem=toy.problem, theta=theta, v=v, key=KEY)
    for seconds in (found.descent_cost, found.ascent_cost):
        assert 1e-8 < seconds < 0.1
    given = best_p(r, eps=1.0, descent_cost=found.descent_cost, ascent_cost=found.ascent_cost)
    assert (given.p, given.cost) == (found.p, found.cost)


def prepare(theta):
    return jnp.sum(jnp.tanh(theta @ theta @ theta), axis=0)[:3]


def of_prepared(prepared, v):
    return prepared @ v - v @ v


def measured(size):
    """Preparing theta is a product of matrices; an ascent sees a vector of what comes out."""
    problem = rsgda.Problem(of_prepared, prepare=prepare)
    theta = 0.01 * jr.normal(KEY, (size, size))
    start = {"theta": theta, "v": jnp.zeros(3), "key": KEY}
    return best_p(CLEAN, eps=0.1, measure=True, problem=problem, **start)


def test_measured_where_descents_are_dear():
    dear = measured(100)
    assert dear.descent_cost > 5 * dear.ascent_cost
    assert dear.p < best_p(CLEAN, eps=0.1).p


def test_a_timing_of_ascents_begins_with_theta_prepared(monkeypatch):
    """The first ascent would prepare it; that is not what an ascent costs."""
    begun, loop = [], theory.cost._loop

    def looked_at(problem, state, rounds, *, descends):
        begun.append(bool(state.prepared.fresh))
        return loop(problem, state, rounds, descends=descends)

    monkeypatch.setattr(theory.cost, "_loop", looked_at)
    monkeypatch.setattr(theory.cost, "SECONDS", 1e-4)
    measured(10)
    assert not begun[0]  # it is this one that prepares
    assert len(begun) > 10
    assert all(begun[1:])
