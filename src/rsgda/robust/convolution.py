"""A convolution whose gradients are as fast as its value on a CPU, too.

XLA's own gradients of a strided convolution are many times slower there than its value. Here all
three are one matrix product with the patches of the image, and differentiate each other: with
<y, conv(x, k)> = <x, to_input(y, k)> = <k, to_kernel(x, y)>, each of the three is linear in both
arguments, and its transposes are the other two. They are primitives of their own, so that they
can be mapped and differentiated in any order and any number of times, and that an accelerator
gets the convolution of its library.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

Pair = tuple[int, int]


def convolution(
    x: Array,
    kernel: Array,
    *,
    stride: int | Pair = 1,
    padding: str | tuple[Pair, Pair] = "valid",
) -> Array:
    r"""Slide a kernel over one image.

    $$ y_{i,j,o} = \sum_{a,b,c} x_{s i + a - t,\, s' j + b - l,\, c}\; k_{a,b,c,o} $$

    with strides s, s' and t rows, l columns of zeros put before the image.

    Args:
        x: an image, height × width × channels. Map over more of them with `jax.vmap`: the kernel
            is then multiplied with the patches of all images at once.
        kernel: height × width × channels × channels out.
        stride: of both axes, or of each.
        padding: "valid" for none; "same" for as much as makes the output `ceil(size / stride)`,
            the odd one behind; or ((top, bottom), (left, right)).

    >>> import jax.numpy as jnp
    >>> x = jnp.arange(16.0).reshape(4, 4, 1)
    >>> convolution(x, jnp.ones((2, 2, 1, 1)), stride=2)[..., 0].tolist()
    [[10.0, 18.0], [42.0, 50.0]]
    """
    x, kernel = jnp.asarray(x), jnp.asarray(kernel)
    window = plan(x.shape, kernel.shape, stride, padding)
    dtype = jnp.result_type(x, kernel)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(f"`x` and `kernel` must hold floating numbers, got {x.dtype}.")
    x, kernel = x.astype(dtype), kernel.astype(dtype)
    return value_p.bind(x[None, None], kernel[None], window=window)[0, 0]


class Window(NamedTuple):
    """Sizes of an image and of the kernel that slides over it, per axis."""

    size: Pair
    kernel: Pair
    stride: Pair
    padding: tuple[Pair, Pair]

    @property
    def steps(self) -> Pair:
        """Height and width of the output."""
        rows, columns = (
            (size + sum(pad) - kernel) // stride + 1
            for size, kernel, stride, pad in zip(*self, strict=True)
        )
        return rows, columns


def plan(x: tuple[int, ...], kernel: tuple[int, ...], stride: Any, padding: Any) -> Window:
    """Return the window for these shapes, or refuse them."""
    if len(x) != 3 or 0 in x:
        raise ValueError(f"`x` must be an image, height × width × channels, got shape {x}.")
    if len(kernel) != 4 or kernel[2] != x[2] or 0 in kernel:
        raise ValueError(
            f"`kernel` must be height × width × {x[2]} × channels out for an image of {x[2]} "
            f"channels, got shape {kernel}."
        )
    strides = (stride, stride) if _is_count(stride, 1) else stride
    if not (isinstance(strides, tuple) and len(strides) == 2 and all(map(_is_step, strides))):
        raise ValueError(f"`stride` must be a positive whole number or two, got {stride!r}.")
    size, span = x[:2], kernel[:2]
    if padding == "valid":
        pads = ((0, 0), (0, 0))
    elif padding == "same":
        missing = [
            max((-(-n // s) - 1) * s + k - n, 0)
            for n, k, s in zip(size, span, strides, strict=True)
        ]
        pads = tuple((m // 2, m - m // 2) for m in missing)
    else:
        pads = padding
        if not (_is_pair(pads) and all(_is_pair(p) and all(map(_is_pad, p)) for p in pads)):
            raise ValueError(
                '`padding` must be "valid", "same" or ((top, bottom), (left, right)) in whole '
                f"numbers of at least 0, got {padding!r}."
            )
    window = Window(size, span, strides, pads)  # pyright: ignore[reportArgumentType]
    if min(window.steps) < 1:
        raise ValueError(
            f"`x` of {size[0]} × {size[1]} is too small for a kernel of {span[0]} × {span[1]} "
            f"with padding {pads}."
        )
    return window


def _is_count(value: object, least: int) -> bool:
    return (
        isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)
    )


def _is_step(value: object) -> bool:
    return _is_count(value, 1)


def _is_pad(value: object) -> bool:
    return _is_count(value, 0)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


# By matrix products, for n images and one kernel. Barriers keep the compiler from computing what
# comes before once for each patch that holds it.


def _value(x: Array, kernel: Array, window: Window) -> Array:
    patches = _patches(x, window)
    y = patches @ kernel.reshape(patches.shape[1], -1)
    return y.reshape(len(x), *window.steps, -1)


def _to_input(y: Array, kernel: Array, window: Window) -> Array:
    """Return the sum of the patches y · kernel, each at its place in the image."""
    (s, t), (m, n), (h, w, c, o) = window.stride, window.steps, kernel.shape
    # In blocks of the size of the stride a patch steps by whole blocks: few terms, long runs.
    a, b = -(-h // s), -(-w // t)
    kernel = jnp.pad(kernel, ((0, a * s - h), (0, b * t - w), (0, 0), (0, 0)))
    kernel = kernel.reshape(a, s, b, t, c, o).transpose(0, 2, 1, 3, 4, 5).reshape(-1, o)
    patches = lax.dot_general(y.reshape(-1, o), kernel, (((1,), (1,)), ((), ())))
    patches = patches.reshape(len(y), m, n, a, b, s * t * c)
    if m == n == 1:
        blocks = patches[:, 0, 0]
    elif s * t * c >= 16:
        terms = [
            _shifted(_shifted(patches[:, :, :, i, j], 1, i, a), 2, j, b)
            for i in range(a)
            for j in range(b)
        ]
        blocks = functools.reduce(jnp.add, terms)
    else:  # runs are short: first down, then across, which is a + b terms
        terms = [_shifted(patches[:, :, :, i], 1, i, a) for i in range(a)]
        rows = lax.optimization_barrier(functools.reduce(jnp.add, terms))
        terms = [_shifted(rows[:, :, :, j], 2, j, b) for j in range(b)]
        blocks = functools.reduce(jnp.add, terms)
    blocks = lax.optimization_barrier(blocks).reshape(len(y), m + a - 1, n + b - 1, s, t, c)
    x = blocks.transpose(0, 1, 3, 2, 4, 5).reshape(len(y), (m + a - 1) * s, (n + b - 1) * t, c)
    # Pixels that no patch reaches are missing at the end, those of the padding are too many.
    for axis, (size, (before, _)) in enumerate(zip(window.size, window.padding, strict=True), 1):
        missing = max(before + size - x.shape[axis], 0)
        x = jnp.pad(x, [(0, missing if i == axis else 0) for i in range(4)])
        x = lax.slice_in_dim(x, before, before + size, axis=axis)
    return x


def _shifted(part: Array, axis: int, step: int, steps: int) -> Array:
    pads = [(0, 0)] * part.ndim
    pads[axis] = (step, steps - 1 - step)
    return jnp.pad(part, pads)


def _to_kernel(x: Array, y: Array, window: Window) -> Array:
    patches, rows = _patches(x, window), y.reshape(-1, y.shape[-1])
    # A product in this order, which the barrier keeps, is a fifth faster than in the other.
    product = lax.dot_general(rows, patches, (((0,), (0,)), ((), ())))
    return lax.optimization_barrier(product).T.reshape(*window.kernel, x.shape[-1], y.shape[-1])


def _patches(x: Array, window: Window) -> Array:
    """Return what the kernel sees: a row of numbers for each place of each image."""
    (h, w), (s, t), (m, n) = window.kernel, window.stride, window.steps
    x = jnp.pad(x, ((0, 0), *window.padding, (0, 0)))
    images, height, width, c = x.shape
    if m == n == 1:
        return x[:, :h, :w].reshape(images, -1)
    x = x.reshape(images, height, width * c)  # a row of a patch is one run of numbers
    if m * n <= 64:
        patches = [
            jnp.stack([x[:, i : i + h, j : j + w * c] for j in range(0, n * t * c, t * c)], axis=1)
            for i in range(0, m * s, s)
        ]
        return jnp.stack(patches, axis=1).reshape(images * m * n, h * w * c)
    # First across, then down: n + h pieces.
    runs = [x[:, :, j : j + w * c] for j in range(0, n * t * c, t * c)]
    across = lax.optimization_barrier(jnp.stack(runs, axis=2))
    down = [across[:, i : i + (m - 1) * s + 1 : s] for i in range(h)]
    return jnp.stack(down, axis=3).reshape(images * m * n, h * w * c)


# By the convolution of XLA.


def _library_value(x: Array, kernel: Array, window: Window) -> Array:
    return lax.conv_general_dilated(
        x, kernel, window.stride, window.padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _library_to_input(y: Array, kernel: Array, window: Window) -> Array:
    x = jax.ShapeDtypeStruct((len(y), *window.size, kernel.shape[2]), y.dtype)
    return jax.linear_transpose(lambda x: _library_value(x, kernel, window), x)(y)[0]


def _library_to_kernel(x: Array, y: Array, window: Window) -> Array:
    kernel = jax.ShapeDtypeStruct((*window.kernel, x.shape[-1], y.shape[-1]), x.dtype)
    return jax.linear_transpose(lambda kernel: _library_value(x, kernel, window), kernel)(y)[0]


# The primitives. Before their own axes, images have two (kernels, images of each) and kernels one.


def _primitive(name: str, shape: Callable[..., tuple[int, ...]], cpu: Any, library: Any):
    primitive = Primitive(name)

    def several(function: Any) -> Any:
        def of_all(one: Array, other: Array, *, window: Window) -> Array:
            if len(one) == 1:
                return function(one[0], other[0], window)[None]
            return jax.vmap(lambda one, other: function(one, other, window))(one, other)

        return mlir.lower_fun(of_all, multiple_results=False)

    primitive.def_impl(functools.partial(_run, primitive=primitive))
    primitive.def_abstract_eval(
        lambda one, other, *, window: ShapedArray(shape(one.shape, other.shape, window), one.dtype)
    )
    mlir.register_lowering(primitive, several(library))
    mlir.register_lowering(primitive, several(cpu), platform="cpu")
    batching.primitive_batchers[primitive] = functools.partial(_batched, primitive)
    return primitive


@functools.partial(jax.jit, static_argnames=("primitive", "window"))
def _run(one: Array, other: Array, *, primitive: Primitive, window: Window) -> Array:
    return primitive.bind(one, other, window=window)


def _batched(
    primitive: Primitive, arguments: Any, axes: Any, *, window: Window
) -> tuple[Array, int]:
    """Put a new axis to that of the images where one kernel serves all, else to the kernels'."""
    sizes = [x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None]
    if primitive is not to_kernel_p and axes[1] is None:
        images = jnp.moveaxis(arguments[0], axes[0], 1)
        kernels, new, old = images.shape[:3]
        images = images.reshape(kernels, new * old, *images.shape[3:])
        result = primitive.bind(images, arguments[1], window=window)
        return result.reshape(kernels, new, old, *result.shape[2:]), 1
    new, folded = sizes[0], []
    for x, axis in zip(arguments, axes, strict=True):
        x = jnp.broadcast_to(x, (new, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        folded.append(x.reshape(-1, *x.shape[2:]))
    result = primitive.bind(*folded, window=window)
    return result.reshape(new, -1, *result.shape[1:]), 0


value_p = _primitive(
    "rsgda_convolution",
    lambda x, kernel, window: (*x[:2], *window.steps, kernel[-1]),
    _value,
    _library_value,
)
to_input_p = _primitive(
    "rsgda_convolution_to_input",
    lambda y, kernel, window: (*y[:2], *window.size, kernel[-2]),
    _to_input,
    _library_to_input,
)
to_kernel_p = _primitive(
    "rsgda_convolution_to_kernel",
    lambda x, y, window: (x[0], *window.kernel, x[-1], y[-1]),
    _to_kernel,
    _library_to_kernel,
)
ad.defbilinear(
    value_p,
    lambda y, x, kernel, *, window: to_input_p.bind(y, kernel, window=window),
    lambda y, x, kernel, *, window: to_kernel_p.bind(x, y, window=window),
)
ad.defbilinear(
    to_input_p,
    lambda x, y, kernel, *, window: value_p.bind(x, kernel, window=window),
    lambda x, y, kernel, *, window: to_kernel_p.bind(x, y, window=window),
)
ad.defbilinear(
    to_kernel_p,
    lambda kernel, x, y, *, window: to_input_p.bind(y, kernel, window=window),
    lambda kernel, x, y, *, window: value_p.bind(x, kernel, window=window),
)
