"""The benchmark of runs without tuning: what it finds, what it keeps, and what it counts."""

import dataclasses
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import rsgda
from rsgda.problems import Task

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the benchmarks are not here", allow_module_level=True)
sys.path.insert(0, str(BENCHMARKS))

import auto_contest  # noqa: E402
import auto_reference  # noqa: E402
import auto_runs  # noqa: E402
import auto_table  # noqa: E402
from auto_contest import Contestant, Ran  # noqa: E402
from auto_reference import Cell, Reference  # noqa: E402
from auto_runs import Curve  # noqa: E402
from neada import NeAda  # noqa: E402

sys.path.remove(str(BENCHMARKS))


def loss(theta, v):
    """Each player by itself: one step of 1/L takes it to where it belongs."""
    return 1.5 * jnp.sum(theta**2) - 0.25 * jnp.sum((v - 1) ** 2)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Off:
    def __call__(self, theta, v):
        return jnp.sum(theta**2) + jnp.sum((v - 1) ** 2)


def planted(family="wrm"):
    return Task(
        name="planted", family=family, problem=rsgda.Problem(loss), theta=jnp.full(2, 3.0),
        v=jnp.zeros(2), merit=Off(), gradients=40, floor=1e-20,
    )  # fmt: skip


@pytest.fixture
def small(monkeypatch):
    """A small grid, one of whose cells is the best."""
    steps = (1e-3, 0.1, 1.0, 10.0)
    for name, values in (("PS", (0.25, 0.5)), ("ALPHAS", steps), ("ETAS", steps)):
        monkeypatch.setattr(auto_reference, name, values)
    grid = tuple(Cell(p, a, e) for p in (0.25, 0.5) for a in steps for e in steps)
    monkeypatch.setattr(auto_reference, "GRID", grid)
    monkeypatch.setattr(auto_reference, "BEST", 2)


@pytest.mark.parametrize("together", [True, False])
def test_the_search_finds_a_planted_optimum_and_keeps_it(together, small, tmp_path, monkeypatch):
    task, path = planted(), tmp_path / "references" / "planted.json"
    if not together:  # as where something is prepared of theta
        prepare = dataclasses.replace(task.problem, prepare=jnp.negative)
        task = dataclasses.replace(task, problem=prepare)
    quiet = lambda line: None  # noqa: E731
    assert auto_reference.kept(path, task) is None
    best = auto_reference.compute(task, path, quiet)
    assert (best["last"].cell.alpha, best["last"].cell.eta) == (1.0, 1.0)
    assert 2 <= best["last"].gradients < 20
    assert best["last"].target == task.floor
    assert best["averaged"].gradients > best["last"].gradients
    # It is not computed again, unless something else is asked for.
    assert auto_reference.kept(path, task) == best
    assert auto_reference.kept(path, dataclasses.replace(task, gradients=41)) is None
    assert auto_reference.kept(path, dataclasses.replace(task, theta=jnp.ones(2))) is None
    path.write_text(path.read_text()[:-20])
    assert auto_reference.kept(path, task) is None


def test_curvature_is_that_of_each_player():
    np.testing.assert_allclose(auto_reference.curvatures(planted()), (3.0, 0.5), rtol=1e-5)


def test_runs_together_are_the_runs_by_themselves():
    task = rsgda.problems.task("toy-D-5-noisy")
    search = auto_reference.Search(task)
    cells = [Cell(0.5, 0.27, 0.27), Cell(0.5, 0.01, 1.9), Cell(0.5, 100.0, 1e4)]
    key = auto_reference.seed_key(0)
    _, together = search._on(cells, None, 0.5, 0, 60)
    for cell, found in zip(cells, together, strict=True):
        alone = auto_runs.curve(task, search.algorithm(cell), key, every=60, most=60)
        if alone.diverged:
            assert found == (np.inf, np.inf)
        else:
            np.testing.assert_allclose(found, (alone.last[-1], alone.averaged[-1]), rtol=1e-3)
    assert np.isinf(together[-1][0])


