"""Start a script several times on this machine, and see to it that all end together."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

GRACE = 10.0  # seconds that the others have to notice, and to say what is saved, if one has ended
LAST = 5.0  # and between being asked to end and being made to
LOOK = 0.05
KILLED = (-9, -11)  # SIGKILL, SIGSEGV: nobody ends in this way because another has ended


def launch(
    script: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT [ARGUMENTS]...",
            help="A Python file, and what it is called with; write -- before it.",
            show_default=False,
        ),
    ],
    processes: Annotated[
        int, typer.Option("--processes", "-n", min=1, help="How many processes to start.")
    ] = 2,
) -> None:
    """Run a script as several processes of this machine that share one run.

    Each of them calls rsgda.solve(..., mesh=jax.make_mesh((jax.device_count(),), ("rows",))).
    If one ends badly, all do, and with a checkpoint the same command continues.

    Example: rsgda launch -n 2 -- train.py --epochs 5
    """
    if not Path(script[0]).is_file():
        raise FileNotFoundError(f"SCRIPT must be a Python file, there is no {script[0]}.")
    address = f"127.0.0.1:{_free_port()}"
    running = [_start(script, address, processes, number) for number in range(processes)]
    with _passed_on(running):
        first = _watch(running)
    _end(running)
    if first is None:
        return
    code = running[first].returncode
    ended = f"with exit code {code}"
    if code < 0:
        ended = f"by signal {-code} ({signal.Signals(-code).name})"
    typer.echo(
        f"rsgda: process {first} of {processes} ended {ended}, and so all have ended. What was "
        "saved is safe: where the script has a `checkpoint`, the same command continues.",
        err=True,
    )
    raise typer.Exit(code if code > 0 else 128 - code)


def _start(script: list[str], address: str, count: int, number: int) -> "subprocess.Popen[Any]":
    told = {"RSGDA_ADDRESS": address, "RSGDA_PROCESSES": str(count), "RSGDA_PROCESS": str(number)}
    command = [sys.executable, "-m", "rsgda.cli_launch.child", *script]
    return subprocess.Popen(
        command,
        env={**os.environ, **told, "RSGDA_LAUNCHER": str(os.getpid())},
        # Ctrl-C at a terminal reaches this process, which hands it on, and none of them twice.
        process_group=0,
        # Who is in the background of a terminal would be stopped for reading from it.
        stdin=subprocess.DEVNULL if os.isatty(0) else None,
    )


def _watch(running: "list[subprocess.Popen[Any]]") -> int | None:
    """Wait for all; return which was the first to end badly, once the others had time to."""
    since, bad = None, []
    while True:
        codes = [one.poll() for one in running]
        bad += [i for i, code in enumerate(codes) if code and i not in bad]
        # Whoever was killed said nothing; those that noticed may have ended in the same moment.
        first = min(bad, key=lambda i: codes[i] not in KILLED, default=None)
        since = time.monotonic() if bad and since is None else since
        if None not in codes or (since is not None and time.monotonic() - since > GRACE):
            return first
        time.sleep(LOOK)


def _end(running: "list[subprocess.Popen[Any]]") -> None:
    for one in running:
        if one.poll() is None:
            one.terminate()
    until = time.monotonic() + LAST
    for one in running:
        try:
            one.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


@contextlib.contextmanager
def _passed_on(running: "list[subprocess.Popen[Any]]") -> Iterator[None]:
    """Hand signals on to all processes, which save and end."""

    def hand_on(number: int, frame: Any) -> None:
        del number, frame
        for one in running:
            if one.poll() is None:
                one.send_signal(signal.SIGINT)

    before = {each: signal.signal(each, hand_on) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
