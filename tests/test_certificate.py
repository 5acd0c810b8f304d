"""Certificates against dense grids, a linear program over distributions, and attacks."""

import dataclasses
import functools
import sys
import types
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.optimize

from rsgda import robust
from rsgda.inner import ConcavityWarning
from rsgda.robust import inner_maxima

certificates = sys.modules["rsgda.robust.certificate"]  # `robust.certificate` is the function

N, CLASSES, BOX = 11, 3, (-1.5, 1.25)
X = np.random.default_rng(0).uniform(-1, 1, size=(N, 2)) * [1.0, 0.7]
Y = np.random.default_rng(1).integers(CLASSES, size=N)
GAMMAS = np.geomspace(0.3, 30, 25)
RHO = np.array([0.3, 0.0, 0.01, 0.08])  # in no order
SLOW = pytest.mark.slow


def network(seed=0, steepness=1.0):
    """A small network; of a steep one the logits are large."""
    made = robust.mlp((2, 6, CLASSES), key=jr.key(seed))
    return jax.tree.map(
        lambda leaf: leaf.astype(float) * steepness if eqx.is_array(leaf) else leaf, made
    )


@eqx.filter_jit
def logits(made, z):
    return jax.vmap(made)(z)


def losses(made, z, label, smoothing=0.0):
    """The smoothed cross-entropy in NumPy, at many points, for one label or one each."""
    a = np.asarray(logits(made, jnp.asarray(z)))
    target = (1 - smoothing) * np.eye(CLASSES)[label] + smoothing / CLASSES
    top = a.max(axis=1)
    return np.log(np.exp(a - top[:, None]).sum(axis=1)) + top - np.sum(a * target, axis=1)


def grid(low, high, points):
    side = np.linspace(low, high, points)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def apart(points):
    """Squared distances, samples by points."""
    return np.sum((X[:, None] - points) ** 2, axis=-1)


def weights(made):
    return [part for layer in made.layers for part in (layer.weight, layer.bias)]


@functools.cache
def certified(seed=0, steepness=1.0, gamma=tuple(GAMMAS), box=None, smoothing=0.0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcavityWarning)
        return robust.certificate(
            network(seed, steepness), X, Y, RHO, gamma=gamma, box=box,
            label_smoothing=smoothing, tol=1e-6,
        )  # fmt: skip


@SLOW
@pytest.mark.parametrize(
    ("steepness", "box", "smoothing"),
    [(1.0, None, 0.3), (1.0, None, 0.0), (1.3, BOX, 0.0)],
)
def test_the_inner_maximum_is_that_of_a_dense_grid(steepness, box, smoothing):
    found = certified(steepness=steepness, box=box, smoothing=smoothing)
    points = grid(*(box or (-4, 4)), 401)
    width = points[1, 0] - points[0, 0]
    on_grid = np.stack([losses(network(0, steepness), points, y, smoothing) for y in Y])
    for at in found.inner[::4]:
        best = np.max(on_grid - at.gamma * apart(points), axis=1)
        known = at.certified
        assert np.all(best[known] <= (at.values + at.gaps)[known] + 1e-12)
        # The objective is smooth: the grid misses a quarter of its curvature times width^2.
        np.testing.assert_allclose(at.values[known], best[known], atol=(at.gamma + 2) * width**2)
        assert at.gap == pytest.approx(np.mean(np.where(known, at.gaps, 0)))
        assert at.phi == pytest.approx(np.mean(at.values))
    assert found.inner[-1].share == 1
    clean = np.mean(losses(network(0, steepness), X, Y, smoothing))
    assert found.clean == pytest.approx(clean, rel=1e-12)


def worst_case(made, rho, points):
    """The largest mean loss of a distribution on some points, by linear programming."""
    cost = apart(points)
    gain = np.stack([losses(made, points, label) for label in Y])
    n, k = cost.shape
    marginals = np.kron(np.eye(n), np.ones(k))
    solved = scipy.optimize.linprog(
        -gain.ravel(), A_ub=cost.reshape(1, -1), b_ub=[rho], A_eq=marginals, b_eq=np.full(n, 1 / n)
    )
    assert solved.status == 0
    return -solved.fun


