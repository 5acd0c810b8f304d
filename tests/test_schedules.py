"""Power laws, their sums, and which of them converge almost surely."""

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from scipy.special import zeta as riemann

import rsgda
from rsgda import theory
from rsgda.problems import Toy
from rsgda.theory import ConditionError, PowerLaw, Regularity
from rsgda.theory.schedules import power_sum

NOISY = Regularity(L=1.0, mu=0.5, sigma=1.0, sigma_v=1.0)


# The power law itself.


def test_values():
    law = PowerLaw(0.2, 0.5)
    assert [law(k) for k in (0, 3, 99)] == pytest.approx([0.2, 0.1, 0.02], rel=1e-15)
    k = np.arange(20)
    np.testing.assert_allclose(law(k), 0.2 / np.sqrt(k + 1), rtol=1e-15)
    np.testing.assert_allclose(PowerLaw(0.3, 0.0)(k), 0.3)
    assert law(10.0**18) == pytest.approx(0.2e-9)


@pytest.mark.parametrize("exponent", [0.0, 0.4, 1.0, 2.5])
def test_traced_values_are_those_of_the_host(exponent):
    """In `solve` k is a traced int32: the same numbers come out, in float64."""
    law = PowerLaw(0.7, exponent)
    for k in (0, 1, 1000, 2**31 - 2):
        found = jax.jit(lambda law, k: law(k))(law, jnp.asarray(k, jnp.int32))
        assert found.dtype == jnp.float64
        assert float(found) == pytest.approx(float(law(k)), rel=1e-14)
        assert float(law(jnp.asarray(k, jnp.int32))) == float(found)


def test_float32():
    """In single precision throughout, and where the numbers of the law are single."""
    k = jnp.asarray(99, jnp.int32)
    single = PowerLaw(np.float32(0.5), np.float32(0.5))(k)
    assert single.dtype == jnp.float32
    assert float(single) == pytest.approx(0.05, rel=1e-6)
    with jax.enable_x64(False):
        found = jax.jit(lambda law, k: law(k))(PowerLaw(0.5, 0.5), jnp.asarray(99))
    assert found.dtype == jnp.float32
    assert float(found) == pytest.approx(0.05, rel=1e-6)


def test_whole_numbers_fall_too():
    """A value of 1 is no other step size than one of 1.0, in a compiled program as well."""
    k = jnp.asarray(3, jnp.int32)
    assert PowerLaw(1, 0.5)(3) == 0.5
    assert float(PowerLaw(1, 0.5)(k)) == 0.5
    toy = Toy(kinds="A", kappa=4.0)
    ends = [
        rsgda.solve(
            toy.problem,
            rsgda.RSGDA(p=0.5, alpha=0.01, eta=PowerLaw(one, 0.5)),
            *toy.start(),
            key=jr.key(0),
            steps=50,
        ).v
        for one in (1, 1.0)
    ]
    np.testing.assert_allclose(*ends, rtol=1e-12)


def test_arrays_may_be_its_numbers():
    """Its type says so, and numbers that a program computed are arrays."""
    toy = Toy(kinds="A", kappa=4.0)
    law = PowerLaw(jnp.asarray(0.01), jnp.asarray(0.5))
    algorithm = rsgda.RSGDA(p=0.5, alpha=law, eta=0.5)
    result = rsgda.solve(toy.problem, algorithm, *toy.start(), key=jr.key(0), steps=5)
    assert result.status is rsgda.Status.FINISHED


def test_single_precision_on_the_host():
    assert float(PowerLaw(jnp.float32(0.5), 0.5)(3)) == 0.25


def test_equality_hash_and_tree():
    law, same, other = PowerLaw(0.2, 0.5), PowerLaw(0.2, 0.5), PowerLaw(0.2, 0.6)
    assert law == same != other
    assert hash(law) == hash(same)
    assert {law: 1}[same] == 1
    assert jax.tree.leaves(law) == [0.2, 0.5]
    doubled = jax.tree.map(lambda number: 2 * number, law)
    assert doubled == PowerLaw(0.4, 1.0)
    assert repr(law) == "PowerLaw(value=0.2, exponent=0.5)"


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, None, "a", True])
def test_wrong_value(value):
    with pytest.raises(ValueError, match="`value` must be a positive finite number"):
        PowerLaw(value, 0.5)


