"""The ten likeliest mistakes: what the library says names the cause and what to do about it."""

import warnings

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import rsgda

KEY = jr.key(0)
X = 1.0 + jr.normal(jr.key(1), (500, 3))
Y = X @ jnp.array([1.0, -0.5, 0.25])
THETA, V = jnp.zeros(3), jnp.zeros(3)
GOOD = rsgda.RSGDA(p=0.25, alpha=0.05, eta=0.05)


def errors(theta, v, batch):
    inputs, targets = batch
    return (inputs + v) @ theta - targets


def right(theta, v, batch):
    return 0.5 * jnp.mean(errors(theta, v, batch) ** 2) - 5.0 * jnp.sum(v**2)


def swapped(theta, v, batch):
    return 0.5 * jnp.mean(errors(theta, v, batch) ** 2) + 5.0 * jnp.sum(v**2)


def negated(theta, v, batch):
    return -right(theta, v, batch)


def summed(theta, v, batch):
    return jnp.sum(0.5 * errors(theta, v, batch) ** 2 - 5.0 * jnp.sum(v**2))


def held_too_loosely(theta, v, batch):
    inputs, targets = batch
    return jnp.mean((v @ theta - targets) ** 2 - 0.01 * jnp.sum((v - inputs) ** 2, axis=1))


def problem_of(loss, data=(X, Y), **options):
    return rsgda.Problem(loss, data=data, batch_size=32, **options)


def solve(problem, algorithm=GOOD, theta=THETA, v=V, **options):
    return rsgda.solve(problem, algorithm, theta, v, **({"key": KEY, "steps": 1_000} | options))


