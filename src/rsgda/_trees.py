"""Pytrees with leaves that are not arrays: set aside before a loop, put back for the user."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PyTree = Any


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Static:
    """A value that is part of a tree's structure, so that loops and branches do not see it.

    The type is kept beside the value because `1 == True == 1.0` would otherwise let one compiled
    program serve another tree.
    """

    value: Any
    kind: type


def is_float_array(leaf: object) -> bool:
    """Say whether `leaf` is an array that a gradient can be taken for."""
    return isinstance(leaf, (jax.Array, np.ndarray)) and jnp.issubdtype(leaf.dtype, jnp.floating)


def freeze(tree: PyTree) -> PyTree:
    """Return `tree` with every leaf that is not a floating array moved into its structure."""
    return jax.tree.map(lambda leaf: leaf if is_float_array(leaf) else _static(leaf), tree)


def freeze_values(tree: PyTree) -> PyTree:
    """Return `tree` with every leaf that is no array at all moved into its structure."""
    arrays = (jax.Array, np.ndarray)
    return jax.tree.map(lambda leaf: leaf if isinstance(leaf, arrays) else _static(leaf), tree)


def freeze_numbers(tree: PyTree) -> PyTree:
    """Return `tree` with its numbers as arrays and its functions moved into its structure.

    There are two dtypes only, so that a number compiles to the same program however it is given.
    """
    return jax.tree.map(lambda leaf: _number(leaf) if is_number(leaf) else _static(leaf), tree)


def thaw(tree: PyTree) -> PyTree:
    """Undo `freeze`."""
    return jax.tree.map(
        lambda leaf: leaf.value if isinstance(leaf, Static) else leaf,
        tree,
        is_leaf=lambda leaf: isinstance(leaf, Static),
    )


def is_number(leaf: object) -> bool:
    """Say whether `leaf` is a number or an array of numbers (a Boolean is not)."""
    if isinstance(leaf, (jax.Array, np.ndarray, np.generic)):
        return jnp.issubdtype(leaf.dtype, jnp.number)
    return isinstance(leaf, (int, float)) and not isinstance(leaf, bool)


def _number(leaf: Any) -> jax.Array:
    whole = isinstance(leaf, int) or jnp.issubdtype(jnp.result_type(leaf), jnp.integer)
    return jnp.asarray(leaf, jnp.int32 if whole else jnp.zeros(()).dtype)


def _static(leaf: object) -> object:
    return leaf if isinstance(leaf, Static) else Static(leaf, type(leaf))