@pytest.mark.parametrize("exponent", [-0.1, math.nan, math.inf, None, "a", True])
def test_wrong_exponent(exponent):
    with pytest.raises(ValueError, match="`exponent` must be a finite number, at least 0"):
        PowerLaw(0.1, exponent)


def test_schedule_of_solve_counts_all_iterations():
    """The k of a schedule is the iteration: descents alone see some of its values."""

    def loss(theta, v):
        return theta - v**2

    algorithm = rsgda.RSGDA(p=0.5, alpha=PowerLaw(0.1, 0.7), eta=1e-9)
    key = jr.key(2)
    result = rsgda.solve(
        rsgda.Problem(loss), algorithm, jnp.zeros(()), jnp.zeros(()), key=key, steps=40
    )
    coins = [bool(algorithm.toss(key, jnp.asarray(k, jnp.int32))[0]) for k in range(40)]
    expected = -math.fsum(0.1 * (k + 1) ** -0.7 for k in range(40) if coins[k])
    assert float(result.theta) == pytest.approx(expected, rel=1e-13)


# Sums of powers.

EXPONENTS = [0.0, 0.2, 0.5, 0.6, 0.9999999, 1.0, 1.0000001, 1.2, 1.4, 1.5, 1.8, 2.0, 3.0]


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_power_sum_by_hand(exponent):
    """Around the place where the sum is no longer written out, in particular."""
    k = np.array([1, 2, 3, 999, 1000, 1001, 1002, 5000, 100_000])
    terms = [float(t) ** -exponent for t in range(1, int(k[-1]) + 1)]
    expected = [math.fsum(terms[:last]) for last in k]
    np.testing.assert_allclose(power_sum(exponent, k), expected, rtol=2e-14)
    np.testing.assert_allclose([power_sum(exponent, last) for last in k], expected, rtol=2e-14)


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0, 1.4, 3.0])
def test_power_sum_of_ten_million(exponent):
    blocks = np.split(np.arange(1.0, 10**7 + 1), 100)
    expected = math.fsum(math.fsum((block**-exponent).tolist()) for block in blocks[:1])
    expected += math.fsum(float(np.sum(block**-exponent)) for block in blocks[1:])
    assert float(power_sum(exponent, 10**7)) == pytest.approx(expected, rel=1e-13)


def test_power_sum_far_out():
    """Beyond what can be added: Riemann's zeta, the logarithm, and the integral."""
    for s in (1.2, 1.4, 1.5, 2.0, 3.0):
        k = 10**12
        assert float(power_sum(s, k)) == pytest.approx(riemann(s) - riemann(s, k + 1), rel=1e-13)
    assert float(power_sum(1.0, 10**18)) == pytest.approx(
        18 * math.log(10) + np.euler_gamma, rel=1e-14
    )
    assert float(power_sum(0.0, 10**15)) == pytest.approx(10**15, rel=1e-13)
    for s in (0.2, 0.6, 0.9):  # zeta(s) + k^(1-s)/(1-s), analytically continued
        k = 1e20
        near = power_sum(s, 10**6) - (1e6 ** (1 - s) / (1 - s) + 1e6**-s / 2)
        assert float(power_sum(s, k)) == pytest.approx(k ** (1 - s) / (1 - s) + near, rel=1e-12)


def test_power_sum_is_continuous_at_one():
    sums = [float(power_sum(s, 10**9)) for s in (1 - 1e-9, 1.0, 1 + 1e-9)]
    assert sums == pytest.approx([sums[1]] * 3, rel=1e-7)
    assert sums[0] > sums[1] > sums[2]


# The four sums.


def oracle(a, e):
    """The four conditions by p-series, in exact fractions: sum k^-s is finite iff s > 1."""
    return [a <= 1, 2 * a > 1, a + e > 1, 3 * a - 2 * e > 1]


def test_summability_on_a_grid():
    """All pairs of exponents in twentieths; those whose floats miss a boundary come below."""
    checked = boundary = 0
    for i, j in itertools.product(range(31), repeat=2):
        a, e = Fraction(i, 20), Fraction(j, 20)
        if 3 * a - 2 * e == 1:
            boundary += 1
            continue
        found = theory.summability(NOISY, PowerLaw(0.1, i / 20), PowerLaw(0.1, j / 20))
        assert [condition.holds for condition in found] == oracle(a, e), (a, e)
        checked += 1
    assert checked + boundary == 31**2
    assert boundary == 10


