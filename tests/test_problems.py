"""Ready-made problems: other units are other units only, and merits are what they say."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import rsgda
from rsgda import problems, projections
from rsgda._trees import freeze, is_float_array
from rsgda.problems import Toy, rescaled

A, B, C = 4.0, 0.125, 32.0  # powers of two: other units then round alike, bit for bit
CHEAP = ["toy-D-30-noisy", "groups-diabetes", "wrm-wine-10", "matching-50-eps0.1-scale10"]
REST = [name for name in problems.names() if name not in CHEAP]


def arrays(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree) if is_float_array(leaf)]


# Other units.


def toy():
    made = Toy(kinds="AB", kappa=5.0, s=0.2, t=0.2, rho=0.1)
    return made.problem, *made.start("float32")


def in_sets():
    made = Toy(kinds="BB", kappa=5.0, s=0.5)
    problem = rsgda.Problem(
        made.sample_loss, sample=made.sample, project_v=projections.box(-0.25, 0.25),
        project_theta=projections.ball(1.0),
    )  # fmt: skip
    return problem, jnp.array([0.5, -0.5], "float32"), jnp.zeros(2, "float32")


def separable(per_batch=False):
    X = jr.normal(jr.key(0), (12, 3), "float32")
    network = rsgda.robust.mlp((3, 4, 2), key=jr.key(1))
    box = None if per_batch else (-4.0, 4.0)
    return rsgda.robust.wrm(
        network, X, np.arange(12) % 2, batch_size=4, box=box, per_batch=per_batch
    )


def restarting():
    return separable(per_batch=True)


def prepared():
    x = jr.normal(jr.key(0), (16, 2), "float32")
    network = rsgda.transport.mlp((3, 4, 2), key=jr.key(1))
    y = jr.normal(jr.key(2), (6, 3), "float32")
    return rsgda.transport.matching(x, y, network, epsilon=0.5, batch_size=4, beta=2.0)


def run(problem, theta, v, a=1.0, b=1.0, c=1.0):
    """Run in units a, b and c, with the steps that belong to them."""
    algorithm = rsgda.RSGDA(p=0.5, alpha=0.05 * a**2 / c, eta=0.5 * b**2 / c)
    return rsgda.solve(problem, algorithm, theta, v, key=jr.key(3), steps=40)


@pytest.mark.parametrize("make", [toy, in_sets, separable, restarting, prepared])
def test_a_run_in_other_units_is_the_same_run(make):
    problem, theta, v = make()
    usual = run(problem, theta, v)
    other = rescaled(problem, theta, v, scale_theta=A, scale_v=B, scale_loss=C)
    there = run(*other, A, B, C)
    for mine, its, began, unit in (
        (usual.theta, there.theta, theta, A), (usual.v, there.v, v, B)
    ):  # fmt: skip
        for x, y in zip(arrays(mine), arrays(its), strict=True):
            if problem.prepare is None:
                assert np.array_equal(unit * x, y)
            # The compiler multiplies and adds in one here and in two there.
            np.testing.assert_allclose(unit * x, y, rtol=0, atol=1e-4 * np.abs(y).max())
        moves = [np.abs(x - y).max() for x, y in zip(arrays(mine), arrays(began), strict=True)]
        assert max(moves) > 1e-3  # it is a run that went somewhere


def test_steps_that_do_not_belong_to_the_units_are_another_run():
    problem, theta, v = toy()
    other = run(*rescaled(problem, theta, v, scale_theta=A), 1.0)
    assert not np.allclose(run(problem, theta, v).theta, other.theta / A)


def test_ready_made_units_are_compiled_once():
    made = [rescaled(*toy(), scale_theta=a, scale_v=1 / a) for a in (2.0, 3.0)]
    trees = [jax.tree.structure(problem) for problem, _, _ in made]
    assert trees[0] == trees[1]


@pytest.mark.parametrize("name", ["scale_theta", "scale_v", "scale_loss"])
def test_a_scale_is_positive(name):
    with pytest.raises(ValueError, match=f"`{name}` must be a positive"):
        rescaled(*toy(), **{name: -1.0})
    with pytest.raises(ValueError, match=r"must be an rsgda\.Problem"):
        rescaled(None, None, None)


# Tasks.


def check(name):
    task = problems.task(name)
    batch = task.problem.draw(jr.key(0))
    theta, v = freeze(task.theta), freeze(task.v)
    seen = task.problem.look(v, batch)
    slope_theta = task.problem.slope_theta(theta, seen, batch)[1]
    slope_v = jax.grad(lambda v: task.problem.value(theta, v, batch))(seen)
    for slope, nothing in ((slope_theta, False), (slope_v, name.startswith("wrm"))):
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slope))
        assert nothing or any(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(slope))
    project = task.problem.project_v
    if project is not None:
        np.testing.assert_allclose(project(task.v), task.v, rtol=1e-6)
    start = float(jax.jit(lambda merit: merit(task.theta, task.v))(task.merit))
    assert np.isfinite(start)
    assert start > task.floor
    assert task.name == name
    assert task.gradients >= 300


@pytest.mark.parametrize("name", CHEAP)
def test_a_task_can_be_run(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_each_task_can_be_run(name):
    check(name)


def test_tasks_have_names():
    names = problems.names()
    assert len(names) == len(set(names)) == 43
    with pytest.raises(ValueError, match=r"must be one of rsgda\.problems\.names\(\), got 'toy'"):
        problems.task("toy")


def test_toys_have_units_of_their_own_at_all_times():
    from rsgda.problems import toys

    units = [toys.units(name) for name in toys.names()]
    assert units == [toys.units(name) for name in toys.names()]
    powers = np.log10(units)
    assert len(np.unique(powers)) == powers.size
    assert np.all(np.abs(powers) <= 2)
    assert powers.min() < -1.5
    assert powers.max() > 1.5


def test_a_toy_merit_is_phi_and_the_gap_to_it():
    from rsgda.problems import toys

    name = "toy-ABC-30-noisy"
    task, usual = problems.task(name), toys.toy_of("ABC", 30, "noisy")
    a, b, _ = toys.units(name)
    theta, v = jnp.array([0.3, -1.0, 2.0]), jnp.array([0.5, 0.1, -3.0])
    closed = 2 * usual.phi(theta) - usual.loss(theta, v)
    assert closed > usual.phi(theta)
    np.testing.assert_allclose(task.merit(a * theta, b * v), closed, rtol=1e-10)
    # In the tail, phi alone praises a theta that has run away; the merit does not.
    tail = toys.ToyMerit(toys.toy_of("D", 5, "exact"))
    near, far = jnp.array([1.0]), jnp.array([1e4])
    assert tail.toy.phi(far) < tail.toy.phi(near)
    assert tail(far, jnp.zeros(1)) > tail(near, jnp.zeros(1))


@pytest.mark.slow
def test_the_worst_mix_of_groups_is_the_certified_maximum():
    task = problems.task("groups-diabetes")
    found = rsgda.phi(task.problem, task.theta, task.v, tol=1e-5)
    merit = float(task.merit(task.theta, None))
    assert found.certified
    assert found.value - 1e-5 <= merit <= found.value + found.gap + 1e-5


@pytest.mark.slow
def test_the_robust_loss_is_the_certified_maximum():
    task = problems.task("wrm-wine-1")  # small enough for the merit to look at all rows
    found = rsgda.phi(task.problem, task.theta, task.v, tol=1e-5)
    merit = float(jax.jit(lambda merit: merit(task.theta, None))(task.merit))
    assert found.certified
    assert found.value - 1e-5 <= merit <= found.value + found.gap + 1e-5
    assert merit > float(rsgda.whole.whole(task.problem).value(task.theta, task.v)) + 1e-3


def test_the_distance_is_that_of_sinkhorn():
    task = problems.task("matching-50-eps1-scale1")
    merit = task.merit
    made = jax.vmap(task.theta)(merit.y)
    found = rsgda.transport.sinkhorn(merit.x, made, epsilon=1.0, tol=1e-4)
    value = float(jax.jit(lambda merit: merit(task.theta, None))(merit))
    np.testing.assert_allclose(value, found.value, rtol=2e-3)
    turned = dataclasses.replace(merit, y=-merit.y)  # other points are at another distance
    assert abs(float(turned(task.theta, None)) - value) > 0.01


def test_a_network_may_make_either_side():
    from rsgda.problems.transport import Distance

    x, y = jr.normal(jr.key(0), (2, 20, 3), "float32")
    still = eqx.nn.Identity()
    sides = [Distance(x, y, jnp.float32(0.5), maps=maps)(still, None) for maps in "xy"]
    np.testing.assert_allclose(*sides, rtol=1e-6)