def falling(*merits, every=10):
    merits = np.array(merits, float)
    return Curve(every * np.arange(1, len(merits) + 1.0), merits, merits + 1, False)


def test_a_target_is_what_the_best_cell_reaches_and_the_fastest_counts():
    slow_and_deep = [falling(9, 5, 3, 1), falling(9, 4, 3, 2), falling(9, 5, 2, 3)]
    fast_and_noisy = [falling(2, 9, 9, 9), falling(9, 2, 9, 9), falling(9, 9, 9, 9)]
    a, b = Cell(0.5, 1.0, 1.0), Cell(0.1, 1.0, 1.0)
    found = auto_reference.reference({a: slow_and_deep, b: fast_and_noisy}, "last", 0.0)
    assert found.target == 2
    assert (found.cell, found.gradients) == (b, 20)
    found = auto_reference.reference({a: slow_and_deep, b: fast_and_noisy}, "averaged", 0.0)
    assert (found.target, found.cell, found.gradients) == (3, b, 20)
    # No target is below the floor, and a run that diverged has no end.
    assert auto_reference.reference({a: slow_and_deep}, "last", 4.0).target == 4
    lost = [run._replace(diverged=True) for run in slow_and_deep]
    assert auto_reference.reference({a: lost, b: fast_and_noisy}, "last", 0.0).target == 9


def test_the_average_weighs_late_steps_as_it_says():
    task = planted()
    track = auto_runs.begin(task, rsgda.RSGDA(p=0.5, alpha=0.1, eta=0.1), jr.key(0))
    mean = np.zeros(2)
    for k in range(1, 4):
        track = auto_runs.step(task.problem, rsgda.RSGDA(p=0.5, alpha=0.1, eta=0.1), track)
        mean += 9 / (k + 8) * (np.asarray(track.state.theta) - mean)
    np.testing.assert_allclose(track.theta, mean, rtol=1e-6)


REFERENCES = {
    "last": Reference(1e-3, 20.0, Cell(0.5, 1.0, 1.0), ""),
    "averaged": Reference(1e-2, 40.0, Cell(0.5, 1.0, 1.0), ""),
}


def test_a_contest_counts_gradients_and_stops_in_time():
    task = planted()
    good = Contestant(lambda task, steps: rsgda.SGDA(alpha=1 / 3, eta=2.0))
    ran = auto_contest.run(task, REFERENCES, good, 3)
    assert [one.seed for one in ran] == [0, 1, 2]
    assert all(one.last == 2 and not one.diverged for one in ran)  # an ascent and a descent
    assert all(one.spent == 80 for one in ran)  # watched for twice what the references need
    assert auto_contest.ratio(ran, "last", REFERENCES["last"], 3) == 0.1
    slow = Contestant(lambda task, steps: rsgda.SGDA(alpha=1e-6, eta=1e-6))
    ran = auto_contest.run(task, REFERENCES, slow, 5)
    assert len(ran) == 3  # of five seeds, after which the median is known
    assert all(np.isinf(one.last) and one.spent == 320 for one in ran)
    assert np.isinf(auto_contest.ratio(ran, "last", REFERENCES["last"], 5))
    wild = Contestant(lambda task, steps: rsgda.SGDA(alpha=1e6, eta=1e6), seeds=20)
    ran = auto_contest.run(task, REFERENCES, wild, 4)
    assert len(ran) == 4
    assert all(one.diverged for one in ran)


def test_a_contest_says_who_refuses_and_who_has_no_place():
    def refuses(task, steps):
        raise ValueError("mu must be positive")

    assert "mu must" in auto_contest.run(planted(), REFERENCES, Contestant(refuses), 5)
    nobody = Contestant(lambda task, steps: None)
    assert auto_contest.run(planted(), REFERENCES, nobody, 5) == ""