def test_summability_at_the_boundary_of_the_fourth_sum():
    """Where 3a - 2e = 1 the fourth sum is the harmonic one, and diverges."""
    for i, j in itertools.product(range(41), repeat=2):
        if 3 * Fraction(i, 20) - 2 * Fraction(j, 20) != 1:
            continue
        found = theory.summability(NOISY, PowerLaw(0.1, i / 20), PowerLaw(0.1, j / 20))
        assert not found[3].holds, (i / 20, j / 20)


def test_summability_by_partial_sums():
    """The oracle itself: from 10^9 to 10^18 a divergent sum grows, a finite one does not."""
    for a, e in ((0.7, 0.5), (0.5, 0.4), (0.6, 0.4), (1.0, 0.9), (1.1, 0.2), (0.45, 0.45)):
        exponents = [a, 2 * a, a + e, 3 * a - 2 * e]
        judged = theory.summability(NOISY, PowerLaw(0.1, a), PowerLaw(0.1, e))
        for n, (exponent, condition) in enumerate(zip(exponents, judged, strict=True)):
            near, far = power_sum(exponent, [10**9, 10**18])
            grows = bool(far > 1.3 * near)
            assert condition.holds is (grows if n == 0 else not grows), (a, e, n)


@pytest.mark.parametrize(
    ("sigma", "sigma_v", "expected"),
    [
        (0.0, 0.0, [True, True, True, True]),
        (1.0, 0.0, [True, False, True, False]),
        (0.0, 1.0, [True, True, False, True]),
        (1.0, 1.0, [True, False, False, False]),
    ],
)
def test_no_noise_no_sum(sigma, sigma_v, expected):
    r = Regularity(L=1.0, mu=0.5, sigma=sigma, sigma_v=sigma_v)
    for alpha, eta in ((0.1, 0.1), (PowerLaw(0.1, 0.5), PowerLaw(0.1, 0.5))):
        assert [c.holds for c in theory.summability(r, alpha, eta)] == expected


# Schedules of one's own.


def judge(alpha, eta, r=NOISY, **options):
    return theory.almost_sure(r, p=0.3, alpha=alpha, eta=eta, **options)


def power(value, exponent, shift=1.0):
    return lambda k: value * (k + shift) ** -exponent


ALPHA, ETA = PowerLaw(1e-3, 0.7), PowerLaw(0.5, 0.5)


@pytest.mark.parametrize(
    ("alpha", "eta"),
    [
        (ALPHA, ETA),
        (power(1e-3, 0.7), power(0.5, 0.5)),
        (ALPHA, power(0.5, 0.5)),
        (power(1e-3, 0.7), ETA),
        (power(1e-3, 0.7, 10.0), power(0.5, 0.5, 10.0)),
        (lambda k: 1e-3 * (jnp.asarray(k) + 1.0) ** -0.7, ETA),
        (lambda k: 1e-3 * np.float32(1.0 + k) ** np.float32(-0.7), ETA),
        (lambda k: 1e-3 * math.pow(1.0 + k, -0.7), lambda k: 0.5 / math.sqrt(1.0 + k)),
    ],
    ids=["laws", "lambdas", "mixed", "mixed the other way", "shifted", "jnp", "float32", "math"],
)
def test_own_powers_are_accepted(alpha, eta):
    plan = judge(alpha, eta)
    assert plan.order == "o(k^-0.3) almost surely"
    assert all(condition.holds for condition in plan.conditions)
    assert plan.algorithm.alpha is alpha
    assert plan.algorithm.eta is eta
    assert 0 < plan.bound(1000) < plan.bound(10)


def test_a_schedule_of_arrays_is_accepted():
    """What `solve` gives is an array; a schedule that casts it is as good as any."""
    plan = judge(lambda k: 1e-3 * (k.astype(float) + 1) ** -0.7, ETA)
    assert plan.order == "o(k^-0.3) almost surely"


def test_own_numbers():
    clean = Regularity(L=1.0, mu=0.5)
    limit = theory.alpha_max(clean, p=0.3, eta=1.0)
    plan = judge(limit, 1.0, clean, exact=True)
    assert plan.order == "o(k^-1) almost surely"
    assert (plan.algorithm.alpha, plan.algorithm.eta) == (limit, 1.0)
    with pytest.raises(ConditionError, match=r"sum alpha_k\^2 sigma\^2 < inf: 1 < 2 a, that is 1"):
        judge(1e-3, 0.5)
    with pytest.raises(ConditionError, match="eta_0 <= 1/L"):
        judge(limit, 1.01, clean, exact=True)
    with pytest.raises(ConditionError, match=r"eta_0 <= 1/\(2 L\)"):
        judge(limit, 1.0, clean)  # not said to be exact
    with pytest.raises(ConditionError, match="sigma = 0"):
        judge(limit, 0.5, exact=True)


