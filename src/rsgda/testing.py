"""The contract that every algorithm passes, the library's own and a user's."""

import dataclasses
import tempfile
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from rsgda import projections
from rsgda._trees import PyTree, freeze_numbers, thaw
from rsgda.drive.result import Status, shown
from rsgda.drive.solve import solve
from rsgda.drive.sweep import sweep
from rsgda.moves import Info, State
from rsgda.problem import Problem

STEPS = 24


class ContractError(AssertionError):
    """An algorithm does not do what every algorithm must do."""


def check_algorithm(algorithm: Any) -> None:
    """Put an algorithm through the contract; raise `ContractError` at the first breach.

    The steps should suit problems of size one: an alpha of 0.02 and an eta of 0.2, say.

    >>> import rsgda
    >>> check_algorithm(rsgda.RSGDA(p=0.4, alpha=0.02, eta=0.2))

    Source: none in the paper; `CONTRACT` lists the single checks.
    """
    for check in CONTRACT:
        check(algorithm)


def check_protocol(algorithm: Any) -> None:
    """`init` and `step` return the same kind of State, and an Info with what was spent."""
    problem, theta, v = _linear()
    state = algorithm.init(problem, theta, v, jr.key(0))
    _must(isinstance(state, State), f"`init` must return an rsgda.State, got {type(state)}")
    _must(int(state.step) == 0, f"`init` must return step 0, got {state.step}")
    new, info = jax.jit(lambda state: algorithm.step(problem, state))(state)
    _must(isinstance(new, State), f"`step` must return an rsgda.State first, got {type(new)}")
    _must(isinstance(info, tuple), f"`step` must return an Info second, got {type(info)}")
    _must(_avals(new) == _avals(state), "`step` must keep structure, shapes and dtypes of State")
    _must(int(new.step) == 1, f"`step` must count itself once, got {new.step}")
    for name in Info._fields:
        spent = int(getattr(new, name)) - int(getattr(state, name))
        _must(hasattr(info, name), f"Info must have `{name}`")
        told = int(getattr(info, name))
        _must(spent == told, f"Info says {told} {name}, State counts {spent}")


def check_trees(algorithm: Any) -> None:
    """Theta and v may be any pytrees: dicts, tuples, Equinox modules with functions in them."""
    import equinox as eqx

    network = eqx.nn.MLP(3, 2, 4, 1, activation=jax.nn.tanh, key=jr.key(1))
    adversary = eqx.nn.Linear(3, 3, key=jr.key(2))
    data = _rows(20, 3)
    starts = [
        ({"w": jnp.ones((3, 2)), "b": (jnp.zeros(2),)}, [jnp.zeros(3), {"c": jnp.zeros(())}]),
        (network, (adversary, "a name", 3, None)),
    ]
    for theta, v in starts:
        loss = _tree_loss if isinstance(theta, dict) else _module_loss
        problem = Problem(loss, data=data, batch_size=4)
        result = solve(problem, algorithm, theta, v, key=jr.key(0), steps=STEPS)
        _must(result.status is Status.FINISHED, f"{type(theta)}: {result.message}")
        for name, before, after in (("theta", theta, result.theta), ("v", v, result.v)):
            same = jax.tree.structure(before) == jax.tree.structure(after)
            _must(same, f"{name} must keep its structure, {before} became {after}")
        moved = not trees_equal(shown(result.state).theta, theta)
        _must(moved, "theta must move")


def check_dtypes(algorithm: Any) -> None:
    """Float32 stays float32 and float64 stays float64."""
    for dtype in (jnp.float32, jnp.float64):
        with jax.enable_x64(True):
            problem, theta, v = _linear(dtype)
            result = solve(problem, algorithm, theta, v, key=jr.key(0), steps=STEPS)
            found = {leaf.dtype for leaf in jax.tree.leaves((result.theta, result.v))}
        _must(found == {jnp.dtype(dtype)}, f"{jnp.dtype(dtype)} became {found}")


def check_projections(algorithm: Any) -> None:
    """Every iterate lies in the sets that the problem projects on."""
    problem, theta, v = _linear()
    radius = 0.01
    ball, box = projections.ball(radius), projections.box(-0.2, 0.9)
    problem = dataclasses.replace(problem, project_v=ball, project_theta=box)
    step = jax.jit(lambda state: algorithm.step(problem, state)[0])
    state = algorithm.init(problem, box(theta), v, jr.key(0))
    reached = False
    for _ in range(STEPS):
        state = step(state)
        size = float(jnp.linalg.norm(state.v))
        reached |= size > 0.9 * radius
        _must(size <= radius + 1e-6, f"v left its ball of radius {radius}: {size}")
        inside = bool(jnp.all((state.theta >= -0.2) & (state.theta <= 0.9)))
        _must(inside, f"theta left its box [-0.2, 0.9]: {state.theta}")
    _must(reached or int(state.ascents) < 3, "v never came near the edge; is it moved at all?")


