"""One row of v per sample, and values of theta that are prepared once."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import rsgda
from rsgda.testing import trees_equal

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(7, 3)), rng.normal(size=7)
THETA = jnp.asarray(rng.normal(size=3))
KEY = jr.key(5)


def loss(theta, v, batch):
    """Regression on moved inputs, each move paid for: rows do not see each other."""
    x, y = batch
    return jnp.mean((jnp.tanh(v["z"] @ theta) - y) ** 2 - 1.5 * jnp.sum((v["z"] - x) ** 2, axis=1))


def dense_loss(theta, v, rows):
    """Return the same loss of the full v, by indices."""
    return loss(theta, {"z": v["z"][rows]}, (jnp.asarray(X)[rows], jnp.asarray(Y)[rows]))


def problem(**options):
    return rsgda.Problem(loss, data=(X, Y), batch_size=5, separable=True, **options)


def by_hand(k, theta, v, p, alpha, eta, project=lambda v: v):
    """RSGDA on the full v: gradients of the mean over the batch, repeated rows counted twice."""
    key_coin, key_batch = jr.split(jr.fold_in(KEY, k))
    rows = jr.randint(key_batch, (5,), 0, 7)
    if jr.bernoulli(key_coin, p):
        return theta - alpha * jax.grad(dense_loss)(theta, v, rows), v, rows
    moved = jax.tree.map(
        lambda v, g: project(v + eta * g), v, jax.grad(dense_loss, argnums=1)(theta, v, rows)
    )
    return theta, moved, rows


@pytest.mark.parametrize("box", [None, rsgda.projections.box(-0.9, 1.1)])
def test_rows_as_the_mathematics_says(box):
    start = {"z": jnp.asarray(X)} if box is None else box({"z": jnp.asarray(X)})
    theta, v, repeats = THETA, start, 0
    for k in range(40):
        project = (lambda v: v) if box is None else (lambda v: jnp.clip(v, -0.9, 1.1))
        theta, v, rows = by_hand(k, theta, v, 0.3, 0.1, 0.8, project)
        repeats += len(set(rows.tolist())) < 5
    assert repeats > 20  # five of seven rows: most batches hold one twice
    algorithm = rsgda.RSGDA(p=0.3, alpha=0.1, eta=0.8)
    result = rsgda.solve(problem(project_v=box), algorithm, THETA, start, key=KEY, steps=40)
    np.testing.assert_allclose(result.theta, theta, rtol=1e-10)
    np.testing.assert_allclose(result.v["z"], v["z"], rtol=1e-10)


@pytest.mark.slow
def test_one_optimiser_per_row():
    """Each row has its own Adam, with its own count of visits, fed with the row's gradient."""
    adam = optax.adam(0.05)
    v = [jnp.asarray(row) for row in X]
    states = [adam.init(row) for row in v]
    for k in range(25):
        _, key_batch = jr.split(jr.fold_in(KEY, k))
        rows = np.asarray(jr.randint(key_batch, (5,), 0, 7))
        gradient = jax.grad(dense_loss, argnums=1)(THETA, {"z": jnp.stack(v)}, rows)["z"]
        for row in set(rows.tolist()):
            with jax.numpy_dtype_promotion("standard"):
                update, states[row] = adam.update(-gradient[row], states[row], v[row])
            v[row] = v[row] + update
    algorithm = rsgda.RSGDA(p=1e-12, alpha=0.1, eta=adam)
    result = rsgda.solve(problem(), algorithm, THETA, {"z": X}, key=KEY, steps=25)
    assert result.history["ascents"][-1] == 25
    np.testing.assert_allclose(result.v["z"], jnp.stack(v), rtol=1e-9)
    counts = jax.tree.leaves(result.state.ascent_state)[0]
    np.testing.assert_array_equal(counts, [int(state[0].count) for state in states])


def test_a_refused_row_leaves_all_rows():
    """An update that is not finite is not written, not even in the rows where it would be."""

    def cliff(theta, v, batch):
        x, _ = batch
        return jnp.mean(jnp.sqrt(0.5 - jnp.sum((v - x) ** 2, axis=1)) * 0 + jnp.sum(v, axis=1))

    bad = rsgda.Problem(cliff, data=(X, Y), batch_size=5, separable=True)
    algorithm = rsgda.RSGDA(p=0.01, alpha=0.1, eta=1.0)
    result = rsgda.solve(bad, algorithm, THETA, X, key=KEY, steps=1000, every=7)
    assert result.status is rsgda.Status.DIVERGED
    assert "eta" in result.message
    assert "step" in result.message
    assert np.all(np.isfinite(result.v))
    step = int(result.state.step)
    assert f"step {step}" in result.message
    assert result.history["step"][-1] == step
    # One step less is fine, and ends in the very state that was returned.
    shorter = rsgda.solve(bad, algorithm, THETA, X, key=KEY, steps=step)
    assert shorter.status is rsgda.Status.FINISHED
    assert trees_equal(shorter.v, result.v)
    assert trees_equal(shorter.theta, result.theta)


