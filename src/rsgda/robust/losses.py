"""Losses of one sample, from its logits and its label."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

Loss = Callable[..., Array]  # loss(logits, label, label_smoothing) -> scalar


def cross_entropy(logits: Array, label: Array, label_smoothing: float | Array = 0.0) -> Array:
    r"""Return the cross-entropy of one sample.

    $$ \ell(a, y) = \log \sum_c e^{a_c} - (1 - s)\, a_y - \tfrac{s}{q} \sum_c a_c $$

    Args:
        logits: $a$, one for each of the q classes.
        label: $y$, from 0 to q - 1.
        label_smoothing: $s$: the target gives every class s/q and the label the rest.

    >>> import jax.numpy as jnp
    >>> round(cross_entropy(jnp.zeros(4), 1).item(), 4)  # log 4
    1.3863

    Source: the loss of Section 5.1 of the paper; the smoothing is that of Sinha et al. (2018).
    """
    # A product with the target, not a look-up: the gradient of a look-up is a slow scatter.
    target = jax.nn.one_hot(label, logits.shape[-1], dtype=logits.dtype)
    target = target + label_smoothing * (1 / logits.shape[-1] - target)
    return jax.nn.logsumexp(logits) - jnp.sum(target * logits)


def double_softmax(logits: Array, label: Array, label_smoothing: float | Array = 0.0) -> Array:
    r"""Return the cross-entropy of the softmax taken as if it were logits.

    $$ \ell\big(\mathrm{softmax}(a), y\big) \in \big[\log(1 + (q - 1)/e),\; \log(e + q - 1)\big] $$

    without smoothing: for 10 classes from 1.4612 to 2.4612, however well a network classifies.

    >>> import jax.numpy as jnp
    >>> round(double_softmax(jnp.array([50.0] + 9 * [0.0]), 0).item(), 4)
    1.4612

    Source: what the authors' code minimises, as its network ends in a softmax.
    """
    return cross_entropy(jax.nn.softmax(logits), label, label_smoothing)


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "double_softmax": double_softmax}


def named(loss: "str | Loss") -> Loss:
    """Return the loss of this name, or the function itself."""
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    if not callable(loss):
        names = " or ".join(repr(name) for name in LOSSES)
        raise ValueError(
            f"`loss` must be {names}, or a function (logits, label, label_smoothing) -> scalar, "
            f"got {loss!r}."
        )
    return loss
