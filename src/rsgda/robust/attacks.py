"""Attacks: samples that are moved so that a network errs, and what that costs."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array, lax

from rsgda import _checks
from rsgda._trees import PyTree, freeze, thaw
from rsgda.robust.losses import Loss, named
from rsgda.robust.penalty import Range
from rsgda.robust.wrm import as_samples, check_inside, check_labels, check_size, check_smoothing

CHUNK = 256  # samples at once
NORMS = ("l2", "linf")


def pgd(
    network: PyTree,
    X: Any,
    y: Any,
    *,
    radius: float,
    key: Array,
    norm: str = "l2",
    steps: int = 40,
    step_size: float | None = None,
    restarts: int = 1,
    loss: str | Loss = "cross_entropy",
    label_smoothing: float = 0.0,
    box: Range | None = None,
) -> Array:
    r"""Move each sample within a ball so that its loss is large: projected gradient ascent.

    $$ z \leftarrow \Pi\big(z + s_t\, \nabla \ell / \|\nabla \ell\|_2\big)
       \quad\text{or}\quad \Pi\big(z + s_t \operatorname{sign} \nabla \ell\big), \qquad
       \|z - x\|_2 \le r \ \text{ or } \ \|z - x\|_\infty \le r $$

    from a random point of the ball. What is returned is, for each sample, the best of all points
    that were visited, the sample itself among them.

    Args:
        network: maps one sample to its logits.
        X: samples, one along the first axis.
        y: labels.
        radius: $r$ of the ball; 0 moves nothing.
        key: draws the starts; sample j of start i by folding in i and j.
        norm: "l2" or "linf".
        steps: gradient steps from each start.
        step_size: $s_t = s$; None: from 2r, linearly down to 2r/steps.
        restarts: the number of starts.
        loss: what to make large, as in `wrm`.
        label_smoothing: from 0 to 1.
        box: (low, high), the range that samples are kept in.

    >>> import jax, rsgda
    >>> X, y = jax.random.normal(jax.random.key(0), (20, 3), "float32"), jnp.arange(20) % 2
    >>> network = rsgda.robust.mlp((3, 8, 2), key=jax.random.key(1))
    >>> moved = pgd(network, X, y, radius=0.1, key=jax.random.key(2))
    >>> bool(jnp.all(jnp.linalg.norm(moved - X, axis=1) < 0.1001))
    True

    Source: Madry et al. (2018), Section 2.1; the steps that shrink are ours.
    """
    rows = door(network, X, y, key, loss, label_smoothing, box)
    ball = numbers_of("radius", radius, rows, steps, step_size, restarts, ball=True)
    check_norm(norm)
    return _all(rows, functools.partial(run_pgd, rows, ball, norm))


def wrm_attack(
    network: PyTree,
    X: Any,
    y: Any,
    *,
    gamma: float,
    key: Array,
    steps: int = 15,
    step_size: float | None = None,
    restarts: int = 1,
    loss: str | Loss = "cross_entropy",
    label_smoothing: float = 0.0,
    box: Range | None = None,
) -> Array:
    r"""Move each sample so that its loss less the penalty is large: the adversary of `wrm`.

    $$ z \leftarrow z + s_t \nabla_z \big( \ell(f(z), y) - \gamma \|z - x\|^2 \big) $$

    from the sample itself. What is returned is the best of all points that were visited.

    Args:
        network: maps one sample to its logits.
        X: samples, one along the first axis.
        y: labels.
        gamma: the penalty.
        key: draws the starts after the first, in the ball of which the rim costs a loss of 1.
        steps: gradient steps from each start.
        step_size: $s_t = s$; None: that of Sinha et al., $1 / (2 \gamma \sqrt{t + 2})$.
        restarts: the number of starts.
        loss: what to make large, as in `wrm`.
        label_smoothing: from 0 to 1.
        box: (low, high), the range that samples are kept in.

    >>> import jax, rsgda
    >>> X, y = jax.random.normal(jax.random.key(0), (20, 3), "float32"), jnp.arange(20) % 2
    >>> network = rsgda.robust.mlp((3, 8, 2), key=jax.random.key(1))
    >>> near = wrm_attack(network, X, y, gamma=10.0, key=jax.random.key(2))
    >>> far = wrm_attack(network, X, y, gamma=1.0, key=jax.random.key(2))
    >>> bool(jnp.sum((near - X) ** 2) < jnp.sum((far - X) ** 2))
    True

    Source: Sinha, Namkoong and Duchi (2018), their Algorithm 1 and its published code.
    """
    rows = door(network, X, y, key, loss, label_smoothing, box)
    penalised = numbers_of("gamma", gamma, rows, steps, step_size, restarts)
    return _all(rows, functools.partial(run_wrm, rows, penalised))


# What the attacks share: samples at the door, chunks, one ascent.


class Rows(NamedTuple):
    """Samples that passed the door, with all that an attack needs beside its numbers."""

    network: PyTree  # frozen
    X: np.ndarray
    y: np.ndarray
    key: Array
    loss: Loss
    smoothing: Array
    box: tuple[Array, Array] | None


class Numbers(NamedTuple):
    """The numbers of an attack; another value is not another program."""

    size: Array  # the radius or gamma
    steps: Array
    restarts: Array
    step_size: Array  # NaN for the attack's own


def door(
    network: PyTree, X: Any, y: Any, key: Any, loss: Any, label_smoothing: Any, box: Any
) -> Rows:
    """Check what all attacks are given."""
    samples, labels = as_samples(X), np.asarray(y)
    check_labels(network, samples, labels)
    if not (hasattr(key, "dtype") and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)) or key.ndim:
        raise ValueError(
            f"`key` must be a single key of the new style, such as jax.random.key(0), got {key!r}."
        )
    check_smoothing(label_smoothing)
    dtype, ends = samples.dtype, None
    if box is not None:
        check_inside(box, samples)
        ends = (jnp.asarray(box[0], dtype), jnp.asarray(box[1], dtype))
    smoothing = jnp.asarray(label_smoothing, dtype)
    host = np.asarray(samples)
    return Rows(freeze(network), host, labels.astype(np.int32), key, named(loss), smoothing, ends)


def chunks(places: np.ndarray, n: int) -> Iterator[tuple[np.ndarray, int]]:
    """Yield places in chunks of one size, filled up at the end, and how many of each count."""
    size = min(n, CHUNK)
    for first in range(0, len(places), size):
        part = places[first : first + size]
        yield np.concatenate([part, np.repeat(part[:1], size - len(part))]), len(part)


def numbers_of(
    name: str,
    size: Any,
    rows: Rows,
    steps: Any,
    step_size: Any,
    restarts: Any,
    *,
    ball: bool = False,
) -> Numbers:
    """Check the numbers of an attack; its radius or gamma goes by its name.

    The radius of a ball may be zero.
    """
    dtype = rows.X.dtype
    if not (ball and _checks.host_number(size) == 0):
        check_size(name, size, dtype, ball=ball)
    for count, least in (("steps", steps), ("restarts", restarts)):
        _checks.whole(count, least, 1)
        _checks.counted(count, least)
    if step_size is not None:
        _checks.positive("step_size", step_size)
    return Numbers(
        jnp.asarray(size, dtype),
        jnp.asarray(steps, jnp.int32),
        jnp.asarray(restarts, jnp.int32),
        jnp.asarray(jnp.nan if step_size is None else step_size, dtype),
    )


def check_norm(norm: Any) -> None:
    """Refuse a norm that there is no ball for."""
    if norm not in NORMS:
        raise ValueError(f"`norm` must be 'l2' or 'linf', got {norm!r}.")


def run_pgd(rows: Rows, numbers: Numbers, norm: str, places: np.ndarray) -> np.ndarray:
    """Attack the samples at some places."""
    return np.asarray(_pgd(_at(rows, places), numbers, loss=rows.loss, norm=norm))


def run_wrm(rows: Rows, numbers: Numbers, places: np.ndarray) -> np.ndarray:
    """Attack the samples at some places."""
    return np.asarray(_wrm(_at(rows, places), numbers, loss=rows.loss))


class _Chunk(NamedTuple):
    network: PyTree
    x: Array
    y: Array
    places: Array
    key: Array
    smoothing: Array
    box: tuple[Array, Array] | None


def _at(rows: Rows, places: np.ndarray) -> _Chunk:
    x, y = jnp.asarray(rows.X[places]), jnp.asarray(rows.y[places])
    where = jnp.asarray(places, jnp.int32)
    return _Chunk(rows.network, x, y, where, rows.key, rows.smoothing, rows.box)


def _all(rows: Rows, attack: Callable[[np.ndarray], np.ndarray]) -> Array:
    moved = np.array(rows.X)
    for places, take in chunks(np.arange(len(moved)), len(moved)):
        moved[places[:take]] = attack(places)[:take]
    return jnp.asarray(moved)


@functools.partial(jax.jit, static_argnames=("loss", "norm"))
def _pgd(at: _Chunk, numbers: Numbers, *, loss: Loss, norm: str) -> Array:
    radius, x = numbers.size, at.x
    # Less what rounding can add to z - x, so that it does not leave the ball.
    long = jnp.abs(x) if norm == "linf" else jnp.sqrt(squared(x))
    most = jnp.maximum(radius - jnp.finfo(x.dtype).eps * (long + 16 * radius), 0)

    def kept(z: Array) -> Array:
        d = z - x
        if norm == "linf":
            d = jnp.clip(d, -most, most)
        else:
            d = d * wide(jnp.minimum(1, _over(most, jnp.sqrt(squared(d)))), d)
        # Into the box it is towards x in every entry.
        return _boxed(x + d, at.box)

    def start(i: Array) -> Array:
        return kept(x + _drawn(at, radius, norm, i))

    def move(z: Array, g: Array, t: Array) -> Array:
        left = (numbers.steps - t).astype(x.dtype) / numbers.steps.astype(x.dtype)
        step = _step(numbers, 2 * radius * left)
        return kept(z + step * (jnp.sign(g) if norm == "linf" else _unit(g)))

    value = functools.partial(losses, at.network, at.y, at.smoothing, loss)
    return _best(value, move, start, at, numbers)


@functools.partial(jax.jit, static_argnames=("loss",))
def _wrm(at: _Chunk, numbers: Numbers, *, loss: Loss) -> Array:
    gamma, x = numbers.size, at.x

    def value(z: Array) -> Array:
        return losses(at.network, at.y, at.smoothing, loss, z) - gamma * squared(z - x)

    def start(i: Array) -> Array:
        drawn = _boxed(x + _drawn(at, 1 / jnp.sqrt(gamma), "l2", i), at.box)
        return jnp.where(i == 0, x, drawn)

    def move(z: Array, g: Array, t: Array) -> Array:
        step = _step(numbers, 1 / (2 * gamma * jnp.sqrt(t.astype(x.dtype) + 2)))
        return _boxed(z + step * g, at.box)

    return _best(value, move, start, at, numbers)


def losses(network: PyTree, y: Array, smoothing: Array, loss: Loss, z: Array) -> Array:
    """Return the loss of each sample, of a frozen network."""
    logits = jax.vmap(thaw(network))(z)
    return jax.vmap(loss, (0, 0, None))(logits, y, smoothing)


_losses = functools.partial(jax.jit, static_argnums=3)(losses)


def judged(rows: Rows, z: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return squared distances and losses of samples that were moved."""
    each = _losses(rows.network, rows.y[places], rows.smoothing, rows.loss, z)
    return np.stack([squared_distances(rows, z, places), np.asarray(each, float)])