def check_counters(algorithm: Any) -> None:
    """`gradients` counts the gradients that were really computed, one at a time."""
    seen: list[int] = []
    data = _rows(30, 3)

    def loss(theta: Any, v: Any, batch: Any) -> Any:
        jax.debug.callback(lambda: seen.append(1))
        return _linear_loss(theta, v, batch)

    for problem in (
        Problem(loss, data=data, batch_size=5),
        Problem(lambda theta, v: loss(theta, v, data)),
    ):
        seen.clear()
        state = algorithm.init(problem, jnp.ones(3), jnp.zeros(3), jr.key(0))
        step = jax.jit(lambda state, problem=problem: algorithm.step(problem, state)[0])
        for _ in range(STEPS):
            state = step(state)
        jax.block_until_ready(state)
        jax.effects_barrier()
        told = int(state.gradients)
        _must(told == len(seen), f"{len(seen)} gradients were computed, State counts {told}")
        moves = int(state.descents) + int(state.ascents)
        _must(moves <= told, f"{moves} moves cannot come from {told} gradients")
        _must(int(state.descents) > 0, "no descent in 24 steps")


def check_determinism(algorithm: Any) -> None:
    """The key decides everything: the same key the same run, another key another."""
    problem, theta, v = _linear()
    runs = [
        solve(problem, algorithm, theta, v, key=jr.key(seed), steps=STEPS).state
        for seed in (0, 0, 1)
    ]
    _must(trees_equal(runs[0], runs[1]), "two runs with one key differ")
    _must(not trees_equal(runs[0].theta, runs[2].theta), "runs with two keys agree")


def check_chunks(algorithm: Any) -> None:
    """How often the driver looks has no influence on where the run goes."""
    problem, theta, v = _linear()
    straight = solve(problem, algorithm, theta, v, key=jr.key(0), steps=STEPS).state
    for every in (1, 7):
        looked = solve(problem, algorithm, theta, v, key=jr.key(0), steps=STEPS, every=every).state
        _must(trees_equal(looked, straight), f"every={every} leads elsewhere")