@SLOW
def test_no_distribution_is_worse_and_one_is_as_bad():
    """Strong duality, with the worst case from a solver that knows nothing of it."""
    found = certified(steepness=1.3, box=BOX)
    points = np.concatenate([X, grid(*BOX, 31)])
    assert found.share == 1
    for rho, bound in zip(RHO, found.bound, strict=True):
        worst = worst_case(network(0, 1.3), rho, points)
        assert worst <= bound + 1e-9
        assert worst > found.clean or rho == 0
        # What is left is that gammas and points are some of all.
        assert bound - worst <= (1e-9 if rho == 0 else 0.12) * worst


@SLOW
def test_of_several_gammas_the_best_is_taken():
    found, moves = certified(), RHO > 0
    sure = [at for at in found.inner if at.share == 1]
    table = np.array([[at.gamma * rho + at.phi + at.gap for at in sure] for rho in RHO])
    np.testing.assert_allclose(found.bound[moves], table.min(axis=1)[moves], rtol=1e-12)
    gammas = [sure[i].gamma for i in table.argmin(axis=1)]
    np.testing.assert_array_equal(found.gamma[moves], np.array(gammas)[moves])
    assert found.gamma[0] < found.gamma[2] < found.gamma[1] == np.inf
    # Where nothing moves no penalty is needed.
    assert found.bound[1] == found.clean
    alone = certified(gamma=(sure[3].gamma,))
    np.testing.assert_allclose(alone.bound[moves], table[moves, 3], rtol=1e-9)
    assert np.all(np.diff(found.bound[np.argsort(RHO)]) > 0)


@SLOW
def test_gammas_that_certify_fewer_samples_have_no_part():
    """A smaller gamma has the smaller bound, and it can be wrong."""
    rho, made = 3.0, network(3, 2.0)
    found = robust.certificate(made, X, Y, rho, gamma=GAMMAS[3:9], tol=1e-6)
    shares = np.array([at.share for at in found.inner])
    bounds = np.array([at.gamma * rho + at.phi + at.gap for at in found.inner])
    assert 0 < np.min(shares[1:]) < 1 == found.share
    assert found.bound == pytest.approx(np.min(bounds[shares == 1]), rel=1e-12)
    assert np.min(bounds) < found.bound - 0.1
    with pytest.warns(ConcavityWarning, match="An estimate that can be too small"):
        low = robust.certificate(made, X, Y, rho, gamma=GAMMAS[2:5], tol=1e-6)
    assert low.gamma == low.inner[-1].gamma
    assert 0 < low.share == low.inner[-1].share < 1
    assert f"only {round(low.share * N)} of {N} samples are certified" in low.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "steepness"),
    [pytest.param(0, 0.2, marks=SLOW), (0, 1.0), pytest.param(3, 6.0, marks=SLOW)],
)
def test_gammas_are_found(seed, steepness):
    """As good as those given of which the half is certified, up to what lies between doublings."""
    certified(seed, steepness, gamma=(1.3,))
    compiled = inner_maxima._maxima._cache_size()
    found = certified(seed, steepness, gamma=None)
    assert found.share == 1
    assert inner_maxima._maxima._cache_size() == compiled  # one program for all gammas
    given = certified(seed, steepness, gamma=tuple(np.geomspace(0.01, 300, 25)))
    sure = [at for at in given.inner if at.share == 1]
    safe = [at for at in sure if at.gamma >= 2 * sure[0].gamma]
    least = np.min([at.gamma * RHO + at.phi + at.gap for at in safe], axis=0) - found.clean
    moves = RHO > 0
    assert np.all((found.bound - found.clean)[moves] <= 1.3 * least[moves] + 1e-9)
    assert certified(seed, steepness, gamma=(found.inner[0].gamma / 2,)).share == 1
    assert len(found.inner) < 20
    assert np.all(np.diff([at.gamma for at in found.inner]) > 0)


