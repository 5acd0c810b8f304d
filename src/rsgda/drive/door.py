"""What `solve` and `sweep` refuse before anything is compiled or written."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from rsgda import _checks
from rsgda._start import check_key as check_key
from rsgda._start import check_player, check_project_rows, check_rows
from rsgda._trees import PyTree, Static, freeze, thaw
from rsgda.drive import causes
from rsgda.drive.result import COUNTERS, to_keep
from rsgda.moves import State
from rsgda.problem import Problem

Record = Callable[[Problem, State], dict[str, Any]]
MOST_STEPS = 2**31 - 1


def check_call(problem: Any, algorithms: Any, theta: Any, v: Any, steps: Any, every: Any) -> None:
    """Check what can be told from the arguments themselves."""
    if not isinstance(problem, Problem):
        raise ValueError(f"`problem` must be an rsgda.Problem, got {problem!r}.")
    for algorithm in algorithms:
        if isinstance(algorithm, type) or not all(
            callable(getattr(algorithm, name, None)) for name in ("init", "step")
        ):
            raise ValueError(
                "`algorithm` must be an object with `init` and `step`, such as rsgda.RSGDA(...), "
                f"got {algorithm!r:.200}. To leave it out, name the start: solve(problem, "
                "theta=theta, v=v, ...)."
            )
        _check_schedules(algorithm)
        for path, leaf in jax.tree_util.tree_leaves_with_path(algorithm):
            if getattr(leaf, "ndim", 0):
                name = jax.tree_util.keystr(path).lstrip(".")
                raise ValueError(f"`{name}` must be a single number, got {leaf!r}.")
        loops = _checks.host_number(getattr(algorithm, "m", None)) or 0
        _checks.whole("steps", steps, 0)
        if steps * (loops + 1) > MOST_STEPS:
            raise ValueError(
                f"`steps` must be at most {MOST_STEPS} gradients' worth, which are counted in 32 "
                f"bits, got {steps}."
            )
    _checks.whole("every", every, 1)
    for name, player in (("theta", theta), ("v", v)):
        if player is None:
            raise ValueError(f"`{name}` must be given: where the run starts, an array or a tree.")
    check_player("theta", theta)
    check_player("v", v)
    check_rows(problem, v)


def check_mesh(mesh: Any, problem: Problem, folder: Any) -> None:
    """Refuse devices that rows cannot be shared out among."""
    if mesh is None:
        if folder is not None and jax.process_count() > 1:
            raise ValueError(
                f"`mesh` must be given where {jax.process_count()} processes save one run: without "
                "it each of them runs by itself. Pass jax.make_mesh((jax.device_count(),), "
                '("rows",)), or no `checkpoint`.'
            )
        return
    if not isinstance(mesh, Mesh):
        raise ValueError(
            "`mesh` must be a jax.sharding.Mesh, such as jax.make_mesh((jax.device_count(),), "
            f'("rows",)), got {mesh!r:.80}.'
        )
    owners = {device.process_index for device in mesh.devices.flat}
    if owners != set(range(jax.process_count())):
        raise ValueError(
            f"`mesh` must have devices of each of the {jax.process_count()} processes, got those "
            f"of {sorted(owners)}."
        )
    if problem.data is None:
        return
    wanted = {"batch_size": problem.batch_size}
    if problem.separable:
        wanted["the number of rows of a separable problem"] = problem.rows
    for name, number in wanted.items():
        if number is not None and number % mesh.size:
            quoted = f"`{name}`" if name == "batch_size" else name
            raise ValueError(
                f"{quoted} must be a multiple of the {mesh.size} devices of `mesh`, got {number:,}."
            )


def with_steps(problem: Problem, algorithm: Any) -> Any:
    """Return an algorithm with steps that depend on the problem as they are on this one."""
    if not dataclasses.is_dataclass(algorithm):
        return algorithm
    known = {}
    for field in dataclasses.fields(algorithm):
        value = getattr(algorithm, field.name)
        if hasattr(value, "of_problem"):
            known[field.name] = value.of_problem(problem)
        elif hasattr(value, "init") and hasattr(value, "step"):  # one algorithm inside another
            known[field.name] = with_steps(problem, value)
    return dataclasses.replace(algorithm, **known) if known else algorithm  # pyright: ignore


def check_sets(problem: Problem, theta: PyTree, v: PyTree) -> None:
    """Refuse a start outside the sets that the problem projects on."""
    for name, player, project in (
        ("theta", theta, problem.project_theta),
        ("v", v, problem.project_v),
    ):
        if project is None:
            continue
        frozen = freeze(player)
        # One fused pass: no second copy of a large v is made.
        same = jax.eval_shape(lambda tree, project=project: freeze(project(thaw(tree))), frozen)
        if jax.tree.map(_aval, same) != jax.tree.map(_aval, frozen):
            raise ValueError(
                f"`project_{name}` must return the structure, shapes and dtypes it is given, "
                f"got {same} for {jax.tree.map(_aval, frozen)}."
            )
        away = float(_distance(Static(project, type(project)), frozen))
        if not away <= 1e-5:
            raise ValueError(
                f"`{name}` must start inside the set of `project_{name}`, but its projection "
                f"differs by {away:.3g} (relative to its size); start at `project_{name}({name})`."
            )
    if problem.separable and problem.project_v is not None:
        check_project_rows(problem.project_v, v)


def check_loss(problem: Problem, state: State) -> None:
    """Refuse a loss that is not a finite scalar at the start, and data that make it none."""
    try:
        value = causes.first_loss(problem, state)
    except (TypeError, ValueError) as error:
        if str(error).startswith("`"):  # one of our own, which says what to do
            raise
        raise ValueError(_uncallable(problem, state, error)) from error
    causes.check_data(problem, state)
    if not np.isfinite(value):
        raise ValueError(
            f"`loss` must be finite at the start, got {value}. Look for a logarithm or root at "
            "zero, a division by zero, or NaN in what the loss is made of."
        )
    causes.warn_of_no_maximum(problem, state)


def _uncallable(problem: Problem, state: State, error: Exception) -> str:
    """Say how the loss was called, and what came of it."""
    form = "loss(theta, v)" if problem.exact else "loss(theta, v, batch)"
    batch = jax.eval_shape(problem.draw, state.key)
    given = {"theta": state.theta, "v": jax.eval_shape(problem.look, state.v, batch)}
    if not problem.exact:
        given["batch"] = batch.arguments[0]
    shapes = ", ".join(
        f"{name} of {', '.join(_shape(leaf) for leaf in jax.tree.leaves(tree))}"
        for name, tree in given.items()
    )
    if "Tracer" in type(error).__name__:
        remedy = (
            "Inside of the loss take jax.numpy in place of numpy, jnp.asarray(...) of arrays that "
            "it has from elsewhere, and jnp.where in place of `if`."
        )
    else:
        remedy = "Start `theta` and `v` with the shapes and dtypes that the loss takes, or mend it."
    said = (str(error).splitlines() or [""])[0]
    return (
        f"`loss` must be a function of JAX arrays that is called as {form}; at the start, with "
        f"{shapes}, it failed with {type(error).__name__}: {said} {remedy}"
    )


def _shape(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"


def check_record(record: Record | None, problem: Problem, state: State) -> None:
    """Refuse a record function that returns anything but named scalars."""
    if record is None:
        return
    _checks.function("record", record)
    take_record(record, problem, to_keep(problem, state))


def take_record(record: Record | None, problem: Problem, state: State) -> dict[str, Any]:
    """Return what `record` says of a state, as plain numbers."""
    if record is None:
        return {}
    values = record(problem, state)
    if not isinstance(values, dict):
        raise ValueError(f"`record` must return a dict of scalars, got {type(values).__name__}.")
    return {check_name(name): _plain(name, value) for name, value in values.items()}


def check_name(name: Any) -> str:
    """Refuse a name that the history cannot take."""
    if not isinstance(name, str) or name in COUNTERS:
        raise ValueError(
            f"`record` must name its values by strings other than {COUNTERS}, got {name!r}."
        )
    return name


def _plain(name: str, value: Any) -> bool | int | float:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.ndim != 0 or (array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16"):
        raise ValueError(
            f"`record` must return a dict of scalars, got {name!r} of shape {array.shape} and "
            f"type {array.dtype}."
        )
    if array.dtype.kind not in "biuf":
        return float(array)
    return array.item()


def _check_schedules(algorithm: Any) -> None:
    for name in ("alpha", "eta"):
        schedule = getattr(algorithm, name, None)
        if not callable(schedule) or _checks.is_optimiser(schedule):
            continue
        _checks.function(name, schedule)
        try:
            with jax.numpy_dtype_promotion("standard"):
                jax.eval_shape(schedule, jnp.zeros((), jnp.int32))
                value = np.asarray(schedule(jnp.zeros((), jnp.int32)))
        except TypeError as error:
            raise ValueError(
                f"`{name}` as a schedule must be a function of the step k, a JAX scalar (use "
                f"jnp.where for cases); it failed with {type(error).__name__}: {error}"
            ) from error
        if value.shape != () or value.dtype.kind not in "iuf" or not (0 <= value < np.inf):
            raise ValueError(
                f"`{name}` as a schedule must return a finite scalar, not negative; at k = 0 it "
                f"returned {value}."
            )


@jax.jit
def _distance(project: Static, tree: PyTree) -> Array:
    """Return the largest move under a projection, relative to the size of the tree."""
    moved = jax.tree.map(
        # A maximum may pass over NaN where it is computed in parallel; a sum does not.
        lambda new, old: (
            jnp.max(jnp.abs(new - old), initial=0) / jnp.max(jnp.abs(old), initial=1)
            + jnp.sum(new * 0)
        ),
        freeze(project.value(thaw(tree))),
        tree,
    )
    return jnp.max(jnp.stack([leaf.astype(jnp.float32) for leaf in jax.tree.leaves(moved)]))


def _aval(leaf: Any) -> tuple[Any, Any]:
    return leaf.shape, leaf.dtype
