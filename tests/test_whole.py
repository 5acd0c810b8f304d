"""F over all samples, streamed, against the loss of all samples at once."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import rsgda
import rsgda.whole
from rsgda._trees import freeze
from rsgda.whole import whole

rng = np.random.default_rng(0)
ROWS = [3, 7, 8, 13]  # chunks of 4: none, with a remainder, without, a prime
KEY = jr.key(1)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(rsgda.whole, "CHUNK", 4)


def loss(theta, v, batch):
    x, y, weight = batch
    row = (jnp.tanh(v["z"] @ theta["p"]) - y) ** 2 - 1.5 * jnp.sum((v["z"] - x) ** 2, axis=1)
    return jnp.mean(weight * row)


def prepare(theta):
    return {"p": jnp.sin(theta)}


def made(n, separable, **options):
    """A problem with rows that weigh differently, its F by hand, a point and two directions."""
    data = rng.normal(size=(n, 3)), rng.normal(size=n), rng.uniform(0.1, 3.0, size=n)
    problem = rsgda.Problem(loss, data=data, batch_size=2, separable=separable, prepare=prepare)
    theta, a = (jnp.asarray(rng.normal(size=3)) for _ in range(2))
    rows = n if separable else 1
    v, u = ({"z": jnp.asarray(rng.normal(size=(rows, 3)))} for _ in range(2))
    return problem, lambda theta, v: loss(prepare(theta), v, data), (theta, v), (a, u)


def close(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13), ours, theirs
    )


@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize(
    "n", [ROWS[0], *(pytest.param(n, marks=pytest.mark.slow) for n in ROWS[1:])]
)
def test_all_rows_once(n, separable):
    problem, by_hand, at, along = made(n, separable)
    F = whole(problem)
    close(jax.jit(F.value)(*at), by_hand(*at))
    close(jax.jit(F.slope_v)(*at), jax.value_and_grad(by_hand, 1)(*at))
    close(jax.jit(F.slope_theta)(*at), jax.value_and_grad(by_hand)(*at))
    of_both = jax.grad(by_hand, (0, 1))
    close(jax.jit(F.product)(*at, along), jax.jvp(of_both, at, along)[1])
    still = jnp.zeros_like(along[0])
    close(jax.jit(F.product_v)(*at, along[1]), jax.jvp(of_both, at, (still, along[1]))[1][1])


@pytest.mark.parametrize("n", ROWS)
def test_each_row_by_itself(n):
    problem, by_hand, (theta, v), (_, u) = made(n, True)
    F = whole(problem)
    prepared = F.prepared(theta)

    def of_rows(both, rows, places):
        v, u = both
        values, slopes = jax.vmap(F.row_slope_v, (None, 0, 0))(prepared, v, rows)
        alone = jax.vmap(F.row_value, (None, 0, 0))(prepared, v, rows)
        bent = jax.vmap(F.row_product_v, (None, 0, 0, 0))(prepared, v, u, rows)
        return values, alone, slopes, bent, places

    values, alone, slopes, bent, places = F.over_rows(of_rows, (v, u))
    np.testing.assert_array_equal(places, np.arange(n))
    close(values, alone)
    single = [
        loss(prepare(theta), jax.tree.map(lambda x, i=i: x[i : i + 1], v),
             tuple(leaf[i : i + 1] for leaf in problem.data))
        for i in range(n)
    ]  # fmt: skip
    close(values, jnp.stack(single))
    share = lambda tree: jax.tree.map(lambda leaf: leaf / n, tree)  # noqa: E731
    close(share(slopes), jax.grad(by_hand, 1)(theta, v))
    close(share(bent), F.product_v(theta, v, u))


@pytest.mark.slow
def test_batches_of_a_sampler():
    toy = rsgda.problems.Toy(kinds="AB", kappa=4.0, s=0.3, t=0.5, rho=0.1, batch_size=3)
    theta, v = jnp.array([0.3, -1.0]), jnp.array([2.0, 0.7])
    F = whole(toy.problem, key=KEY, batches=5)

    def by_hand(theta, v):
        drawn = [toy.sample(jr.fold_in(KEY, i)) for i in range(5)]
        return sum(toy.sample_loss(theta, v, batch) for batch in drawn) / 5

    close(F.slope_v(theta, v), jax.value_and_grad(by_hand, 1)(theta, v))
    close(F.slope_theta(theta, v), jax.value_and_grad(by_hand)(theta, v))
    along = (jnp.array([1.0, 2.0]), jnp.array([-1.0, 0.5]))
    close(F.product(theta, v, along), jax.jvp(jax.grad(by_hand, (0, 1)), (theta, v), along)[1])


def test_a_module_with_settings():
    class Linear(eqx.Module):
        weight: jax.Array
        power: int

    def loss(theta, v):
        return jnp.sum(theta.weight**theta.power * v["v"]) - jnp.sum(v["v"] ** 2)

    theta = freeze(Linear(jnp.array([1.0, 2.0]), 3))
    v = freeze({"v": jnp.array([1.0, -1.0]), "name": "w"})
    F = whole(rsgda.Problem(loss))
    value, slope = jax.jit(F.slope_theta)(theta, v)
    assert value == 1 - 8 - 2
    close(slope.weight, jnp.array([3.0, -12.0]))
    # Of sum theta^3 v - v^2: the cross derivative is 3 theta^2, that in v twice is -2.
    of_theta, of_v = F.product(theta, v, (theta, v))
    close(of_v["v"], jnp.array([3.0 - 2, 24.0 + 2]))
    close(of_theta.weight, jnp.array([6.0 + 3, -24.0 - 12]))


@pytest.mark.parametrize(
    ("n", "chunk"), [(10, 10), (1024, 1024), (60_000, 1000), (1031, 1024), (2048, 1024)]
)
def test_chunks_are_equal_if_they_can_be(n, chunk, monkeypatch):
    monkeypatch.setattr(rsgda.whole, "CHUNK", 1024)
    problem = rsgda.Problem(loss, data=np.zeros(n), batch_size=5)
    assert whole(problem).chunk == chunk


def wide_loss(theta, v, x):
    return jnp.mean(jnp.tanh(x[:, None] * v) @ theta)


def test_memory_is_that_of_a_chunk(monkeypatch):
    monkeypatch.setattr(rsgda.whole, "CHUNK", 16)
    n, width = 16 * 64, 500
    F = whole(rsgda.Problem(wide_loss, data=np.ones(n), batch_size=2))
    at = (jnp.ones(width), jnp.ones(width))
    needed = jax.jit(F.product).lower(*at, at).compile().memory_analysis()
    assert needed.temp_size_in_bytes < n * width * 8 / 4  # all rows at once need more than four


def test_wrong_input():
    toy = rsgda.problems.Toy(t=0.5)
    with pytest.raises(ValueError, match=r"`key` must be given.*jax\.random\.key\(0\)"):
        whole(toy.problem)
    with pytest.raises(ValueError, match="`key` must be a single key of the new style"):
        whole(toy.problem, key=jr.PRNGKey(0))
    with pytest.raises(ValueError, match="`key` must be a single key"):
        whole(toy.problem, key=jr.split(KEY, 2))
    with pytest.raises(ValueError, match="`batches` must be a whole number"):
        whole(toy.problem, key=KEY, batches=0)
    with pytest.raises(ValueError, match=r"`problem` must be an rsgda\.Problem"):
        whole(toy)
