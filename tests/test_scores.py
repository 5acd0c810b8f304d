"""Scores of an alignment, against brute force and by hand."""

import numpy as np
import pytest

from rsgda import singlecell
from rsgda.singlecell import scores

RNG = np.random.default_rng(0)


def closer(a, b):
    """Loops, with ties by half."""
    total = 0.0
    for i in range(len(a)):
        mine = np.sum((a[i] - b[i]) ** 2)
        for j in range(len(b)):
            other = np.sum((a[i] - b[j]) ** 2)
            total += (other < mine) + 0.5 * (other == mine and j != i)
    return total / (len(a) * (len(a) - 1))


@pytest.mark.parametrize("chunk", [1, 100, 2**22])
def test_foscttm_is_that_of_loops(monkeypatch, chunk):
    monkeypatch.setattr(scores, "CHUNK", chunk)
    a = RNG.normal(size=(23, 3))
    b = a + RNG.normal(size=(23, 3))
    b[4] = b[7]
    found = singlecell.foscttm(a, b)
    assert found.source == pytest.approx(closer(a, b), abs=1e-14)
    assert found.target == pytest.approx(closer(b, a), abs=1e-14)
    assert found.mean == (found.source + found.target) / 2
    assert found.source != found.target


def test_foscttm_by_hand():
    # Cell 0 has its match at 1, cell 1 at 0: each is closer to the other's match.
    swapped = singlecell.foscttm([[0.0], [1.0]], [[1.0], [0.0]])
    assert swapped == (1.0, 1.0, 1.0)
    # 0 is nearer to 2's match (0.5) than to its own (0.9): one of two others, of one in three.
    found = singlecell.foscttm([[0.0], [5.0], [1.0]], [[0.9], [5.0], [0.5]])
    assert found.source == pytest.approx((1 / 2 + 0 + 1 / 2) / 3)


@pytest.mark.parametrize(
    ("a", "b"), [([[1.0]], [[1.0]]), ([[1.0], [2.0]], [[1.0]]), ([[1.0], [np.nan]], [[1.0], [2.0]])]
)
def test_foscttm_of_what_has_none(a, b):
    with pytest.raises(ValueError, match="`source`"):
        singlecell.foscttm(a, b)


def neighbours(a, b, k):
    """The share of the k nearest of each a, of all but itself, that are of b."""
    both = np.concatenate([a, b])
    shares = []
    for i in range(len(a)):
        order = np.argsort(np.sum((both - a[i]) ** 2, axis=1))
        nearest = [j for j in order if j != i][:k]
        shares.append(np.mean([j >= len(a) for j in nearest]))
    return np.mean(shares) * (len(both) - 1) / len(b)


def test_mixing_is_that_of_loops():
    a, b = RNG.normal(size=(30, 2)), 0.7 + RNG.normal(size=(45, 2))
    found = singlecell.mixing(a, b, neighbours=7)
    assert found.source == pytest.approx(neighbours(a, b, 7))
    assert found.target == pytest.approx(neighbours(b, a, 7))
    assert found.mean == (found.source + found.target) / 2


def test_mixing_of_one_cloud_is_one():
    cloud = RNG.normal(size=(3_000, 2))
    assert singlecell.mixing(cloud[:1_000], cloud[1_000:]).mean == pytest.approx(1, abs=0.03)


def test_mixing_looks_at_some_cells_only(monkeypatch):
    a, b = RNG.normal(size=(400, 2)), RNG.normal(size=(300, 2)) + 0.5
    whole = singlecell.mixing(a, b, neighbours=10)
    part = singlecell.mixing(a, b, neighbours=10, most=250)
    assert part != whole
    assert part.mean == pytest.approx(whole.mean, abs=0.05)
    assert part == singlecell.mixing(a, b, neighbours=10, most=250)


def test_wrong_mixing():
    with pytest.raises(ValueError, match="one dimension, got 2 and 3"):
        singlecell.mixing(np.zeros((4, 2)), np.zeros((4, 3)))
    with pytest.raises(ValueError, match="`neighbours` must be below the 5 cells"):
        singlecell.mixing(np.zeros((3, 2)), np.zeros((2, 2)), neighbours=5)


def test_numbers_are_one_label_however_they_are_written():
    true, given = np.array([1.0, 2.0, np.nan]), np.array(["1", "2", ""])
    found = singlecell.label_transfer(true, given)
    assert found.accuracy == 1
    assert found.labels.tolist() == ["", "1", "2"]
    assert singlecell.label_transfer([1, 0.5], ["1", "0.5"]).accuracy == 1


def test_labels_by_hand():
    found = singlecell.label_transfer(["T", "B", "B", "NK"], ["T", "B", "T", "B"])
    assert found.accuracy == 0.5
    assert found.labels.tolist() == ["B", "NK", "T"]
    assert found.matrix.tolist() == [[1, 0, 1], [1, 0, 0], [0, 0, 1]]
    with pytest.raises(ValueError, match="one label for each cell"):
        singlecell.label_transfer(["T"], ["T", "B"])
