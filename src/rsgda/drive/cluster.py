"""Calls that run on the workers of a Dask cluster; one whose worker dies is made again elsewhere.

The scheduler and the workers need the packages that the client has. Of these, the scheduler does
not import JAX: it passes on bytes, which only a worker opens.
"""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import re
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from rsgda.drive.folder import CheckpointBusy

try:
    import distributed
    from distributed.comm.core import connect
    from distributed.core import send_recv
except ImportError as error:
    raise ValueError(
        'a cluster needs Dask\'s distributed, which is not installed: pip install "rsgda[cluster]".'
    ) from error

# A folder is locked as long as the process lives that runs in it. The scheduler may have given up
# a worker that is alive and only cannot be reached: it has that long to come to an end.
PATIENCE = 600.0
LOOK = 0.1  # seconds between two looks at what is done
ANSWER = 10.0  # seconds that a scheduler has to answer whoever connects
HINT = "`dask scheduler` starts one and prints its address, such as tcp://192.168.0.1:8786."
ADDRESS = re.compile(r"([a-z]+://)?[^\s/]+:\d+")
NEWS = 0.5  # seconds between two messages of a task
# What the numbers of a run depend on, beside its arguments; each has a context of its name.
SETTINGS = (
    "enable_x64",
    "numpy_dtype_promotion",
    "default_matmul_precision",
    "threefry_partitionable",
)

Call = TypeVar("Call")
Found = TypeVar("Found")
Told = Callable[[float], None]


class Unwanted(Exception):
    """Nobody waits for this task any more."""


@dataclasses.dataclass(frozen=True)
class Sealed:
    """A function with all that it holds and its calls, as bytes, and what it takes to open them.

    Attributes:
        token: its name; a worker opens each only once, so that it compiles each only once.
        content: the function and its calls.
        settings: JAX's settings where it was sealed.
        paths: where else to look for modules.
    """

    token: str
    content: bytes = dataclasses.field(compare=False, repr=False)
    settings: tuple[Any, ...] = dataclasses.field(compare=False)
    paths: tuple[str, ...] = dataclasses.field(compare=False)


def check(client: Any) -> None:
    """Refuse what is not a client that one can wait for."""
    if not isinstance(client, distributed.Client):
        raise ValueError(f"`client` must be a distributed.Client, got {client!r}.")
    if client.asynchronous:
        raise ValueError("`client` must not be asynchronous, as the call waits for its results.")