@pytest.mark.slow
def test_a_search_that_finds_nothing_says_so(monkeypatch):
    monkeypatch.setattr(certificates, "DOUBLINGS", 1)
    found = certified(3, 20.0, gamma=None)
    assert [at.gamma for at in found.inner] == [1.3, 2.6]
    assert found.share < 1
    assert found.message.startswith("An estimate that can be too small, as concavity fails: ")


def test_it_is_tight_where_the_maximisers_are():
    """At rho_hat moving every sample to its maximiser attains the bound."""
    made, at = network(), certified().inner[8]
    assert at.share == 1
    moved = robust.wrm_attack(made, X, Y, gamma=at.gamma, key=jr.key(0), steps=300)
    cost = np.mean(np.sum((np.asarray(moved) - X) ** 2, axis=1))
    reached = np.mean(losses(made, moved, Y))
    assert cost == pytest.approx(at.rho_hat, rel=1e-2)
    assert reached == pytest.approx(at.attained, rel=1e-3)
    assert at.gamma * at.rho_hat + at.phi == pytest.approx(at.attained, rel=1e-12)
    attack = robust.transport_attack(
        made, X, Y, at.rho_hat, key=jr.key(0), gammas=[at.gamma, at.gamma / 1.05], steps=300
    )
    bound = at.gamma * at.rho_hat + at.phi + at.gap
    assert bound - 1e-3 * (bound - attack.clean) < attack.loss <= bound


@pytest.mark.parametrize(
    ("seed", "steepness", "box"),
    [
        (0, 1.0, None),
        pytest.param(0, 1.3, BOX, marks=SLOW),
        (1, 1.6, None),
        pytest.param(2, 3.0, None, marks=SLOW),
        pytest.param(3, 6.0, None, marks=SLOW),
        pytest.param(4, 2.0, BOX, marks=SLOW),
    ],
)
def test_no_attack_exceeds_it(seed, steepness, box):
    """The curve where all samples are certified, and each certified sample by itself."""
    made, found = network(seed, steepness), certified(seed, steepness, box=box)
    key = jr.key(7)
    attack = robust.transport_attack(
        made, X, Y, RHO, key=key, gammas=GAMMAS[::4], radii=[0.1, 0.4, 1.2], box=box, restarts=2
    )
    sure = certified(seed, steepness, gamma=None, box=box)
    assert sure.share == 1
    assert np.all(attack.loss <= sure.bound + 1e-12)
    assert np.all(attack.loss >= found.clean - 1e-12)
    tried = [
        robust.pgd(made, X, Y, radius=radius, key=key, norm=norm, box=box, restarts=2)
        for norm, radius in [("l2", 0.1), ("l2", 0.5), ("l2", 1.5), ("l2", 4.0), ("linf", 0.4)]
    ]
    tried += [robust.wrm_attack(made, X, Y, gamma=g, key=key, box=box) for g in (0.1, 1.0, 9.0)]
    for z in map(np.asarray, tried):
        each = losses(made, z, Y)
        moved = np.sum((z - X) ** 2, axis=1)
        for at in found.inner:
            over = each - at.gamma * moved - (at.values + at.gaps)
            assert np.all(over[at.certified] <= 1e-10)


