"""The records of a run in memory: nothing of them is lost, and they take little."""

import tracemalloc

import numpy as np
import pytest

from rsgda.drive.history import History
from rsgda.drive.result import columns

ROWS = {
    "plain": [{"step": k, "phi": k / 3} for k in range(0, 40, 5)],
    "kinds that change": [
        {"step": 5, "x": 1, "y": True, "z": False},
        {"step": 10, "x": 0.5, "y": 2, "z": True},
        {"step": 15, "x": -(2**53) - 1, "y": False, "z": 0.5},
    ],
    "names that come and go": [
        {"step": 5, "even": True},
        {"step": 10},
        {"step": 15, "phi": float("inf"), "even": False},
        {"even": True, "step": 20},
    ],
    "large": [{"step": 5, "x": 2**63}, {"step": 10, "x": 2**64 - 1}],
    "hard to write": [{"step": 5, "ünicode [x]": 1e-310, "nan": float("nan"), "minus": -0.0}],
}


@pytest.mark.parametrize("name", ROWS)
def test_history_is_what_a_list_of_dicts_would_be(name):
    rows = ROWS[name]
    history = History(rows)
    assert (len(history), repr(history.last)) == (len(rows), repr(rows[-1]))
    for first in range(len(rows) + 2):
        assert repr(list(history.since(first))) == repr(rows[first:])
    for every, last in ((1, 0), (5, 0), (10, 0), (10, rows[-1]["step"])):
        kept = [row for row in rows if row["step"] % every == 0 or row["step"] == last]
        found, expected = history.columns(every, last), columns(kept)
        assert list(found) == list(expected) if kept else not found
        for column in found:
            assert found[column].dtype == expected[column].dtype, column
            np.testing.assert_array_equal(found[column], expected[column])


def test_record_that_was_not_asked_for_leaves_no_trace():
    rows = [{"step": 7}, {"step": 10, "even": True}, {"step": 20, "even": True}]
    assert History(rows).columns(10, 20)["even"].dtype == bool


def test_history_takes_little():
    """Eight bytes a number, of which a growing array has an eighth more than it needs."""
    tracemalloc.start()
    try:
        history = History()
        begun, _ = tracemalloc.get_traced_memory()
        for step in range(20_000):
            history.append({"step": 1_000 + step, "gradients": 2_000 + step, "phi": step / 3})
        taken = tracemalloc.get_traced_memory()[0] - begun
    finally:
        tracemalloc.stop()
    assert taken < 1.5 * 8 * 3 * 20_000
