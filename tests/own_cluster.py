"""A Dask cluster of processes on this machine, for tests to maltreat."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import distributed

TESTS = Path(__file__).resolve().parent
WAIT = 60  # seconds, for anything


class Cluster:
    """A scheduler and workers, each a process of its own, on ports that are free."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.workers = {}
        note = self.folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(note)
        )
        wait_for(note.exists)
        # It is written in one go, but seen before it is.
        wait_for(lambda: note.read_text().endswith("}"))
        self.address = json.loads(note.read_text())["address"]

    def work(self, name):
        """Start a worker without a nanny: who kills it kills what it runs."""
        self.workers[name] = self._start(
            "worker", self.address, "--name", name, "--nthreads", "1", "--no-nanny",
            "--local-directory", str(self.folder),
        )  # fmt: skip

    def _start(self, what, *options):
        log = open(self.folder / f"{what}-{len(self.workers)}.log", "w")  # noqa: SIM115
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *options]
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": path}
        with log:
            return subprocess.Popen(
                command, env=environment, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT
            )

    def close(self):
        for process in (*self.workers.values(), self.scheduler):
            process.kill()
            process.wait(WAIT)


@contextlib.contextmanager
def cluster(folder, *names):
    """A cluster with workers of these names, and a client of it."""
    folder.mkdir(exist_ok=True)
    started = Cluster(folder)
    try:
        for name in names:
            started.work(name)
        with distributed.Client(started.address, set_as_default=False) as client:
            client.wait_for_workers(len(names), timeout=WAIT)
            yield started, client
    finally:
        started.close()


def running(client):
    """The workers that run a block now, by name."""
    names = {address: one["id"] for address, one in client.scheduler_info(-1)["workers"].items()}
    found = {}
    for address, tasks in client.processing().items():
        for task in tasks:
            if task.rpartition("-")[2].isdigit():
                found[names[address]] = task
    return found


def wait_for(seen, seconds=WAIT):
    """Return what `seen()` is as soon as it is something."""
    end = time.monotonic() + seconds
    while not (found := seen()):
        if time.monotonic() > end:
            raise TimeoutError("what was expected did not come")
        time.sleep(0.02)
    return found
