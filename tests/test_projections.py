"""Projections: against a solver of the nearest-point problem, and what a projection must keep."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.optimize import LinearConstraint, NonlinearConstraint, minimize

from rsgda.projections import ball, box, simplex, zero_sum_ball

PROJECTIONS = [
    zero_sum_ball(1.5),
    ball(0.7),
    ball(0.7, rows=True),
    box(-0.2, 0.9),
    simplex(),
    simplex(2.5),
]
EPS = np.finfo(np.float64).eps


def tree_of(x):
    """Twelve numbers as leaves of unlike shapes that share their leading axis."""
    return {"a": x[:9].reshape(3, 3), "b": (x[9:].reshape(3, 1),)}


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def row_norms(tree):
    return np.linalg.norm(np.concatenate([tree["a"], tree["b"][0]], axis=1), axis=1)


def constraints(project):
    """What V demands of the twelve numbers, for SciPy: constraints, then bounds."""
    name = repr(project).partition("(")[0]
    total = np.ones((1, 12))
    if name == "zero_sum_ball":
        return [
            LinearConstraint(total, 0.0, 0.0),
            NonlinearConstraint(lambda y: y @ y, -np.inf, project.beta**2, jac=lambda y: 2 * y),
        ], None
    if name == "ball":
        groups = np.ones((1, 12))
        if project.rows:
            groups = np.array(
                [[i // 3 == k if i < 9 else i - 9 == k for i in range(12)] for k in range(3)]
            )
        bound = NonlinearConstraint(
            lambda y: groups @ (y * y), -np.inf, project.radius**2, jac=lambda y: 2 * groups * y
        )
        return [bound], None
    if name == "box":
        return [], [(project.lower, project.upper)] * 12
    return [LinearConstraint(total, project.scale, project.scale)], [(0.0, None)] * 12


@pytest.mark.parametrize("project", PROJECTIONS, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_nearest_point_of_the_set(project, seed):
    x = np.asarray(jr.normal(jr.key(seed), (12,))) * [0.3, 1.0, 4.0][seed] + 0.2
    wanted, bounds = constraints(project)
    start = 0.1 * x  # not 0, where the gradient of a norm constraint vanishes
    nearest = minimize(
        lambda y: 0.5 * np.sum((y - x) ** 2),
        start,
        jac=lambda y: y - x,
        method="SLSQP",
        constraints=wanted,
        bounds=bounds,
        options={"ftol": 1e-12, "maxiter": 500},
    )
    # SLSQP may report that it cannot improve any more; how near it came is what counts.
    np.testing.assert_allclose(flat(project(tree_of(jnp.asarray(x)))), nearest.x, atol=1e-6)


@pytest.mark.parametrize("project", PROJECTIONS, ids=repr)
@pytest.mark.parametrize("seed", range(1))
def test_obtuse_angle_towards_every_point_of_the_set(project, seed):
    # <x - Px, z - Px> <= 0 for all z in V is what makes Px the nearest point, to rounding.
    x = tree_of(3.0 * jr.normal(jr.key(seed), (12,)))
    inside = jax.vmap(lambda key: project(tree_of(2.0 * jr.normal(key, (12,)))))
    points = np.asarray(
        jax.vmap(lambda tree: jnp.concatenate([tree["a"].ravel(), tree["b"][0].ravel()]))(
            inside(jr.split(jr.key(seed + 10), 500))
        )
    )
    nearest = flat(project(x))
    assert np.max((points - nearest) @ (flat(x) - nearest)) <= 200 * EPS


@pytest.mark.parametrize("project", PROJECTIONS, ids=repr)
def test_result_lies_in_the_set_and_stays(project):
    once = project(tree_of(5.0 * jr.normal(jr.key(1), (12,))))
    y = flat(once)
    if hasattr(project, "beta"):
        assert abs(y.sum()) <= 30 * EPS
        assert np.linalg.norm(y) == pytest.approx(project.beta, rel=4 * EPS)
    elif hasattr(project, "rows"):
        norms = row_norms(once) if project.rows else np.linalg.norm(y)
        np.testing.assert_allclose(norms, project.radius, rtol=4 * EPS)
    elif hasattr(project, "scale"):
        assert y.min() == 0.0
        assert y.sum() == pytest.approx(project.scale, rel=10 * EPS)
    else:
        assert (y.min(), y.max()) == (project.lower, project.upper)
    np.testing.assert_allclose(flat(project(once)), y, rtol=0, atol=10 * EPS)


def test_points_inside_a_ball_are_left_alone_bit_for_bit():
    x = tree_of(0.01 * jr.normal(jr.key(2), (12,)))
    assert np.array_equal(flat(ball(1.0)(x)), flat(x))
    assert np.array_equal(flat(ball(1.0, rows=True)(x)), flat(x))


@pytest.mark.parametrize("project", PROJECTIONS, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zero_has_an_image_and_a_derivative(project, dtype):
    zero = jnp.zeros((3, 4), dtype)
    wanted = 1.0 / 12 * project.scale if hasattr(project, "scale") else 0.0
    np.testing.assert_allclose(project(zero), wanted, rtol=1e-6)
    slope = jax.jvp(project, (zero,), (jnp.ones_like(zero),))[1]
    # Along (1, ..., 1) the sets with a fixed sum do not move, the others move along.
    still = "zero_sum" in repr(project) or "simplex" in repr(project)
    np.testing.assert_allclose(slope, 0.0 if still else 1.0, atol=1e-6)


@pytest.mark.parametrize("radius", [1e-30, 1e30])
def test_extreme_radii_neither_underflow_nor_overflow_in_float32(radius):
    direction = jnp.array([0.6, -0.8], jnp.float32)
    for project in (ball(radius), ball(radius, rows=True)):
        image = project(jnp.stack([0.0 * direction, direction * (4.0 * radius)])[1:])
        np.testing.assert_allclose(image[0] / radius, direction, rtol=1e-6)
        assert np.array_equal(project(0.0 * direction[None]), np.zeros((1, 2)))


@pytest.mark.parametrize("project", PROJECTIONS, ids=repr)
def test_structure_shapes_and_dtypes_are_kept(project):
    # One leaf of each width: neither may be widened, and strict promotion must not object.
    tree = tree_of(jr.normal(jr.key(3), (12,)))
    tree = {"a": tree["a"].astype("float32"), "b": tree["b"]}
    for image in (project(tree), jax.jit(project)(tree)):
        assert jax.tree.map(jax.typeof, image) == jax.tree.map(jax.typeof, tree)
    wide = {"a": tree["a"].astype("float64"), "b": tree["b"]}
    np.testing.assert_allclose(flat(project(tree)), flat(project(wide)), atol=3e-7)


def test_rows_are_projected_by_themselves():
    x = jnp.array([[3.0, 4.0], [0.3, 0.4], [-6.0, 8.0]])
    y = ball(1.0, rows=True)({"x": x})["x"]
    np.testing.assert_allclose(y, [[0.6, 0.8], [0.3, 0.4], [-0.6, 0.8]], rtol=4 * EPS)


def test_leaves_are_one_vector():
    y = ball(1.0)([jnp.array([3.0]), jnp.array([[-4.0]])])
    np.testing.assert_allclose(flat(y), [0.6, -0.8], rtol=4 * EPS)
    y = zero_sum_ball(10.0)([jnp.array([3.0]), jnp.array([[0.0], [0.0]])])
    np.testing.assert_allclose(flat(y), [2.0, -1.0, -1.0], rtol=4 * EPS)


def test_box_may_be_open_on_a_side():
    x = jnp.array([-1e9, 0.0, 1e9])
    assert box(-np.inf, 1.0)(x).tolist() == [-1e9, 0.0, 1.0]
    assert box(0.0, np.inf)(x).tolist() == [0.0, 0.0, 1e9]


def test_equal_projections_are_compiled_once():
    traces = []

    def apply(project, x):
        traces.append(project)
        return project(x)

    compiled = jax.jit(apply, static_argnums=0)
    for project in (ball(2), ball(2.0), ball(np.float32(2.0)), ball(jnp.asarray(2.0))):
        compiled(project, jnp.ones(3))
    assert len(traces) == 1
    assert ball(2.0) == ball(2)
    assert ball(2.0) != ball(2.0, rows=True)
    assert ball(2.0) != zero_sum_ball(2.0)
    assert len({zero_sum_ball(2.0), zero_sum_ball(2), zero_sum_ball(3.0)}) == 2


def test_repr_is_the_call():
    for project in PROJECTIONS:
        assert eval(repr(project)) == project


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: zero_sum_ball(0.0), r"`beta` must be a positive finite number, got 0\.0"),
        (lambda: ball(-1.0), r"`radius` must be a positive finite number, got -1\.0"),
        (lambda: ball(np.nan), r"`radius` must be a positive finite number, got nan"),
        (lambda: ball("1"), r"`radius` must be a number, got '1'"),
        (lambda: ball(1.0, rows=2), r"`rows` must be True or False, got 2"),
        (lambda: simplex(np.inf), r"`scale` must be a positive finite number, got inf"),
        (lambda: box(1.0, 0.0), r"`upper` must be at least `lower` = 1\.0, got 0\.0"),
        (lambda: box(0.0, np.nan), r"`upper` must be at least `lower` = 0\.0, got nan"),
        (lambda: box(np.nan, 0.0), r"`lower` must be a number below infinity, got nan"),
        (lambda: box(None, 0.0), r"`lower` must be a number, got None"),
    ],
)
def test_wrong_numbers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
