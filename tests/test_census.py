"""The Adult data: lines of text become numbers, groups and labels."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from rsgda import data

SHARED = Path(__file__).parents[2] / "shared" / "data"
LINES = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male,"
    " 2174, 0, 40, United-States, <=50K",
    "52, ?, 287927, HS-grad, 9, Married-civ-spouse, Sales, Wife, Black, Female, 15024, 0, 35,"
    " Cuba, >50K",
)


def write(folder, train=f"{LINES[0]}\n{LINES[1]}\n\n", test=None, packed=True):
    (folder / "adult").mkdir(exist_ok=True)
    dotted = "|1x3 Cross validator\n" + "".join(f"{line}.\n" for line in LINES[1:])
    for name, text in (("adult.data", train), ("adult.test", dotted if test is None else test)):
        file = folder / "adult" / name
        if packed:
            file.with_name(f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            file.write_text(text)


@pytest.mark.parametrize("packed", [True, False])
def test_lines_become_people(packed, tmp_path, monkeypatch):
    monkeypatch.setenv("RSGDA_DATA", str(tmp_path))
    write(tmp_path, packed=packed)
    train, test, columns = data.adult()
    assert train.X.shape == (2, len(columns))
    assert train.X.dtype == np.float32
    row = dict(zip(columns, train.X[0], strict=True))
    assert (row["age"], row["capital-gain"], row["hours-per-week"]) == (39, 2174, 40)
    assert row["sex=Male"] == row["native-country=United-States"] == 1
    assert row["sex=Female"] == row["workclass=?"] == row["native-country=Cuba"] == 0
    assert not any(name.startswith(("fnlwgt", "income", "education=")) for name in columns)
    assert train.y.tolist() == [0, 1]
    assert train.sex.tolist() == ["Male", "Female"]
    assert train.race.tolist() == ["White", "Black"]
    # The comment on top and the dots of the test file are none of the data.
    np.testing.assert_array_equal(test.X, train.X[1:])
    assert test.y.tolist() == [1]


@pytest.mark.parametrize(
    "change",
    [
        {"train": "something else"},
        {"train": LINES[0].replace("39", "old")},
        {"test": LINES[0].replace("<=50K", "rich")},
        {"test": f"{LINES[0]}\n1, 2\n"},
        {"test": ""},
    ],
)
def test_a_foreign_file_is_refused(change, tmp_path, monkeypatch):
    monkeypatch.setenv("RSGDA_DATA", str(tmp_path))
    write(tmp_path, **change)
    with pytest.raises(ValueError, match=r"adult\.(data|test)\.gz must hold lines of 15 entries"):
        data.adult()


def test_missing_files_are_told_where_to_go(tmp_path, monkeypatch):
    monkeypatch.setenv("RSGDA_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError, match=r"adult\.test\.gz") as raised:
        data.adult()
    assert str(tmp_path / "adult") in str(raised.value)
    assert "archive.ics.uci.edu" in str(raised.value)


def test_the_census_is_as_published(monkeypatch):
    root = Path(os.environ.get("RSGDA_DATA") or SHARED)
    if not (root / "adult").exists():
        pytest.skip(f"{root} has no adult; name a folder that has in RSGDA_DATA")
    monkeypatch.setenv("RSGDA_DATA", str(root))
    train, test, columns = data.adult()
    assert train.X.shape == (32_561, len(columns))
    assert test.X.shape == (16_281, len(columns))
    # The share of the richer that the set's own description gives, of all people together.
    assert round((train.y.sum() + test.y.sum()) / (len(train.y) + len(test.y)), 4) == 0.2393
    assert np.sum(train.sex == "Female") == 10_771