def check_address(address: str) -> None:
    """Refuse what cannot be the address of a scheduler."""
    if not ADDRESS.fullmatch(address):
        raise ValueError(
            f"the address of a Dask scheduler must be one with a port, got {address!r}; {HINT}"
        )


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a scheduler that runs."""
    check_address(address)
    try:
        # A client would wait for whatever it is, and take a minute to be given up.
        kind = asyncio.run(asyncio.wait_for(_kind(address), ANSWER))
        if kind != "Scheduler":
            raise ConnectionError(f"a {kind} is there")
        client = distributed.Client(address, set_as_default=False)
    except Exception as error:  # what is there may answer anything
        said = (_first_line(each) for each in (error.__cause__, error) if each)
        why = next(filter(None, said), f"nothing said for {ANSWER:g} s")
        raise ConnectionError(f"there is no Dask scheduler at {address} ({why}); {HINT}") from error
    with client:
        yield client


async def _kind(address: str) -> str:
    """Return what it is that answers at an address."""
    options = distributed.Security().get_connection_args("client")
    there = await connect(address, timeout=ANSWER / 2, **options)
    try:
        answer: Any = await send_recv(there, op="identity", reply=True)
        return answer["type"]
    finally:
        there.abort()


@contextlib.contextmanager
def on_this_machine(workers: int) -> Iterator[Any]:
    """Start workers here, each a process of its own."""
    with _deaf():
        # One thread each: a worker runs one block at a time, in which JAX has threads of its own.
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,  # pyright: ignore
            memory_limit=0,
            silence_logs=logging.ERROR,  # of Dask: what matters is raised here
        )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach: it is for this one to end them.

    A terminal sends it to all, and each worker would show where it was when it came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A process is born with what its parent ignores, and with nothing else of this kind.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run_all(
    client: Any,
    run: Callable[[Call, Told], Found],
    calls: Sequence[Call],
    *,
    sizes: Sequence[float],
    paths: tuple[str, ...],
    tell: Told,
) -> list[Found]:
    """Return `run(call, told)` of all calls, in order, each run by a worker of the client.

    Args:
        client: a `distributed.Client`.
        run: what to run, sent once; it tells its `told` the share of it that is done, and lets
            pass what that raises.
        calls: what each call is given.
        sizes: how long each takes, in any unit.
        paths: where else the workers find modules.
        tell: is told how much of all is done, in that unit.
    """
    check(client)
    token = f"rsgda-{uuid.uuid4().hex}"
    shares = dict.fromkeys(range(len(calls)), 0.0)

    def heard(event: tuple[float, Any]) -> None:
        _, (place, share) = event
        shares[place] = share

    client.subscribe_topic(token, heard)
    futures: dict[int, Any] = {}
    try:
        sealed = _seal(client, token, (run, tuple(calls)), paths)
        for place in range(len(calls)):
            futures[place] = client.submit(_call, sealed, place, key=f"{token}-{place}")
        return _gather(client.scheduler.address, futures, shares, sizes, tell)
    except BaseException:
        with contextlib.suppress(Exception):  # the scheduler may be gone
            client.cancel(list(futures.values()))
        raise
    finally:
        with contextlib.suppress(Exception):
            client.unsubscribe_topic(token)


def _seal(client: Any, token: str, content: Any, paths: tuple[str, ...]) -> Any:
    """Send a function and its calls to the scheduler, and return what stands for them.

    As a task, so that it survives the death of all workers; a scattered value does not.
    """
    import dask
    import jax
    from distributed.protocol.serialize import serialize_bytes

    values = [getattr(jax.config, f"jax_{name}") for name in SETTINGS]
    # Some are JAX's own enumerations, which the scheduler would have to import.
    settings = tuple(getattr(value, "value", value) for value in values)
    sealed = Sealed(token, serialize_bytes(content, on_error="raise"), settings, paths)
    # The data of a problem may well be larger than what Dask finds large: it is sent only once.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):  # pyright: ignore
        return client.submit(_same, sealed, key=f"{token}-sealed")


def _same(sealed: Sealed) -> Sealed:
    return sealed


def _gather(
    address: str,
    futures: dict[int, Any],
    shares: dict[int, float],
    sizes: Sequence[float],
    tell: Told,
) -> list[Any]:
    found: dict[int, Any] = {}
    while len(found) < len(futures):
        for place, future in futures.items():
            if place not in found and future.done():
                found[place] = _result(address, future)
                shares[place] = 1.0
        tell(sum(size * shares[place] for place, size in enumerate(sizes)))
        if len(found) < len(futures):
            time.sleep(LOOK)
    return [found[place] for place in range(len(futures))]


def _result(address: str, future: Any) -> Any:
    try:
        return future.result()
    except distributed.KilledWorker as error:
        raise ConnectionError(
            f"a task was given up after {error.allowed_failures + 1} workers died while they ran "
            "it; their logs may say why (too little memory?). With a checkpoint, the same call "
            "continues. How many may die is Dask's distributed.scheduler.allowed-failures."
        ) from error
    except CancelledError as error:
        raise ConnectionError(
            f"the scheduler at {address} was lost ({_first_line(error)}); with a "
            "checkpoint, the same call continues."
        ) from error


def _call(sealed: Sealed, place: int) -> Any:
    """Run one call: this happens on a worker."""
    worker, said = distributed.get_worker(), float("-inf")
    key, end = worker.get_current_task(), time.monotonic() + PATIENCE

    def told(share: float) -> None:
        nonlocal said
        task = worker.state.tasks.get(key)
        if task is None or task.state not in ("executing", "long-running"):
            raise Unwanted(key)
        if time.monotonic() - said > NEWS:
            said = time.monotonic()
            worker.log_event(sealed.token, (place, share))

    with _settings(sealed.settings):
        while True:
            try:
                run, calls = _opened(sealed)
                return run(calls[place], told)
            except CheckpointBusy:
                told(0.0)
                if time.monotonic() > end:
                    raise
            time.sleep(LOOK)


@functools.lru_cache(maxsize=1)
def _opened(sealed: Sealed) -> Any:
    from distributed.protocol.serialize import deserialize_bytes

    sys.path += [path for path in sealed.paths if path not in sys.path]
    return deserialize_bytes(sealed.content)


@contextlib.contextmanager
def _settings(values: tuple[Any, ...]) -> Iterator[None]:
    """Have JAX's settings of the client, as the same numbers are wanted."""
    import jax

    with contextlib.ExitStack() as stack:
        for name, value in zip(SETTINGS, values, strict=True):
            stack.enter_context(getattr(jax, name)(value))
        yield


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
