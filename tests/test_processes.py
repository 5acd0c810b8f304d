"""Several processes that share a run: what they find and save, and what if one is killed."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import launched_run
import numpy as np
import psutil
import pytest

from rsgda.cli_launch import command
from rsgda.drive import processes

SCRIPT = Path(launched_run.__file__)
FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
BOUND = command.GRACE + command.LAST + 15  # seconds in which all must have ended


def start(count, *arguments):
    rsgda = shutil.which("rsgda", path=str(Path(sys.executable).parent))
    assert rsgda is not None
    return subprocess.Popen(
        [rsgda, "launch", "-n", str(count), "--", str(SCRIPT), *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "XLA_FLAGS": FAST},
    )  # fmt: skip


def launched(count, *arguments):
    started = start(count, *arguments)
    said, wrong = started.communicate(timeout=240)
    assert started.returncode == 0, wrong
    return said


def found(out, number):
    with np.load(f"{out}.{number}.npz") as saved:
        return dict(saved)


def one(kind):
    mesh = jax.make_mesh((1,), ("rows",))
    return launched_run.arrays(launched_run.run(kind, mesh, steps=200))


def same(arrays, others, *, exactly):
    assert set(arrays) == set(others)
    for name, values in arrays.items():
        if exactly:
            np.testing.assert_array_equal(values, others[name], err_msg=name)
        else:
            np.testing.assert_allclose(values, others[name], rtol=1e-12, atol=1e-12, err_msg=name)


def wait_for_saves(started, folder):
    until = time.monotonic() + 120
    while time.monotonic() < until and len(list(folder.glob("[0-9]*"))) < 2:
        assert started.poll() is None, started.communicate()
        time.sleep(0.05)


def kill(started, folder):
    """Kill the last process in the midst of the run; return how long the others took to end."""
    wait_for_saves(started, folder)
    (*_, last) = sorted(psutil.Process(started.pid).children(), key=lambda child: child.pid)
    last.send_signal(signal.SIGKILL)
    began = time.monotonic()
    _, said = started.communicate(timeout=120)
    return time.monotonic() - began, said


CASES = [
    (2, "rows"),
    pytest.param(2, "shared", marks=pytest.mark.slow),
    pytest.param(4, "rows", marks=pytest.mark.slow),
    pytest.param(4, "shared", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("count", "kind"), CASES)
def test_several_find_what_one_finds(count, kind, tmp_path):
    launched(count, tmp_path / "out", "--kind", kind)
    for number in range(count):
        same(found(tmp_path / "out", number), one(kind), exactly=False)


@pytest.mark.slow
@pytest.mark.parametrize("others", [1, 2, 4])
def test_another_number_of_processes_continues(others, tmp_path):
    folder = tmp_path / "saved"
    launched(2, tmp_path / "half", "--checkpoint", folder, "--steps", 100)
    launched(others, tmp_path / "whole", "--checkpoint", folder)
    same(found(tmp_path / "whole", 0), one("rows"), exactly=False)
    # A program by itself reads what they have saved, too.
    command = [sys.executable, SCRIPT, tmp_path / "alone", "--checkpoint", folder, "--alone"]
    subprocess.run(command, check=True, timeout=120)
    same(found(tmp_path / "alone", 0), found(tmp_path / "whole", 0), exactly=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rows", "shared"])
def test_one_that_is_killed_stops_all_and_the_job_continues_bit_for_bit(kind, tmp_path):
    launched(2, tmp_path / "straight", "--kind", kind, "--checkpoint", tmp_path / "other")
    folder = tmp_path / "saved"
    again = ("--kind", kind, "--checkpoint", folder)
    took, said = kill(start(2, tmp_path / "out", *again, "--pause", 0.2), folder)
    assert took < BOUND
    assert "process 1 of 2 ended by signal 9 (SIGKILL)" in said
    assert "the same command continues" in said
    assert not list(tmp_path.glob("out.*"))
    launched(2, tmp_path / "out", *again)
    for number in range(2):
        same(found(tmp_path / "out", number), found(tmp_path / "straight", number), exactly=True)


def test_a_script_that_fails_ends_all(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text(
        "import sys, jax\nif jax.process_index() == 1:\n    sys.exit(3)\n"
        "from jax.experimental import multihost_utils as m\nm.sync_global_devices('here')\n"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", "from rsgda.cli import main; main()", "launch", "-n", "2", "--",
         str(script)], capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert time.monotonic() - began < BOUND
    assert done.returncode == 3
    assert "process 1 of 2 ended with exit code 3" in done.stderr


@pytest.mark.slow
def test_one_that_comes_late_is_waited_for(tmp_path):
    """JAX gives processes half a minute from one's first word with the others to theirs."""
    launched(2, tmp_path / "out", "--late", 35)
    same(found(tmp_path / "out", 0), one("rows"), exactly=False)


