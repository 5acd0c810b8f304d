"""Ctrl-C ends a run between two chunks, with its state in the folder and a word on that."""

import functools
import os
import re
import signal
import threading
import time

import killed_run
import pytest
from killed_run import Child, assert_same, call

from rsgda.drive.checkpoint import Checkpoint
from rsgda.drive.pace import Interrupts, Pacer

STEPS = 60


@functools.cache
def straight():
    return call("both", steps=STEPS)


@pytest.fixture(autouse=True)
def usual_handler():
    """Ctrl-C has its usual meaning within a test, whatever runs it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "it was not given back"
    signal.signal(signal.SIGINT, before)


def press():
    os.kill(os.getpid(), signal.SIGINT)


def press_at(step):
    def record(problem, state):
        if int(state.step) == step:
            press()
        return killed_run.record(problem, state)

    return record


def saved(folder):
    return sorted(int(name) for name in os.listdir(folder) if name.isdigit())


def test_state_is_saved_and_the_message_says_so(tmp_path):
    said = re.escape(f"interrupted at step 20, which {tmp_path} holds: the same call continues")
    with pytest.raises(KeyboardInterrupt, match=said):
        call("both", tmp_path, steps=STEPS, record=press_at(20))
    assert saved(tmp_path)[-1] == 20
    assert_same(call("both", tmp_path, steps=STEPS), straight())


def test_without_a_folder_the_message_says_that_nothing_was_saved():
    with pytest.raises(
        KeyboardInterrupt, match=r"at step 20; nothing was saved, as no `checkpoint`"
    ):
        call("both", steps=STEPS, record=press_at(20))


def test_at_the_last_step(tmp_path):
    with pytest.raises(KeyboardInterrupt, match=f"at step {STEPS}, which"):
        call("both", tmp_path, steps=STEPS, record=press_at(STEPS))
    assert_same(call("both", tmp_path, steps=STEPS), straight())


def test_while_a_save_is_written(tmp_path, monkeypatch):
    def write(self, step, state, rows, write=Checkpoint._write):
        if step == 30:
            press()
        write(self, step, state, rows)

    monkeypatch.setattr(Checkpoint, "_write", write)
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    # It was noticed after the save of step 30 had begun, so it is acted on one chunk later.
    with pytest.raises(KeyboardInterrupt, match="at step 35, which"):
        call("both", tmp_path, steps=STEPS)
    assert saved(tmp_path) == [30, 35]
    assert_same(call("both", tmp_path, steps=STEPS), straight())


def test_while_the_last_save_is_written(tmp_path, monkeypatch):
    def write(self, step, state, rows, write=Checkpoint._write):
        press()
        write(self, step, state, rows)

    monkeypatch.setattr(Checkpoint, "due", lambda self: False)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "_write", write)
        with pytest.raises(KeyboardInterrupt, match="all was done"):
            call("both", tmp_path, steps=STEPS)
    assert saved(tmp_path) == [STEPS]
    assert_same(call("both", tmp_path, steps=STEPS), straight())


def test_second_time_acts_at_once(tmp_path):
    reached = []

    def record(problem, state):
        if int(state.step) == 20:
            press()
            reached.append("after the first")
            press()
            reached.append("after the second")
        return killed_run.record(problem, state)

    with pytest.raises(KeyboardInterrupt, match="at once; what was saved before is safe"):
        call("both", tmp_path, steps=STEPS, record=record)
    assert reached == ["after the first"]
    assert_same(call("both", tmp_path, steps=STEPS), straight())


# Orbax leaves coroutines behind when it is cut off.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_second_time_in_the_midst_of_a_save(tmp_path, monkeypatch):
    def write(self, step, state, rows, write=Checkpoint._write):
        if step == 30:
            threading.Thread(target=press_twice).start()
        write(self, step, state, rows)

    def press_twice():
        while not list(tmp_path.glob(killed_run.UNFINISHED)):
            time.sleep(0.0005)
        press()
        time.sleep(0.005)
        press()

    monkeypatch.setattr(Checkpoint, "_write", write)
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    with pytest.raises(KeyboardInterrupt):
        call("both", tmp_path, steps=STEPS)
    monkeypatch.undo()
    assert 25 in saved(tmp_path)
    assert_same(call("both", tmp_path, steps=STEPS), straight())


def test_handler_of_the_user_is_left_alone(tmp_path):
    seen = []

    def mine(number, frame):
        seen.append(number)

    def record(problem, state):
        assert signal.getsignal(signal.SIGINT) is mine
        press()
        return killed_run.record(problem, state)

    signal.signal(signal.SIGINT, mine)
    try:
        assert_same(call("both", tmp_path, steps=STEPS, record=record), straight())
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert len(seen) > 5


def test_handler_is_given_back_after_an_error(tmp_path):
    def record(problem, state):
        if state.step:
            raise ZeroDivisionError
        return {}

    with pytest.raises(ZeroDivisionError):
        call("both", tmp_path, steps=STEPS, record=record)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_another_thread_the_handler_is_not_touched(tmp_path):
    results, handlers = [], set()

    def record(problem, state):
        handlers.add(signal.getsignal(signal.SIGINT))
        return killed_run.record(problem, state)

    def run():
        results.append(call("both", tmp_path, steps=STEPS, record=record))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == {signal.default_int_handler}
    assert_same(results[0], straight())


def test_one_that_comes_after_the_last_look_is_not_swallowed():
    def press_and_fail():
        press()
        raise ZeroDivisionError

    with pytest.raises(KeyboardInterrupt), Interrupts():
        press()
    # What went wrong is told, not that it was interrupted as well.
    with pytest.raises(ZeroDivisionError), Interrupts():
        press_and_fail()


def test_program_that_is_interrupted(tmp_path):
    """As a user would see it: a program, Ctrl-C, the same program again."""
    folder = tmp_path / "run"
    child = Child("both", folder, pause=0.02)
    assert child.wait_for_saves(2), child.end()
    child.process.send_signal(signal.SIGINT)
    code, out, err = child.end()
    assert (code, out) == (-signal.SIGINT, "")
    last = err.strip().splitlines()[-1]
    said = rf"KeyboardInterrupt: interrupted at step (\d+), which {folder} holds: the same call"
    assert re.match(said, last), err
    assert max(saved(folder)) == int(re.match(said, last)[1])
    assert_same(call("both", folder), call("both"))


def test_chunks_are_short_and_end_where_they_must():
    pacer = Pacer()
    assert pacer.end(0, 100, 30) == 1
    pacer._length = 1000
    assert pacer.end(0, 100, 30) == 30
    assert pacer.end(30, 100, 30) == 60
    assert pacer.end(35, 100, 30) == 60
    assert pacer.end(90, 100, 30) == 100
