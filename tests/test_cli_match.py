"""`rsgda match`: from two files of cells to an aligned one and a page, and what is refused."""

import html.parser
import os
import shutil
import signal
import subprocess
import sys
import time

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from rsgda import singlecell as sc
from rsgda.cli import app
from rsgda.cli_match import figures, page
from rsgda.data import simulated_cells
from rsgda.drive.folder import NOTE
from rsgda.singlecell.embedding import some, tsne

EVIL = "<b>stem</b>"
SHORT = ("--steps", 30, "--hidden", "8", "--seed", 4)
STEPS = ("--source-steps", "normalize_total,log1p,scale", "--target-steps", "arcsinh=5,scale")


def run(*arguments):
    found = CliRunner(env={"COLUMNS": "240"}).invoke(app, ["match", *map(str, arguments)])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def refused(*arguments, code=2):
    """Return the one line that the command ends with."""
    shown = run(*arguments)
    assert shown.exit_code == code, shown.output
    (line,) = shown.stderr.splitlines()
    assert line.startswith("rsgda: ")
    return line


def table(counts, types, name):
    kinds = np.array([EVIL, "A", "B", "C"])
    obs = pd.DataFrame({"type": kinds[types]}, index=[f"{name}{i}" for i in range(len(counts))])
    var = pd.DataFrame(index=[f"{name}-{j}" for j in range(counts.shape[1])])
    return anndata.AnnData(counts.astype("float32"), obs=obs, var=var)


@pytest.fixture(scope="module")
def tables():
    cells = simulated_cells((80, 50), features=(6, 9))
    return table(cells.y, cells.y_types, "rna"), table(cells.x, cells.x_types, "cytof")


@pytest.fixture(scope="module")
def files(tmp_path_factory, tables):
    folder = tmp_path_factory.mktemp("files")
    paths = folder / "rna.h5ad", folder / "cytof.h5ad"
    for cells, path in zip(tables, paths, strict=True):
        cells = cells.copy()
        cells.X = sp.csr_matrix(cells.X)
        cells.write_h5ad(path)
    return paths


@pytest.fixture(scope="module")
def done(tmp_path_factory, files):
    folder = tmp_path_factory.mktemp("done")
    out = folder / "aligned.h5ad"
    shown = run(*files, "-o", out, "--label-key", "type", "--matcher", folder / "m", *STEPS, *SHORT)
    assert shown.exit_code == 0, shown.output
    return out, shown.output


