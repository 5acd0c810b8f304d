"""What a start must be, wherever one is given: checks at the door that know of problems."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda._trees import PyTree, freeze, is_float_array, thaw
from rsgda.problem import Problem


def check_player(name: str, tree: PyTree) -> None:
    """Refuse a player that no gradient can be taken for, or that is not finite."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    for path, leaf in leaves:
        where = f"`{name}`{jax.tree_util.keystr(path)}"
        if is_float_array(leaf):
            if not bool(all_finite(leaf)):
                raise ValueError(f"{where} must be finite, got NaN or infinity.")
        elif isinstance(leaf, np.floating) or (isinstance(leaf, float) and _is_plain(path)):
            raise ValueError(
                f"{where} must be an array to be moved, got the number {leaf!r}; write "
                "jnp.asarray(...) around it."
            )
        elif isinstance(leaf, (jax.Array, np.ndarray)):
            raise ValueError(
                f"{where} must be a floating array, as gradients are taken for it, got "
                f"{leaf.dtype}; convert it, or mark it static if it is a constant of a module."
            )
        else:
            try:
                hash(leaf)
            except TypeError as error:
                raise ValueError(f"{where} must be an array or hashable, got {leaf!r}.") from error
    if not any(is_float_array(leaf) for _, leaf in leaves):
        raise ValueError(
            f"`{name}` must hold at least one floating array, such as jnp.zeros(3), or "
            f"jnp.asarray(0.0) for a single number, got {tree!r}."
        )


def _is_plain(path: Any) -> bool:
    """Say whether a leaf stands in a dict, list or tuple, where a number is meant to be moved.

    The numbers of a module are its settings. A start that is a number by itself has no arrays.
    """
    kinds = (jax.tree_util.DictKey, jax.tree_util.SequenceKey)
    return bool(path) and all(isinstance(entry, kinds) for entry in path)


def check_key(name: str, key: Any, dimensions: int = 0) -> Array:
    """Return a new-style key (or an array of them); refuse anything else."""
    if key is None:
        example = "jax.random.key(0)"
        if dimensions:
            example = f"jax.random.split({example}, 5) for five runs of each algorithm"
        raise ValueError(
            f"`{name}` must be given, as all randomness comes from it, got None: pass "
            f"`{name}={example}`."
        )
    if not isinstance(key, jax.Array) or not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        raise ValueError(
            f"`{name}` must be a key of the new style, such as jax.random.key(0), got "
            f"{type(key).__name__} {getattr(key, 'dtype', key)}; jax.random.wrap_key_data turns "
            "an old one into a new one."
        )
    if key.ndim != dimensions or key.size == 0:
        kind = "a single key" if dimensions == 0 else "a non-empty vector of keys"
        raise ValueError(f"`{name}` must be {kind}, got shape {key.shape}.")
    return key


def check_rows(problem: Problem, v: PyTree) -> None:
    """Refuse a v that does not have one row for each row of data, where it must."""
    if problem.separable:
        for path, leaf in jax.tree_util.tree_leaves_with_path(v):
            if is_float_array(leaf) and leaf.shape[:1] != (problem.rows,):
                raise ValueError(
                    f"`v`{jax.tree_util.keystr(path)} must have one row for each of the "
                    f"{problem.rows} rows of `data`, as the problem is separable, "
                    f"got shape {leaf.shape}; start with the rows of `data` themselves, or with "
                    f"zeros of shape ({problem.rows}, ...)."
                )


def check_project_rows(project: Callable[[PyTree], PyTree], v: PyTree) -> None:
    """Refuse a projection of a separable v under which one row depends on another."""
    # Far out, where a projection is active.
    rows = jax.tree.map(lambda leaf: 10 * jnp.asarray(leaf[:3]) + 1, freeze(v))
    alone = jax.tree.map(lambda leaf: leaf[:1], rows)
    for one, among in zip(
        jax.tree.leaves(freeze(project(thaw(alone)))),
        jax.tree.leaves(freeze(project(thaw(rows)))),
        strict=True,
    ):
        if not np.allclose(one[0], among[0], rtol=1e-3, atol=1e-5):
            raise ValueError(
                "`project_v` must treat each row by itself, as the problem is separable and only "
                "a batch's rows are projected; but it moves a row differently in the company of "
                "others (rsgda.projections.ball has `rows=True` for this)."
            )


@jax.jit
def all_finite(leaf: Array) -> Array:
    """Say whether all entries are finite, in one pass."""
    return jnp.sum(leaf * 0) == 0  # as in `moves`