def check_resume(algorithm: Any) -> None:
    """A run that is broken off and continued ends where the straight run ends, bit for bit."""
    problem, theta, v = _linear()
    straight = solve(problem, algorithm, theta, v, key=jr.key(0), steps=STEPS).state
    with tempfile.TemporaryDirectory() as folder:
        for steps in (STEPS // 2, STEPS):
            resumed = solve(
                problem, algorithm, theta, v, key=jr.key(0), steps=steps, checkpoint=folder
            ).state
    _must(trees_equal(resumed, straight), "the resumed run ends elsewhere")  # pyright: ignore


def check_separable(algorithm: Any) -> None:
    """A v with one row per sample is moved in the rows of the batch, also with repeated rows."""
    problem, theta, v = _rowwise()
    state = algorithm.init(problem, theta, v, jr.key(0))
    state, _ = jax.jit(lambda state: algorithm.step(problem, state))(state)
    touched = np.any(np.asarray(state.v != v), axis=1).sum()
    most = problem.batch_size * max(int(state.ascents), 0)  # pyright: ignore
    _must(touched <= most, f"{touched} rows were moved by {int(state.ascents)} ascents of 4 rows")
    result = solve(problem, algorithm, theta, v, key=jr.key(0), steps=STEPS)
    _must(result.status is Status.FINISHED, result.message)


def check_divergence(algorithm: Any) -> None:
    """An update that is not finite is refused: the last finite state is returned."""
    problem = Problem(_cliff_loss)
    result = solve(problem, algorithm, jnp.zeros(2), jnp.zeros(2), key=jr.key(0), steps=400)
    _must(result.status is Status.DIVERGED, f"a loss that turns NaN must diverge, got {result}")
    for leaf in jax.tree.leaves((result.theta, result.v)):
        _must(bool(jnp.all(jnp.isfinite(leaf))), "the returned state is not finite")


def check_sweep(algorithm: Any) -> None:
    """A row of a sweep equals the single run."""
    problem, theta, v = _linear()
    other = _other_numbers(algorithm)
    keys = jr.split(jr.key(0), 2)
    table = sweep(problem, [algorithm, other], theta, v, keys=keys, steps=STEPS)
    for i, one in enumerate((algorithm, other)):
        single = solve(problem, one, theta, v, key=keys[1], steps=STEPS)
        row = table[i, 1]
        close = np.allclose(row.theta, single.theta, rtol=1e-4, atol=1e-5)
        close &= np.allclose(row.v, single.v, rtol=1e-4, atol=1e-5)
        _must(close, f"row {i} of a sweep differs from the single run")
        same = int(row.state.gradients) == int(single.state.gradients)
        _must(same, f"row {i} of a sweep spent other gradients than the single run")


def check_compilation(algorithm: Any) -> None:
    """Other numbers, keys, starts, data and lengths do not compile again."""
    traces: list[int] = []

    def loss(theta: Any, v: Any, batch: Any) -> Any:
        traces.append(1)
        return _linear_loss(theta, v, batch)

    def run(algorithm: Any, seed: int, scale: float, steps: int) -> None:
        data = jax.tree.map(lambda leaf: scale * leaf, _rows(30, 3))
        problem = Problem(loss, data=data, batch_size=5)
        start = scale * jnp.ones(3), scale * jnp.zeros(3)
        solve(problem, algorithm, *start, key=jr.key(seed), steps=steps, every=10)

    run(algorithm, 0, 1.0, STEPS)
    first = len(traces)
    _must(first <= 2, f"the loss was traced {first} times, once per player would do")
    run(_other_numbers(algorithm), 1, 0.9, STEPS + 7)
    _must(len(traces) == first, "other values made the loss be traced again")


CONTRACT: tuple[Callable[[Any], None], ...] = (
    check_protocol,
    check_trees,
    check_dtypes,
    check_projections,
    check_counters,
    check_determinism,
    check_chunks,
    check_resume,
    check_separable,
    check_divergence,
    check_sweep,
    check_compilation,
)


def trees_equal(left: PyTree, right: PyTree) -> bool:
    """Say whether two trees have the same structure and, bit for bit, the same leaves."""
    if jax.tree.structure(left) != jax.tree.structure(right):
        return False
    return all(
        _bits(one) == _bits(other)
        for one, other in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    )


def _bits(leaf: Any) -> Any:
    if not hasattr(leaf, "dtype"):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jr.key_data(leaf)
    array = np.asarray(leaf)
    return array.dtype, array.shape, array.tobytes()


def _must(holds: bool, message: str) -> None:
    if not holds:
        raise ContractError(message)


def _avals(tree: PyTree) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _other_numbers(algorithm: Any) -> Any:
    """Return the algorithm with its fractional numbers a little smaller."""
    frozen = freeze_numbers(algorithm)
    return thaw(jax.tree.map(lambda x: 0.9 * x if x.dtype.kind == "f" else x, frozen))


def _rows(count: int, width: int, dtype: Any = None) -> Any:
    numbers = np.random.default_rng(0).normal(size=(count, width + 1))
    numbers = numbers.astype(dtype or jnp.zeros(()).dtype)
    return jnp.asarray(numbers[:, :-1]), jnp.asarray(numbers[:, -1])


def _linear(dtype: Any = None) -> tuple[Problem, Any, Any]:
    data = _rows(30, 3, dtype)
    start = jnp.ones(3, data[0].dtype), jnp.zeros(3, data[0].dtype)
    return Problem(_linear_loss, data=data, batch_size=5), *start


def _linear_loss(theta: Any, v: Any, batch: Any) -> Any:
    """Regression against an adversary that shifts all inputs."""
    x, y = batch
    return jnp.mean((jnp.tanh((x + v) @ theta) - y) ** 2) - 2 * jnp.sum(v**2)


def _rowwise() -> tuple[Problem, Any, Any]:
    data = _rows(6, 3)  # few rows, so that a batch of 4 repeats some
    problem = Problem(_rowwise_loss, data=data, batch_size=4, separable=True)
    return problem, jnp.ones(3), data[0]


def _rowwise_loss(theta: Any, v: Any, batch: Any) -> Any:
    """Regression against an adversary that shifts each input by itself."""
    x, y = batch
    return jnp.mean((jnp.tanh(v @ theta) - y) ** 2 - 2 * jnp.sum((v - x) ** 2, axis=1))


def _tree_loss(theta: Any, v: Any, batch: Any) -> Any:
    x, y = batch
    out = jnp.tanh((x + v[0]) @ theta["w"] + theta["b"][0]) + v[1]["c"]
    return jnp.mean((out - y[:, None]) ** 2) - 2 * jnp.sum(v[0] ** 2) - 2 * v[1]["c"] ** 2


def _module_loss(theta: Any, v: Any, batch: Any) -> Any:
    x, y = batch
    adversary = v[0]
    out = jax.vmap(theta)(x + 0.1 * jnp.tanh(jax.vmap(adversary)(x)))
    penalty = sum(jnp.sum(leaf**2) for leaf in (adversary.weight, adversary.bias))
    return jnp.mean((out - y[:, None]) ** 2) - 2 * penalty


def _cliff_loss(theta: Any, v: Any) -> Any:
    """Fall along theta, until the root's argument turns negative a little way off."""
    slide = jnp.sum(theta) + jnp.sum(theta * v) - 2 * jnp.sum(v**2)
    return slide + 1e-3 * jnp.sqrt(1e-3 - jnp.sum(theta**2))