def diverged(*arguments, **options):
    """Run, with warnings of the start set aside, and return what is said of the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rsgda.ConcavityWarning)
        result = solve(*arguments, **options)
    assert result.status is rsgda.Status.DIVERGED
    assert np.isfinite(result.theta).all()
    return result.message


def in_order(message, *parts):
    """Say whether all parts are in a message, each after the one before."""
    places = [message.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def refused(call, *parts):
    with pytest.raises(ValueError, match="must") as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


def test_what_is_right_says_nothing():
    result = solve(problem_of(right))
    assert result.status is rsgda.Status.FINISHED
    np.testing.assert_allclose(result.theta, [1.0, -0.5, 0.25], atol=0.2)


# 1
@pytest.mark.parametrize("loss", [swapped, negated])
def test_a_swapped_sign_is_seen_at_the_start(loss):
    with pytest.warns(rsgda.ConcavityWarning, match="no maximum in v.*Check the sign") as caught:
        solve(problem_of(loss), steps=1)
    assert caught[0].filename == __file__
    assert "`project_v`" in str(caught[0].message)


def test_a_swapped_sign_is_a_cause_of_divergence():
    message = diverged(problem_of(swapped))
    assert in_order(message, "the update of v", "curves upward in v, by 10", "the sign: v is max")


def test_a_swapped_sign_is_seen_by_a_sweep():
    with pytest.warns(rsgda.ConcavityWarning, match="Check the sign"):
        rsgda.sweep(problem_of(negated), [GOOD], THETA, V, keys=jr.split(KEY, 1), steps=1)


FINE = {  # losses that are not concave, or not strongly, and of which nothing is to be said
    "critic": lambda theta, v: jnp.sum(jnp.log1p(jnp.exp(-(v**2) * theta))) * -1.0,
    "double well": lambda theta, v: jnp.sum(theta * v + v**2 - v**4),
    "far well": lambda theta, v: jnp.sum(v**2 - 1e-6 * v**4 + theta),
    "linear": lambda theta, v: jnp.sum(theta * v),
    "bounded": lambda theta, v: jnp.sum(jnp.cos(theta - 3 * v)),
    "slope grows": lambda theta, v: jnp.sum(theta * jnp.sqrt(1 + v**2)),
    "a step away": lambda theta, v: jnp.sum(theta * v) - jnp.sum((v - 100.0) ** 2),
}


@pytest.mark.parametrize("name", FINE)
def test_a_loss_that_is_merely_not_concave_is_no_alarm(name):
    solve(rsgda.Problem(FINE[name]), theta=jnp.ones(3), v=0.1 * jnp.ones(3), steps=1)


def test_a_set_for_v_is_no_alarm():
    ball = rsgda.projections.ball(1.0)
    result = solve(problem_of(swapped, project_v=ball), steps=50)
    assert result.status is rsgda.Status.FINISHED


# 2
def test_a_summed_loss_is_measured():
    message = diverged(problem_of(summed))
    assert in_order(message, "the loss is no mean over the batch", "take the mean")
    assert "no mean over the batch" not in diverged(problem_of(right), rsgda_with(eta=50.0))


# 3
def rsgda_with(**numbers):
    return rsgda.RSGDA(**({"p": 0.25, "alpha": 0.05, "eta": 0.05} | numbers))


def test_eta_scaled_by_n_is_measured():
    message = diverged(problem_of(right), rsgda_with(eta=0.05 * len(X)))
    assert in_order(
        message,
        "the update of v",
        "`eta` = 25 overshoots, as the loss curves by 10 in v: take less than 2 / 10 = 0.2",
        "(1) `eta` is too large: try a tenth",
        "do not multiply it by the number of rows",
        "(2) the sign",
        "(3) the loss is not concave in v",
        "(4) the loss is summed",
    )


# 4
def test_a_forgotten_key_is_asked_for():
    refused(
        lambda: rsgda.solve(problem_of(right), GOOD, THETA, V, steps=1),
        "`key` must be given",
        "`key=jax.random.key(0)`",
    )
    refused(
        lambda: rsgda.sweep(problem_of(right), [GOOD], THETA, V, steps=1),
        "`keys` must be given",
        "jax.random.split(jax.random.key(0), 5)",
    )


# 5
def test_a_v_of_the_wrong_shape_is_named():
    refused(
        lambda: solve(problem_of(right), v=jnp.zeros(4)),
        "`loss` must be",
        "theta of float64[3], v of float64[4], batch of float64[32, 3], float64[32]",
        "Start `theta` and `v` with the shapes",
    )
    refused(
        lambda: solve(problem_of(held_too_loosely, separable=True)),
        "`v` must have one row for each of the 500 rows",
        "start with the rows of `data`",
    )


def test_a_loss_that_is_none_of_jax_is_told_what_to_take():
    shares = np.ones(500)

    def of_numpy(theta, v, place):
        return jnp.mean(shares[place]) * jnp.sum(theta) - v @ v

    def branches(theta, v):
        return jnp.sum(theta) - (v @ v if v[0] > 0 else v @ v / 2)

    places = rsgda.Problem(of_numpy, data=np.arange(500), batch_size=8)
    refused(lambda: solve(places), "TracerArrayConversionError", "jnp.asarray(...)")
    refused(lambda: solve(rsgda.Problem(branches)), "TracerBool", "jnp.where in place of `if`")


# 6
def test_a_gamma_that_is_too_small_is_a_cause():
    message = diverged(
        problem_of(held_too_loosely, separable=True), rsgda_with(eta=32.0), v=X, steps=20_000
    )
    assert in_order(message, "Likely causes", "not concave in v", "a larger gamma")


def test_a_gamma_that_is_too_small_is_seen_by_phi():
    def loss(theta, v):
        return (v @ theta) ** 2 - 0.01 * v @ v

    with pytest.warns(rsgda.ConcavityWarning, match="a larger gamma"):
        rsgda.phi(rsgda.Problem(loss), jnp.ones(3), jnp.ones(3))


# 7
def test_an_epsilon_that_is_too_small_is_refused():
    network = rsgda.transport.mlp((3, 8, 3), key=KEY)
    x = np.float32(X)
    for call in (
        lambda: rsgda.transport.matching(x, x[:100], network, epsilon=1e-8),
        lambda: rsgda.transport.generation(
            lambda key: jr.normal(key, (3,), "float32"), x, network, epsilon=1e-8
        ),
        lambda: rsgda.transport.sinkhorn(x, x[:100], epsilon=1e-8),
    ):
        refused(call, "`epsilon` must be larger, got 1e-08", "float32", "Start with a hundredth")


# 8
def test_an_alpha_that_is_too_large_is_measured():
    message = diverged(problem_of(right), rsgda_with(alpha=5.0))
    assert in_order(message, "`alpha` = 5 overshoots", "theta: take less than 2 /", "Likely causes")


def test_a_refused_descent_has_causes_of_its_own():
    def apart(theta, v, batch):
        inputs, targets = batch
        return 0.5 * jnp.mean((inputs @ theta - targets) ** 2) - v @ v

    assert in_order(
        diverged(problem_of(apart), rsgda_with(alpha=5.0), steps=5_000),
        "the update of theta",
        "`alpha` = 5 overshoots",
        "(1) `alpha` is too large: try a tenth",
        "(2) the loss is summed",
        "(3) v ran away first",
        "(4) the sign",
    )


# 9
def test_nan_in_the_data_is_refused_with_its_rows():
    x = np.array(X)
    x[[7, 41], 1] = np.nan
    refused(
        lambda: solve(problem_of(right, data=(x, Y))),
        "`data`[0] must be finite",
        "2 of 500 rows, the first of them 7",
        "Leave these rows out, or fill them",
    )


def test_a_loss_that_knows_what_to_do_with_nan_is_let_through():
    def masked(theta, v, batch):
        inputs, targets = batch
        return right(theta, v, (jnp.where(jnp.isnan(inputs), 0.0, inputs), targets))

    x = np.array(X)
    x[7, 1] = np.nan
    assert solve(problem_of(masked, data=(x, Y))).status is rsgda.Status.FINISHED


# 10
class Frame:
    """What a table of another library looks like."""

    def __array__(self, dtype=None, copy=None):
        return np.ones((3, 2))


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (np.array(X).astype(object), ("`data` must hold numbers", "object", "np.asarray")),
        ((np.array(X).astype(str), Y), ("`data`[0] must hold numbers", "<U", "an encoder")),
        ((X, Frame()), ("`data`[1] must be an array", "a Frame", "np.asarray")),
    ],
)
def test_data_of_the_wrong_type_are_refused(data, parts):
    refused(lambda: problem_of(right, data=data), *parts)


def test_a_start_of_the_wrong_dtype_is_refused():
    refused(
        lambda: solve(problem_of(right), theta=jnp.zeros(3, int)),
        "`theta` must be a floating array",
        "convert it",
    )


def test_steps_of_an_optimiser_are_not_measured():
    algorithm = rsgda_with(alpha=optax.sgd(5.0), eta=optax.sgd(50.0))
    message = diverged(problem_of(right), algorithm)
    assert "overshoots" not in message
    assert "try a tenth" in message