def test_no_copy_of_v_in_the_program():
    """The compiled chunk needs room for batches, not for another v."""
    from rsgda._trees import freeze_numbers
    from rsgda.drive.solve import _advance, own

    n, width = 20_000, 50
    data = (jnp.zeros((n, width)), jnp.zeros(n))
    large = rsgda.Problem(
        lambda theta, v, batch: loss(theta, {"z": v}, batch),
        data=data,
        batch_size=16,
        separable=True,
    )
    for algorithm in (
        rsgda.RSGDA(p=0.5, alpha=0.1, eta=0.1),
        rsgda.RSGDA(p=0.5, alpha=0.1, eta=optax.adam(0.1)),
        rsgda.ESGDA(m=3, alpha=0.1, eta=0.1),
        rsgda.SGDmax(delta=0.1, alpha=0.1, eta=0.1),
        rsgda.TiAda(),
        rsgda.Extragradient(alpha=0.1, eta=0.1),
        rsgda.Optimistic(alpha=0.1, eta=0.1),
    ):
        state = own(algorithm.init(large, jnp.zeros(width), data[0], KEY))
        program = _advance.lower(large, freeze_numbers(algorithm), state, np.int32(5)).compile()
        temporary = program.memory_analysis().temp_size_in_bytes
        assert temporary < 0.05 * data[0].nbytes, (algorithm, temporary)


def test_prepare_is_evaluated_once_per_change_of_theta():
    calls = []

    def prepare(theta):
        jax.debug.callback(lambda: calls.append(1))
        return {"twice": 2 * theta}

    def prepared_loss(prepared, v):
        return jnp.sum(jnp.cos(prepared["twice"])) + jnp.sum(v * prepared["twice"]) - jnp.sum(v**2)

    algorithm = rsgda.RSGDA(p=0.3, alpha=0.05, eta=0.2)
    with_it = rsgda.Problem(prepared_loss, prepare=prepare)
    state = algorithm.init(with_it, THETA, jnp.zeros(3), KEY)
    calls.clear()
    step = jax.jit(lambda state: algorithm.step(with_it, state))
    expected, fresh, longest, row = 0, False, 0, 0
    for _ in range(60):
        state, info = step(state)
        jax.block_until_ready(state)
        if int(info.descents):  # a descent differentiates through `prepare`
            expected, fresh, row = expected + 1, False, 0
        else:
            expected, fresh, row = expected + (not fresh), True, row + 1
            longest = max(longest, row)
    jax.effects_barrier()
    assert len(calls) == expected < 60
    assert longest >= 4
    without = rsgda.Problem(lambda theta, v: prepared_loss({"twice": 2 * theta}, v))
    plain = rsgda.solve(without, algorithm, THETA, jnp.zeros(3), key=KEY, steps=60)
    np.testing.assert_allclose(state.theta, plain.theta, rtol=1e-12)
    np.testing.assert_allclose(state.v, plain.v, rtol=1e-12)


@pytest.mark.parametrize(
    "algorithm",
    [rsgda.RSGDA(p=0.5, alpha=0.1, eta=0.1), rsgda.ESGDA(m=3, alpha=0.1, eta=0.1)],
    ids=repr,
)
def test_the_compiler_does_not_prepare_ahead(algorithm):
    """What a loop computes from theta alone is moved out of it by XLA, and then never skipped."""
    from rsgda._trees import freeze_numbers
    from rsgda.drive.solve import _advance, own

    def prepare(theta):
        with jax.named_scope("prepared_here"):
            return jnp.tanh(theta @ jnp.ones((300, 200)))

    given = rsgda.Problem(lambda made, v: jnp.sum(made * v) - jnp.sum(v**2), prepare=prepare)
    state = own(algorithm.init(given, jnp.zeros(300), jnp.zeros(200), KEY))
    program = _advance.lower(given, freeze_numbers(algorithm), state, np.int32(5)).compile()
    parts = [part for part in program.as_text().split("\n\n") if "prepared_here" in part]
    ascents = [part for part in parts if "transpose(jvp" not in part and "/jvp" not in part]
    assert ascents
    # A step has branches or loops of its own; the one round that prepares has none.
    for part in ascents:
        assert " conditional(" not in part, part
        assert " while(" not in part, part


@pytest.mark.parametrize(
    "algorithm",
    [
        rsgda.ESGDA(m=4, alpha=0.05, eta=0.2),
        rsgda.SGDmax(delta=1e-4, alpha=0.05, eta=0.2),
    ],
    ids=repr,
)
def test_prepare_in_inner_loops(algorithm):
    """Once for all ascents of a step, and once within the descent."""
    calls = []

    def prepare(theta):
        jax.debug.callback(lambda: calls.append(1))
        return 2 * theta

    def prepared_loss(prepared, v):
        return jnp.sum(jnp.cos(prepared)) + jnp.sum(v * prepared) - jnp.sum(v**2)

    problem = rsgda.Problem(prepared_loss, prepare=prepare)
    state = algorithm.init(problem, THETA, jnp.zeros(3), KEY)
    step = jax.jit(lambda state: algorithm.step(problem, state))
    step(state)
    jax.effects_barrier()
    calls.clear()
    for _ in range(5):
        state, _ = step(state)
    jax.block_until_ready(state)
    jax.effects_barrier()
    assert len(calls) == 10
