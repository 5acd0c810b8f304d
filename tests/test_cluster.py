"""A cluster of processes finds what one process finds, whatever happens to its workers."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import killed_sweep
import pytest
from killed_sweep import ALGORITHMS, EVERY, KEYS, STEPS, TOY, assert_same_table, call
from own_cluster import cluster, running, wait_for
from typer.testing import CliRunner

import rsgda
from rsgda.cli import app
from rsgda.drive import cluster as drive_cluster
from rsgda.drive.folder import Folder
from rsgda.reproduce import fig1, kept, registry, runner
from rsgda.reproduce.outcome import Outcome
from rsgda.reproduce.robust_setting import Budget, Scale


@pytest.fixture(scope="module")
def undisturbed():
    return call()


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """A cluster that comes to no harm."""
    with cluster(tmp_path_factory.mktemp("calm"), "a", "b") as (_, client):
        yield client


@pytest.fixture
def aside():
    """A thread for the sweep, while the test does harm."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def kill_one(started, client, folder):
    """Kill a worker in the middle of its block; return its process, and what the block saved."""

    def seen():
        for name, task in running(client).items():
            block = f"block-{int(task.rpartition('-')[2]):04d}"
            steps = [int(p.name) for p in folder.glob(f"{block}/[0-9]*") if p.name.isdigit()]
            if name in started.workers and steps and 2 * EVERY < max(steps) < STEPS / 2:
                return name, max(steps)
        return None

    name, step = wait_for(seen)
    process = started.workers.pop(name)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return process.pid, step


def test_a_killed_worker_is_not_missed(undisturbed, tmp_path, aside):
    """SIGKILL in the middle of a block: the other worker goes on from the last save."""
    folder, log = tmp_path / "checkpoint", tmp_path / "log"
    with cluster(tmp_path / "cluster", "a", "b") as (started, client):
        client.run(killed_sweep.slow_down, 0.01, str(log))
        sweep = aside.submit(call, folder, client=client)
        dead, step = kill_one(started, client, folder)
        table = sweep.result(60)
        assert len(client.scheduler_info(-1)["workers"]) == 1
        # The scheduler only passes on what it is given.
        assert client.run_on_scheduler(lambda: "jax" not in sys.modules)
    assert_same_table(table, undisturbed)
    # The same folder again, here: all blocks are there.
    assert_same_table(call(folder), undisturbed)
    seen = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    assert {pid for pid, _ in seen} > {dead}
    assert step > 2 * EVERY
    # At most what came after the last save was done twice: a record of each of two rows, and the
    # one that was being written.
    counts = [len(undisturbed[i, j].history["step"]) for i in range(4) for j in range(2)]
    blocks = [counts[:2], counts[2:4], counts[4:]]
    assert len(seen) <= sum(len(block) * max(block) for block in blocks) + 4


@pytest.mark.slow
def test_all_workers_may_die(undisturbed, tmp_path, aside):
    """The scheduler keeps what is to be done until another worker comes."""
    folder = tmp_path / "checkpoint"
    with cluster(tmp_path / "cluster", "a") as (started, client):
        client.run(killed_sweep.slow_down, 0.01)
        sweep = aside.submit(call, folder, client=client)
        kill_one(started, client, folder)
        wait_for(lambda: not client.scheduler_info(-1)["workers"])
        started.work("b")
        assert_same_table(sweep.result(60), undisturbed)


def test_without_a_checkpoint(undisturbed, calm):
    assert_same_table(call(client=calm), undisturbed)


def test_a_folder_goes_from_here_to_a_cluster_and_back(undisturbed, calm, tmp_path):
    def part(done):
        if done > 1.5 * STEPS:
            raise KeyboardInterrupt

    job = rsgda.drive.sweep.planned(
        TOY.problem, ALGORITHMS, *TOY.start(), keys=KEYS, steps=STEPS,
        record=killed_sweep.slow_record, every=EVERY, checkpoint=tmp_path,
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt, match=f"{tmp_path} holds what was done"):
        rsgda.drive.sweep.tables([job], client=None, paths=(), tell=part)
    assert_same_table(call(tmp_path, client=calm), undisturbed)
    assert_same_table(call(tmp_path), undisturbed)


def forever(call, told):
    while True:
        told(0.5)
        time.sleep(0.01)


def test_tasks_end_when_nobody_waits_for_them(calm):
    """An interrupted client leaves no worker behind that computes, and holds a folder."""
    heard = []

    def tell(done):
        heard.append(done)
        if done:
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        drive_cluster.run_all(calm, forever, [0, 0], sizes=[2.0, 3.0], paths=(), tell=tell)
    assert heard[-1] in (1.0, 1.5, 2.5)
    wait_for(lambda: not any(calm.processing().values()))
    # The workers are free at once.
    assert calm.submit(os.getpid, pure=False, key="free").result(10)
    assert time.monotonic() - began < 30


def test_a_locked_folder_is_waited_for(undisturbed, calm, tmp_path):
    """A worker that the scheduler has given up may still be there for a while."""
    call(tmp_path)
    note = (tmp_path / "block-0001" / "rsgda.json").read_text()
    held = Folder(tmp_path / "block-0001", json.loads(note), 0, 0)
    threading.Timer(1.0, held.release).start()
    assert_same_table(call(tmp_path, client=calm), undisturbed)
    assert held._lock is None


def fails(call, told):
    raise ValueError(f"`call` must be nothing, got {call}.")


def dies(call, told):
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_error_of_a_task_is_the_clients(calm):
    with pytest.raises(ValueError, match="`call` must be nothing, got 7"):
        drive_cluster.run_all(calm, fails, [7], sizes=[1.0], paths=(), tell=lambda done: None)


