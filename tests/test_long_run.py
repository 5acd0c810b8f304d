"""A run of a million steps takes no more memory at its end than at its tenth part."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rsgda.drive import checkpoint

STEPS, EVERY = 1_000_000, 20
NUMBERS = 6  # of a record: four counts, and two values


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads Linux's /proc")
def test_memory_is_flat_over_a_million_steps(tmp_path):
    program = Path(__file__).with_name("long_run.py")
    command = [sys.executable, str(program), str(tmp_path / "run"), str(STEPS), str(EVERY)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    early, late, end = map(json.loads, done.stdout.splitlines())
    assert (early["step"], late["step"]) == (STEPS // 10, STEPS)
    assert end == {"records": STEPS // EVERY, "status": "FINISHED"}
    assert late["arrays"] <= early["arrays"]
    # What the history itself has to hold, and what an allocator may keep.
    assert late["peak"] - early["peak"] <= 1.5 * 8 * NUMBERS * STEPS / EVERY + 2**23
    # On disk there are the newest saves and one line a record.
    saves = [name for name in os.listdir(tmp_path / "run") if name.isdigit()]
    assert len(saves) == checkpoint.KEPT
    with open(tmp_path / "run" / checkpoint.HISTORY) as lines:
        assert sum(1 for _ in lines) == STEPS // EVERY
