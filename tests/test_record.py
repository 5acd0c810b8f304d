"""Ready-made record functions: right numbers, in single runs and in sweeps, and a right stop."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import rsgda
from rsgda import projections, record

KEY = jr.key(3)
TOY = rsgda.problems.Toy(kinds="AB", kappa=5.0)
ALGORITHM = rsgda.RSGDA(p=0.5, alpha=0.2, eta=1.0)


def run(record, problem=TOY.problem, start=None, **options):
    theta, v = TOY.start() if start is None else start
    options = {"steps": 60, "every": 20, **options}
    return rsgda.solve(problem, ALGORITHM, theta, v, key=KEY, record=record, **options)


def test_phi_at_each_record():
    seen = []
    measure = record.phi(tol=1e-7)

    def both(problem, state):
        seen.append((float(TOY.phi(state.theta)), TOY.grad_phi(state.theta)))
        return measure(problem, state)

    result = run(both)
    history = result.history
    exact = np.array([phi for phi, _ in seen[1:]])  # the first call is a check at the start
    assert np.all(history["certified"])
    assert np.all(history["gap"] <= 1e-7)
    assert np.all(history["phi"] <= exact + 1e-12)
    assert np.all(exact <= history["phi"] + history["gap"] + 1e-12)
    norms = [float(jnp.linalg.norm(slope)) for _, slope in seen[1:]]
    np.testing.assert_allclose(history["phi_grad_norm"], norms, atol=1e-2)
    assert np.all(history["F"] <= history["phi"])
    assert history["F"][-1] == pytest.approx(float(TOY.loss(result.theta, result.v)), rel=1e-12)
    assert exact[0] > exact[-1]


@pytest.mark.slow
def test_a_sweep_records_as_single_runs_do():
    theta, v = TOY.start()
    keys = jr.split(KEY, 2)
    measure = record.phi(tol=1e-7, stop_below=1.0)
    table = rsgda.sweep(
        TOY.problem, [ALGORITHM], theta, v, keys=keys, steps=60, every=20, record=measure
    )
    for j, key in enumerate(keys):
        single = rsgda.solve(
            TOY.problem, ALGORITHM, theta, v, key=key, steps=60, every=20, record=measure
        )
        assert table[0, j].status is single.status
        for name in ("phi", "phi_grad_norm", "certified", "stop", "step"):
            np.testing.assert_allclose(table[0, j].history[name], single.history[name], atol=1e-6)


@pytest.mark.parametrize(
    ("made", "reached"),
    [
        (record.phi(tol=1e-4, stop_below=0.05), lambda theta, v: TOY.phi(theta)),
        (
            record.stationarity(stop_below=0.05),
            lambda theta, v: jnp.linalg.norm(TOY.grad_phi(theta)),
        ),
        (
            record.gradient_norms(stop_below=0.05),
            lambda theta, v: jnp.maximum(
                *(jnp.linalg.norm(g) for g in jax.grad(TOY.loss, (0, 1))(theta, v))
            ),
        ),
    ],
    ids=["phi", "stationarity", "gradient_norms"],
)
def test_it_stops_when_it_is_there_and_not_before(made, reached):
    result = run(made, steps=2000, every=5)
    assert result.status is rsgda.Status.STOPPED
    assert reached(result.theta, result.v) <= 0.05
    steps = int(result.history["step"][-1])
    assert 10 < steps < 2000
    before = run(None, steps=steps - 10)
    assert reached(before.theta, before.v) > 0.04


def test_the_error_of_stationarity_holds():
    theta, v = TOY.start()
    exact = float(jnp.linalg.norm(TOY.grad_phi(theta)))
    state = ALGORITHM.init(TOY.problem, theta, v, KEY)
    for tol in (1e-1, 1e-3, 1e-6):
        seen = record.stationarity(tol=tol)(TOY.problem, state)
        error = float(seen["stationarity_error"])
        assert abs(float(seen["stationarity"]) - exact) <= error + 1e-12
        # The cross derivative is b of kind A, doubled; the constant is mu / 2.
        b = np.sqrt(0.75 * (1 - TOY.mu))
        assert error <= 2 * b * np.sqrt(2 * tol / (TOY.mu / 2)) * (1 + 1e-6)
        assert bool(seen["certified"])


@pytest.mark.slow
def test_nothing_stops_on_what_is_not_certified():
    def saddle(theta, v):
        return theta**2 + jnp.sum(v**2) / 100

    problem = rsgda.Problem(saddle, project_v=projections.box(-1.0, 1.0))
    start = (jnp.asarray(0.0), jnp.full(2, 0.5))
    for made in (record.phi(stop_below=10.0), record.stationarity(stop_below=10.0)):
        result = run(made, problem, start)
        assert result.status is rsgda.Status.FINISHED
        assert not result.history["certified"].any()
    result = run(record.stationarity(), problem, start)
    assert np.all(np.isinf(result.history["stationarity_error"]))


rng = np.random.default_rng(0)
X, Y = jnp.asarray(rng.normal(size=(7, 3))), jnp.asarray(rng.normal(size=7))


def rows_loss(theta, v, batch):
    x, y = batch
    return jnp.mean((jnp.tanh(v @ theta) - y) ** 2 - 5 * jnp.sum((v - x) ** 2, axis=1))


@pytest.mark.slow
def test_separable_rows():
    problem = rsgda.Problem(rows_loss, data=(X, Y), batch_size=2, separable=True)
    theta = jnp.asarray(rng.normal(size=3))
    result = run(record.stationarity(), problem, (theta, X), steps=20, every=20)
    found = rsgda.phi(problem, result.theta, result.v, tol=1e-8)
    assert result.history["stationarity"][-1] == pytest.approx(found.grad_norm, rel=1e-9)
    assert 0 < result.history["stationarity_error"][-1] < 1e-2
    result = run(record.gradient_norms(), problem, (theta, X), steps=20, every=20)
    slopes = jax.grad(rows_loss, (0, 1))(result.theta, result.v, (X, Y))
    for name, slope in zip(("grad_theta_norm", "grad_v_norm"), slopes, strict=True):
        np.testing.assert_allclose(result.history[name][-1], jnp.linalg.norm(slope), rtol=1e-9)


@pytest.mark.slow
def test_a_sampler_takes_the_batches_of_the_run():
    toy = rsgda.problems.Toy(kinds="AB", kappa=5.0, t=0.3)
    made = record.phi(batches=5)
    result = run(made, toy.problem, steps=20, every=20)
    key = jr.fold_in(KEY, record.OWN)
    found = rsgda.phi(toy.problem, result.theta, result.v, key=key, batches=5)
    np.testing.assert_allclose(result.history["phi"][-1], found.value, rtol=1e-9)
    other = rsgda.solve(
        toy.problem, ALGORITHM, *toy.start(), key=jr.key(9), steps=20, every=20, record=made
    )
    assert other.history["phi"][-1] != result.history["phi"][-1]


def test_gradient_mappings_under_projections():
    problem = rsgda.Problem(
        TOY.loss, project_v=projections.box(-1.0, 1.0), project_theta=projections.ball(2.0)
    )
    theta, v = jnp.array([1.0, 1.7]), jnp.array([1.0, 0.2])
    state = ALGORITHM.init(problem, theta, v, KEY)
    of_theta, of_v = jax.grad(TOY.loss, (0, 1))(theta, v)
    seen = record.gradient_norms(step=0.5)(problem, state)
    moved = theta - 0.5 * of_theta
    moved = moved * min(1.0, 2 / float(jnp.linalg.norm(moved)))
    np.testing.assert_allclose(seen["grad_theta_norm"], jnp.linalg.norm(moved - theta) / 0.5)
    moved = jnp.clip(v + 0.5 * of_v, -1, 1)
    np.testing.assert_allclose(seen["grad_v_norm"], jnp.linalg.norm(moved - v) / 0.5)
    assert float(seen["grad_v_norm"]) < float(jnp.linalg.norm(of_v))


def test_equal_numbers_are_one_function():
    assert record.phi(tol=0.5, mu=jnp.asarray(2.0)) == record.phi(tol=0.5, mu=2)
    assert hash(record.stationarity(stop_below=1)) == hash(record.stationarity(stop_below=1.0))
    assert record.phi() != record.phi(tol=0.1)
    assert "tol=0.5" in repr(record.phi(tol=0.5))


def test_wrong_input():
    for made in (record.phi, record.stationarity):
        for name, value in (("tol", 0), ("mu", -1.0), ("batches", 0), ("max_gradients", 0.5)):
            with pytest.raises(ValueError, match=f"`{name}` must be"):
                made(**{name: value})
    for made in (record.phi, record.stationarity, record.gradient_norms):
        for value in ("low", np.nan, jnp.ones(2)):
            with pytest.raises(ValueError, match="`stop_below` must be a"):
                made(stop_below=value)
    record.phi(stop_below=-3.0)
    for made in (record.stationarity, record.gradient_norms):
        with pytest.raises(ValueError, match="`stop_below` must be a positive finite number"):
            made(stop_below=0.0)
    with pytest.raises(ValueError, match="`step` must be a positive"):
        record.gradient_norms(step=-1.0)