@pytest.mark.slow
def test_one_that_does_not_come_is_said_in_a_line(tmp_path):
    script = tmp_path / "impatient.py"
    script.write_text(
        "from rsgda.drive import processes\nimport launched_run\n"
        "processes.PATIENCE = 1.0\nlaunched_run.main()\n"
    )
    folder = tmp_path / "saved"
    done = subprocess.run(
        [sys.executable, "-c", "from rsgda.cli import main; main()", "launch", "-n", "2", "--",
         str(script), str(tmp_path / "out"), "--late", "60", "--checkpoint", str(folder)],
        capture_output=True, text=True, timeout=BOUND + 60, check=False,
        env={**os.environ, "PYTHONPATH": f"{SCRIPT.parent}:{os.environ.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    said = f"is too slow; what {folder} holds is safe; start all processes again."
    assert "rsgda: process 0 of 2 has lost touch with another process of this run" in done.stderr
    assert said in done.stderr
    assert "process 0 of 2 ended with exit code 1" in done.stderr


def lost():
    raise RuntimeError("UNKNOWN: Gloo all-reduce failed: Connection closed by peer\nmore")


def refused():
    raise ValueError("`loss` must not be barrier_loss.")


def test_a_loss_is_told_from_what_is_refused(monkeypatch):
    with pytest.raises(RuntimeError, match="Gloo"), processes.noticing_losses(str):
        lost()  # of a process by itself it is something else
    monkeypatch.setattr(processes, "several", lambda: True)
    said = r"cannot be reached or is too slow; all is safe\. \(UNKNOWN.* by peer\)$"
    with (
        pytest.raises(processes.ProcessLost, match=said),
        processes.noticing_losses(lambda: "all is safe."),
    ):
        lost()
    with (
        pytest.raises(ValueError, match="must not be barrier_loss"),
        processes.noticing_losses(str),
    ):
        refused()


class Ended:
    """A process that is seen to run a few times, and then to have ended."""

    def __init__(self, looks, code):
        self.looks, self.code = looks, code

    def poll(self):
        self.looks -= 1
        return None if self.looks >= 0 else self.code


@pytest.mark.parametrize(
    ("ends", "first"),
    [
        ([(0, 0), (2, 0)], None),
        ([(3, -signal.SIGABRT), (1, 1)], 1),  # whom JAX ends because another has ended
        ([(1, -signal.SIGABRT), (3, 1)], 0),
        ([(1, 1), (3, -signal.SIGKILL), (2, 1)], 1),
        ([(2, 1), (2, -signal.SIGSEGV)], 1),
        ([(5, 3), (2, 0), (4, 2)], 2),
    ],
)
def test_who_was_the_first_to_end(ends, first, monkeypatch):
    monkeypatch.setattr(command, "LOOK", 0.0)
    assert command._watch([Ended(*each) for each in ends]) == first


WAITS = """
import os, signal, sys, time
from pathlib import Path
folder, seen = Path(sys.argv[1]), []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
(folder / "pid").write_text(str(os.getpid()))
while not seen:
    time.sleep(0.05)
time.sleep(1.0)
(folder / "seen").write_text(str(len(seen)))
"""


@pytest.fixture
def waiting(tmp_path):
    """A launcher of a script that counts interrupts, and the process that runs it."""
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    note, until = tmp_path / "pid", time.monotonic() + 120
    with subprocess.Popen(
        [sys.executable, "-c", "from rsgda.cli import main; main()", "launch", "-n", "1", "--",
         str(script), str(tmp_path)],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as started:  # fmt: skip
        while not (note.exists() and note.read_text()):
            assert started.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        child = psutil.Process(int(note.read_text()))
        yield started, child
        for each in (started, child):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


def test_ctrl_c_comes_once(waiting, tmp_path):
    """A terminal sends it to all that it started, and the launcher hands it on."""
    started, _ = waiting
    # Two that come in one moment are seen as one: the launcher's share is made to come later.
    started.send_signal(signal.SIGSTOP)
    os.killpg(started.pid, signal.SIGINT)
    time.sleep(0.3)
    started.send_signal(signal.SIGCONT)
    assert started.wait(60) == 0
    assert (tmp_path / "seen").read_text() == "1"


def test_a_launcher_that_is_killed_leaves_nobody_behind(waiting):
    started, child = waiting
    started.kill()
    child.wait(30)
    assert "the launcher has ended, and so all do" in started.stderr.read()


@pytest.mark.slow
def test_an_interrupt_saves_and_ends_all(tmp_path):
    folder = tmp_path / "saved"
    started = start(2, tmp_path / "out", "--checkpoint", folder, "--pause", 0.2)
    wait_for_saves(started, folder)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=BOUND)
    assert started.returncode == 130
    step = max(int(path.name) for path in folder.glob("[0-9]*"))
    assert f"interrupted at step {step}, which {folder} holds" in said
    launched(2, tmp_path / "out", "--checkpoint", folder)
    same(found(tmp_path / "out", 0), one("rows"), exactly=False)
