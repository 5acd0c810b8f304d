"""The paper's network, which moves points."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array

from rsgda import _checks


def mlp(sizes: Sequence[int], *, key: Array) -> eqx.nn.Sequential:
    r"""Return dense layers with GELU in between.

    $$ f_\theta(y) = A_k\, g(\dots g(A_1 y + c_1) \dots) + c_k $$

    Args:
        sizes: the dimension of y, each hidden layer, and the dimension of what is made of it.
        key: of the weights.

    >>> network = mlp((20, 128, 96, 64, 5), key=jr.key(0))
    >>> jax.vmap(network)(jnp.zeros((3, 20), "float32")).shape
    (3, 5)

    Source: Section E of the paper's Appendix, whose hidden layers are 128, 96 and 64.
    """
    if isinstance(sizes, str) or not isinstance(sizes, Sequence) or len(sizes) < 2:
        raise ValueError(f"`sizes` must be two or more whole numbers, got {sizes!r}.")
    for i, size in enumerate(sizes):
        _checks.whole(f"sizes[{i}]", size, 1)
    layers: list[Any] = []
    keys = jr.split(key, len(sizes) - 1)
    for wide, narrow, each in zip(sizes[:-1], sizes[1:], keys, strict=True):
        layers += [
            eqx.nn.Linear(wide, narrow, dtype=jnp.float32, key=each),
            eqx.nn.Lambda(jax.nn.gelu),
        ]
    return eqx.nn.Sequential(layers[:-1])
