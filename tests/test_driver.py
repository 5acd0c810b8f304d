"""The driver: history, status, compilation, trees."""

import logging

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import rsgda
from rsgda.problems import Toy
from rsgda.testing import trees_equal

KEY = jr.key(3)
TOY = Toy(kinds="ABC", kappa=5.0, s=0.1, t=0.1)
ALGORITHM = rsgda.RSGDA(p=0.5, alpha=0.05, eta=0.3)


def phi(problem, state):
    return {"phi": TOY.phi(state.theta)}


def run(**options):
    return rsgda.solve(TOY.problem, ALGORITHM, *TOY.start(), key=KEY, **options)


@pytest.mark.parametrize(
    ("steps", "every", "expected"),
    [(250, 100, [100, 200, 250]), (200, 100, [100, 200]), (5, 100, [5]), (0, 10, [0])],
)
def test_history_has_every_multiple_and_the_end(steps, every, expected):
    result = run(steps=steps, every=every, record=phi)
    assert result.history["step"].tolist() == expected
    assert set(result.history) == {"step", "descents", "ascents", "gradients", "phi"}
    assert all(isinstance(column, np.ndarray) for column in result.history.values())
    np.testing.assert_array_equal(
        result.history["descents"] + result.history["ascents"], result.history["step"]
    )
    assert result.history["phi"][-1] == TOY.phi(result.theta)
    assert result.status is rsgda.Status.FINISHED
    assert int(result.state.step) == steps


def test_record_sees_what_a_shorter_run_returns():
    long, short = run(steps=90, every=30, record=phi), run(steps=60, record=phi)
    assert long.history["phi"][1] == short.history["phi"][-1]


def test_record_can_stop():
    def record(problem, state):
        return {"phi": TOY.phi(state.theta), "stop": int(state.step) >= 40}

    result = run(steps=1000, every=10, record=record)
    assert result.status is rsgda.Status.STOPPED
    assert result.history["step"].tolist() == [10, 20, 30, 40]
    assert trees_equal(result.theta, run(steps=40).theta)


def test_the_callers_arrays_are_left_alone():
    theta, v = TOY.start()
    before = np.array(theta)
    rsgda.solve(TOY.problem, ALGORITHM, theta, v, key=KEY, steps=50)
    np.testing.assert_array_equal(theta, before)  # not given away to the compiled loop
    for start in (np.array(theta), np.array(v)):
        start.setflags(write=False)
    result = rsgda.solve(TOY.problem, ALGORITHM, np.array(theta), np.array(v), key=KEY, steps=50)
    assert trees_equal(result.theta, run(steps=50).theta)


def test_divergence_says_when_and_what_to_do(caplog):
    algorithm = rsgda.RSGDA(p=0.5, alpha=1e3, eta=50.0)
    problem = rsgda.Problem(lambda theta, v: jnp.sum(theta**2 * 10) + theta @ v - jnp.sum(v**2))
    start = jnp.ones(2), jnp.zeros(2)
    with caplog.at_level(logging.WARNING, logger="rsgda"):
        result = rsgda.solve(problem, algorithm, *start, key=KEY, steps=10_000, every=3)
    assert result.status is rsgda.Status.DIVERGED
    step = int(result.state.step)
    assert 0 < step < 10_000
    assert result.history["step"][-1] == step
    assert f"step {step}" in result.message
    assert "alpha" in result.message
    assert "eta" in result.message
    assert result.message in caplog.text
    for leaf in jax.tree.leaves(result.state._replace(key=None)):
        assert np.all(np.isfinite(leaf))
    again = rsgda.solve(problem, algorithm, *start, key=KEY, steps=step)
    assert again.status is rsgda.Status.FINISHED  # so that it was the very next step
    assert trees_equal(again.theta, result.theta)
    assert trees_equal(again.v, result.v)


def test_divergence_does_not_poison_an_optimiser():
    def cliff(theta, v):
        return jnp.sqrt(0.1 - jnp.sum(theta**2)) * 0 - jnp.sum(theta) - jnp.sum(v**2)

    algorithm = rsgda.RSGDA(p=0.5, alpha=optax.adam(0.05), eta=optax.adam(0.05))
    result = rsgda.solve(
        rsgda.Problem(cliff), algorithm, jnp.zeros(2), jnp.ones(2), key=KEY, steps=500
    )
    assert result.status is rsgda.Status.DIVERGED
    assert "(1) `alpha`" in result.message
    for leaf in jax.tree.leaves(result.state._replace(key=None)):
        assert not np.any(np.isnan(leaf))


