"""Distributionally robust classification as a problem: one adversary for every sample."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda import _checks, projections
from rsgda._trees import PyTree
from rsgda.problem import Problem
from rsgda.robust.losses import Loss, named
from rsgda.robust.penalty import Range, check_range


def wrm(
    network: PyTree,
    X: Any,
    y: Any,
    *,
    gamma: float = 1.3,
    batch_size: int = 128,
    loss: str | Loss = "cross_entropy",
    label_smoothing: float = 0.0,
    box: Range | None = None,
    per_batch: bool = False,
) -> tuple[Problem, PyTree, Array]:
    r"""Build the robust problem of a classifier, with its start.

    $$ \min_\theta \max_v \frac{1}{n} \sum_j
       \ell(f_\theta(v_j), y_j) - \gamma \|v_j - x_j\|^2 $$

    Every sample has an adversary $v_j$, which starts at $x_j$ and is kept between the visits of
    its sample: `v` has one row per sample, and a step touches those of its minibatch. It is
    strongly concave in v where $2 \gamma$ exceeds the curvature of the loss in its input.

    A step of size eta on the minibatch mean moves $v_j$ by eta/b times its own gradient: it is
    stable where $\eta / b < 2 / (2 \gamma + L_{zz})$. Samples are drawn with replacement, and one
    that is drawn twice moves twice, which on small data asks for an eta that is smaller still.

    Args:
        network: maps one sample, a row or an image height × width × channels, to its logits: an
            Equinox module or another callable pytree. It is `theta`.
        X: samples, one along the first axis.
        y: labels, whole numbers from 0 to the number of logits - 1.
        gamma: the penalty, in the paper's form; `penalty` converts from others.
        batch_size: samples in a minibatch.
        loss: "cross_entropy", "double_softmax" (the authors' code), or a function
            `(logits, label, label_smoothing) -> scalar`.
        label_smoothing: from 0 to 1, see `cross_entropy`.
        box: (low, high), the range that adversaries are kept in; None for no limit.
        per_batch: the other published reading. Adversaries belong to the minibatch: they start
            at its samples, the same minibatch is kept until a descent happens, and then the next
            one is drawn. `v` then has `batch_size` rows.

    Returns:
        `(problem, theta, v)`, ready for `rsgda.solve`.

    >>> import jax, rsgda
    >>> X = jax.random.normal(jax.random.key(0), (50, 3), "float32")
    >>> y = jnp.arange(50) % 2
    >>> network = rsgda.robust.mlp((3, 8, 2), key=jax.random.key(1))
    >>> problem, theta, v = wrm(network, X, y, gamma=1.3, batch_size=20)
    >>> algorithm = rsgda.RSGDA(p=0.25, alpha=0.3, eta=10.0)
    >>> rsgda.solve(problem, algorithm, theta, v, key=jax.random.key(2), steps=100).status
    <Status.FINISHED: 'all steps were done'>

    Source: Section 5.1 of the paper; `per_batch` is Sinha, Namkoong and Duchi (2018).
    """
    X, y = as_samples(X), np.asarray(y)
    check_labels(network, X, y)
    check_size("gamma", gamma, X.dtype)
    check_smoothing(label_smoothing)
    if not isinstance(per_batch, bool):
        raise ValueError(f"`per_batch` must be True or False, got {per_batch!r}.")
    if box is not None:
        check_inside(box, X)
    n = X.shape[0]
    data = {
        "x": X,
        "y": jnp.asarray(y, jnp.int32),
        # As data, not as constants of the loss: another gamma is not another program.
        "gamma": jnp.full(n, gamma, X.dtype),
        "label_smoothing": jnp.full(n, label_smoothing, X.dtype),
    }
    problem = Problem(
        WRM(named(loss)),
        data=data,
        batch_size=batch_size,
        separable=not per_batch,
        project_v=None if box is None else projections.box(*box),
        restart=_samples if per_batch else None,
    )
    return problem, network, X[:batch_size] if per_batch else X


@dataclasses.dataclass(frozen=True)
class WRM:
    """The loss of a robust problem, a mean over a minibatch; equal ones compile once."""

    loss: Loss

    def __call__(self, network: Callable[[Array], Array], v: Array, batch: dict) -> Array:
        """Return the mean of the loss at the adversaries less their penalties."""
        logits = jax.vmap(network)(v)
        losses = jax.vmap(self.loss)(logits, batch["y"], batch["label_smoothing"])
        moved = jnp.sum(jnp.square(v - batch["x"]), axis=tuple(range(1, v.ndim)))
        return jnp.mean(losses - batch["gamma"] * moved)


def _samples(batch: dict) -> Array:
    return batch["x"]


def as_samples(X: Any) -> Array:
    """Return samples as a floating array; refuse what cannot be one."""
    try:
        shape = np.shape(X)
    except ValueError:
        raise ValueError(
            "`X` must have samples of one shape, got some of different ones."
        ) from None
    if len(shape) < 2 or 0 in shape:
        raise ValueError(
            f"`X` must have one sample along its first axis and at least one number in each, got "
            f"shape {shape}."
        )
    dtype = np.asarray(X).dtype if not isinstance(X, jax.Array) else X.dtype
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(
            f"`X` must be floating, got {dtype}; scale it first, as adversaries move in its units "
            "(pixels: X / 255)."
        )
    if not isinstance(X, jax.Array):
        X = np.asarray(X, dtype.newbyteorder("="))  # JAX knows no other order
    X = jnp.asarray(X)
    if not bool(jnp.all(jnp.isfinite(X))):
        raise ValueError("`X` must be finite, got NaN or infinity.")
    return X


def check_size(name: str, size: Any, dtype: Any, *, ball: bool = False) -> None:
    """Refuse a gamma, or the radius of a `ball`, that the samples' type cannot compute with.

    The square of a radius must be finite, as points are projected by it.
    """
    _checks.positive(name, size)
    least, most = float(jnp.finfo(dtype).tiny) * 4, float(jnp.finfo(dtype).max) / 4
    most = most**0.5 if ball else most
    if not least <= size <= most:
        raise ValueError(
            f"`{name}` must lie in [{least:.3g}, {most:.3g}], as the samples are of type {dtype}, "
            f"got {size!r}."
        )


def check_labels(network: PyTree, X: Array | np.ndarray, y: np.ndarray) -> int:
    """Refuse labels that are none of the network's; return its number of classes."""
    if y.shape != X.shape[:1]:
        raise ValueError(
            f"`y` must have one label for each of the {X.shape[0]} samples, got shape {y.shape}."
        )
    if not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"`y` must hold whole numbers from 0, got {y.dtype}.")
    if not callable(network):
        raise ValueError(f"`network` must be callable on one sample, got {network!r}.")
    try:
        out = jax.eval_shape(lambda x: network(x), jax.ShapeDtypeStruct(X.shape[1:], X.dtype))
    except (TypeError, ValueError, RuntimeError) as error:  # also those of Equinox
        raise ValueError(
            f"`network` must take one sample of shape {X.shape[1:]}; called with one it says: "
            f"{error}"
        ) from error
    if getattr(out, "ndim", None) != 1:
        raise ValueError(
            f"`network` must map one sample of shape {X.shape[1:]} to a vector of logits, got "
            f"{out}."
        )
    if y.min() < 0 or y.max() >= out.shape[0]:
        raise ValueError(
            f"`y` must be from 0 to {out.shape[0] - 1}, as the network has {out.shape[0]} logits, "
            f"got labels from {y.min()} to {y.max()}."
        )
    return out.shape[0]


def check_inside(box: Range, X: Array) -> None:
    """Refuse a box that is none, or that samples are not in."""
    check_range("box", box)
    low, high = float(X.min()), float(X.max())
    if low < box[0] or high > box[1]:
        raise ValueError(
            f"`X` must lie in `box`, where adversaries are kept, got values from {low:g} to "
            f"{high:g} and box = {box}."
        )


def check_smoothing(value: Any) -> None:
    """Refuse what is no part of a label."""
    number = None if isinstance(value, bool) else _checks.host_number(value)
    if number is None or not 0 <= number <= 1:
        raise ValueError(f"`label_smoothing` must lie in [0, 1], got {value!r}.")
