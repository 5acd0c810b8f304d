"""A disk that is full or cannot be written to: said at the start where it can be known.

Where it happens later, what was saved before is safe, and the same call continues once it can.
"""

import functools
import os
import resource
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import killed_run
import pytest
from killed_run import assert_same, call, rich

from rsgda import CheckpointError
from rsgda.drive import folder as folder_module
from rsgda.drive.checkpoint import KEPT, OVERHEAD, Checkpoint

HERE = Path(killed_run.__file__).parent
STEPS = 60
Usage = namedtuple("Usage", "total used free")


@functools.cache
def straight():
    return call("rich", steps=STEPS)


def never(problem, state):
    assert int(state.step) == 0, "the run has started"
    return {}


def refuse(folder, words):
    """The call is an error that says `words`, and not one step is done."""
    with pytest.raises(CheckpointError, match=words) as caught:
        call("rich", folder, record=never, every=1)
    assert str(folder) in str(caught.value)


def saved(folder):
    return sorted(int(name) for name in os.listdir(folder) if name.isdigit())


def size_of_a_save():
    """What has to fit: Adam keeps two numbers and two counts beside each number of v."""
    problem, _, theta, v = rich()
    return OVERHEAD + theta.nbytes + 3 * v.nbytes + 2 * 4 * problem.rows + 5 * 4 + 8


def with_free(monkeypatch, free):
    monkeypatch.setattr(folder_module.shutil, "disk_usage", lambda _: Usage(10**9, 0, free()))


def test_no_room_for_a_new_run(tmp_path, monkeypatch):
    needed = (KEPT + 1) * size_of_a_save()
    with_free(monkeypatch, lambda: needed - 1)
    refuse(tmp_path / "a" / "b", rf"must have room .* {needed:,} .* {needed - 1:,} are free")
    assert not os.listdir(tmp_path)
    with_free(monkeypatch, lambda: needed)
    call("rich", tmp_path / "a" / "b", steps=1)


def test_room_for_what_is_saved_already_is_not_asked_for_again(tmp_path, monkeypatch):
    for steps in (10, 20, 30):
        call("rich", tmp_path, steps=steps)
    needed = size_of_a_save()
    with_free(monkeypatch, lambda: needed - 1)
    refuse(tmp_path, "must have room")
    assert saved(tmp_path) == [20, 30]
    with_free(monkeypatch, lambda: needed)
    assert_same(call("rich", tmp_path, steps=STEPS), straight())


def test_what_a_save_that_was_cut_off_has_left_is_removed_before_room_is_asked_for(
    tmp_path, monkeypatch
):
    call("rich", tmp_path, steps=20)
    left = tmp_path / "30.orbax-checkpoint-tmp"
    shutil.copytree(tmp_path / "20", left)
    with_free(monkeypatch, lambda: 0 if left.exists() else 10**9)
    assert_same(call("rich", tmp_path, steps=STEPS), straight())


def test_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    refuse(tmp_path / "file" / "run", "cannot: .*file is not a folder")


def test_name_that_is_too_long(tmp_path):
    refuse(tmp_path / ("x" * 300), "cannot: File name too long")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    refuse(tmp_path / "run", "cannot: Permission denied")
    refuse(tmp_path, "cannot: Permission denied")


# Orbax leaves coroutines behind when a save fails.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_save_that_fails_loses_nothing(tmp_path, monkeypatch):
    """Files may not grow beyond a limit from some moment on, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def shrink(problem, state):
        if int(state.step) == 30:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
        return killed_run.record(problem, state)

    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    try:
        with pytest.raises(
            CheckpointError, match=r"step 30 could not be saved .* step 25, "
        ) as told:
            call("rich", tmp_path, steps=STEPS, record=shrink)
        assert str(tmp_path) in str(told.value)
        assert saved(tmp_path) == [20, 25]
        assert not list(tmp_path.glob(killed_run.UNFINISHED))  # no room is taken up by it
        with pytest.raises(CheckpointError, match=r"could not be saved"):
            call("rich", tmp_path, steps=STEPS)  # it has not become better
        assert saved(tmp_path) == [20, 25]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_same(call("rich", tmp_path, steps=STEPS), straight())


def test_first_save_that_fails_says_that_nothing_was_saved(tmp_path, monkeypatch):
    def fail(self, step, state, rows):
        raise OSError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "_write", fail)
        with pytest.raises(CheckpointError, match=r"no more\. But nothing was saved before"):
            call("rich", tmp_path, steps=STEPS)
    assert_same(call("rich", tmp_path, steps=STEPS), straight())


# In a name space of its own, where one may mount a small disk, also if one is not root.
SMALL_DISK = """
import os, subprocess, sys
from pathlib import Path
import jax
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
from rsgda.drive.checkpoint import Checkpoint
Checkpoint.due = lambda self: True
import killed_run, test_disk

disk = Path(sys.argv[1])
filler, folder = disk / "filler", disk / "run"

def mount(options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True)

def fill(problem, state):
    if int(state.step) == 30 and not filler.exists():
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        filler.write_bytes(bytes(free - 2**16))
    return killed_run.record(problem, state)

def lock(problem, state):
    if int(state.step) == 40:
        mount("remount,ro,size=16m")
    return killed_run.record(problem, state)

mount("size=16m")
try:
    killed_run.call("rich", folder, steps=test_disk.STEPS, record=fill)
    raise AssertionError("no error although the disk is full")
except Exception as error:
    assert type(error).__name__ == "CheckpointError", error
    assert "step 30 could not be saved" in str(error) and "step 25" in str(error), error
    assert "No space left" in str(error), error
assert test_disk.saved(folder) == [20, 25]
test_disk.refuse(folder, "must have room")
filler.unlink()
try:
    killed_run.call("rich", folder, steps=test_disk.STEPS, record=lock)
    raise AssertionError("no error although the disk is read-only")
except Exception as error:
    assert type(error).__name__ == "CheckpointError", error
    assert "step 40 could not be saved" in str(error) and "step 35" in str(error), error
    assert "Read-only" in str(error), error
test_disk.refuse(folder, "cannot: Read-only file system")
test_disk.refuse(disk / "new", "cannot: Read-only file system")
assert test_disk.saved(folder) == [30, 35]
mount("remount,rw,size=16m")
killed_run.assert_same(
    killed_run.call("rich", folder, steps=test_disk.STEPS), test_disk.straight()
)
"""


@pytest.mark.slow
def test_disk_that_fills_up_and_becomes_read_only(tmp_path):
    own_names = ["unshare", "--map-root-user", "--mount"]
    probe = [*own_names, "sh", "-c", f"mount -t tmpfs tmpfs {tmp_path} && {sys.executable} -c ''"]
    if not shutil.which("unshare") or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("nobody can mount a disk here")
    command = [*own_names, sys.executable, "-c", SMALL_DISK, str(tmp_path)]
    done = subprocess.run(command, cwd=HERE, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
