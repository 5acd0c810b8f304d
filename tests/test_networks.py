"""Networks: their layers by hand, their sizes as published, their weights as stated."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax import lax

from rsgda.robust.networks import Convolution, authors_cnn, cnn, mlp, sinha_cnn

KEY = jr.key(0)


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def by_hand(network, images):
    """The same layers by XLA's convolution and NumPy, on all images at once."""
    x = np.asarray(images)
    for i, layer in enumerate(network.layers):
        x = elu(x) if i else x
        if isinstance(layer, Convolution):
            x = lax.conv_general_dilated(
                x,
                layer.kernel,
                (layer.stride, layer.stride),
                layer.padding.upper(),
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )
            x = np.asarray(x) + np.asarray(layer.bias)
        else:
            x = x.reshape(len(x), -1) @ np.asarray(layer.weight).T + np.asarray(layer.bias)
    return x


@eqx.filter_jit
def mapped(network, samples):
    return jax.vmap(network)(samples)


def numbers(network):
    return sum(leaf.size for leaf in jax.tree.leaves(network))


def multiplications(network, size):
    """Multiplications for an image of this height and width."""
    total, (h, w) = 0, size
    for layer in network.layers:
        if isinstance(layer, Convolution):
            k = layer.kernel.shape[0]
            same = layer.padding == "same"
            h, w = (
                math.ceil(n / layer.stride) if same else (n - k) // layer.stride + 1 for n in (h, w)
            )
            total += h * w * layer.kernel.size
        else:
            total += layer.weight.size
    return total


SINHA, AUTHORS, SMALL = sinha_cnn(key=KEY), authors_cnn(key=KEY), cnn((8, 7, 2), 3, key=KEY)
CASES = {
    "sinha_cnn": (SINHA, (28, 28, 1), 10),
    "authors_cnn": (AUTHORS, (28, 28, 1), 10),
    "cnn": (SMALL, (8, 7, 2), 3),
    "mlp": (mlp((6, 5, 4, 3), key=KEY), (6,), 3),
}


@pytest.mark.parametrize(("network", "shape", "classes"), CASES.values(), ids=CASES)
def test_logits_are_those_of_the_layers(network, shape, classes):
    samples = np.random.default_rng(0).normal(size=(2, *shape)).astype("f")
    logits = mapped(network, samples)
    assert logits.shape == (2, classes)
    assert logits.dtype == jnp.float32
    np.testing.assert_allclose(logits, by_hand(network, samples), rtol=0, atol=1e-5)


def test_published_sizes():
    convolutions = 8 * 8 * 64 + 64 + 6 * 6 * 64 * 128 + 128 + 5 * 5 * 128 * 128 + 128
    assert numbers(SINHA) == convolutions + 128 * 10 + 10
    assert numbers(AUTHORS) == convolutions + 8192 * 10 + 10
    assert round(multiplications(SINHA, (28, 28)) / 1e6, 1) == 8.6
    assert round(multiplications(AUTHORS, (28, 28)) / 1e6) == 72


@pytest.mark.parametrize("name", CASES)
def test_weights_are_uniform_and_narrow(name):
    network, *_ = CASES[name]
    assert {leaf.dtype for leaf in jax.tree.leaves(network)} == {jnp.dtype("float32")}
    for layer in network.layers:
        weight = layer.kernel if isinstance(layer, Convolution) else layer.weight
        seen = layer.in_features if isinstance(layer, eqx.nn.Linear) else weight[..., 0].size
        for part in (weight, layer.bias):
            assert jnp.max(jnp.abs(part)) <= 1 / math.sqrt(seen)
        if weight.size > 1000:
            assert jnp.std(weight) == pytest.approx(1 / math.sqrt(3 * seen), rel=0.05)
    parts = [np.asarray(leaf).ravel()[:3] for leaf in jax.tree.leaves(network) if leaf.size > 2]
    assert len({tuple(part) for part in parts}) == len(parts)  # no key serves twice


def test_curvature_along_a_direction():
    """A Hessian-vector product in the image, which certified values rest on."""
    wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), SMALL)
    x, u = np.random.default_rng(1).normal(size=(2, 8, 7, 2))

    def gradient(x):
        return jax.grad(lambda x: jax.nn.logsumexp(wide(x)))(x)

    @jax.jit
    def both(x, u):
        h = 1e-5
        difference = (gradient(x + h * u) - gradient(x - h * u)) / (2 * h)
        return jax.jvp(gradient, (x,), (u,))[1], difference

    product, difference = both(x, u)
    assert jnp.max(jnp.abs(product)) > 1e-3
    np.testing.assert_allclose(product, difference, rtol=0, atol=1e-8)


def test_another_image_and_other_classes():
    network = eqx.filter_eval_shape(sinha_cnn, key=KEY, shape=(27, 35, 3), classes=4)
    image = jax.ShapeDtypeStruct((27, 35, 3), jnp.float32)
    assert eqx.filter_eval_shape(lambda network, x: network(x), network, image).shape == (4,)


WRONG = [
    (lambda: sinha_cnn(key=KEY, shape=(26, 28, 1)), r"`shape` must be.*larger.*\(26, 28, 1\)"),
    (lambda: authors_cnn(key=KEY, shape=(28, 13, 1)), r"larger image, got \(28, 13, 1\)"),
    (lambda: cnn((8, 8), 10, key=KEY), r"`shape` must be height, width and channels.*\(8, 8\)"),
    (lambda: cnn((8, 0, 1), 10, key=KEY), r"`shape\[1\]` must be a whole number, at least 1"),
    (lambda: cnn((8, 8, 1), 0, key=KEY), "`classes` must be a whole number, at least 1, got 0"),
    (lambda: mlp((3,), key=KEY), r"`sizes` must be two or more whole numbers, got \(3,\)"),
    (lambda: mlp(3, key=KEY), "`sizes` must be two or more"),  # type: ignore[arg-type]
    (lambda: mlp((3, 2.5), key=KEY), r"`sizes\[1\]` must be a whole number"),  # type: ignore
    (lambda: SMALL(jnp.zeros((4, 8, 7, 2))), "`x` must be an image"),
    (lambda: SMALL(jnp.zeros((9, 7, 2), "f")), "lead to 256 numbers at layer 2, got 384"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
