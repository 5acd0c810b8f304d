"""Trees of floating arrays as flat vectors, and back."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rsgda._trees import PyTree


def widest(tree: PyTree) -> Any:
    """Return the widest dtype of a tree of floating arrays, at least single precision."""
    kinds = [jnp.dtype(jnp.float32), *(leaf.dtype for leaf in jax.tree.leaves(tree))]
    return max(kinds, key=lambda kind: jnp.finfo(kind).bits)


def flattened(tree: PyTree, dtype: Any) -> Array:
    """Return all numbers of a tree as one vector."""
    leaves = [jnp.ravel(leaf).astype(dtype) for leaf in jax.tree.leaves(tree)]
    return leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)


def unflattened(x: Array, like: PyTree) -> PyTree:
    """Undo `flattened`, in the dtypes of another tree."""
    leaves, structure = jax.tree.flatten(like)
    parts, done = [], 0
    for leaf in leaves:
        part = x[done : done + leaf.size].reshape(leaf.shape)
        parts.append(part.astype(leaf.dtype))
        done += leaf.size
    return jax.tree.unflatten(structure, parts)


def norm(tree: PyTree) -> Array:
    """Return the Euclidean norm of all numbers of a tree."""
    dtype = widest(tree)
    squares = [jnp.sum(jnp.square(leaf.astype(dtype))) for leaf in jax.tree.leaves(tree)]
    return jnp.sqrt(sum(squares, jnp.zeros((), dtype)))
