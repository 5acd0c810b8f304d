"""Figure 3 and cells of known pairs: what is run, scored, judged and drawn."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from rsgda.reproduce import fig3, paired
from rsgda.reproduce.match_cells import Curve, mapped_by
from rsgda.reproduce.match_setting import Cell, Clouds, Method, Scale, coarse, load, network
from rsgda.reproduce.match_target import SCALES
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN
from rsgda.reproduce.paired_setting import METHODS, PAIRS, Set, known, simulated
from rsgda.reproduce.paired_setting import Scale as PairedScale
from rsgda.reproduce.stored import tables

ALONE, LABELS, KNOWN_PAIRS = METHODS


def quiet(done, what):
    del done, what


@pytest.fixture
def in_float32():
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


def curve(end, *, start=9.0, status="FINISHED", seed=0):
    looks = {"W": np.array([start, end]), "gap": np.array([0.1, 0.1])}
    looks["W_all"] = np.array([np.nan, end])
    return Curve(Cell(Method(p=0.5), 0.1, seed), status, looks, 1.0)


def test_the_best_run_is_the_lowest_of_those_that_ended():
    runs = [curve(3.0), curve(2.0, seed=1), curve(1.0, status="DIVERGED", seed=2)]
    assert fig3.best_run([*runs, curve(np.nan, seed=3)]).cell.seed == 1
    with pytest.raises(ValueError, match="every run of Figure 4 diverged"):
        fig3.best_run(runs[2:])


@pytest.mark.parametrize(
    ("end", "mixed", "verdict"),
    [
        (2.0, [0.1, 0.9], HOLDS),
        (2.0, [0.9, 0.1], OPEN),
        (8.95, [0.1, 0.9], FAILS),  # its gap reaches up to where it began
        (10.0, [0.9, 0.1], FAILS),
    ],
)
def test_what_figure_3_shows(end, mixed, verdict):
    scores = dict(zip(fig3.SCORES, (9.0, end, 0.1, float("nan")), strict=True))
    found = fig3.findings(scores, mixed)
    assert [finding.verdict for finding in found] == [verdict]
    assert "12.3 %" in fig3.findings(scores | {"right": 0.123}, mixed)[1].numbers


def test_runs_of_figure_4_that_are_written_are_not_run_again(tmp_path):
    results = Path(__file__).resolve().parents[1] / "results"
    folder = tmp_path / "fig4"
    folder.mkdir()
    for name in ("fig4.csv", "manifest.json"):
        (folder / name).write_bytes((results / "fig4" / name).read_bytes())
    given = json.loads((folder / "manifest.json").read_text())["settings"]
    curves = fig3.written(tmp_path, given | {"alphas": tuple(given["alphas"])})
    assert len(curves) == 6 * given["seeds"]
    assert fig3.best_run(curves).cell == Cell(Method(p=0.95), 0.1, 0)
    # Other settings, another table or none are other runs.
    assert fig3.written(tmp_path, given | {"steps": 1}) is None
    (folder / "fig4.csv").write_bytes(b"algorithm\n")
    assert fig3.written(tmp_path, given) is None
    assert fig3.written(tmp_path / "nowhere", given) is None


def test_gated_types_under_the_names_of_rna():
    gated = np.array(["B-IgDposCD27neg", "CD4-CM", "CD4pos_Treg", "CD8-Eff", "CD4CD8dblneg", ""])
    assert coarse(gated).tolist() == ["B", "CD4 T", "CD4 T", "CD8 T", "other", ""]


@pytest.mark.slow
def test_types_are_transferred_along_the_plan():
    rng = np.random.default_rng(0)
    kinds = np.repeat(["a", "b"], 30)
    apart = np.where(kinds == "a", -3.0, 3.0)[:, None]
    x = (apart + 0.3 * rng.normal(size=(60, 2))).astype(np.float32)
    y = (apart + 0.3 * rng.normal(size=(60, 2))).astype(np.float32)
    clouds = Clouds("two", x, np.zeros((60, 5), np.float32), kinds, kinds)
    assert fig3.transferred(clouds, y) == 1.0
    assert fig3.transferred(clouds, -y) == 0.0
    assert np.isnan(fig3.transferred(clouds._replace(x_types=None), y))


@pytest.mark.slow
def test_figure_3_goes_along_the_best_run(tmp_path, monkeypatch, in_float32):
    tiny = Scale("simulated", 40, 20, 200, (0.01,), 1, 5e-2)
    monkeypatch.setitem(SCALES, "quick", tiny)
    monkeypatch.setitem(fig3.DRAWN, "quick", (40, 30))
    monkeypatch.setattr(fig3, "METHODS", [Method(p=0.5), Method(m_sin=1)])
    drawn = {}
    real = fig3.draw

    def draw(x, mapped, stages, types, name, foot):
        drawn.update(x=x, mapped=mapped, stages=stages, types=types)
        return real(x, mapped, stages, types, name, foot)

    monkeypatch.setattr(fig3, "draw", draw)
    told = []
    found = fig3.run("quick", lambda done, what: told.append(done), tmp_path)
    assert told == sorted(told)
    names = {"fig3.csv", "scores.csv", "fig3.png", "fig3.pdf", "fig3-types.png", "fig3-types.pdf"}
    assert set(found.files) == names
    json.dumps(found.settings)
    stages = drawn["stages"]
    assert [stage.title for stage in stages[:3]] == ["iteration 0", "half an epoch", "one epoch"]
    assert stages[-1].epoch == pytest.approx(40 * 128 / 3_000)
    assert [len(points) for points in (drawn["x"], *drawn["mapped"])] == [40, 30, 30, 30, 30]
    clouds = load("simulated", None)
    start = mapped_by(network(clouds, 0), clouds.y)
    np.testing.assert_array_equal(stages[0].mapped, start)
    steps = [np.abs(stages[i + 1].mapped - stages[i].mapped).max() for i in range(3)]
    assert min(steps) > 0


@pytest.fixture(scope="module")
def cells():
    return simulated()


def test_rows_of_a_set_are_pairs(cells):
    assert len(cells.source) == len(cells.target) == len(cells.types)
    of = {kind: np.arcsinh(cells.target[cells.types == kind]).mean(axis=0) for kind in cells.types}
    assert len(of) == 4


def test_what_is_known_is_not_scored(cells):
    n = len(cells.types)
    alone = known(ALONE, cells, 0)
    assert alone.arguments == {}
    assert len(alone.cells) == len(alone.labelled) == n
    by_pairs = known(KNOWN_PAIRS, cells, 0)
    pairs = by_pairs.arguments["pairs"]
    assert pairs.shape == (PAIRS, 2)
    assert np.all(pairs[:, 0] == pairs[:, 1])
    assert not set(pairs[:, 0]) & (set(by_pairs.cells) | set(by_pairs.labelled))
    assert len(by_pairs.cells) == n - PAIRS
    by_labels = known(LABELS, cells, 0)
    mine, theirs = by_labels.arguments["labels"]
    assert np.all(mine[by_labels.labelled] == "")
    assert np.sum(mine == "") == np.sum(theirs == "") == n // 2
    # What is transferred comes from the labels of the target that are known, and only these.
    np.testing.assert_array_equal(by_labels.labels, theirs.astype(str))
    assert not np.array_equal(mine, theirs)
    assert not np.array_equal(known(LABELS, cells, 1).labelled, by_labels.labelled)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([0.1, 0.12], HOLDS), ([0.3, 0.32], FAILS), ([0.1, 0.2], OPEN)],
)
def test_it_is_compared_with_what_is_published(values, verdict, monkeypatch):
    monkeypatch.setitem(paired.BARS, "some", paired.Bar(0.15, "them"))
    measures = {"foscttm": np.array(values), "labels": np.array([0.5, 0.7]), "W": np.array([2, 1])}
    group = paired.Group("some", ALONE.title, measures)
    found = paired._finding(group)
    assert found.verdict == verdict
    assert "below 0.15 (them)" in found.about
    assert found.effect.value == pytest.approx(np.mean(values))
    # The seed of the lowest loss is the second.
    assert f"lowest W_eps: {values[1]:.3f}; labels right: 60.0" in found.numbers


@pytest.mark.slow
def test_sets_are_matched_once_and_scored(cells, tmp_path, monkeypatch, in_float32):
    few = Set(
        "few", cells.source[:60], cells.target[:60], cells.types[:60],
        cells.source_steps, cells.target_steps,
    )  # fmt: skip
    monkeypatch.setitem(paired.SCALES, "quick", PairedScale((lambda: few,), 20, 2))
    first = paired.run("quick", quiet, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2 * len(METHODS)
    monkeypatch.setattr(paired, "match", lambda *_, **__: pytest.fail("it ran"))
    again = paired.run("quick", quiet, tmp_path)
    assert first.files["paired.csv"] == again.files["paired.csv"]
    found = paired.judge(tables(first.files), first.settings)
    assert len(found) == len(METHODS)
    json.dumps(first.settings)


@pytest.mark.slow
def test_a_score_is_that_of_the_mapped_cells(cells, in_float32):
    cell = paired.Cell(cells, ALONE, 3, 30)
    found = paired.measured(cell)
    matcher = paired.match(
        cells.source, cells.target, source_steps=cells.source_steps,
        target_steps=cells.target_steps, steps=30, seed=3, paired=True,
    )  # fmt: skip
    np.testing.assert_allclose(found["foscttm"], matcher.scores["foscttm_mean"], atol=1e-3)