def test_one_trace_per_player_and_none_again():
    """Values, keys, lengths and kinds of numbers do not compile again; one trace a player."""
    traces = []

    def loss(theta, v, batch):
        traces.append(1)
        return jnp.mean(batch @ theta) * v - v**2 + jnp.sum(theta**2)

    def go(algorithm, seed, scale, steps, every):
        problem = rsgda.Problem(loss, data=scale * jnp.ones((9, 2)), batch_size=3)
        theta, v = scale * jnp.ones(2), scale * jnp.ones(())
        rsgda.solve(problem, algorithm, theta, v, key=jr.key(seed), steps=steps, every=every)

    go(rsgda.RSGDA(p=0.5, alpha=0.1, eta=0.1), 0, 1.0, 20, 10)
    assert len(traces) == 2
    go(rsgda.RSGDA(p=0.25, alpha=0.02, eta=0.3), 1, 2.0, 33, 7)
    go(rsgda.RSGDA(p=np.float32(0.3), alpha=jnp.asarray(0.1), eta=1), 2, 0.5, 1, 100)
    go(rsgda.ESGDA(m=2, alpha=0.1, eta=0.1), 0, 1.0, 20, 10)
    go(rsgda.ESGDA(m=5, alpha=0.1, eta=0.1), 0, 1.0, 20, 10)
    go(rsgda.SGDmax(delta=0.1, alpha=0.1, eta=0.1), 0, 1.0, 5, 10)
    go(rsgda.SGDmax(delta=0.2, alpha=0.1, eta=0.1), 0, 1.0, 5, 10)
    assert len(traces) == 2


def test_programs_are_compiled_once():
    """Not even the surrounding program is compiled again, whatever the numbers and lengths."""
    from rsgda.drive.solve import _advance

    def loss(theta, v):
        return theta * v - v**2

    def go(algorithm, steps, every):
        start = jnp.ones(()), jnp.zeros(())
        rsgda.solve(rsgda.Problem(loss), algorithm, *start, key=KEY, steps=steps, every=every)

    before = _advance._cache_size()
    go(rsgda.RSGDA(p=0.5, alpha=0.1, eta=0.1), 100, 30)
    go(rsgda.RSGDA(p=0.1, alpha=0.2, eta=0.3), 11, 3)
    assert _advance._cache_size() == before + 1
    for m in (1, 2, 7):
        go(rsgda.ESGDA(m=m, alpha=0.1, eta=0.1), 9, 3)
    assert _advance._cache_size() == before + 2
    for delta in (0.1, 0.01):
        go(rsgda.SGDmax(delta=delta, alpha=0.1, eta=0.1), 9, 3)
    assert _advance._cache_size() == before + 3


class Gate(eqx.Module):
    """A module with arrays, a function, a number, a string and nothing."""

    weight: jax.Array
    squash: object
    power: int
    name: str
    nothing: None = None

    def __call__(self, x):
        return self.squash(self.weight * x) ** self.power


def test_modules_come_back_whole():
    def loss(theta, v, batch):
        assert theta.name == "gate"
        return jnp.mean(theta(batch)) * v["v"] - v["v"] ** 2

    theta = Gate(jnp.ones(4), jnp.tanh, 2, "gate")
    problem = rsgda.Problem(loss, data=jnp.ones((10, 4)), batch_size=2)

    def record(problem, state):
        return {"out": state.theta(jnp.ones(4))[0]}

    result = rsgda.solve(
        problem,
        ALGORITHM,
        theta,
        {"v": jnp.ones(()), "note": "kept"},
        key=KEY,
        steps=20,
        record=record,
    )
    assert result.theta.name == "gate"
    assert result.theta.squash is jnp.tanh
    assert result.v["note"] == "kept"
    assert result.theta(jnp.ones(4)).shape == (4,)
    assert result.history["out"][-1] == result.theta(jnp.ones(4))[0]


def test_two_functions_in_a_module_are_two_programs():
    """A cached program must not serve a module that differs in a part that is no array."""

    def loss(theta, v):
        return jnp.sum(theta(jnp.ones(4))) * v - v**2

    start = jnp.ones(())
    outs = [
        rsgda.solve(
            rsgda.Problem(loss), ALGORITHM, Gate(jnp.ones(4), f, n, "g"), start, key=KEY, steps=9
        ).theta.weight
        for f, n in ((jnp.tanh, 2), (jnp.sin, 2), (jnp.sin, 3))
    ]
    assert not np.allclose(outs[0], outs[1])
    assert not np.allclose(outs[1], outs[2])


