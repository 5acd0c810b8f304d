"""The bar shows what it should, and without it not a character is written."""

import io
import logging
import re
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import killed_run
import pytest
import rich.console
from killed_run import call

from rsgda.drive.checkpoint import Checkpoint
from rsgda.drive.progress import bar

HERE = Path(killed_run.__file__).parent


@pytest.fixture(params=[120])
def screen(monkeypatch, request):
    """What rich writes on a screen of some width, in place of standard error."""
    written = io.StringIO()
    console = rich.console.Console

    def on_screen(stderr):
        assert stderr
        return console(file=written, force_terminal=True, width=request.param, color_system=None)

    monkeypatch.setattr(rich.console, "Console", on_screen)
    return written


def lines(screen):
    """The states of the bar that were shown, without the codes that move the cursor."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    return [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()]


def test_bar_shows_steps_rate_remaining_time_and_latest_values(screen):
    def record(problem, state):
        time.sleep(0.05)
        return {"phi [a]": jnp.float32(1) / int(state.step + 1), "good": True}

    call("both", steps=60, record=record, every=5, progress=True)
    shown = lines(screen)
    pattern = r"RSGDA [━╸╺ ]+ (\d+)/60 ([\d,.]+) steps/s (\d:\d\d:\d\d) phi \[a\] ([\d.]+)  good 1"
    matches = [re.fullmatch(pattern, line) for line in shown]
    found = [match for match in matches if match]
    assert len(found) >= 3, shown
    for match in found:
        step = int(match[1])
        assert match[4] == f"{1 / (step - step % 5 + 1):.5g}"  # the newest record there was
    assert found[-1][1] == "60"
    assert 5 < float(found[-1][2]) < 150  # 5 steps in 0.05 s and a little more


@pytest.mark.parametrize("screen", [80], indirect=True)
def test_narrow_screen_cuts_the_values_only(screen):
    with bar(True, "RSGDA", 0, 100_000) as shown:
        for step in (50_000, 99_999):
            time.sleep(0.01)
            shown.update(step, {"step": step, "a": 1.0, "a very long name of a value": 2.0})
    for line in lines(screen):
        assert len(line) <= 80
        assert re.match(r"RSGDA .*/100,000 .*:", line), "it was broken into two"
    assert re.search(r"99,999/100,000 [\d,]+ steps/s \d:\d\d:\d\d a 1  a .*…$", lines(screen)[-1])


def test_estimate_of_a_resumed_run_counts_only_its_own_steps(screen):
    with bar(True, "run", 900_000, 1_000_000) as shown:
        for done in range(1, 11):
            time.sleep(0.02)
            shown.update(900_000 + 10 * done, {})
    last = re.search(r"900,100/1,000,000 ([\d,]+) steps/s (\d):(\d\d):(\d\d)", lines(screen)[-1])
    rate = float(last[1].replace(",", ""))
    remaining = 3600 * int(last[2]) + 60 * int(last[3]) + int(last[4])
    assert 10 < rate < 550
    assert remaining == pytest.approx(99_900 / rate, rel=0.05)


def test_resumed_run_starts_its_bar_where_it_was(screen, tmp_path):
    call("both", tmp_path, steps=40)
    call("both", tmp_path, steps=60, progress=True)
    steps = [int(match[1]) for line in lines(screen) if (match := re.search(r" (\d+)/60", line))]
    assert min(steps) >= 40
    assert max(steps) == 60


def test_bar_goes_to_standard_error_only(capfd):
    call("both", steps=20, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "20/20" in err


def test_nothing_is_written_without_it(capfd, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    for steps in (20, 40):
        call("both", tmp_path, steps=steps)
    assert capfd.readouterr() == ("", "")


def test_all_messages_are_the_own_loggers(caplog, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    with caplog.at_level(logging.INFO):
        for steps in (20, 40):
            call("both", tmp_path, steps=steps)
    names = {record.name.partition(".")[0] for record in caplog.records}
    assert names == {"rsgda"}
    assert f"saved step 20 in {tmp_path}" in caplog.text
    assert f"continuing from step 20 of {tmp_path}" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        call("both", tmp_path, steps=45)
    # What Orbax says is not lost for who wants it.
    names = {record.name for record in caplog.records}
    assert "rsgda.drive.quiet" in names
    assert "absl" not in names
    assert not logging.getLogger("absl").filters


PROGRAM = """
import logging, sys, warnings
warnings.simplefilter("error")
import killed_run
from rsgda.drive.checkpoint import Checkpoint
import jax
jax.config.update("jax_enable_x64", True)
Checkpoint.due = lambda self: True
for steps in (20, 40):
    killed_run.call("plain", sys.argv[1], steps=steps)
assert not logging.root.handlers, logging.root.handlers
assert not logging.getLogger("absl").filters
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s")
killed_run.call("plain", sys.argv[1], steps=50)
"""


@pytest.mark.slow
def test_logging_of_the_user_is_left_as_it_was(tmp_path):
    """In a program of its own: pytest sets up logging itself."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, cwd=HERE, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert set(done.stdout.split()) == {"rsgda.drive.checkpoint"}
