"""The network of a classifier as plain data, and back; its logits, in pieces."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

from rsgda import _checks
from rsgda._trees import PyTree, is_float_array
from rsgda.robust import networks
from rsgda.robust.losses import Loss

Maker = Callable[[tuple[int, ...], int, Array], PyTree]

HIDDEN = (64, 64)  # another number here is another format of saved models
CUSTOM = "custom"
# Always as many samples at a time, the last ones filled up: one program for any number of them,
# and a sample has the same logits whatever its company.
ROWS = 256


def _mlp(shape: tuple[int, ...], classes: int, key: Array) -> PyTree:
    return networks.mlp((math.prod(shape), *HIDDEN, classes), key=key)


def _cnn(shape: tuple[int, ...], classes: int, key: Array) -> PyTree:
    return networks.cnn(shape, classes, key=key)


def _sinha_cnn(shape: tuple[int, ...], classes: int, key: Array) -> PyTree:
    return networks.sinha_cnn(key=key, shape=shape, classes=classes)


def _authors_cnn(shape: tuple[int, ...], classes: int, key: Array) -> PyTree:
    return networks.authors_cnn(key=key, shape=shape, classes=classes)


MAKERS: dict[str, Maker] = {
    "mlp": _mlp,
    "cnn": _cnn,
    "sinha_cnn": _sinha_cnn,
    "authors_cnn": _authors_cnn,
}


def chosen(network: Any, shape: tuple[int, ...]) -> tuple[str, Maker]:
    """Return the name and the maker of what the parameter `network` asks for."""
    if network == "auto":
        network = "mlp" if len(shape) == 1 else "cnn"
    if isinstance(network, str) and network in MAKERS:
        if "cnn" in network and len(shape) == 1:
            raise ValueError(
                f'`network` must be "mlp", "auto" or a function for rows of {shape[0]} features, '
                f"got {network!r}, which is for images: n × height × width (× channels)."
            )
        return network, MAKERS[network]
    if not callable(network) or isinstance(network, eqx.Module):
        names = ", ".join(repr(name) for name in ("auto", *MAKERS))
        raise ValueError(
            f"`network` must be {names} or a function (shape, classes, key) -> Equinox module, got "
            f"{f'a {type(network).__name__}' if callable(network) else repr(network)}."
        )
    _checks.function("network", network)
    return CUSTOM, network


def build(maker: Maker, shape: tuple[int, ...], classes: int, key: Array) -> PyTree:
    """Return a network with fresh weights, in float32."""
    made = maker(shape, classes, key)
    narrow = lambda leaf: leaf.astype(jnp.float32) if is_float_array(leaf) else leaf  # noqa: E731
    return jax.tree.map(narrow, made)


def weights(network: PyTree) -> list[np.ndarray]:
    """Return the arrays of a network that training moves, in the order of its tree."""
    return [np.array(leaf) for leaf in jax.tree.leaves(network) if is_float_array(leaf)]


@functools.lru_cache(maxsize=16)
def skeleton(maker: Maker, shape: tuple[int, ...], classes: int) -> PyTree:
    """Return a network whose arrays are shapes only: nothing is computed or allocated."""
    return eqx.filter_eval_shape(build, maker, shape, classes, jr.key(0))


def shapes(bare: PyTree) -> list[tuple[int, ...]]:
    """Return the shapes of a skeleton's weights."""
    return [leaf.shape for leaf in jax.tree.leaves(bare) if _is_weight(leaf)]


def rebuilt(maker: Maker, shape: tuple[int, ...], classes: int, coefs: list[np.ndarray]) -> PyTree:
    """Return the network with these weights."""
    bare = skeleton(maker, shape, classes)
    rest = iter(coefs)
    return jax.tree.map(lambda leaf: jnp.asarray(next(rest)) if _is_weight(leaf) else leaf, bare)


def _is_weight(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct) and jnp.issubdtype(leaf.dtype, jnp.floating)


def logits(network: PyTree, X: Any) -> np.ndarray:
    """Return the logits of samples, some at a time."""
    found = [np.asarray(_forward(network, piece))[:size] for size, (piece,) in pieces(X)]
    return np.concatenate(found)


def losses(network: PyTree, loss: Loss, X: Any, y: np.ndarray, smoothing: float) -> np.ndarray:
    """Return the loss of every sample, some at a time."""
    found = [
        np.asarray(_losses(loss, _forward(network, piece), labels, np.float32(smoothing)))[:size]
        for size, (piece, labels) in pieces(X, y)
    ]
    return np.concatenate(found)


def pieces(*arrays: Any) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Yield pieces of `ROWS` rows; zeros fill up the last, whose true size comes with it."""
    for start in range(0, len(arrays[0]), ROWS):
        cut = [np.asarray(array[start : start + ROWS]) for array in arrays]
        size = len(cut[0])
        yield size, [np.pad(a, [(0, ROWS - size)] + [(0, 0)] * (a.ndim - 1)) for a in cut]


@eqx.filter_jit
def _forward(network: PyTree, X: Any) -> Array:
    return jax.vmap(network)(X)


@functools.partial(jax.jit, static_argnums=0)
def _losses(loss: Loss, logits: Array, y: Array, smoothing: Array) -> Array:
    return jax.vmap(loss, (0, 0, None))(logits, y, smoothing)
