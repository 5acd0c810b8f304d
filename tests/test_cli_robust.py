"""`rsgda robust`: from files to a model, numbers and pages, and what is refused in one line."""

import base64
import csv
import html.parser
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from rsgda import report
from rsgda.cli import app
from rsgda.cli_robust import commands, folder, told
from rsgda.cli_robust.source import Known, Preparation, Source, apart, grid
from rsgda.data.samples import Samples
from rsgda.inner import ConcavityWarning
from rsgda.robust import RobustClassifier
from rsgda.robust.attacks import NORMS
from rsgda.robust.classifier import ALPHA
from rsgda.robust.classifier_fit import LEAST_EPOCHS, LEAST_GRADIENTS, MOST_EPOCHS
from rsgda.robust.classifier_network import MAKERS
from rsgda.robust.presets import presets

EVIL, GOOD = "<script>alert(1)</script>", "good & well"
NAMES = ("small", "large", "noise")
# Far from standardised, and unlike each other.
MEAN, SCALE = np.array([3.0, -200.0, 0.5]), np.array([0.1, 50.0, 2.0])
EPOCHS = 50  # of which each is recorded, as of fewer
PARAMETERS = {"epochs": EPOCHS, "batch_size": 20, "random_state": 3}
OPTIONS = ("--epochs", EPOCHS, "--batch-size", 20, "--seed", 3)


def run(*arguments):
    # Wide enough for no line of a table to be broken.
    found = CliRunner(env={"COLUMNS": "240"}).invoke(app, [str(a) for a in arguments])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def refused(*arguments, code=2):
    """Return the one line that a command ends with."""
    shown = run(*arguments)
    assert shown.exit_code == code, shown.output
    (line,) = shown.stderr.splitlines()
    assert line.startswith("rsgda: ")
    return line


def samples(n=60, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    y = np.where(X @ [1.5, -1.0, 0.0] + 0.3 * random.normal(size=n) > 0, EVIL, GOOD)
    return X * SCALE + MEAN, y


def write_csv(path, X, y, order=(0, 1, 2)):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(NAMES[i] for i in order), "kind"])
        for row, label in zip(X, y, strict=True):
            writer.writerow([*(repr(float(row[i])) for i in order), label])
    return path


def read_csv(path):
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    return header, np.array(rows, float)