class Reader(html.parser.HTMLParser):
    """Collects what is on a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def test_it_writes_what_match_in_python_finds(done, tables):
    out, output = done
    found = anndata.read_h5ad(out)
    rna, cytof = (cells.copy() for cells in tables)
    matcher = sc.match(
        rna,
        cytof,
        source_steps=[sc.normalize_total(), sc.log1p(), sc.scale()],
        target_steps=[sc.arcsinh(5), sc.scale()],
        label_key="type",
        hidden=(8,),
        steps=30,
        seed=4,
    )
    np.testing.assert_allclose(found.obsm["X_rsgda"], rna.obsm["X_rsgda"], rtol=1e-3, atol=1e-2)
    assert (found.obs["rsgda_label"] == rna.obs["rsgda_label"]).mean() > 0.95
    assert found.uns["rsgda"]["settings"]["steps"] == 30
    assert f"{matcher.scores['W_eps']:.4g}" in output
    kept = sc.Matcher.load(out.parent / "m")
    np.testing.assert_allclose(kept.transform(rna), rna.obsm["X_rsgda"], rtol=1e-3, atol=1e-2)


def test_only_what_was_asked_for_is_left(done):
    out, _ = done
    assert sorted(p.name for p in out.parent.iterdir()) == ["aligned.h5ad", "aligned.html", "m"]


def test_the_page_shows_all_and_names_are_escaped(done):
    out, _ = done
    text = out.with_suffix(".html").read_text(encoding="utf-8")
    seen = Reader(text)
    assert seen.tags.count("img") == 3  # the loss, the cells, the confusion matrix
    assert "script" not in seen.tags
    assert "<b>" not in text
    words = " ".join(seen.words)
    for wanted in (
        "rna.h5ad in the space of cytof.h5ad", "50 cells × 9 features", "Training", EVIL,
        "Cells before and after", "Labels", "Scores", "Settings", "arcsinh(cofactor=5)",
    ):  # fmt: skip
        assert wanted in words, wanted
    assert page.UNGUIDED in words
    assert "raw counts" not in words


@pytest.mark.slow
def test_raw_counts_are_noted_and_labels_that_guide_are(files, tmp_path):
    shown = run(
        *files, "-o", tmp_path / "a.h5ad", "--labels", "type", "--label-key", "type", *SHORT
    )
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("looks like raw counts") == 2
    words = " ".join(Reader((tmp_path / "a.html").read_text(encoding="utf-8")).words)
    assert "guided by labels" in words
    assert page.TOLD in words
    assert page.UNGUIDED not in words
    assert words.count("looks like raw counts") == 2


def test_nothing_is_overwritten_unless_that_is_asked_for(done, files):
    out, _ = done
    before = {path: path.read_bytes() for path in (out, out.with_suffix(".html"))}
    assert "is there already" in refused(*files, "-o", out, *SHORT, code=1)
    assert {path: path.read_bytes() for path in before} == before
    for path in files:
        assert "must not be a file that is read" in refused(*files, "-o", path, "--force", *SHORT)


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_folder_of_ones_own_is_never_taken_for_a_checkpoint(files, tmp_path, force):
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis.txt").write_text("years of work")
    options = ("-o", tmp_path / "a.h5ad", "--checkpoint", own, *force, *SHORT)
    assert "holds something else" in refused(*files, *options, code=1)
    assert (own / "thesis.txt").read_text() == "years of work"


def test_what_is_written_has_places_of_its_own(files, tmp_path):
    out = tmp_path / "a.h5ad"
    both = tmp_path / "both"
    same = refused(*files, "-o", out, "--matcher", both, "--checkpoint", both, *SHORT)
    assert "--matcher and --checkpoint must be two places" in same
    link = tmp_path / "link.h5ad"
    link.symlink_to(files[0])
    assert "must not be a file that is read" in refused(*files, "-o", link, "--force", *SHORT)
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis.txt").write_text("years of work")
    foreign = refused(*files, "-o", out, "--matcher", own, "--force", *SHORT)
    assert "--matcher must be a new or empty" in foreign
    assert not out.exists()


@pytest.mark.slow
def test_force_replaces(done, files, tmp_path):
    out, _ = done
    copied = shutil.copy(out, tmp_path / "a.h5ad")
    shown = run(*files, "-o", copied, "--force", *STEPS, "--steps", 3, "--hidden", "")
    assert shown.exit_code == 0, shown.output
    assert anndata.read_h5ad(copied).uns["rsgda"]["settings"]["steps"] == 3


def written(path, cells):
    cells.write_h5ad(path)
    return path


def changed(tables, which, change):
    cells = tables[which].copy()
    change(cells)
    return cells


def nan(cells):
    cells.X[3, 2] = np.nan


def negative(cells):
    cells.X[3, 2] = -1


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("kind", ["missing", "folder", "text", "cut", "empty", "nan"])
def test_bad_files(files, tables, tmp_path, which, kind):
    bad, code = tmp_path / "bad.h5ad", 2
    if kind == "folder":
        bad.mkdir()
    elif kind == "text":
        bad.write_text("cells")
    elif kind == "cut":
        content = files[which].read_bytes()
        bad.write_bytes(content[: len(content) // 2])
    elif kind == "empty":
        tables[which][:0].copy().write_h5ad(bad)
    elif kind == "nan":
        changed(tables, which, nan).write_h5ad(bad)
    given = list(files)
    given[which] = bad
    code = 1 if kind in ("missing", "folder") else 2
    said = refused(*given, "-o", tmp_path / "a.h5ad", *SHORT, code=code)
    assert ("SOURCE", "TARGET")[which] in said
    assert not list(tmp_path.glob("a.*"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--source-steps", "log2"), "--source-steps must be of normalize_total"),
        (("--target-steps", "arcsinh=-1"), "--target-steps: 'arcsinh=-1' is no step"),
        (("--source-steps", "pca=many"), "--source-steps: 'pca=many' is no step"),
        (("--shared", "names"), "--shared = 'names' wants features that are called alike"),
        (("--shared", "none.csv"), "--shared: none.csv cannot be read"),
        (("--label-key", "kind"), "--label-key must be a column of obs"),
        (("--source-layer", "raw"), "--source-layer must be one of []"),
        (("--paired",), "--paired wants as many cells on both sides"),
        (("--hidden", "a,b"), "--hidden must be whole numbers"),
        (("--hidden", "0"), "--hidden[0] must be"),
        (("--steps", "0"), "--steps must be"),
        (("--epsilon", "0"), "--epsilon must be"),
        (("-o", "a.csv"), "--out must end in .h5ad"),
        (("-o", "none/a.h5ad"), "--out: there is no folder"),
        (("--report", "a.pdf"), "--report must end in .html"),
    ],
)
def test_bad_options(files, tmp_path, monkeypatch, options, says):
    monkeypatch.chdir(tmp_path)
    shown = run(*files, "-o", "a.h5ad", *SHORT, *options)
    assert shown.exit_code in (1, 2), shown.output
    assert says in " ".join(shown.stderr.split())
    assert not list(tmp_path.iterdir())


def test_negative_counts_where_counts_are_expected(tables, files, tmp_path):
    bad = written(tmp_path / "bad.h5ad", changed(tables, 0, negative))
    said = refused(bad, files[1], "-o", tmp_path / "a.h5ad", *STEPS, *SHORT)
    assert "--source-steps: normalize_total wants counts, which are not negative, got -1" in said
    assert not list(tmp_path.glob("a.*"))


@pytest.mark.slow
def test_pairs_and_shared_features_are_read(files, tmp_path):
    (tmp_path / "shared.csv").write_text("rna-0,cytof-1\nrna-2, cytof-3\n")
    (tmp_path / "pairs.csv").write_text("rna0,cytof4\n")
    (tmp_path / "three.csv").write_text("rna0,cytof4,b\n")
    out = tmp_path / "a.h5ad"
    shown = run(
        *files, "-o", out, "--shared", tmp_path / "shared.csv", "--pairs", tmp_path / "pairs.csv",
        *STEPS, *SHORT,
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    settings = anndata.read_h5ad(out).uns["rsgda"]["settings"]
    assert (settings["shared"], settings["pairs"]) == (2, 1)
    said = refused(*files, "-o", tmp_path / "b.h5ad", "--pairs", tmp_path / "three.csv", *SHORT)
    assert "must have two names in each line, got 'rna0,cytof4,b'" in said


@pytest.mark.slow
def test_a_killed_match_continues(files, tmp_path):
    out, whole = tmp_path / "a.h5ad", tmp_path / "whole.h5ad"
    options = [*map(str, files), *STEPS, "--hidden", "8", "--steps", "20000"]
    command = [sys.executable, "-c", "from rsgda.cli import main; main()", "match", *options]
    environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"}
    process = subprocess.Popen([*command, "-o", str(out)], env=environment)
    checkpoint = out.with_suffix(".checkpoint")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not any(p.name.isdigit() for p in checkpoint.glob("*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert checkpoint.is_dir()
    assert not out.exists()

    def again(path):
        return subprocess.run(
            [*command, "-o", str(path)], env=environment, capture_output=True, text=True, check=True
        ).stdout

    # The tests have 64 bits, with which other cells are drawn: another run.
    assert "unfinished match of other files or settings" in refused(*options, "-o", out)
    assert "holds an unfinished match, which continues" in again(out)
    assert not checkpoint.exists()
    again(whole)
    one, other = anndata.read_h5ad(out), anndata.read_h5ad(whole)
    np.testing.assert_array_equal(one.obsm["X_rsgda"], other.obsm["X_rsgda"])


def test_a_slip_with_force_leaves_an_unfinished_match(files, tmp_path):
    checkpoint = tmp_path / "a.checkpoint"
    checkpoint.mkdir()
    (checkpoint / NOTE).write_text("{}")
    options = (*files, "-o", tmp_path / "a.h5ad", "--force", *SHORT)
    assert "--label-key must be a column of obs" in refused(*options, "--label-key", "typo")
    assert [path.name for path in tmp_path.iterdir()] == ["a.checkpoint"]
    assert [path.name for path in checkpoint.iterdir()] == [NOTE]
    assert run(*options).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"a.h5ad", "a.html"}


@pytest.mark.parametrize("own", [True, False])
def test_cells_are_drawn_with_their_own_labels(tables, own):
    source, target = tables[0].copy(), tables[1]
    source.obs["type"] = pd.Categorical(["A"] * source.n_obs)
    if not own:
        del source.obs["type"]
    matcher = sc.match(source, target, label_key="type", hidden=(8,), steps=3)
    drawn, says = figures.cells(matcher, target, "type")
    labels = {part.get_label() for part in drawn.axes[3].collections if len(part.get_offsets())}
    if own:
        assert labels == {"A"}
        assert "each by its own label" in says
    else:
        assert labels <= set(np.unique(matcher.adata.obs["rsgda_label"]))
        assert "whether the match is right or not" in says
    told = page._settings(matcher)
    assert told["labels from"] == "type"


def test_embeddings_of_few_points():
    rng = np.random.default_rng(0)
    one, other = tsne([rng.normal(size=(30, 60)), 9 + rng.normal(size=(25, 60))])
    assert one.shape == (30, 2)
    assert other.shape == (25, 2)
    apart = np.linalg.norm(one.mean(axis=0) - other.mean(axis=0))
    assert apart > 2 * max(one.std(), other.std())
    assert tsne([np.zeros((2, 1)), np.ones((1, 1))])[0].shape == (2, 2)
    assert np.all(np.isfinite(tsne([np.zeros((9, 3))])[0]))
    assert some(5, 9).tolist() == [0, 1, 2, 3, 4]
    assert len(set(some(100, 9))) == 9


def test_many_labels_have_colours():
    labels = np.array([f"type {i}" for i in range(30)] + [""] * 5)
    colours = figures._colours(labels)
    assert len(colours) == 31
    matrix = np.eye(30, dtype=int)
    assert len(figures.confusion(labels[:30], matrix).axes) == 2