def unmoved(rows: Rows) -> np.ndarray:
    """Return the losses of the samples themselves."""
    n = len(rows.X)
    each = np.empty(n)
    for places, take in chunks(np.arange(n), n):
        each[places[:take]] = judged(rows, rows.X[places], places)[1, :take]
    return each


def squared_distances(rows: Rows, z: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return how far samples were moved, in double precision: no budget is passed by rounding."""
    return np.sum(np.square(z.astype(float) - rows.X[places]), axis=tuple(range(1, z.ndim)))


def squared(d: Array) -> Array:
    """Return the squared length of each row."""
    return jnp.sum(jnp.square(d), axis=tuple(range(1, d.ndim)))


def _best(
    value: Callable[[Array], Array],
    move: Callable[[Array, Array, Array], Array],
    start: Callable[[Array], Array],
    at: _Chunk,
    numbers: Numbers,
) -> Array:
    """Ascend from each start and return the best of all points visited, row by row."""

    def total(z: Array) -> tuple[Array, Array]:
        each = value(z)
        return jnp.sum(each), each

    def better(best: tuple[Array, Array], z: Array, each: Array) -> tuple[Array, Array]:
        higher = each > best[1]
        return jnp.where(wide(higher, z), z, best[0]), jnp.where(higher, each, best[1])

    def step(t: Array, now: tuple[Array, Any]) -> tuple[Array, Any]:
        z, best = now
        (_, each), g = jax.value_and_grad(total, has_aux=True)(z)
        return move(z, g, t), better(best, z, each)

    def once(i: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        z, best = lax.fori_loop(0, numbers.steps, step, (start(i), best))
        return better(best, z, value(z))

    return lax.fori_loop(0, numbers.restarts, once, (at.x, value(at.x)))[0]


def _drawn(at: _Chunk, radius: Array, norm: str, i: Array) -> Array:
    """Draw a point of the ball around zero for each sample; it depends on its place alone."""
    shape, dtype = at.x.shape[1:], at.x.dtype

    def one(place: Array) -> Array:
        key_towards, key_far = jr.split(jr.fold_in(jr.fold_in(at.key, i), place))
        if norm == "linf":
            return jr.uniform(key_towards, shape, dtype, -1, 1)
        u = jr.normal(key_towards, shape, dtype)
        far = jr.uniform(key_far, (), dtype) ** (1 / u.size)
        return u * far / jnp.sqrt(jnp.sum(jnp.square(u)))

    return radius * jax.vmap(one)(at.places)


def _step(numbers: Numbers, own: Array) -> Array:
    return jnp.where(jnp.isnan(numbers.step_size), own, numbers.step_size)


def _boxed(z: Array, box: tuple[Array, Array] | None) -> Array:
    return z if box is None else jnp.clip(z, *box)


def _unit(g: Array) -> Array:
    # Its largest entry first: the squares of a confident network's gradients would be zero.
    g = g * wide(_over(1, jnp.max(jnp.abs(g), axis=tuple(range(1, g.ndim)))), g)
    return g * wide(_over(1, jnp.sqrt(squared(g))), g)


def _over(above: Any, length: Array) -> Array:
    """Return the ratio, 1 where the length is 0."""
    far = length > 0
    return jnp.where(far, above / jnp.where(far, length, 1), 1)


def wide(row: Any, like: Any) -> Any:
    """Return one number for each row in a shape that multiplies rows, of NumPy or JAX."""
    return row.reshape(-1, *(1,) * (like.ndim - 1))
