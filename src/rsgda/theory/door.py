"""What `estimate` refuses before anything is compiled."""

from typing import Any

import jax
import numpy as np
from jax import Array

from rsgda._start import check_key, check_player, check_project_rows, check_rows
from rsgda._trees import PyTree, freeze
from rsgda.problem import Problem


def check_points(
    problem: Any, theta: Any, v: Any, key: Any, points: Any
) -> list[tuple[PyTree, PyTree]]:
    """Return the points to look at, leaves that are not arrays set aside, or refuse them."""
    if not isinstance(problem, Problem):
        raise ValueError(f"`problem` must be an rsgda.Problem, got {problem!r}.")
    check_key("key", key)
    if not isinstance(points, (list, tuple)) or not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in points
    ):
        raise ValueError(f"`points` must be a list of pairs (theta, v), got {points!r}.")
    pairs = [("theta", "v", theta, v)]
    pairs += [(f"points[{i}][0]", f"points[{i}][1]", *pair) for i, pair in enumerate(points)]
    for name, name_v, there, then in pairs:
        check_player(name, there)
        check_player(name_v, then)
        check_rows(problem, then)
        _check_form(name, there, theta)
        _check_form(name_v, then, v)
        if problem.project_v is not None:
            _check_set(problem, name_v, then)
    form = "loss(theta, v)" if problem.exact else "loss(theta, v, batch)"
    try:
        jax.eval_shape(_loss, problem, freeze(theta), freeze(v), key)
    except (TypeError, ValueError) as error:
        if str(error).startswith("`"):
            raise  # it says by itself what is wrong
        raise ValueError(
            f"`loss` must be a function of JAX arrays that is called as {form}; it failed with "
            f"{type(error).__name__}: {error}"
        ) from error
    return [(freeze(there), freeze(then)) for _, _, there, then in pairs]


def _check_form(name: str, tree: PyTree, like: PyTree) -> None:
    came, wanted = _form(tree), _form(like)
    if came != wanted:
        raise ValueError(
            f"`{name}` must have the structure, shapes and dtypes of the first point, {wanted}, "
            f"got {came}."
        )


def _check_set(problem: Problem, name: str, v: PyTree) -> None:
    projected = problem.project_v(v)  # pyright: ignore[reportOptionalCall]
    if _form(projected) != _form(v):
        raise ValueError(
            "`project_v` must return the structure, shapes and dtypes it is given, got "
            f"{_form(projected)} for {_form(v)}."
        )
    for new, old in zip(
        jax.tree.leaves(freeze(projected)), jax.tree.leaves(freeze(v)), strict=True
    ):
        away = np.max(np.abs(np.asarray(new) - np.asarray(old)), initial=0)
        if not away <= 1e-5 * np.max(np.abs(np.asarray(old)), initial=1):
            raise ValueError(
                f"`{name}` must lie in the set of `project_v`, but its projection differs by "
                f"{away:.3g}; give `project_v({name})`."
            )
    if problem.separable:
        check_project_rows(problem.project_v, v)  # pyright: ignore[reportArgumentType]


def _form(tree: PyTree) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), freeze(tree))


def _loss(problem: Problem, theta: PyTree, v: PyTree, key: Array) -> Array:
    batch = problem.draw(key)
    return problem.value(theta, problem.look(v, batch), batch)
