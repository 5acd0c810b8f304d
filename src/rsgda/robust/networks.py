"""Networks with ELU that map one sample to its logits.

Weights and biases start uniform in ±1/√(numbers that a unit sees), as in PyTorch and Equinox.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array

from rsgda import _checks
from rsgda.robust.convolution import convolution, plan


class Convolution(eqx.Module):
    """A layer that slides kernels over an image, height × width × channels."""

    kernel: Array
    bias: Array
    stride: int = eqx.field(static=True)
    padding: str = eqx.field(static=True)

    def __init__(
        self, channels: int, out: int, size: int, *, stride: int, padding: str, key: Array
    ):
        kernel_key, bias_key = jr.split(key)
        bound = 1 / math.sqrt(size * size * channels)
        shape = (size, size, channels, out)
        self.kernel = jr.uniform(kernel_key, shape, jnp.float32, -bound, bound)
        self.bias = jr.uniform(bias_key, (out,), jnp.float32, -bound, bound)
        self.stride, self.padding = stride, padding

    def __call__(self, x: Array) -> Array:
        """Return the image that the kernels see."""
        return convolution(x, self.kernel, stride=self.stride, padding=self.padding) + self.bias


class Network(eqx.Module):
    """Layers with ELU in between; the first dense one flattens what it is given."""

    layers: tuple[Convolution | eqx.nn.Linear, ...]

    def __call__(self, x: Array) -> Array:
        """Return the logits of one sample; `jax.vmap(network)` is for many of them."""
        for i, layer in enumerate(self.layers):
            if isinstance(layer, eqx.nn.Linear):
                x = x.ravel()
                if x.size != layer.in_features:
                    raise ValueError(
                        f"a sample must lead to {layer.in_features} numbers at layer {i}, got "
                        f"{x.size}; samples are given one by one: `jax.vmap(network)(samples)`."
                    )
            x = layer(x) if i == 0 else layer(jax.nn.elu(x))
        return x


def sinha_cnn(*, key: Array, shape: Sequence[int] = (28, 28, 1), classes: int = 10) -> Network:
    """Return the network of Sinha et al. for MNIST.

    64 kernels of 8 × 8 with stride 2 and padding, 128 of 6 × 6 with stride 2, 128 of 5 × 5, and a
    dense layer, with ELU in between: 8.6 million multiplications an image of 28 × 28.

    Args:
        key: of the weights.
        shape: of an image, height × width × channels, at least 27 × 27.
        classes: how many logits.

    >>> import jax
    >>> network = sinha_cnn(key=jax.random.key(0))
    >>> jax.vmap(network)(jax.numpy.zeros((5, 28, 28, 1), "float32")).shape
    (5, 10)

    Source: Sinha, Namkoong and Duchi (2018), Section 4.2, and their code.
    """
    layers = ((64, 8, 2, "same"), (128, 6, 2, "valid"), (128, 5, 1, "valid"))
    return _convolutional(layers, shape, classes, key)


def authors_cnn(*, key: Array, shape: Sequence[int] = (28, 28, 1), classes: int = 10) -> Network:
    """Return the network of the paper's code: that of Sinha et al. with stride 1 at first.

    It has eight times the multiplications. In their code a softmax follows, which here is part of
    the loss "double_softmax".

    Args:
        key: of the weights.
        shape: of an image, height × width × channels, at least 14 × 14.
        classes: how many logits.

    >>> import jax
    >>> authors_cnn(key=jax.random.key(0)).layers[-1].in_features
    8192

    Source: the code published with the paper.
    """
    layers = ((64, 8, 1, "same"), (128, 6, 2, "valid"), (128, 5, 1, "valid"))
    return _convolutional(layers, shape, classes, key)


def cnn(shape: Sequence[int], classes: int, *, key: Array) -> Network:
    """Return a small network for images of any size.

    32 kernels of 5 × 5 and 64 of 3 × 3, both with stride 2 and padding, and a dense layer, with
    ELU in between.

    Args:
        shape: of an image, height × width × channels.
        classes: how many logits.
        key: of the weights.

    >>> import jax
    >>> network = cnn((8, 8, 1), 10, key=jax.random.key(0))
    >>> jax.vmap(network)(jax.numpy.zeros((5, 8, 8, 1), "float32")).shape
    (5, 10)
    """
    return _convolutional(((32, 5, 2, "same"), (64, 3, 2, "same")), shape, classes, key)


def mlp(sizes: Sequence[int], *, key: Array) -> Network:
    """Return dense layers with ELU in between.

    Args:
        sizes: how many numbers a sample has, each hidden layer, and how many logits; at least two.
        key: of the weights.

    >>> import jax
    >>> network = mlp((3, 8, 2), key=jax.random.key(0))
    >>> jax.vmap(network)(jax.numpy.zeros((5, 3), "float32")).shape
    (5, 2)
    """
    if isinstance(sizes, str) or not isinstance(sizes, Sequence) or len(sizes) < 2:
        raise ValueError(f"`sizes` must be two or more whole numbers, got {sizes!r}.")
    for i, size in enumerate(sizes):
        _checks.whole(f"sizes[{i}]", size, 1)
    keys = jr.split(key, len(sizes) - 1)
    pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
    return Network(tuple(eqx.nn.Linear(a, b, dtype=jnp.float32, key=k) for a, b, k in pairs))


def _convolutional(
    kinds: Sequence[tuple[int, int, int, str]], shape: Sequence[int], classes: int, key: Array
) -> Network:
    """Stack convolutions of (kernels, size, stride, padding) and a dense layer."""
    if not isinstance(shape, Sequence) or len(shape) != 3:
        raise ValueError(f"`shape` must be height, width and channels of an image, got {shape!r}.")
    for i, size in enumerate(shape):
        _checks.whole(f"shape[{i}]", size, 1)
    _checks.whole("classes", classes, 1)
    layers, seen = [], tuple(shape)
    *keys, last = jr.split(key, len(kinds) + 1)
    for (kernels, size, stride, padding), layer_key in zip(kinds, keys, strict=True):
        try:
            window = plan(seen, (size, size, seen[-1], kernels), stride, padding)
        except ValueError as error:
            raise ValueError(
                f"`shape` must be that of a larger image, got {tuple(shape)}: {seen[0]} × "
                f"{seen[1]} are left for a kernel of {size} × {size}."
            ) from error
        layers.append(
            Convolution(seen[-1], kernels, size, stride=stride, padding=padding, key=layer_key)
        )
        seen = (*window.steps, kernels)
    dense = eqx.nn.Linear(math.prod(seen), classes, dtype=jnp.float32, key=last)
    return Network((*layers, dense))