def test_a_contest_goes_on_where_it_was(tmp_path, monkeypatch):
    good = Contestant(lambda task, steps: rsgda.SGDA(alpha=1 / 3, eta=2.0))
    monkeypatch.setattr(auto_contest, "CONTESTANTS", {"good": good})
    quiet = lambda line: None  # noqa: E731
    call = lambda: auto_contest.contest(  # noqa: E731
        planted(), REFERENCES, ["good"], tmp_path, quick=False, tell=quiet
    )
    first = call()
    monkeypatch.setattr(auto_contest, "run", lambda *_: pytest.fail("it ran again"))
    assert call() == first
    harder = REFERENCES | {"last": REFERENCES["last"]._replace(target=1e-9)}
    assert auto_contest.Kept(tmp_path, "good", good).get("planted", harder, 5) is None
    assert auto_contest.Kept(tmp_path, "good", good).get("planted", REFERENCES, 6) is None


def test_the_table_has_bad_cases_first(tmp_path, monkeypatch):
    known = {name: Contestant(lambda *_: None) for name in ("Auto", "rival")}
    for module in (auto_contest, auto_table):
        monkeypatch.setattr(module, "CONTESTANTS", known)
    ran = lambda last, averaged: [Ran(0, last, averaged, False, 100.0)] * 5  # noqa: E731
    found = {
        "easy": {"Auto": ran(30.0, 40.0), "rival": ran(20.0, 400.0)},
        "hard": {"Auto": ran(100.0, 80.0), "rival": "mu must be positive"},
    }
    references = dict.fromkeys(found, REFERENCES)
    made = auto_table.rows(references, found, quick=False)
    lines = {
        (row["contestant"], row["kind"]): row
        for row in auto_table.summary(made) if row["family"] == "all"
    }  # fmt: skip
    assert lines["Auto", "last"]["median"] == 3.25  # of 1.5 and 5
    assert lines["Auto", "last"]["near"] == 0.5
    assert lines["rival", "last"]["auto_better"] == 0.5  # one that refuses has failed
    assert lines["rival", "averaged"]["auto_better"] == 1.0
    text = auto_table.table(made, references)
    each = text[text.index("Each task, last") :]
    assert each.index("| hard |") < each.index("| easy |")
    assert "| 5.00 | refused |" in each
    files = auto_table.write(tmp_path, made, references)
    assert all((tmp_path / name).stat().st_size for name in files)


def test_neada_takes_steps_by_the_norms_so_far():
    task = planted()
    algorithm = NeAda(alpha=0.5, eta=0.25)
    state = algorithm.init(task.problem, task.theta, task.v, jr.key(0))
    state, info = algorithm.step(task.problem, state)
    h, g = 0.5 * (1 - np.zeros(2)), 3 * np.full(2, 3.0)
    v = 0.25 * h / np.linalg.norm(h)
    np.testing.assert_allclose(state.v, v, rtol=1e-6)
    np.testing.assert_allclose(state.theta, 3 - 0.5 * g / np.linalg.norm(g), rtol=1e-6)
    assert int(info.gradients) == 2
    state, info = algorithm.step(task.problem, state)
    total = h @ h
    for _ in range(2):  # one more than before
        h = 0.5 * (1 - v)
        total += h @ h
        v = v + 0.25 * h / np.sqrt(total)
    np.testing.assert_allclose(state.v, v, rtol=1e-6)
    assert int(info.gradients) == 3


def test_references_are_listed(small, tmp_path):
    task = planted()
    best = auto_reference.compute(task, tmp_path / "planted.json", lambda line: None)
    head, last, averaged = auto_table.references_as_csv(tmp_path).decode().splitlines()
    found = dict(zip(head.split(","), last.split(","), strict=True))
    assert (found["task"], found["kind"], found["T"]) == ("planted", "last", "40")
    assert float(found["gradients"]) == best["last"].gradients
    assert (float(found["alpha_L"]), float(found["eta_L"])) == (1.0, 1.0)
    assert (float(found["L_theta"]), float(found["L_v"])) == (3.0, 0.5)
    assert float(averaged.split(",")[5]) == best["averaged"].gradients
