"""A sweep's rows are the single runs."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import rsgda
from rsgda._trees import Static
from rsgda.drive import plan, rows
from rsgda.problems import Toy

TOY = Toy(kinds="ABC", kappa=5.0, s=0.2, t=0.2)
KEYS = jr.split(jr.key(0), 3)
ALGORITHMS = [
    rsgda.RSGDA(p=0.2, alpha=0.05, eta=0.3),
    rsgda.RSGDA(p=0.2, alpha=0.02, eta=0.1),
    rsgda.ESGDA(m=3, alpha=0.05, eta=0.3),
    rsgda.RSGDA(p=0.8, alpha=0.05, eta=0.3),
    rsgda.ESGDA(m=1, alpha=0.05, eta=0.2),
    rsgda.SGDA(alpha=0.05, eta=0.3),
    rsgda.SGDmax(delta=1e-2, alpha=0.05, eta=0.3, mu=TOY.mu, max_ascents=50),
    rsgda.RSGDA(p=0.4, alpha=optax.adam(0.05), eta=0.3),
    rsgda.TiAda(power_theta=0.7),
    rsgda.TiAda(alpha=0.5, eta=2.0),
    rsgda.Extragradient(alpha=0.05, eta=0.3),
    rsgda.Optimistic(alpha=0.05, eta=0.3),
]


def phi(problem, state):
    return {"phi": TOY.phi(state.theta)}


def check_rows(table, algorithms, problem, start, steps, every, record):
    for i, algorithm in enumerate(algorithms):
        for j, key in enumerate(KEYS):
            single = rsgda.solve(
                problem, algorithm, *start, key=key, steps=steps, every=every, record=record
            )
            row = table[i, j]
            np.testing.assert_allclose(row.theta, single.theta, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(row.v, single.v, rtol=1e-9, atol=1e-12)
            assert row.status is single.status
            assert set(row.history) == set(single.history)
            for name, column in single.history.items():
                np.testing.assert_allclose(row.history[name], column, rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(table.history[name][i, j], column, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("together", [True, False])
def test_rows_are_single_runs(together, monkeypatch):
    """All classes, both plans; coins and samples are those of the single runs."""
    monkeypatch.setattr(plan, "together_pays", lambda *_: together)
    table = rsgda.sweep(
        TOY.problem, ALGORITHMS, *TOY.start(), keys=KEYS, steps=50, every=20, record=phi
    )
    assert table.history["phi"].shape == (len(ALGORITHMS), 3, 3)
    check_rows(table, ALGORITHMS, TOY.problem, TOY.start(), 50, 20, phi)


@pytest.mark.slow
def test_separable_rows(monkeypatch):
    monkeypatch.setattr(plan, "together_pays", lambda *_: True)
    x = np.random.default_rng(0).normal(size=(9, 2))

    def loss(theta, v, x):
        return jnp.mean(jnp.tanh(v @ theta) - jnp.sum((v - x) ** 2, axis=1))

    problem = rsgda.Problem(loss, data=x, batch_size=4, separable=True)
    algorithms = [rsgda.RSGDA(p=p, alpha=0.1, eta=0.5) for p in (0.3, 0.6)]
    start = jnp.ones(2), x
    table = rsgda.sweep(problem, algorithms, *start, keys=KEYS, steps=30)
    check_rows(table, algorithms, problem, start, 30, 1000, None)


@pytest.mark.slow
def test_programs(monkeypatch):
    """One program per class, for either plan, and none more for other numbers or keys."""
    for together, expected in ((True, 2), (False, 2)):
        monkeypatch.setattr(plan, "together_pays", lambda *_, together=together: together)
        toy = Toy(kinds="AB", kappa=3.0, s=0.1, r=0.1 + expected + together)
        before = rows.advance_to._cache_size()
        for shift in (0.0, 0.1):
            algorithms = [rsgda.RSGDA(p=0.2 + shift, alpha=a, eta=0.1) for a in (0.1, 0.2)]
            algorithms += [rsgda.RSGDA(p=0.3 + shift, alpha=0.1 + shift, eta=0.1)]
            algorithms += [rsgda.SGDA(alpha=a + shift, eta=0.1) for a in (0.1, 0.2)]
            keys = jr.split(jr.key(int(10 * shift)), 3)
            rsgda.sweep(toy.problem, algorithms, *toy.start(), keys=keys, steps=9, every=4)
        assert rows.advance_to._cache_size() == before + expected


def compiled_step(shared, keys):
    """Return the text of the compiled program of one block."""
    algorithms = tuple(rsgda.RSGDA(p=0.2, alpha=a, eta=0.3) for a in (0.1, 0.2))
    first = algorithms[0].init(TOY.problem, *TOY.start(), KEYS[0])
    (block, *_) = plan.blocks(TOY.problem, algorithms, keys, first)
    assert block.shared == shared
    begun = rows.begin(TOY.problem, block, *TOY.start())
    shared = Static(block.shared, tuple)
    jaxpr = jax.make_jaxpr(lambda *a: rows.advance_to.__wrapped__(*a, shared))(
        TOY.problem, block.algorithm, begun, np.int32(9)
    )
    return str(jaxpr)


def test_shared_coins_stay_a_branch(monkeypatch):
    monkeypatch.setattr(plan, "together_pays", lambda *_: False)
    assert " cond[" in compiled_step(("key", "p"), KEYS)
    monkeypatch.setattr(plan, "together_pays", lambda *_: True)
    assert " cond[" not in compiled_step((), KEYS)


def test_one_gradient_per_row_where_coins_are_shared(monkeypatch):
    """Count at run time: rows that share a coin do not compute the other gradient."""
    monkeypatch.setattr(plan, "together_pays", lambda *_: False)
    seen = []

    def loss(theta, v):
        jax.debug.callback(lambda _: seen.append(1), theta)
        return jnp.sum(jnp.cos(theta)) + theta @ v - v @ v

    algorithms = [rsgda.RSGDA(p=0.5, alpha=a, eta=0.1) for a in (0.1, 0.2)]
    problem = rsgda.Problem(loss)
    table = rsgda.sweep(problem, algorithms, jnp.ones(2), jnp.zeros(2), keys=KEYS, steps=25)
    jax.effects_barrier()
    at_the_door = 1 + 7  # the loss of the start, and a look for a maximum in v
    assert len(seen) - at_the_door == 2 * 3 * 25 == table.history["gradients"].sum()


def test_the_plan_follows_the_cost():
    small = Toy(kinds="ABCABCABCA", kappa=5.0, s=0.1)
    big = Toy(kinds="A" * 5000, kappa=5.0, s=0.1)
    for toy, together in ((small, True), (big, False)):
        state = rsgda.SGDA(alpha=0.1, eta=0.1).init(toy.problem, *toy.start(), KEYS[0])
        assert plan.together_pays(toy.problem, state, 4, 64) is together


@pytest.mark.slow
def test_ends_of_rows():
    """Rows end by themselves: some diverge, some stop, some finish."""

    def loss(theta, v):
        return 10 * jnp.sum(theta**2) + theta @ v - v @ v

    def record(problem, state):
        return {"norm": jnp.linalg.norm(state.theta), "stop": jnp.linalg.norm(state.theta) < 0.5}

    algorithms = [rsgda.RSGDA(p=0.5, alpha=alpha, eta=0.3) for alpha in (10.0, 0.01, 1e-6)]
    problem, start = rsgda.Problem(loss), (jnp.ones(2), jnp.zeros(2))
    table = rsgda.sweep(problem, algorithms, *start, keys=KEYS, steps=1000, every=10, record=record)
    names = [[status.name for status in row] for row in table.status]
    assert names == [["DIVERGED"] * 3, ["STOPPED"] * 3, ["FINISHED"] * 3]
    check = rsgda.solve(
        problem, algorithms[0], *start, key=KEYS[1], steps=1000, every=10, record=record
    )
    row = table[0, 1]
    assert int(row.state.step) == int(check.state.step)
    # What is measured at its start only a single run says.
    measured = check.message.partition("Measured")[2].partition("Likely")[0]
    assert "overshoots" in measured
    assert row.message == check.message.replace(f"Measured{measured}", "")
    np.testing.assert_allclose(row.theta, check.theta, rtol=1e-9)
    assert np.isfinite(row.theta).all()
    stopped = table[1, 0]
    single = rsgda.solve(
        problem, algorithms[1], *start, key=KEYS[0], steps=1000, every=10, record=record
    )
    assert stopped.history["step"].tolist() == single.history["step"].tolist()
    assert np.isnan(table.history["norm"][1, 0, -1])
    assert np.isfinite(table.history["norm"][2]).all()


def test_record_on_the_host():
    """A record function that wants host values is called for each row by itself."""

    def record(problem, state):
        return {"phi": float(TOY.phi(state.theta)), "small": bool(state.theta[0] < 1)}

    algorithms = ALGORITHMS[:2]
    table = rsgda.sweep(
        TOY.problem, algorithms, *TOY.start(), keys=KEYS, steps=20, every=10, record=record
    )
    traced = rsgda.sweep(
        TOY.problem, algorithms, *TOY.start(), keys=KEYS, steps=20, every=10, record=phi
    )
    np.testing.assert_allclose(table.history["phi"], traced.history["phi"], rtol=1e-12)


def test_table():
    table = rsgda.sweep(TOY.problem, ALGORITHMS[:2], *TOY.start(), keys=KEYS, steps=0)
    assert "2 algorithms x 3 keys" in repr(table)
    assert table[-1, -1].history["step"].tolist() == [0]
    with pytest.raises(IndexError):
        table[2, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm", [rsgda.SGDA(alpha=0.05, eta=0.3), rsgda.RSGDA(p=0.5, alpha=0.05, eta=0.3)]
)
def test_keys_that_do_not_stack(algorithm):
    """Keys of another kind draw differently when mapped over; their rows are single runs too."""
    keys = jr.split(jr.key(0, impl="rbg"), 2)
    table = rsgda.sweep(TOY.problem, [algorithm] * 2, *TOY.start(), keys=keys, steps=20)
    for j in range(2):
        single = rsgda.solve(TOY.problem, algorithm, *TOY.start(), key=keys[j], steps=20)
        np.testing.assert_allclose(table[1, j].theta, single.theta, rtol=1e-9)


@pytest.mark.slow
def test_an_ended_row_counts_no_more():
    algorithms = [
        rsgda.SGDmax(delta=1e-2, alpha=alpha, eta=0.02, max_ascents=5) for alpha in (0.1, 1e300)
    ]
    table = rsgda.sweep(TOY.problem, algorithms, *TOY.start(), keys=KEYS[:1], steps=50, every=10)
    single = rsgda.solve(TOY.problem, algorithms[1], *TOY.start(), key=KEYS[0], steps=50)
    assert single.status is rsgda.Status.DIVERGED
    assert table[1, 0].history["gradients"][-1] == single.history["gradients"][-1]
    assert isinstance(table[1, 0].theta, jax.Array)