@pytest.mark.slow
def test_a_task_that_kills_its_workers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    with (
        cluster(tmp_path, "a") as (_, client),
        pytest.raises(ConnectionError, match="given up after 1 workers died"),
    ):
        drive_cluster.run_all(client, dies, [0], sizes=[1.0], paths=(), tell=lambda done: None)


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_an_error(tmp_path, aside, monkeypatch):
    """The workers end, too: nobody is left who could want what they do."""
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        cluster(tmp_path, "a") as (started, client),
    ):
        run = aside.submit(
            drive_cluster.run_all, client, forever, [0], sizes=[1.0], paths=(),
            tell=lambda done: None,
        )  # fmt: skip
        wait_for(lambda: running(client))
        started.scheduler.kill()
        with pytest.raises(ConnectionError, match=r"was lost .* the same call continues"):
            run.result(60)
        started.workers["a"].wait(60)


def test_a_client_must_be_one():
    with pytest.raises(ValueError, match=r"`client` must be a distributed\.Client, got 'tcp"):
        call(client="tcp://127.0.0.1:1", steps=0)


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "rsgda.drive.cluster")
    monkeypatch.delattr(rsgda.drive, "cluster")
    with pytest.raises(ValueError, match=r'pip install "rsgda\[cluster\]"'):
        call(client=object(), steps=0)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(drive_cluster, "ANSWER", 1.0)


@pytest.fixture
def silent():
    """The address of a port where somebody listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"tcp://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def nobody():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"tcp://127.0.0.1:{closed.getsockname()[1]}"


@pytest.fixture
def worker(calm):
    (address, _) = calm.scheduler_info(-1)["workers"]
    return address


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ("nobody", "Connection refused"),
        ("silent", "nothing said for 1 s"),
        ("worker", "a Worker is there"),
    ],
)
def test_no_scheduler(there, why, request, impatient):
    """It is said soon, and nothing is left that has to be given up."""
    address = request.getfixturevalue(there)
    began, threads = time.monotonic(), threading.active_count()
    with (
        pytest.raises(ConnectionError, match=f"no Dask scheduler at {address} .*{why}"),
        drive_cluster.connected(address),
    ):
        pass
    assert time.monotonic() - began < 10
    assert threading.active_count() <= threads


@pytest.mark.parametrize("address", ["hello", "nonsense://x", "tcp://", "", "tcp://a b:1"])
@pytest.mark.parametrize("command", ["sweep", "reproduce"])
def test_what_is_no_address_is_refused_at_the_door(command, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"sweep": "grid.toml", "reproduce": "fig1"}[command]
    done = CliRunner().invoke(app, [command, given, "--cluster", address])
    assert done.exit_code == 2
    assert f"scheduler must be one with a port, got {address!r}" in done.output
    assert not list(tmp_path.iterdir())


def test_a_command_that_finds_no_scheduler_ends_soon_and_in_one_line(silent):
    script = (
        "from rsgda.drive import cluster; from rsgda.cli import main; cluster.ANSWER = 1; main()"
    )
    command = [sys.executable, "-c", script, "reproduce", "fig1", "--cluster", silent]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert time.monotonic() - began < 30  # most of it to import what it needs
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert f"rsgda: there is no Dask scheduler at {silent}" in done.stderr


def cell(name, tell):
    """A cell of a figure that keeps what it found, as they do."""
    tell(0.5)
    return name, os.getpid()


def test_cells_of_a_figure_come_back_in_order(calm):
    told = []
    options = {
        "size": len, "name": str, "work": None, "tell": lambda done, what: told.append((done, what))
    }  # fmt: skip
    ran = kept.one_by_one(["aa", "b", "cccc"], cell, client=calm, **options)
    assert [name for name, _ in ran] == ["aa", "b", "cccc"]
    assert os.getpid() not in {pid for _, pid in ran}
    assert told[-1] == (1.0, "3 runs on the cluster")
    assert kept.one_by_one(["b"], cell, client=None, **options) == [("b", os.getpid())]


@pytest.mark.slow
def test_a_figure_is_the_same(calm, tmp_path, monkeypatch):
    """Its cells run on workers, and are kept where those of a run here are."""
    tiny = Scale("digits", 6, {"logits": Budget(8, 4, 2)})
    monkeypatch.setitem(fig1.SCALES, "quick", tiny)
    found = {}
    for name, client in (("there", calm), ("here", None)):
        monkeypatch.chdir(tmp_path)
        report = runner.reproduce(
            "fig1", scale="quick", out=Path(name), tell=lambda done, what: None, client=client
        )
        found[name] = (report.folder / "fig1.csv").read_bytes()
        assert len(list(Path(name, "cells", "quick").glob("*.json"))) == 8
    assert found["here"] == found["there"]


def test_only_targets_with_a_grid_are_given_the_client(calm, tmp_path, monkeypatch):
    given = []

    def run(scale, tell, work=None, client=None):
        given.append((client and client.scheduler.address, work.is_absolute()))
        return Outcome({}, {})

    monkeypatch.setattr(registry.Target, "load", lambda self: run)
    monkeypatch.setattr(registry.Target, "judge", lambda *_: ())
    monkeypatch.chdir(tmp_path)
    address = calm.scheduler.address
    done = CliRunner().invoke(app, ["reproduce", "toy", "fig2", "--out", "x", "--cluster", address])
    assert done.exit_code == 0, done.output
    assert "toy has no grid of runs, and runs here" in done.output
    assert given == [(None, False), (address, True)]