def test_sampled_problem_draws_fresh_samples():
    def loss(theta, v, z):
        return theta * jnp.mean(z) + theta * v - v**2

    problem = rsgda.Problem(loss, sample=lambda key: jr.normal(key, (2,)))
    result = rsgda.solve(problem, ALGORITHM, jnp.ones(()), jnp.ones(()), key=KEY, steps=300)
    again = rsgda.solve(problem, ALGORITHM, jnp.ones(()), jnp.ones(()), key=jr.key(4), steps=300)
    assert float(result.theta) != float(again.theta)


def test_minibatches_are_uniform_with_replacement():
    problem = rsgda.Problem(lambda *_: 0.0, data=jnp.arange(7), batch_size=5)
    batches = jax.vmap(lambda key: problem.draw(key).arguments[0])(jr.split(KEY, 4000))
    counts = np.bincount(np.asarray(batches).ravel(), minlength=7)
    expected = 4000 * 5 / 7
    assert np.all(abs(counts - expected) < 5 * np.sqrt(expected))
    repeated = np.mean([len(set(batch)) < 5 for batch in np.asarray(batches).tolist()])
    assert abs(repeated - (1 - 7 * 6 * 5 * 4 * 3 / 7**5)) < 0.03


def test_nothing_is_printed(capfd):
    run(steps=50, record=phi)
    assert capfd.readouterr() == ("", "")


def test_repr_of_a_result():
    result = run(steps=50, record=phi)
    assert "FINISHED" in repr(result)
    assert "phi=" in repr(result)


def test_record_may_keep_what_it_is_given():
    """The compiled loop takes its arrays away, but not those that a record function holds."""
    kept = []

    def record(problem, state):
        kept.append(state)
        return {"first": state.theta[0]}

    result = run(steps=40, every=10, record=record)
    assert [int(state.step) for state in kept] == [0, 10, 20, 30, 40]  # once at the door
    np.testing.assert_array_equal(
        [float(state.theta[0]) for state in kept[1:]], result.history["first"]
    )


def test_numpy_starts_are_canonical():
    """NumPy's float64 is an ordinary start in float32 mode: it is converted without a word."""
    with jax.enable_x64(False):
        result = rsgda.solve(
            rsgda.Problem(lambda theta, v: theta @ v - v @ v),
            ALGORITHM,
            np.ones(2),
            np.zeros(2),
            key=KEY,
            steps=5,
        )
    assert result.theta.dtype == np.float32


def test_prepared_values_of_any_dtype():
    """Integers and settings among prepared values are fine; a refused run leaves no NaN there."""
    problem = rsgda.Problem(
        lambda f, v: f[0] @ v * f[2] - v @ v + f[1].astype(float) * jnp.sum(f[0] ** 2),
        prepare=lambda theta: (jnp.tanh(theta), jnp.argmax(theta), 2.0),
    )
    result = rsgda.solve(problem, ALGORITHM, jnp.ones(2), jnp.zeros(2), key=KEY, steps=20)
    assert result.status is rsgda.Status.FINISHED
    root = rsgda.Problem(
        lambda f, v: f @ v - v @ v + jnp.sum(f), prepare=lambda theta: jnp.sqrt(1 - theta)
    )
    algorithm = rsgda.RSGDA(p=0.5, alpha=0.3, eta=0.1)
    result = rsgda.solve(root, algorithm, jnp.zeros(2), jnp.zeros(2), key=KEY, steps=200)
    assert result.status is rsgda.Status.DIVERGED
    for leaf in jax.tree.leaves(result.state._replace(key=None)):
        assert np.all(np.isfinite(leaf))


def test_stop_asks_the_record_of_this_call(tmp_path):
    """A run that was stopped goes on when a later call's record function does not stop it."""

    def go(least):
        def record(problem, state):
            return {"stop": state.theta[0] < least}

        return run(steps=400, every=10, record=record, checkpoint=tmp_path / "run")

    first, second = go(1.5), go(1.0)
    assert first.status is second.status is rsgda.Status.STOPPED
    assert first.history["step"][-1] < second.history["step"][-1]
    assert go(1.0).history["step"][-1] == second.history["step"][-1]
    assert run(steps=400, checkpoint=tmp_path / "run").status is rsgda.Status.FINISHED
