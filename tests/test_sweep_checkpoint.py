"""A sweep that is killed or interrupted goes on where it was and ends where it would have ended."""

import json
import signal

import jax.random as jr
import killed_sweep
import numpy as np
import pytest
from killed_sweep import ALGORITHMS, KEYS, STEPS, TOY, SweepChild, assert_same_table, call

import rsgda
from rsgda.drive import job, sweep
from rsgda.drive.checkpoint import HISTORY, Checkpoint
from rsgda.drive.folder import CheckpointBusy


@pytest.fixture(scope="module")
def undisturbed():
    return call()


def test_the_table_is_the_same_with_a_checkpoint(undisturbed, tmp_path):
    names = {status.name for status in undisturbed.status.ravel()}
    assert names == {"FINISHED", "DIVERGED", "STOPPED"}
    assert np.isnan(undisturbed.history["root"]).any()
    assert_same_table(call(tmp_path), undisturbed)


def test_blocks_that_are_done_are_read(undisturbed, tmp_path, monkeypatch):
    call(tmp_path)

    def advance_to(*_):
        raise AssertionError("a block was run again")

    monkeypatch.setattr(job, "advance_to", advance_to)
    assert_same_table(call(tmp_path), undisturbed)


@pytest.mark.parametrize("saves", [1, 25])
def test_killed(undisturbed, tmp_path, saves):
    """In its first block, and when some are done."""
    child = SweepChild("sweep", tmp_path, 0.01)
    assert child.wait_for_saves(saves)
    child.kill()
    assert_same_table(call(tmp_path), undisturbed)


def test_interrupted(undisturbed, tmp_path):
    child = SweepChild("sweep", tmp_path, 0.01)
    assert child.wait_for_saves(2)
    child.process.send_signal(signal.SIGINT)
    _, _, said = child.end()
    assert f"interrupted; {tmp_path} holds what was done: the same call continues." in said
    assert_same_table(call(tmp_path), undisturbed)


def test_what_interrupts_a_block_finds_it_saved(tmp_path, monkeypatch):
    """No chunk is lost, though it was not yet time to save."""
    monkeypatch.setattr(Checkpoint, "due", lambda self: False)
    told = []

    def tell(done):
        told.append(done)
        if done >= 50:
            raise KeyboardInterrupt

    planned = sweep.planned(
        TOY.problem, ALGORITHMS, *TOY.start(), keys=KEYS, steps=STEPS, record=None, every=10,
        checkpoint=tmp_path,
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt, match="the same call continues"):
        sweep.tables([planned], client=None, paths=(), tell=tell)
    (saved,) = (int(path.name) for path in tmp_path.glob("block-0000/[0-9]*"))
    assert saved == told[-1] >= 50


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"steps": 100}, "steps"),
        ({"every": 10}, "every"),
        ({"record": killed_sweep.record}, "record"),
        ({"keys": jr.split(jr.key(4), 2)}, "key"),
        ({"algorithms": ALGORITHMS[:2]}, "algorithm"),
        ({"algorithms": (*ALGORITHMS[:2], rsgda.SGDA(alpha=0.06, eta=0.3))}, "algorithm"),
        ({"theta": TOY.start()[0] + 0.5}, "theta and v"),
    ],
)
def test_the_folder_of_another_sweep_is_refused(tmp_path, options, name):
    given = {
        "algorithms": ALGORITHMS[1:3], "theta": TOY.start()[0], "v": TOY.start()[1],
        "keys": KEYS, "steps": 20, "record": None, "every": 5,
    }  # fmt: skip
    rsgda.sweep(TOY.problem, checkpoint=tmp_path, **given)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(rsgda.CheckpointMismatch, match=f"its {name} is"):
        rsgda.sweep(TOY.problem, checkpoint=tmp_path, **given | options)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_folder_of_a_single_run_is_refused(tmp_path):
    rsgda.solve(
        TOY.problem, ALGORITHMS[2], *TOY.start(), key=KEYS[0], steps=20, checkpoint=tmp_path
    )
    with pytest.raises(rsgda.CheckpointMismatch):
        call(tmp_path)


def test_a_folder_serves_one_sweep_at_a_time(tmp_path):
    child = SweepChild("sweep", tmp_path, 0.05)
    try:
        assert child.wait_for_saves(1)
        with pytest.raises(CheckpointBusy, match="in use by another run"):
            call(tmp_path)
    finally:
        child.kill()


def test_records_keep_their_kinds_in_a_file():
    record = {
        "float": np.array([0.1, np.nan, np.inf, -0.0]),
        "single": np.float32([[0.1, 1e-45]]),
        "whole": np.array(2**60),
        "truth": np.array([True, False]),
    }
    back = job._from_json(json.loads(json.dumps(job._as_json(record))))
    for name, values in record.items():
        assert back[name].dtype == values.dtype
        assert back[name].shape == values.shape
        assert back[name].tobytes() == values.tobytes()


def test_a_save_prepares_new_records_only(undisturbed, tmp_path, monkeypatch):
    prepared = []

    def as_json(record, given=job._as_json):
        prepared.append(record)
        return given(record)

    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    monkeypatch.setattr(job, "_as_json", as_json)
    assert_same_table(call(tmp_path), undisturbed)
    written = sum(path.read_bytes().count(b"\n") for path in tmp_path.rglob(HISTORY))
    assert len(prepared) == written > len(list(tmp_path.rglob(HISTORY)))


def test_no_steps(tmp_path):
    for _ in range(2):
        table = call(tmp_path, steps=0)
        assert table.history["step"].tolist() == [[[0]] * 2] * 4