@pytest.mark.slow
def test_the_share_is_said_where_gamma_is_too_small():
    """For some labels the objective is not concave; a grid knows for which."""
    steep = 2.0
    found = certified(3, steep)
    shares = np.array([at.share for at in found.inner])
    assert np.any((shares > 0) & (shares < 1))
    points = grid(-4, 4, 401)
    on_grid = np.stack([losses(network(3, steep), points, y) for y in Y])
    assert np.all(np.diff(shares) >= 0)
    for at in found.inner[:9]:
        value = on_grid - at.gamma * apart(points)
        side = value.reshape(N, 401, 401)
        # Concave along an axis everywhere: what a certificate takes for granted.
        bent = np.any(np.diff(side, 2, axis=1) > 1e-9, axis=(1, 2))
        bent |= np.any(np.diff(side, 2, axis=2) > 1e-9, axis=(1, 2))
        assert np.all(value.max(axis=1)[at.certified] <= (at.values + at.gaps)[at.certified] + 1e-9)
        assert np.all(at.certified[~bent])
        assert at.rest == pytest.approx(np.mean(np.where(at.certified, 0, at.values)))
    low = certified(3, steep, gamma=(float(GAMMAS[0]),))
    assert low.share == low.inner[0].share < 1
    count = round(low.share * N)
    assert f"only {count} of {N} samples" in low.message or f"none of the {N}" in low.message
    # The retraction comes first.
    assert low.message.startswith("An estimate")
    assert "is estimated to be at most" in low.message
    sure = certified(gamma=(float(GAMMAS[-1]),)).message
    assert "estimate" not in sure
    assert "wherever it was looked at" in sure
    assert "not proved" in sure


def test_a_maximum_beyond_a_far_boundary_is_not_missed():
    """The loss is zero around most samples, where all looks concave, and steep from x_0 = 1 on."""
    confident = eqx.tree_at(
        weights,
        network(),
        [
            jnp.zeros((6, 2)).at[0, 0].set(1.0),
            jnp.asarray(np.full(6, 50.0)),  # x_0 + 50, where ELU is linear
            jnp.zeros((3, 6)).at[0, 0].set(-40.0),
            jnp.array([40.0 * 51, 0.0, -100.0]),
        ],
    )
    labels = np.zeros(N, int)
    np.testing.assert_allclose(
        losses(confident, X, 0), np.logaddexp(0, 40 * (X[:, 0] - 1)), atol=1e-10
    )
    assert np.median(losses(confident, X, 0)) < 1e-8
    with pytest.warns(ConcavityWarning, match="as concavity fails"):
        found = robust.certificate(confident, X, labels, 0.1, gamma=2.0, tol=1e-6)
    # Ten further the slope 40 is that of the penalty.
    exact = 40 * (X[:, 0] + 10 - 1) - 2 * 10**2
    np.testing.assert_allclose(found.inner[0].values, exact, rtol=1e-6)
    assert not found.inner[0].certified.any()


class Peaked(eqx.Module):
    """Two logits that are linear but for a narrow peak."""

    weight: jax.Array
    bias: jax.Array
    height: jax.Array
    width: jax.Array

    def __call__(self, z):
        far = jnp.sum((z - jnp.array([2.0, 0.0])) ** 2)
        up = self.height * jnp.exp(-far / (2 * self.width**2))
        return self.weight @ z + self.bias + up * jnp.array([-1.0, 1.0])


WEIGHT = np.random.default_rng(4).normal(size=(2, 2)) * [1.7, 0.6]
UP = WEIGHT[1] - WEIGHT[0]
CURVATURE = UP @ UP / 4  # as that of the logistic loss is at most 1/4
LINEAR = Peaked(jnp.asarray(WEIGHT), jnp.zeros(2), jnp.asarray(0.0), jnp.asarray(1.0))


def linear_phi(gamma):
    """The inner maximum of each sample, along the one direction that matters, by a grid."""
    signs = np.where(Y % 2 == 0, 1, -1)
    s = np.linspace(-1, 6, 200_001)
    gain = np.logaddexp(0, (signs * (X @ UP))[:, None] + s * np.linalg.norm(UP))
    return np.max(gain - gamma * s**2, axis=1)


@pytest.mark.slow
def test_a_known_curvature_makes_a_proof():
    """For logits that are linear the constant and the inner maximum are known."""
    gammas = CURVATURE / 2 * np.array([1.001, 1.5, 8.0])
    found = robust.certificate(LINEAR, X, Y % 2, RHO, gamma=gammas, curvature=CURVATURE, tol=1e-7)
    assert [at.share for at in found.inner] == [1, 1, 1]
    assert (found.share, found.curvature) == (1, CURVATURE)
    for at in found.inner:
        exact = linear_phi(at.gamma)
        assert np.all(at.values <= exact + 1e-7)
        assert np.all(exact <= at.values + at.gaps + 1e-12)
        assert np.all(at.gaps < 1e-6)
    assert "This is proved" in found.message
    assert f"{CURVATURE:g}, as given" in found.message
    own = robust.certificate(LINEAR, X, Y % 2, RHO, curvature=CURVATURE)
    assert all(2 * at.gamma > CURVATURE for at in own.inner)
    assert own.share == 1
    assert np.all(own.bound <= 1.02 * found.bound)