def standardised(X, like):
    return (X - like.mean(axis=0)) / like.std(axis=0)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with samples, other samples, and a model fitted to the first."""
    place = tmp_path_factory.mktemp("robust")
    write_csv(place / "train.csv", *samples())
    write_csv(place / "test.csv", *samples(40, seed=1))
    shown = run("robust", "fit", place / "train.csv", "--test", place / "test.csv", *OPTIONS,
                "--out", place / "model")  # fmt: skip
    assert shown.exit_code == 0, shown.output
    (place / "fit.txt").write_text(shown.output)
    return place


class Page(html.parser.HTMLParser):
    """A page, read strictly: every tag is closed where it must be."""

    VOID = ("meta", "img", "br", "link")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words, self.sources = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.sources += [value for name, value in attributes if name in ("src", "href")]
        assert not [name for name, _ in attributes if name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def check_page(path, *words, figures=1):
    """Check a page for what all pages must be."""
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert len(page.sources) == figures
    for source in page.sources:
        kind, content = source.split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        assert b"<svg" in base64.b64decode(content, validate=True)
    # Figures name their namespaces inside; the page itself names no place of the network.
    assert not re.search(r"https?:|url\(|@import|//", re.sub(r'src="data:[^"]*"', "", text))
    shown = " ".join(page.words)
    for word in words:
        assert word in shown
    return shown


# Pages.


def test_a_page_escapes_all_words():
    evil = "<img src=x onerror=alert(1)>\"'&"
    parts = [
        evil,
        report.paragraph(evil),
        report.notice(evil),
        report.numbers({evil: evil}),
        report.figure(b"<svg/>", shows=evil, says=evil),
        report.table((evil, evil), [(evil, 1)]),
        report.settings({evil: evil}),
    ]
    text = report.page(evil, [report.Section(evil, parts)], about=evil, foot=evil)
    page = Page(text)
    assert page.tags.count("img") == 1
    assert "".join(page.words).count(evil) == 16


def test_a_page_fits_phones_the_dark_and_no_network():
    text = report.page("Title", [report.Section("", [])])
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in text
    assert Page(text).words.count("Title") == 2


# Fit.


def test_a_fit_leaves_a_model_that_is_that_of_python(place):
    X, y = samples()
    model = folder.load(place / "model")
    by_hand = RobustClassifier(**PARAMETERS).fit(standardised(X, X), y)
    for found, wanted in zip(model.classifier.coefs_, by_hand.coefs_, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert model.preparation.names == NAMES
    assert model.preparation.label == "kind"
    assert model.classifier.checkpoint is None
    test_X, test_y = samples(40, seed=1)
    accuracy = np.mean(by_hand.predict(standardised(test_X, X)) == test_y)
    assert accuracy > 0.7
    assert f"{100 * accuracy:.1f} %" in (place / "fit.txt").read_text()


def test_a_fit_tells_what_it_does(place):
    shown = (place / "fit.txt").read_text()
    assert "train.csv: 60 samples, 3 features, 2 classes" in shown
    assert "test.csv: 40 samples, 3 features, 2 classes" in shown
    assert "right of 40 test samples" in shown
    assert "report.html" in shown


def test_the_page_of_a_fit(place):
    words = check_page(
        place / "model" / "report.html",
        "train.csv", EVIL, GOOD, "right of 40 test samples", "standardised", "rsgda", "jax",
    )  # fmt: skip
    assert "No samples were kept out" not in words
    assert "automatic" not in words
    assert str(EPOCHS) in words


def test_the_folder_holds_a_model_and_no_leftovers(place):
    held = {path.name.split("-")[0] for path in (place / "model").iterdir()}
    assert held - {"evaluate", "certify"} == {
        "model.json", "preparation.json", "report.html", "weights",
    }  # fmt: skip
    RobustClassifier.load(place / "model")


def test_a_model_is_not_overwritten_unless_forced(place, tmp_path):
    out = tmp_path / "model"
    fit = ("robust", "fit", place / "train.csv", *OPTIONS, "--out", out)
    assert run(*fit).exit_code == 0
    before = (out / "model.json").read_bytes()
    check_page(out / "report.html", "No samples were kept out")
    line = refused(*fit, "--gamma", 2)
    assert "--force" in line
    assert (out / "model.json").read_bytes() == before
    assert run(*fit, "--gamma", 2, "--force").exit_code == 0
    assert folder.load(out).classifier.gamma == 2
    assert len(list(out.glob("weights-*"))) == 1


def begun(out, X, y, epochs=20, **others):
    """Leave what an interrupted fit leaves."""
    parameters = {**PARAMETERS, **others, "epochs": epochs}
    RobustClassifier(**parameters, checkpoint=out / "checkpoint").fit(standardised(X, X), y)


def test_an_interrupted_fit_goes_on(place, tmp_path):
    begun(tmp_path / "model", *samples())
    with pytest.raises(ValueError, match="not finished"):
        folder.load(tmp_path / "model")
    shown = run("robust", "fit", place / "train.csv", *OPTIONS, "--out", tmp_path / "model")
    assert shown.exit_code == 0, shown.output
    assert "continues" in shown.output
    straight = folder.load(place / "model").classifier
    resumed = folder.load(tmp_path / "model").classifier
    for found, wanted in zip(resumed.coefs_, straight.coefs_, strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(resumed.history_["step"], straight.history_["step"])
    assert not (tmp_path / "model" / "checkpoint").exists()


def test_an_interrupted_fit_of_another_call_is_not_continued(place, tmp_path):
    out = tmp_path / "model"
    begun(out, *samples(), gamma=2.5)
    fit = ("robust", "fit", place / "train.csv", *OPTIONS, "--out", out)
    assert "another call" in refused(*fit)
    assert (out / "checkpoint").exists()
    assert run(*fit, "--force").exit_code == 0
    assert folder.load(out).classifier.gamma == 1.3


def test_an_interrupted_fit_that_went_further_is_not_cut(place, tmp_path):
    out = tmp_path / "model"
    begun(out, *samples())
    shorter = ("--epochs", 10, *OPTIONS[2:])
    line = refused("robust", "fit", place / "train.csv", *shorter, "--out", out)
    assert "gone further than --epochs" in line
    assert "--steps" not in line
    assert (out / "checkpoint").exists()


def test_a_fit_that_diverges_saves_nothing(place, tmp_path):
    out = tmp_path / "model"
    line = refused("robust", "fit", place / "train.csv", *OPTIONS, "--alpha", 1e30, "--out", out)
    assert "diverged" in line
    assert "--alpha" in line
    assert list(out.iterdir()) == []


def test_a_warning_is_a_line_of_its_own(place, tmp_path):
    shown = run("robust", "fit", place / "train.csv", *OPTIONS, "--no-standardise", "--gamma", 1e4,
                "--out", tmp_path / "model")  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert "note: DATA has a root mean square of" in shown.stdout
    assert not shown.stderr


def test_samples_are_kept_out_and_left_for_later(place, tmp_path):
    out, (X, y) = tmp_path / "model", samples(80)
    data = write_csv(tmp_path / "all.csv", X, y)
    shown = run("robust", "fit", data, *OPTIONS, "--test-fraction", 0.25, "--out", out)
    assert shown.exit_code == 0, shown.output
    assert "kept out for testing: 20 samples" in shown.output
    with np.load(out / "test.npz", allow_pickle=False) as held:
        held_X, held_y = held["X"], held["y"]
    rows, held_rows = {tuple(row) for row in X}, {tuple(row) for row in held_X}
    assert len(held_rows) == 20
    assert held_rows < rows
    # Scaled by those that it was trained on, not by all.
    kept = np.array(sorted(rows - held_rows))
    model = folder.load(out)
    np.testing.assert_allclose(model.preparation.mean, kept.mean(axis=0))
    np.testing.assert_allclose(model.preparation.scale, kept.std(axis=0))
    right = np.mean(model.classifier.predict(standardised(held_X, kept)) == held_y)
    assert re.search(rf"right of 20 test samples +│ +{100 * right:.1f} %", shown.output)
    # Another scaling: radii would not be the same.
    line = refused("robust", "evaluate", place / "model", place / "test.csv", "--against", out)
    assert "same units" in line


@pytest.mark.parametrize(
    ("single", "words"),
    [
        (["odd"], "a single sample of class 'odd' (sample 61)"),
        ([f"odd {i}" for i in range(8)], "'odd 4' (sample 65) and 3 more"),
        (["odd", "odd"], None),
    ],
)
def test_a_class_of_a_single_sample_is_named(single, words, tmp_path):
    X, y = samples()
    data = write_csv(tmp_path / "x.csv", [*X, *X[: len(single)]], [*y, *single])
    # It is told before anything else can fail.
    shown = run("robust", "fit", data, "--alpha", -1, "--out", tmp_path / "model")
    assert shown.exit_code == 2
    assert "--alpha" in shown.stderr
    assert ("single sample" in shown.stdout) == (words is not None)
    assert words is None or words in shown.stdout


# Evaluate.


ATTACK = ("--radii", "0.5,3,0.2", "--steps", 5)


def evaluated(*arguments, out):
    """Return the header and the rows that an evaluation writes."""
    shown = run("robust", "evaluate", *arguments, "--out", out)
    assert shown.exit_code == 0, shown.output
    return shown.output, *read_csv(out / "robustness.csv")


@pytest.mark.slow
def test_evaluate_measures_a_model_beside_another(place, tmp_path):
    twin, out = shutil.copytree(place / "model", tmp_path / "<b>twin"), tmp_path / "out"
    shown, header, rows = evaluated(
        place / "model", place / "test.csv", "--against", twin, *ATTACK, out=out
    )
    assert header == ["radius", "model", "<b>twin"]
    np.testing.assert_array_equal(rows[:, 0], [0.0, 0.2, 0.5, 3.0])
    np.testing.assert_array_equal(rows[:, 1], rows[:, 2])
    X, y = samples(40, seed=1)
    clean = folder.load(twin).classifier.score(standardised(X, samples()[0]), y)
    assert rows[0, 1] == clean
    assert np.all(np.diff(rows[:, 1]) <= 0)
    assert rows[-1, 1] < 0.5 < rows[1, 1]
    assert f"clean accuracy on 40 samples: model {100 * clean:.1f} %" in shown
    assert (out / "robustness.png").read_bytes().startswith(b"\x89PNG")
    check_page(out / "report.html", "40 of 40", "L2", EVIL, "Settings of <b>twin")


@pytest.mark.slow
def test_columns_are_matched_by_their_names(place, tmp_path):
    turned = write_csv(tmp_path / "turned.csv", *samples(40, seed=1), order=(2, 0, 1))
    found = [
        evaluated(place / "model", data, *ATTACK, out=tmp_path / data.stem)[2]
        for data in (place / "test.csv", turned)
    ]
    np.testing.assert_array_equal(*found)


def test_evaluate_finds_radii_and_draws_samples(place, tmp_path):
    out = tmp_path / "out"
    _, _, rows = evaluated(
        place / "model", place / "train.csv", "--steps", 5, "--samples", 40, out=out
    )
    X, y = samples()
    X = standardised(X, X)
    far = np.sqrt(np.sum((X[:, None] - X) ** 2, axis=2))
    far[y[:, None] == y] = np.inf
    assert rows[-1, 0] == pytest.approx(np.median(far.min(axis=1)), rel=0.3)
    assert np.all(rows[:, 1] * 40 % 1 < 1e-9)
    check_page(out / "report.html", "40 of 60")


def test_a_model_does_not_stand_beside_itself(place):
    model = place / "model"
    line = refused("robust", "evaluate", model, place / "test.csv", "--against", model)
    assert "--against" in line


# Certify.


@pytest.mark.slow
def test_certify_bounds_what_attacks_reach(place, tmp_path):
    out = tmp_path / "out"
    shown = run("robust", "certify", place / "model", place / "test.csv", "--rho", "0,0.02,0.1",
                "--gamma", "2,8", "--steps", 5, "--out", out)  # fmt: skip
    assert shown.exit_code == 0, shown.output
    header, rows = read_csv(out / "certificate.csv")
    found = dict(zip(header, rows.T, strict=True))
    model = folder.load(place / "model")
    X, y = samples(40, seed=1)
    X = standardised(X, samples()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConcavityWarning)
        wanted = model.classifier.certificate(X, y, [0.0, 0.02, 0.1], gamma=[2.0, 8.0])
    np.testing.assert_allclose(found["bound"], wanted.bound, rtol=1e-5)
    assert np.all(found["share"] == wanted.share)
    np.testing.assert_array_equal(found["rho"], [0, 0.02, 0.1])
    assert np.all(found["attack"] <= found["bound"])
    assert np.all(np.diff(found["attack"]) > 0)
    assert wanted.message in shown.output
    check_page(out / "report.html", "40 of 40", "2, 8", "gamma of the fit")
    assert (out / "certificate.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_certify_finds_its_gammas(place, tmp_path):
    """The default says something of all samples, and what is said of them agrees."""
    out = tmp_path / "out"
    shown = run("robust", "certify", place / "model", place / "test.csv", "--rho", "0,0.05",
                "--steps", 5, "--out", out)  # fmt: skip
    assert shown.exit_code == 0, shown.output
    header, rows = read_csv(out / "certificate.csv")
    found = dict(zip(header, rows.T, strict=True))
    np.testing.assert_array_equal(found["share"], 1)
    assert found["attack"][0] == pytest.approx(found["bound"][0], rel=1e-12)
    assert found["attack"][1] < found["bound"][1] < 2 * found["attack"][1]
    words = check_page(out / "report.html", "samples are certified", "40 of 40")
    assert "estimate" not in words
    assert "stays under the upper line" in words


@pytest.mark.slow
def test_an_estimate_is_called_one_everywhere(place, tmp_path):
    out = tmp_path / "out"
    shown = run("robust", "certify", place / "model", place / "test.csv", "--rho", "0.1",
                "--gamma", 0.01, "--steps", 5, "--out", out)  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert "An estimate that can be too small" in shown.output
    assert "none of the 40 samples is certified" in shown.output
    assert "loss at most, an estimate" in shown.output
    words = check_page(out / "report.html", "estimated to be at most", "0 of 40")
    assert "An estimate of its loss on 40 samples" in words
    assert "can be too small" in words
    assert "under the upper line" not in words


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{train}", "--preset", "papier"], ["--preset", "paper, authors, sinha", "'papier'"]),
        (["{train}", "--network", "vgg"], ["--network", "sinha_cnn", "'vgg'"]),
        (["{train}", "--test-fraction", "1.5"], ["--test-fraction", "(0, 1)"]),
        (["{train}", "--test-fraction", "0.5", "--test", "{test}"], ["--test", "exclude"]),
        (["{train}", "--test-labels", "{test}"], ["--test-labels", "missing"]),
        (["{train}", "--p", "2"], ["--p must", "(0, 1)"]),
        (["{train}", "--gamma", "-1"], ["--gamma must", "positive"]),
        (["{train}", "--label-smoothing", "2"], ["--label-smoothing", "[0, 1]"]),
        (["{train}", "--batch-size", "0"], ["--batch-size", "at least 1"]),
        (["{train}", "--preset", "sinha", "--p", "0.1"], ["--p", "--preset sinha"]),
        (["{train}", "--preset", "paper", "--standardise"], ["--standardise", "pixels"]),
        (["{train}", "--box", "0", "1", "--standardise"], ["--standardise", "box"]),
        (["{train}", "--box", "-1", "1"], ["DATA must lie in", "--box"]),
        (["{train}", "--preset", "paper"], ["DATA must lie in [0, 1]", "--preset"]),
        (["{train}", "--network", "cnn"], ["--network must be", "image"]),
        (["{train}", "--validation-fraction", "0.2"], ["--early-stopping"]),
        (["{train}", "--label", "colour"], ["train.csv", "'colour'", "'small'"]),
        (["{train}", "--label", "small"], ["train.csv", "line 2", "'kind'"]),
        (["{train}", "--test", "{other}"], ["other.csv", "the fit", "lacks", "'noise'"]),
        (["{numbers}"], ["numbers.csv", "'value'", "no classes", "--label"]),
        (["{one}"], ["one.csv", "at least two classes"]),
    ],
)
def test_a_fit_is_refused_in_one_line(arguments, words, place, tmp_path):
    files = {name: tmp_path / f"{name}.csv" for name in ("other", "numbers", "one")}
    files["other"].write_text("small,large,kind\n1,2,x\n2,3,y\n")
    rows = "".join(f"{i},{i / 7}\n" for i in range(20))
    files["numbers"].write_text(f"a,value\n{rows}")
    files["one"].write_text("1,x\n2,x\n")
    known = {"train": place / "train.csv", "test": place / "test.csv", **files}
    given = [argument.format(**known) for argument in arguments]
    line = refused("robust", "fit", *given, "--out", tmp_path / "out")
    for word in words:
        assert word in line
    assert not (tmp_path / "out").exists()


def test_files_and_folders_that_are_not_there(place, tmp_path):
    out = ("--out", tmp_path / "out")
    assert "nothing.csv" in refused("robust", "fit", tmp_path / "nothing.csv", *out, code=1)
    line = refused("robust", "evaluate", tmp_path / "no", place / "test.csv", code=1)
    assert "rsgda robust fit" in line
    (tmp_path / "empty").mkdir()
    line = refused("robust", "certify", tmp_path / "empty", place / "test.csv")
    assert "model.json" in line
    (tmp_path / "file").write_text("")
    line = refused("robust", "fit", place / "train.csv", "--out", tmp_path / "file", code=1)
    assert "is a file" in line
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letter.txt").write_text("dear")
    line = refused("robust", "fit", place / "train.csv", "--out", tmp_path / "taken")
    assert "letter.txt" in line
    out, model = tmp_path / "file" / "model", place / "model"
    for begin in (["fit"], ["evaluate", model], ["certify", model]):
        line = refused("robust", *begin, place / "train.csv", "--out", out, code=1)
        assert "--out must be a folder that can be read and written" in line
        assert "Not a directory" in line


@pytest.mark.parametrize("command", ["evaluate", pytest.param("certify", marks=pytest.mark.slow)])
def test_a_report_is_not_overwritten_unless_forced(command, place, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.html").write_text("dear")
    call = ("robust", command, place / "model", place / "test.csv", "--out", out)
    line = refused(*call)
    assert "holds report.html already" in line
    assert "--force" in line
    assert (out / "report.html").read_text() == "dear"
    quick = ("--steps", 5, *(("--rho", "0.1", "--gamma", 8) if command == "certify" else ()))
    assert run(*call, *quick, "--force").exit_code == 0
    check_page(out / "report.html", "40 of 40")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("small,large,kind\n1,2,x\n", ["lacks", "'noise'"]),
        ("small,large,noise,more,kind\n1,2,3,4,x\n", ["unlike the fit", "'more'"]),
        ("small,large,noise,sort\n1,2,3,x\n", ["'kind'", "'sort'"]),
        ("1,2,x\n", ["2 features", "3 features"]),
        ("small,large,noise,kind\n1,2,3,good & well\n1,2,3,odd\n", ["'odd'", "sample 2", "knows"]),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "certify"])
def test_samples_of_another_kind_are_refused(command, text, words, place, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text(text)
    line = refused("robust", command, place / "model", data)
    for word in ["data.csv", *words]:
        assert word in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluate", "--norm", "l1"], ["--norm", "l2, linf"]),
        (["evaluate", "--radii", "0.1;0.2"], ["--radii", "commas"]),
        (["evaluate", "--radii", "-1"], ["--radii", "negative"]),
        (["evaluate", "--samples", "0"], ["--samples", "at least 1"]),
        (["evaluate", "--radii", "1", "--steps", "0"], ["--steps", "at least 1"]),
        (["certify", "--rho", "many"], ["--rho", "commas"]),
        (["certify", "--rho", "-1"], ["--rho", "negative"]),
        (["certify", "--rho", "1", "--gamma", "0"], ["--gamma", "positive"]),
    ],
)
def test_wrong_numbers_are_refused(arguments, words, place, tmp_path):
    command, *options = arguments
    line = refused("robust", command, place / "model", place / "test.csv", *options,
                   "--out", tmp_path / "out")  # fmt: skip
    for word in words:
        assert word in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda note: note.update(scale=[1.0, 0.0, 1.0]), ["positive"]),
        (lambda note: note.update(mean=[1.0]), ["3 features"]),
        (lambda note: note.update(names=["a"]), ["1 features of 3"]),
        (lambda note: note.update(names=[1, 2, 3]), ["no name"]),
        (lambda note: note.update(model="0"), ["another model.json"]),
        (lambda note: note.update(version=2), ["version"]),
        (lambda note: note.clear(), ["not that of a model"]),
        (lambda note: note.pop("scale"), ["scale"]),
    ],
)
def test_a_damaged_preparation_is_refused(change, words, place, tmp_path):
    for name in ("model.json", "preparation.json", *(place / "model").glob("weights-*")):
        path = place / "model" / name
        (tmp_path / path.name).write_bytes(path.read_bytes())
    note = json.loads((tmp_path / "preparation.json").read_text())
    change(note)
    (tmp_path / "preparation.json").write_text(json.dumps(note))
    line = refused("robust", "evaluate", tmp_path, place / "test.csv")
    for word in ["preparation.json", *words]:
        assert word in line


# Pieces.


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (np.array([0, 1, 7]), np.array(["7", "0", "7"])),
        (np.array(["0", "1", "7"]), np.array([7, 0, 7])),
        (np.array([0.0, 1.0, 7.0]), np.array([7, 0, 7], np.uint8)),
        (np.array([0, 1, 7]), np.array([7.0, 0.0, 7.0])),
    ],
)
def test_labels_that_read_alike_are_equal(classes, labels, tmp_path):
    known = Known("it", Preparation(), (2,), classes)
    _, y = known.fitted(Samples(np.zeros((3, 2)), labels), tmp_path)
    assert y.dtype == classes.dtype
    np.testing.assert_array_equal(y, classes[[2, 0, 2]])


def test_images_get_their_channel(tmp_path):
    known = Known("it", Preparation(), (4, 5, 1), np.array([0, 1]))
    known.fitted(Samples(np.zeros((2, 4, 5)), np.array([0, 1])), tmp_path)
    with pytest.raises(ValueError, match="5×4×1 pixels a sample, and it takes 4×5×1 pixels"):
        known.fitted(Samples(np.zeros((2, 5, 4)), np.array([0, 1])), tmp_path)


def test_the_label_of_the_fit_is_the_label(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("kind,a\nx,1\ny,2\n")
    known = Known("it", Preparation(("a",), "kind"), (1,), np.array(["x", "y"]))
    assert known.read(Source(path)).y.tolist() == ["x", "y"]
    path.write_text("1,x\n2,y\n")
    assert known.read(Source(path)).y.tolist() == ["x", "y"]


@pytest.mark.parametrize("end", [1e-9, 0.013, 0.83, 1, 7.9, 123.0])
def test_a_grid_is_round_and_ends_about_there(end):
    found = grid(end)
    assert found[0] == 0
    assert len(found) == 9
    assert found[-1] == pytest.approx(max(end, 1e-6), rel=0.3)
    assert all(len(f"{value:g}") <= 7 for value in found)


def test_how_far_classes_are_apart():
    X, y = np.array([[0.0, 0], [0, 1], [3, 4]]), np.array([0, 0, 1])
    assert apart(X, y, "l2") == pytest.approx(np.median([5, 18**0.5, 18**0.5]))
    assert apart(X, y, "linf") == pytest.approx(np.median([4, 3, 3]))
    assert apart(X, np.zeros(3), "l2") == pytest.approx(1.0)


@pytest.mark.slow
def test_images_from_idx_files(tmp_path):
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 60).astype(np.uint8)
    images = (random.integers(0, 60, (60, 6, 6)) + 190 * labels[:, None, None]).astype(np.uint8)
    for name, array in (("images-idx3", images), ("labels-idx1", labels)):
        head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        (tmp_path / name).write_bytes(head + array.tobytes())
    model = tmp_path / "model"
    shown = run("robust", "fit", tmp_path / "images-idx3", "--labels", tmp_path / "labels-idx1",
                "--box", 0, 1, "--gamma", "inf", "--epochs", 60, "--early-stopping",
                "--validation-fraction", 0.2, "--out", model)  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert "6×6 pixels" in shown.output
    assert "255" in shown.output
    check_page(model / "report.html", "right in validation", "without adversaries")
    assert folder.load(model).preparation.mean is None
    for command in ("evaluate", "certify"):
        shown = run("robust", command, model, tmp_path / "images-idx3", "--samples", 20)
        assert shown.exit_code == 0, shown.output
        check_page(model / command / "report.html", "20 of 60")


@pytest.mark.slow
def test_the_example_of_the_page_is_worth_it(tmp_path):
    """What is trained against adversaries withstands more, and is as good without."""
    page = (Path(__file__).parents[1] / "docs" / "robust.md").read_text(encoding="utf-8")
    section = page.split("## With files")[1].split("\n## ")[0]
    calls = re.findall(r"^rsgda (robust .*)$", section, re.MULTILINE)
    assert len(calls) == 4
    digits = load_digits()
    np.savez(tmp_path / "digits.npz", X=digits.images / 16, y=digits.target)
    # With JAX as the reader has it, in float32.
    environment = {name: v for name, v in os.environ.items() if not name.startswith("JAX_")}
    program = [sys.executable, "-c", "from rsgda.cli import main; main()"]
    for call in calls:
        done = subprocess.run(
            [*program, *call.split()], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    _, rows = read_csv(tmp_path / "robust" / "evaluate" / "robustness.csv")
    found = {radius: (robust, plain) for radius, robust, plain in rows}
    assert found[0][0] > max(0.93, found[0][1] - 0.02)
    assert found[0.25][0] > found[0.25][1] + 0.04
    assert found[0.5][0] > found[0.5][1] + 0.1
    # The table of the page, but for what rounding does to a fit elsewhere.
    table = re.findall(r"^\| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \|$", section, re.MULTILINE)
    assert len(table) == 4
    for radius, *parts in np.array(table, float):
        np.testing.assert_allclose(np.array(parts) / 100, found[radius], atol=0.05)


def test_the_names_of_options_are_those_of_the_library():
    assert set(commands.PRESETS) == set(presets)
    assert set(commands.NETWORKS) == {"auto", *MAKERS}
    # And what the help promises is what is done.
    promised = (
        f"{LEAST_EPOCHS}, or more until {LEAST_GRADIENTS:,} gradients or {MOST_EPOCHS} epochs"
    )
    assert promised in run("robust", "fit", "--help").output
    assert told.AUTOMATIC["alpha"].startswith(f"{ALPHA}, ")
    assert commands.NORMS == NORMS


@pytest.mark.parametrize("command", [[], ["fit"], ["evaluate"], ["certify"]])
def test_help_is_there(command):
    shown = run("robust", *command, "--help")
    assert shown.exit_code == 0
    for word in command or ["fit", "evaluate", "certify"]:
        assert word in shown.output
