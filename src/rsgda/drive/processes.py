"""What the processes of one run agree on; one that did something else would keep all waiting."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax
import numpy as np

T = TypeVar("T")
# JAX has no class for this kind of error; its message speaks of one of these.
SIGNS = ("gloo", "connection", "socket", "peer", "heartbeat", "coordination", "barrier")
PATIENCE = 600.0  # seconds that processes wait for each other at the start of a run
WORDS = 4_096  # bytes of an error that is told to the others


class ProcessLost(ConnectionError):
    """Another process of the run has ended or cannot be reached."""


def several() -> bool:
    """Say whether there are other processes."""
    return jax.process_count() > 1


def is_first() -> bool:
    """Say whether this process is the one that writes, and shows how far the run has come."""
    return jax.process_index() == 0


def meet() -> None:
    """Wait for the other processes, which may have taken longer to come to this call.

    Whatever they then do together for the first time gives them half a minute, and not more.
    """
    if several():
        from orbax.checkpoint import multihost

        multihost.get_barrier_sync_fn()(key="rsgda", timeout_ms=int(1e3 * PATIENCE))


def of_first(number: int) -> int:
    """Return the number of the first process: clocks differ, and all must do the same."""
    return int(_gathered(number)[0])


def in_any(flag: bool) -> bool:
    """Say whether a flag is set in any process."""
    return bool(np.any(_gathered(flag)))


def _gathered(number: int | bool) -> np.ndarray:
    if not several():
        return np.array([number])
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(np.array(number, np.int32)))


def by_first(act: Callable[[], T]) -> T | None:
    """Call a function in the first process only; what it raises there is raised in all."""
    if not several():
        return act()
    failure, made = None, None
    if is_first():
        try:
            made = act()
        except Exception as error:
            failure = error
    said = _told("" if failure is None else f"{type(failure).__name__}: {failure}")
    if failure is not None:
        raise failure
    if said:
        raise ValueError(f"the first process has refused: {said}")
    return made


def total(number: int) -> int:
    """Return the sum of what each process has, modulo 2^64."""
    if not several():
        return number % 2**64
    from jax.experimental import multihost_utils

    halves = np.array([number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF], np.uint32)
    told = multihost_utils.process_allgather(halves).astype(object)
    return int(sum(high * 2**32 + low for high, low in told) % 2**64)


@contextmanager
def noticing_losses(where: Callable[[], str]) -> Iterator[None]:
    """Say so if other processes are gone; `where` says what is left of the run."""
    try:
        yield
    except Exception as error:
        if not is_loss(error):
            raise
        raise ProcessLost(
            f"process {jax.process_index()} of {jax.process_count()} has lost touch with another "
            f"process of this run, which has ended, cannot be reached or is too slow; {where()} "
            f"({str(error).partition(chr(10))[0]:.200})"
        ) from error


def is_loss(error: Exception) -> bool:
    """Say whether an error is what JAX raises where another process does not answer."""
    if isinstance(error, ValueError):  # said by this package, with words of the user
        return False
    return several() and any(sign in str(error).lower() for sign in SIGNS)


def _told(words: str) -> str:
    """Return what the first process says."""
    from jax.experimental import multihost_utils

    letters = np.zeros(WORDS, np.uint8)
    said = np.frombuffer(words.encode()[:WORDS], np.uint8)
    letters[: len(said)] = said
    heard: Any = multihost_utils.broadcast_one_to_all(letters)
    return bytes(np.asarray(heard)).rstrip(b"\0").decode(errors="replace")
