"""The compiled loop around the steps of an algorithm, with coins tossed some steps ahead."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from rsgda._trees import PyTree
from rsgda.drive.plan import stacks

At = TypeVar("At")

# A compiled loop on a CPU pays 0.03 us for each small operation, and a coin takes thirty of them,
# more than the gradient of a small problem; for many coins at once the compiler needs no more of
# them. Above 32 the operations are no longer small, and the gain is lost.
AHEAD = 32


def tosses_ahead(algorithm: Any, key: Array) -> bool:
    """Say whether an algorithm's coins can be tossed together and be the same as one by one."""
    # A class may inherit `toss` and bring a `step` of its own, which knows nothing of it.
    if (
        not hasattr(algorithm, "toss")
        or "tossed" not in inspect.signature(algorithm.step).parameters
    ):
        return False
    return stacks(key)


def run(
    at: At,
    end: Array,
    *,
    step: Callable[[At], Array],
    unfinished: Callable[[At, Array], Array],
    advance: Callable[[At, PyTree], At],
    toss: Callable[[Array], PyTree] | None,
) -> At:
    """Call `advance(at, toss(k))` as long as `unfinished(at, end)`."""
    if toss is None:
        return lax.while_loop(lambda at: unfinished(at, end), lambda at: advance(at, None), at)

    def block(at: At) -> At:
        first = step(at)
        tossed = jax.vmap(toss)(first + jnp.arange(AHEAD, dtype=first.dtype))

        def one(at: At) -> At:
            place = step(at) - first
            pick = lambda leaf: lax.dynamic_index_in_dim(leaf, place, keepdims=False)  # noqa: E731
            return advance(at, jax.tree.map(pick, tossed))

        last = first + jnp.minimum(end - first, AHEAD)
        return lax.while_loop(lambda at: unfinished(at, last), one, at)

    return lax.while_loop(lambda at: unfinished(at, end), block, at)