@pytest.mark.parametrize(
    ("a", "e", "said"),
    [
        (1.2, 0.3, "sum alpha_k = inf"),
        (0.5, 0.4, r"sum alpha_k\^2"),
        (0.6, 0.3, r"sum eta_k alpha_k"),
        (0.7, 0.6, r"sum alpha_k\^3"),
    ],
)
@pytest.mark.parametrize("kind", [PowerLaw, power])
def test_each_sum_is_judged(a, e, said, kind):
    with pytest.raises(ConditionError, match=said) as caught:
        judge(kind(1e-3, a), kind(0.5, e))
    exponents = {"sum alpha_k = inf": a, r"sum alpha_k\^2": 2 * a, r"sum eta_k alpha_k": a + e}
    number = exponents.get(said, 3 * a - 2 * e)
    assert number == pytest.approx(
        caught.value.condition.left if "inf" in said else caught.value.condition.right, abs=1e-5
    )


def test_steps_that_are_too_large_are_refused():
    limit = theory.alpha_max(NOISY, p=0.3, eta=0.5)
    for kind in (PowerLaw, power):
        assert judge(kind(0.999 * limit, 0.7), kind(0.5, 0.5)).order.startswith("o(k^-0.3)")
        with pytest.raises(ConditionError, match=r"a_1/2|4 kappa L"):
            judge(kind(1.01 * limit, 0.7), kind(0.5, 0.5))
        with pytest.raises(ConditionError, match="non-increasing"):
            judge(kind(1e-9, 0.9), kind(0.5, 0.95), Regularity(L=1.0, mu=0.5, sigma_v=1.0))
        with pytest.raises(ConditionError, match="eta_0 <= "):
            judge(kind(1e-9, 0.7), kind(0.51, 0.5))


def test_a_bump_is_found():
    """One that is there only for a while, after a start that is allowed."""

    def alpha(k):
        return 1e-4 * (k + 1.0) ** -0.7 * np.where((k > 100) & (k < 200), 5.0, 1.0)

    with pytest.raises(ConditionError, match="non-increasing after k = 100"):
        judge(alpha, ETA)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (optax.exponential_decay(1e-3, 1000, 0.9), "sum alpha_k = inf"),
        (lambda k: 1e-3 * jnp.exp(-1e-3 * jnp.asarray(k, float)), "sum alpha_k = inf"),
        (lambda k: 1e-3 - 1e-6 * k, "positive"),
        (lambda k: 1e-3 * np.nan * k, "positive"),
    ],
    ids=["optax", "jnp", "negative", "nan"],
)
def test_schedules_that_end_are_refused(schedule, said):
    """They are zero in the end, or worse: the sum of the steps is finite."""
    with pytest.raises(ValueError, match=said):
        judge(schedule, ETA)
    with pytest.raises(ValueError, match=said):
        judge(schedule, 0.5, Regularity(L=1.0, mu=0.5))


def test_an_exponential_has_a_finite_sum():
    found = theory.summability(NOISY, optax.exponential_decay(1e-3, 1000, 0.9), 0.5)
    assert [condition.holds for condition in found] == [False, True, True, True]


@pytest.mark.parametrize(
    "schedule",
    [
        optax.piecewise_constant_schedule(1e-3, {1000: 0.5, 5000: 0.1}),
        optax.polynomial_schedule(1e-3, 1e-4, 1, 1000),
        optax.cosine_decay_schedule(1e-3, 1000, alpha=0.1),
    ],
    ids=["piecewise", "polynomial", "cosine"],
)
def test_schedules_that_end_constant_are_constants(schedule):
    clean = Regularity(L=1.0, mu=0.5)
    assert judge(schedule, 0.5, clean).order == "o(k^-1) almost surely"
    with pytest.raises(ConditionError, match=r"sum alpha_k\^2"):
        judge(schedule, 0.5)


def test_a_schedule_that_rises_is_refused():
    with pytest.raises(ConditionError, match="non-increasing"):
        judge(optax.linear_schedule(1e-4, 1e-3, 50), 0.5, Regularity(L=1.0, mu=0.5))


