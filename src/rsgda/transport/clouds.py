"""Point clouds and weights at the door, and samplers of them."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

from rsgda import _checks
from rsgda._trees import PyTree, freeze_values, is_float_array, thaw

SOME = 256  # points of a cloud that costs are looked at of
SUM = 1e-4  # how far from one the sum of given weights may be: that of float32 of many


def points(name: str, value: Any, dtype: Any = None) -> Array:
    """Return points as a floating array, n × d; refuse what is none."""
    shape = getattr(value, "shape", None)
    if np.ma.is_masked(value) or np.iscomplexobj(value):
        raise ValueError(f"`{name}` must be plain real numbers, got masked or complex ones.")
    try:
        array = np.asarray(value) if not isinstance(value, jax.Array) else value
        array = array if jnp.issubdtype(array.dtype, jnp.floating) else np.asarray(array, float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be an array of points, n × d, got {value!r:.80}."
        ) from error
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"`{name}` must be an array of points, n × d, neither of them zero, got the shape "
            f"{shape or array.shape}."
        )
    # Half precision is too little for sums of exponentials.
    array = jnp.asarray(array, dtype or (jnp.float32 if array.dtype.itemsize < 4 else None))
    bad = np.flatnonzero(~np.isfinite(np.asarray(array)).all(axis=1))
    if len(bad):
        raise ValueError(
            f"`{name}` must be finite in {array.dtype}, got NaN or infinity in {len(bad):,} of "
            f"{len(array):,} rows, the first of them {bad[0]}."
        )
    return array


def weights(name: str, value: Any, n: int, dtype: Any, *, zero: bool = False) -> Array:
    """Return weights of n points that sum to one, uniform for None."""
    if value is None:
        return jnp.full(n, 1 / n, dtype)
    try:
        given = np.asarray(value, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must hold {n:,} numbers, got {value!r:.80}.") from error
    if given.shape != (n,):
        raise ValueError(
            f"`{name}` must hold one weight for each of {n:,} points, got {given.shape}."
        )
    # What its type rounds to zero, or nearly, has no logarithm to compute with.
    least = float(jnp.finfo(dtype).tiny)
    wrong = ~np.isfinite(given) | (given < 0 if zero else given < least)
    if wrong.any():
        wanted = (
            "finite and not negative"
            if zero
            else "positive and finite; leave points of zero weight out"
        )
        raise ValueError(
            f"`{name}` must be {wanted}, got {given[wrong][0]:g} at {np.flatnonzero(wrong)[0]}."
        )
    if abs(given.sum() - 1) > SUM:
        raise ValueError(f"`{name}` must sum to one, got a sum of {given.sum():.6g}; divide by it.")
    return jnp.asarray(given / given.sum(), dtype)


def epsilon_of(value: Any, dtype: Any) -> Array:
    """Return the regularisation as an array."""
    _checks.positive("epsilon", value)
    if callable(value) or np.ndim(value):
        raise ValueError(f"`epsilon` must be a single number, got {value!r}.")
    held = jnp.asarray(value, dtype)
    number = _checks.host_number(held)
    if number is not None and not jnp.finfo(dtype).tiny <= number < np.inf:
        raise ValueError(f"`epsilon` must be one that {held.dtype} can hold, got {value!r}.")
    return held


def check_resolved(epsilon: Array, costs: Array) -> None:
    """Refuse a regularisation that is lost in the rounding of some of the costs."""
    typical = float(jnp.median(costs))
    least = float(jnp.finfo(costs.dtype).eps) * typical
    if np.isfinite(typical) and float(epsilon) < least:
        raise ValueError(
            f"`epsilon` must be larger, got {float(epsilon):.3g}: costs are about {typical:.3g}, "
            f"and {costs.dtype} tells no differences below {least:.3g} of these. Start with a "
            f"hundredth of them, {typical / 100:.3g}."
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Weighted:
    """A sampler of points by their weights, with replacement, at a cost that n has no part in.

    A place is drawn uniformly, and kept or given up for its `other` (Walker's alias method). Sums
    of many small weights, which float32 would round, are not needed.
    """

    points: Array
    kept: Array  # the share of draws of a place that stay there
    other: Array  # where the others go
    batch_size: int = dataclasses.field(metadata={"static": True})

    def __call__(self, key: Array) -> Array:
        """Draw a minibatch."""
        which, whether = jr.split(key)
        place = jr.randint(which, (self.batch_size,), 0, len(self.points), jnp.int32)
        stays = jr.uniform(whether, (self.batch_size,), self.kept.dtype) < self.kept[place]
        return self.points[jnp.where(stays, place, self.other[place])]

    @classmethod
    def of(cls, points: Array, weights: Array, batch_size: int) -> "Weighted":
        """Make the tables."""
        kept, other = alias(np.asarray(weights, np.float64))
        return cls(points, jnp.asarray(kept, weights.dtype), jnp.asarray(other), batch_size)


def alias(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the tables of Walker's alias method, by Vose's way to make them."""
    share = (weights * (len(weights) / weights.sum())).tolist()
    other = list(range(len(share)))
    small = [i for i, value in enumerate(share) if value < 1]
    large = [i for i, value in enumerate(share) if value >= 1]
    while small and large:
        less, more = small.pop(), large[-1]
        other[less] = more
        share[more] -= 1 - share[less]
        if share[more] < 1:
            small.append(large.pop())
    for i in (*small, *large):
        share[i] = 1.0  # what is left differs from one by rounding only
    return np.array(share), np.array(other, np.int32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class OneByOne:
    """A sampler of minibatches, from one of single points."""

    sample: PyTree
    batch_size: int = dataclasses.field(metadata={"static": True})

    def __call__(self, key: Array) -> PyTree:
        """Draw a minibatch."""
        return jax.vmap(thaw(self.sample))(jr.split(key, self.batch_size))


def source(name: str, value: Any, a: Any, batch_size: Any, dtype: Any) -> dict[str, Any]:
    """Return where minibatches come from, as arguments of a problem: a cloud or a sampler."""
    _checks.whole("batch_size", batch_size, 1)
    batch_size = int(batch_size)
    if callable(value):
        if a is not None:
            raise ValueError(f"`a` weighs points; `{name}` is a sampler, which has none.")
        return {"sample": _sampler(name, value, batch_size)}
    cloud = points(name, value, dtype)
    if a is None:
        return {"data": cloud, "batch_size": min(batch_size, len(cloud))}
    given = weights("a", a, len(cloud), cloud.dtype, zero=True)
    return {"sample": Weighted.of(cloud, given, batch_size)}


def _sampler(name: str, sample: Any, batch_size: int) -> Any:
    """Return a sampler of minibatches; one that draws single points is asked many times."""
    try:
        drawn = jax.eval_shape(sample, jr.key(0))
    except Exception as error:
        raise ValueError(f"`{name}` must draw from a key; it failed on it: {error}") from error
    shape = getattr(drawn, "shape", None)
    if shape is None or not jnp.issubdtype(drawn.dtype, jnp.floating) or len(shape) not in (1, 2):
        raise ValueError(f"`{name}` must draw floating arrays from a key, got {drawn!r:.80}.")
    if len(shape) == 1:
        return OneByOne(freeze_values(sample), batch_size)
    if shape[:1] != (batch_size,):
        raise ValueError(
            f"`{name}` must draw one point, or a minibatch of `batch_size` = {batch_size} of them, "
            f"got the shape {shape}."
        )
    return sample


def drawn(given: dict[str, Any]) -> Any:
    """Return the shape of a minibatch of a source."""
    if "sample" in given:
        return jax.eval_shape(given["sample"], jr.key(0))
    cloud = given["data"]
    return jax.ShapeDtypeStruct((given["batch_size"], *cloud.shape[1:]), cloud.dtype)


def some(given: dict[str, Any]) -> Array:
    """Return a few points of a source."""
    if "sample" in given:
        return given["sample"](jr.key(0))[:SOME]
    return given["data"][:SOME]


def dtype_of(network: Any) -> Any:
    """Return the dtype that a network computes in, or None where it has no weights."""
    return next((leaf.dtype for leaf in jax.tree.leaves(network) if is_float_array(leaf)), None)


def made(name: str, network: Any, inputs: Any) -> Any:
    """Return the shape of what a network makes of points; refuse what makes no points of them."""
    if not callable(network):
        raise ValueError(
            f"`{name}` must be callable, such as an Equinox module, got {network!r:.80}."
        )
    try:
        shape = eqx.filter_eval_shape(jax.vmap(network), inputs)
    except Exception as error:
        raise ValueError(
            f"`{name}` must map one point of shape {inputs.shape[1:]} and {inputs.dtype}; it "
            f"failed on it: {error}"
        ) from error
    if len(getattr(shape, "shape", ())) != 2 or not jnp.issubdtype(shape.dtype, jnp.floating):
        raise ValueError(f"`{name}` must make a vector of each point, got {shape!r:.80} of all.")
    return shape
