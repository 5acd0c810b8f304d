"""A v that belongs to the minibatch: kept until a descent, then started again at the next one."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from rsgda import ESGDA, RSGDA, SGDA, Problem, SGDmax, phi, solve

ROWS = jr.normal(jr.key(7), (30, 3))


def loss(theta, v, rows):
    return jnp.mean(jnp.sin(rows @ theta) + v @ theta - jnp.sum(jnp.square(v - rows), 1))


def restart(rows):
    return rows


PROBLEM = Problem(loss, data=ROWS, batch_size=4, restart=restart)
THETA, V = jnp.array([0.3, -0.2, 0.5]), ROWS[:4]


def batch_after(key, descents):
    return PROBLEM.kept(key, jnp.int32(descents)).arguments[0]


def by_hand(coins, alpha, eta, key):
    """Ascend on one batch until a descent; then take the next, and its own rows for v."""
    theta, descents, rounds = np.asarray(THETA, np.float64), 0, 0
    rows = np.asarray(batch_after(key, 0), np.float64)
    v = rows.copy()
    for descends in coins:
        if descends:
            slope = np.mean(np.cos(rows @ theta)[:, None] * rows + v, axis=0)
            theta = theta - alpha * slope
            descents, rounds = descents + 1, 0
            rows = np.asarray(batch_after(key, descents), np.float64)
            v = rows.copy()
        else:
            v = v + eta(rounds) * (theta - 2 * (v - rows)) / 4
            rounds += 1
    return theta, v


@pytest.mark.parametrize("p", [0.2, 0.7])
def test_rsgda_keeps_its_batch_until_a_descent(p):
    key, algorithm = jr.key(3), RSGDA(p=p, alpha=0.1, eta=0.4)
    result = solve(PROBLEM, algorithm, THETA, V, key=key, steps=40)
    coins = [bool(algorithm.toss(key, jnp.int32(k))[0]) for k in range(40)]
    assert 0 < sum(coins) < 40
    theta, v = by_hand(coins, 0.1, lambda t: 0.4, key)
    np.testing.assert_allclose(result.theta, theta, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result.v, v, rtol=1e-5, atol=1e-5)


def test_batches_change_with_descents_and_only_then():
    key = jr.key(0)
    batches = [np.asarray(batch_after(key, k)) for k in range(5)]
    np.testing.assert_array_equal(batches[2], batch_after(key, 2))
    assert all(not np.array_equal(batches[k], batches[k + 1]) for k in range(4))


def test_an_optimiser_of_v_begins_anew_with_each_batch():
    def falling(t):
        return 1.0 / jnp.sqrt(t + 2.0)

    key = jr.key(5)
    algorithm = ESGDA(m=3, alpha=0.1, eta=optax.sgd(falling))
    result = solve(PROBLEM, algorithm, THETA, V, key=key, steps=6)
    theta, v = by_hand([False, False, False, True] * 6, 0.1, lambda t: (t + 2) ** -0.5, key)
    np.testing.assert_allclose(result.theta, theta, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result.v, v, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "algorithm", [SGDA(alpha=0.1, eta=0.4), SGDmax(delta=0.1, alpha=0.1, eta=0.4)]
)
def test_after_a_descent_v_is_at_the_next_batch(algorithm):
    key = jr.key(2)
    result = solve(PROBLEM, algorithm, THETA, V, key=key, steps=3)
    np.testing.assert_array_equal(result.v, batch_after(key, 3))


def test_a_resumed_run_ends_where_the_other_ends(tmp_path):
    algorithm = RSGDA(p=0.3, alpha=0.1, eta=optax.adam(0.1))
    run = lambda steps, folder: solve(  # noqa: E731
        PROBLEM, algorithm, THETA, V, key=jr.key(1), steps=steps, checkpoint=folder
    )
    whole = run(20, None)
    run(9, tmp_path / "run")
    resumed = run(20, tmp_path / "run")
    np.testing.assert_array_equal(whole.v, resumed.v)
    np.testing.assert_array_equal(whole.theta, resumed.theta)


def test_what_cannot_restart_is_refused():
    with pytest.raises(ValueError, match=r"`restart` makes a v for each minibatch"):
        Problem(loss, data=ROWS, batch_size=4, separable=True, restart=restart)
    with pytest.raises(ValueError, match=r"needs `data` or `sample`"):
        Problem(lambda theta, v: theta * v, restart=restart)
    with pytest.raises(ValueError, match=r"`v` must be as `restart\(batch\)` is"):
        SGDA(alpha=0.1, eta=0.1).init(PROBLEM, THETA, ROWS[:5], jr.key(0))
    with pytest.raises(ValueError, match=r"no F over all"):
        phi(PROBLEM, THETA, V)


def test_a_batch_may_come_from_a_sampler():
    problem = Problem(loss, sample=lambda key: jr.normal(key, (4, 3)), restart=restart)
    result = solve(problem, SGDA(alpha=0.1, eta=0.1), THETA, V, key=jr.key(0), steps=2)
    np.testing.assert_array_equal(result.v, problem.kept(jr.key(0), jnp.int32(2)).arguments[0])
    assert jax.tree.structure(result.v) == jax.tree.structure(V)
