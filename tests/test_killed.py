"""A run that is killed, whenever and however often, ends where the undisturbed run ends."""

import functools
import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import killed_run
import pytest
from killed_run import STEPS, Child, assert_same, call


@functools.cache
def straight(variant):
    return call(variant)


def kill(variant, folder, when, dice):
    """Start a run and kill it; return the steps saved by then and whether it was writing."""
    began = time.monotonic()
    child = Child(variant, folder, pause=0.02)
    if when == "starting":
        # Until then it imports, opens the folder, restores, compiles.
        moment = began + dice.uniform(0, 3)
        child.wait_for(lambda: time.monotonic() > moment)
    else:
        assert child.wait_for_saves(2), child.end()
        moment = time.monotonic() + dice.uniform(0, 0.5)
        child.wait_for(lambda: time.monotonic() > moment)
    if when == "writing":
        child.wait_for(lambda: not child.writing())
        child.wait_for(child.writing)
    child.kill()
    return max(child.saved(), default=0), child.writing()


def kill_often(variant, folder, moments, seed):
    """Kill a run at each of the moments, then let it end; return what was seen of the kills."""
    dice = random.Random(seed)
    seen = [kill(variant, folder, when, dice) for when in moments]
    saved = [step for step, _ in seen]
    assert saved == sorted(saved), "steps were lost"
    assert 0 < saved[-1] < STEPS, "nothing is left to continue"
    assert_same(call(variant, folder), straight(variant))
    assert_same(call(variant, folder), straight(variant))
    return seen


@pytest.mark.parametrize("variant", ["plain", pytest.param("rich", marks=pytest.mark.slow)])
def test_killed_run_ends_as_the_straight_one(variant, tmp_path):
    seen = kill_often(variant, tmp_path / "run", ["writing", "running"], seed=0)
    # Killed as soon as the folder of an unfinished save was seen, it is still there.
    assert seen[0][1]


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["plain", "rich", "both"])
def test_killed_thirty_times(variant, tmp_path):
    dice = random.Random(variant)
    moments = ["writing", "running", "starting"] * 10
    dice.shuffle(moments)
    seen = kill_often(variant, tmp_path / "run", moments, seed=variant)
    assert sum(writing for _, writing in seen) >= 8
    assert len({step for step, _ in seen}) >= 10, "the run hardly advanced between kills"


SNAPSHOTS = """
import os, shutil, sys
import jax
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
import killed_run
from rsgda.drive.checkpoint import Checkpoint

folder, copies = sys.argv[1:]
watched = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
count, busy, armed = 0, False, False

def copy(source, target):
    try:
        return shutil.copy2(source, target)
    except FileNotFoundError:  # a lock that another thread has given back
        return target

def hook(event, arguments):
    global count, busy
    if event in watched and armed and not busy and folder in str(arguments):
        busy = True
        if not os.path.isdir(folder):
            busy = False
            return
        shutil.copytree(folder, f"{copies}/{count:04d}", copy_function=copy)
        count, busy = count + 1, False

def open_folder(self, *arguments, open_folder=Checkpoint.__init__):
    global armed
    armed = True
    open_folder(self, *arguments)
    armed = False

def save(self, step, *arguments, save=Checkpoint.save):
    global armed
    armed = step == 25  # there are two saves by then, and the older is removed
    save(self, step, *arguments)
    armed = False

Checkpoint.due, Checkpoint.__init__, Checkpoint.save = lambda self: True, open_folder, save
sys.addaudithook(hook)
killed_run.call("both", folder, steps=30)
"""


@pytest.mark.slow
def test_killed_between_any_two_changes_to_the_folder(tmp_path):
    """The folder is copied before each change to it, as a kill would leave it."""
    folder, copies = tmp_path / "run", tmp_path / "copies"
    copies.mkdir()
    command = [sys.executable, "-c", SNAPSHOTS, str(folder), str(copies)]
    subprocess.run(command, check=True, cwd=Path(killed_run.__file__).parent)
    moments = {}
    for copy in sorted(copies.iterdir()):
        moments[json.dumps(sorted(listing(copy).items()))] = copy
    unfinished = [copy for copy in moments.values() if list(copy.glob(killed_run.UNFINISHED))]
    assert len(moments) > 15
    assert len(unfinished) > 8
    expected = call("both", steps=30)
    for copy in moments.values():
        saved = [int(path.name) for path in copy.iterdir() if path.name.isdigit()]
        assert not saved or max(saved) >= 20  # what was saved before is never lost
        assert_same(call("both", copy, steps=30), expected)
        assert not list(copy.glob(killed_run.UNFINISHED))
        shutil.rmtree(copy)


def listing(folder):
    return {str(path.relative_to(folder)): path.is_dir() or path.stat().st_size
            for path in folder.rglob("*")}  # fmt: skip