def test_a_gamma_too_small_for_the_curvature_certifies_nothing():
    """Although all that was looked at is concave."""
    with pytest.warns(ConcavityWarning, match="as 2 gamma is no more than `curvature`: none of"):
        low = robust.certificate(network(), X, Y, 0.1, gamma=3.0, curvature=6.0, tol=1e-6)
    assert low.share == 0
    assert certified(gamma=(3.0,)).share == 1


def test_a_curvature_that_is_exceeded_is_refused():
    with pytest.raises(ValueError, match=r"`curvature` must be what .* but one of .* was seen"):
        robust.certificate(LINEAR, X, Y % 2, 0.1, gamma=CURVATURE, curvature=CURVATURE / 2)


def test_one_rho_gives_numbers():
    found = robust.certificate(network(), X, Y, 0.1, gamma=3.0, tol=1e-6)
    assert np.ndim(found.bound) == np.ndim(found.gamma) == np.ndim(found.rest) == 0
    assert (found.n, found.gamma, found.share) == (N, 3.0, 1)
    assert f"3 rho + {found.inner[0].phi + found.inner[0].gap:.6g}" in found.message


@pytest.mark.slow
def test_what_fails_at_a_gamma_fails_at_all_smaller_ones():
    for seed, steepness in ((3, 2.0), (1, 1.6)):
        found = certified(seed, steepness)
        table = np.array([at.certified for at in found.inner])
        assert np.all(np.diff(table.astype(int), axis=0) >= 0)
        assert 0 < table.mean() < 1


def test_a_point_counts_whichever_gamma_found_it():
    """Every maximiser is a point for every other gamma: no value there is larger."""
    made, found = network(3, 2.0), certified(3, 2.0)
    for one in found.inner[::3]:
        z = np.asarray(robust.wrm_attack(made, X, Y, gamma=one.gamma, key=jr.key(3), steps=60))
        each, moved = losses(made, z, Y), np.sum((z - X) ** 2, axis=1)
        for at in found.inner:
            over = each - at.gamma * moved - at.values - np.where(at.certified, at.gaps, 0)
            assert np.all(over[at.certified] <= 1e-9)


def attack_of(cost, reached):
    return types.SimpleNamespace(cost=np.array([0.0, cost]), reached=np.array([0.0, reached]))


def test_an_attack_takes_away_what_it_contradicts():
    found = certified()
    sure = [at for at in found.inner if at.share == 1]
    kept, cost = sure[4], 0.05
    bounds = [at.gamma * cost + at.phi + at.gap for at in sure]
    assert found.against(attack_of(cost, min(bounds) - 1e-4)) is found
    # Above some gammas, of which the largest takes all smaller ones with it.
    height = np.sort(bounds)[3] - 1e-4
    over = max(at.gamma for at, bound in zip(sure, bounds, strict=True) if bound < height)
    left = found.against(attack_of(cost, height))
    assert left.share == 1
    assert all(at.share == (at.gamma > over) for at in left.inner)
    assert np.all(left.bound >= found.bound)
    assert np.any(left.bound > found.bound)
    assert kept.share == 1  # what was there is as it was
    nothing = found.against(attack_of(cost, max(bounds) + 1))
    assert nothing.share == 0
    assert nothing.message.startswith("An estimate that can be too small")


def test_an_attack_above_a_proof_refutes_the_constant():
    proved = dataclasses.replace(certified(), curvature=1.0)
    with pytest.raises(ValueError, match=r"`curvature` must be what .* rules out"):
        proved.against(attack_of(0.1, 1e3))