@pytest.mark.parametrize(
    ("alpha", "decided"),
    [
        (lambda k: 1e-3 / ((k + 1) * np.log(k + 2)), None),  # diverges, if only just
        (lambda k: 1e-3 / ((k + 1) * np.log(k + 2) ** 2), "sum alpha_k = inf"),
        (
            lambda k: 1e-3 * np.log(k + 30) / (k + 1) ** 0.7,
            "o(1/sum alpha_k) almost surely, about k^-0.34",
        ),
        (lambda k: 1e-3 / ((k + 1) ** 0.5 * np.log(k + 2) ** 0.5), None),
        (lambda k: 1e-3 * np.log(k + 9) / (k + 1) ** 0.5, r"sum alpha_k\^2"),
    ],
)
def test_logarithms(alpha, decided):
    """Near a boundary a logarithm decides, which no look at finite times can tell."""
    eta = power(0.3, 0.45 if decided is not None and "0.3" in decided else 0.1)
    if decided is None:
        with pytest.raises(ValueError, match="does not tell on what side of 1") as caught:
            judge(alpha, eta, Regularity(L=1.0, mu=0.5, sigma=1.0))
        assert not isinstance(caught.value, ConditionError)
    elif decided.startswith("o("):
        assert judge(alpha, eta).order == decided
    else:
        with pytest.raises(ConditionError, match=decided):
            judge(alpha, eta)


def waves(exponent, depth=1.0):
    return lambda k: 1e-4 * (k + 1.0) ** -exponent * (1.1 + depth * np.sin(k))


@pytest.mark.parametrize("exponent", [0.3, 0.7, 1.0])
@pytest.mark.parametrize("turn", [np.sin, np.cos, lambda k: np.cos(2 * np.pi * k / 1000)])
@pytest.mark.parametrize("r", [NOISY, Regularity(L=1.0, mu=0.5)])
def test_waves_are_not_judged(exponent, turn, r):
    """No condition is said to be false, or true, from where the waves happen to be looked at."""

    def alpha(k):
        return 1e-4 * (k + 1.0) ** -exponent * (1.1 + turn(k))

    for judged in (lambda: theory.summability(r, alpha, ETA), lambda: judge(alpha, ETA, r)):
        with pytest.raises(ValueError, match="does not tell on what side of 1") as caught:
            judged()
        assert not isinstance(caught.value, ConditionError)
        assert "which is false" not in str(caught.value)


def test_shallow_waves_are_judged():
    """As long as all exponents are on one side."""
    found = theory.summability(NOISY, waves(0.75, 0.01), PowerLaw(0.5, 0.5))
    assert [condition.holds for condition in found] == [True, True, True, True]
    found = theory.summability(NOISY, waves(0.3, 0.01), waves(0.3, 0.01))
    assert [condition.holds for condition in found] == [True, False, False, False]
    found = theory.summability(NOISY, waves(1.5, 0.01), PowerLaw(0.5, 0.5))
    assert [condition.holds for condition in found] == [False, True, True, True]


def test_waves_do_not_matter_without_noise():
    found = theory.summability(Regularity(L=1.0, mu=0.5), PowerLaw(1e-3, 0.5), waves(0.5))
    assert all(condition.holds for condition in found)


def test_both_or_none():
    for options in ({"alpha": ALPHA}, {"eta": ETA}):
        with pytest.raises(ValueError, match="`alpha` and `eta` are judged together"):
            theory.almost_sure(NOISY, **options)


@pytest.mark.parametrize("wrong", [0.0, -1e-3, "a", math.nan, [1e-3]])
def test_wrong_schedules(wrong):
    with pytest.raises(ValueError, match="`alpha` must be"):
        judge(wrong, ETA)
    with pytest.raises(ValueError, match="`eta` must be"):
        judge(ALPHA, wrong)


def test_a_long_sum_of_a_lambda_is_refused():
    plan = judge(power(1e-3, 0.7), ETA)
    with pytest.raises(ValueError, match="`k` must be at most 1e8 for a schedule"):
        plan.bound(10**9)
    assert judge(ALPHA, ETA).bound(10**9) > 0


def test_judged_schedules_run():
    toy = Toy(kinds="A", kappa=2.0, s=0.1, t=0.1)
    plan = judge(lambda k: 1e-3 * (k + 1.0) ** -0.7, ETA)
    result = rsgda.solve(toy.problem, plan.algorithm, *toy.start(), key=jr.key(1), steps=200)
    assert result.status is rsgda.Status.FINISHED
