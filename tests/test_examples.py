"""The examples run as a reader would run them, draw their picture, and say what is to be seen."""

import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import pytest

EXAMPLES = sorted(Path(__file__).parents[1].glob("examples/*.py"))
LONG = ("gan_toy", "matching_cells", "semidiscrete_generation")  # up to a minute each
TIMEOUT = 900  # seconds; alone on a machine none takes one minute


def numbers(said, *after):
    """Return the number that follows each of the words."""
    return [float(re.search(rf"{words}\D*?(\d+(\.\d+)?)", said)[1]) for words in after]


def of_robust_regression(said):
    squares, robust = numbers(said, "least squares:", "RSGDA:")
    assert robust < 0.25 < 1 < squares


def of_fair_classification(said):
    plain, fair = numbers(said, "regression: worst group", "groups: worst group")
    all_plain, all_fair = numbers(said, "regression: .*, all people", "groups: .*, all people")
    assert fair < 0.6 * plain
    assert all_fair < all_plain + 6


def of_gan_toy(said):
    before, after = numbers(said, "before:", r"000 steps:")
    assert before < 5 < 10 < after


def of_semidiscrete_generation(said):
    before, after, real = numbers(said, "before:", r"\d steps:", "of the digits:")
    assert after < before / 2
    assert real < after


def of_matching_cells(said):
    alone, told = numbers(said, "nothing known:", "pairs known:")
    assert told > alone + 30


def run(example, folder, **variables):
    picture = folder / "picture.png"
    command = [sys.executable, str(example), "--quick", "--out", str(picture)]
    environment = {name: text for name, text in os.environ.items() if name != "MPLBACKEND"}
    for name in ("JAX_ENABLE_X64", "JAX_NUMPY_DTYPE_PROMOTION"):
        environment.pop(name, None)
    done = subprocess.run(
        command, cwd=folder, env=environment | variables, capture_output=True, text=True,
        timeout=TIMEOUT,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    assert [path.name for path in folder.iterdir()] == ["picture.png"]
    drawn = matplotlib.image.imread(picture)[..., :3]
    assert drawn.shape[1] > drawn.shape[0] > 300
    assert drawn.std() > 0.05  # not an empty page
    return done.stdout


def test_there_are_five():
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(example):
    assert len(example.read_text(encoding="utf-8").splitlines()) < 60


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.stem in LONG)) for path in EXAMPLES],
    ids=lambda path: path.stem,
)
def test_an_example_shows_what_it_says(example, tmp_path):
    said = run(example, tmp_path)
    globals()[f"of_{example.stem}"](said)


@pytest.mark.slow
def test_people_are_simulated_where_there_are_none(tmp_path):
    (example,) = (path for path in EXAMPLES if path.stem == "fair_classification")
    nowhere = tmp_path / "home"
    (folder := tmp_path / "here").mkdir()
    said = run(example, folder, RSGDA_DATA="", XDG_CACHE_HOME=str(nowhere))
    assert "people are simulated" in said
    of_fair_classification(said)
