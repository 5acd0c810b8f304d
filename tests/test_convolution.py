"""The convolution against XLA's, and against its definition."""

import itertools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from rsgda.robust.convolution import convolution

# Programs that run once on a few numbers: compiling them is what takes the time.
FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def by_xla(x, kernel, *, stride, padding):
    return lax.conv_general_dilated(
        x[None],
        kernel,
        (stride, stride) if isinstance(stride, int) else stride,
        padding.upper() if isinstance(padding, str) else padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )[0]


def by_definition(x, kernel, stride, padding):
    (top, bottom), (left, right) = padding
    x = np.pad(x, ((top, bottom), (left, right), (0, 0)))
    h, w = kernel.shape[:2]
    rows = (x.shape[0] - h) // stride[0] + 1
    columns = (x.shape[1] - w) // stride[1] + 1
    y = np.zeros((rows, columns, kernel.shape[3]))
    for i, j in itertools.product(range(rows), range(columns)):
        patch = x[i * stride[0] : i * stride[0] + h, j * stride[1] : j * stride[1] + w]
        y[i, j] = np.einsum("abc,abco->o", patch, kernel)
    return y


def random_cases(count):
    numbers = np.random.default_rng(0)
    cases = []
    while len(cases) < count:
        h, w, k, m = (int(n) for n in numbers.integers(1, [12, 12, 8, 8]))
        stride = tuple(int(n) for n in numbers.integers(1, 5, 2))
        pads = tuple(tuple(int(n) for n in pair) for pair in numbers.integers(0, 7, (2, 2)))
        padding = ("same", "valid", pads)[len(cases) % 3]
        if padding == "valid" and (h < k or w < m):
            continue
        if padding == pads and (h + sum(pads[0]) < k or w + sum(pads[1]) < m):
            continue
        channels = tuple(int(n) for n in numbers.integers(1, 4, 2))
        cases.append(((h, w), (k, m), channels, stride, padding))
    return cases


# Named ones first: a place for the kernel only; kernel and stride that do not divide; more than 16
# blocks, whose sums go another way; a stride past the kernel; an image under the kernel.
CASES = [
    ((5, 4), (5, 4), (2, 3), 1, "valid"),
    ((9, 7), (5, 3), (1, 2), (2, 3), "same"),
    ((8, 9), (5, 6), (1, 2), 1, "valid"),
    ((9, 8), (2, 1), (3, 1), (3, 4), "valid"),
    ((2, 1), (5, 7), (1, 2), 1, ((3, 2), (4, 3))),
    *random_cases(12),
]
MORE = [pytest.param(case, marks=pytest.mark.slow, id=str(case)) for case in random_cases(60)[12:]]


def arrays(seed, *shapes):
    numbers = np.random.default_rng(seed)
    return [jnp.asarray(numbers.normal(size=shape)) for shape in shapes]


def differentiated(way, stride, padding):
    """The value, both gradients, and the change of both in a direction, over three images."""

    def loss(x, kernel):
        y = jax.vmap(lambda x: way(x, kernel, stride=stride, padding=padding))(x)
        return jnp.sum(jnp.square(jnp.square(y + 1))), y

    def everything(x, kernel, dx, dkernel):
        def gradients(x, kernel):
            return jax.grad(loss, (0, 1), has_aux=True)(x, kernel)

        return jax.jvp(gradients, (x, kernel), (dx, dkernel))

    return everything


@pytest.mark.parametrize("case", [*CASES, *MORE], ids=str)
def test_value_and_gradients_are_those_of_xla(case):
    size, span, (channels, out), stride, padding = case
    shapes = (3, *size, channels), (*span, channels, out)
    inputs = arrays(1, *shapes, *shapes)
    ways = [differentiated(way, stride, padding) for way in (convolution, by_xla)]
    both = jax.jit(lambda *inputs: [way(*inputs) for way in ways], compiler_options=FAST)
    ours, theirs = both(*inputs)
    for mine, other in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
        scale = float(jnp.max(jnp.abs(other))) + 1.0
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-12 * scale)


def test_value_is_the_definition():
    x, kernel = arrays(2, (6, 5, 2), (3, 2, 2, 3))
    stride, padding = (2, 1), ((1, 2), (0, 1))
    y = convolution(x, kernel, stride=stride, padding=padding)
    wanted = by_definition(np.asarray(x), np.asarray(kernel), stride, padding)
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-12)


# All orders of mapping and differentiating.

SHAPES = (4, 6, 5, 2), (4, 3, 3, 2, 3)
KERNEL_MAPPED = {
    "images and kernels": (0, 0),
    "kernels": (None, 0),
    "images": (0, None),
}


def loss(way):
    def of(x, kernel):
        return jnp.sum(jnp.sin(way(x, kernel, stride=2, padding="same")))

    return of


@pytest.mark.parametrize("axes", KERNEL_MAPPED.values(), ids=KERNEL_MAPPED)
def test_mapped_gradients_of_one_image(axes):
    x, kernel = (a if axis == 0 else a[0] for a, axis in zip(arrays(3, *SHAPES), axes, strict=True))

    def run(way):
        gradient = jax.vmap(jax.grad(loss(way), (0, 1)), axes)
        return jax.jit(gradient, compiler_options=FAST)(x, kernel)

    for mine, other in zip(run(convolution), run(by_xla), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-12)


def test_nested_maps_and_second_gradients():
    x, kernels = arrays(4, *SHAPES)

    def run(way):
        def of_kernel(kernel):
            return jnp.sum(jax.vmap(loss(way), (0, None))(x, kernel))

        def length(kernel):
            return jnp.sum(jnp.square(jax.grad(of_kernel)(kernel)))

        return jax.jit(jax.vmap(jax.grad(length)), compiler_options=FAST)(kernels)

    np.testing.assert_allclose(run(convolution), run(by_xla), rtol=0, atol=1e-9)


def test_forward_derivative_needs_no_gradient():
    (x, dx), kernel = arrays(5, (2, 6, 5, 2))[0], arrays(5, (3, 3, 2, 3))[0]

    def of(x):
        return convolution(x, kernel, stride=2, padding="same")

    y, dy = jax.jvp(of, (x,), (dx,))
    np.testing.assert_allclose(dy, of(x + dx) - y, rtol=0, atol=1e-12)  # it is linear


# What is compiled.


def exported(platform):
    def gradients(x, kernel):
        def total(x, kernel):
            return jnp.sum(jax.vmap(loss(convolution), (0, None))(x, kernel))

        return jax.grad(total, (0, 1))(x, kernel)

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((7, 6, 5, 2), (3, 3, 2, 3))]
    return jax.export.export(jax.jit(gradients), platforms=[platform])(*shapes).mlir_module()


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_accelerators_use_their_library(platform):
    assert exported(platform).count("stablehlo.convolution") == 3


def test_a_cpu_multiplies_matrices():
    program = exported("cpu")
    assert "stablehlo.convolution" not in program
    products = [line for line in program.splitlines() if "stablehlo.dot_general" in line]
    assert len(products) == 3
    # The kernel's gradient is one product over all images, not one for each and then their sum.
    assert not any("batching_dims" in line for line in products)
    assert "7x3x3x2x3" not in program


# At the door.


def test_numbers_of_two_kinds_follow_the_usual_rules():
    x = jnp.arange(16, dtype=jnp.uint8).reshape(4, 4, 1)
    with jax.numpy_dtype_promotion("standard"):
        y = convolution(x, jnp.ones((2, 2, 1, 1), jnp.float32), stride=2)
    assert y.dtype == jnp.float32
    assert y[1, 1, 0] == 10 + 11 + 14 + 15


IMAGE, KERNEL = (6, 5, 2), (3, 3, 2, 4)
WRONG = [
    ({"x": (6, 5)}, r"`x` must be an image.*got shape \(6, 5\)"),
    ({"x": (7, 6, 5, 2)}, "`x` must be an image"),
    ({"x": (0, 5, 2)}, "`x` must be an image"),
    ({"kernel": (3, 3, 1, 4)}, r"`kernel` must be height × width × 2.*\(3, 3, 1, 4\)"),
    ({"kernel": (3, 3, 2)}, "`kernel` must be"),
    ({"stride": 0}, "`stride` must be a positive whole number or two, got 0"),
    ({"stride": (1, 2, 3)}, "`stride` must be"),
    ({"stride": 1.5}, "`stride` must be"),
    ({"stride": True}, "`stride` must be"),
    ({"padding": "full"}, "`padding` must be.*got 'full'"),
    ({"padding": ((1, -1), (0, 0))}, "`padding` must be.*at least 0"),
    ({"padding": (1, 1)}, "`padding` must be"),
    ({"kernel": (7, 3, 2, 4)}, "6 × 5 is too small for a kernel of 7 × 3"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=lambda value: str(value))
def test_wrong_input_is_refused(wrong, message):
    options = {"x": IMAGE, "kernel": KERNEL, "stride": 1, "padding": "valid"} | wrong
    x, kernel = (np.zeros(options.pop(name), "f") for name in ("x", "kernel"))
    with pytest.raises(ValueError, match=message):
        convolution(x, kernel, **options)


def test_whole_numbers_are_refused():
    with pytest.raises(ValueError, match="floating"):
        convolution(np.zeros(IMAGE, "i4"), np.zeros(KERNEL, "i4"))
