"""Figures 1 and 2: cells that are kept, the authors' rule, and verdicts that follow the numbers."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from rsgda.reproduce import fig1, fig2, fig2_claims, floor, robust_cells
from rsgda.reproduce.robust_authors import TOLERANCE as THEIRS
from rsgda.reproduce.robust_authors import authors_phi
from rsgda.reproduce.robust_cells import Cells, Curve
from rsgda.reproduce.robust_figure import draw_fig1, draw_fig2
from rsgda.reproduce.robust_numbers import (
    COLUMNS,
    curves_csv,
    groups,
    summary_csv,
    under_the_floor,
)
from rsgda.reproduce.robust_setting import OBJECTIVES, Budget, Cell, Scale
from rsgda.robust import mlp, wrm

TINY = Scale("digits", 6, {"logits": Budget(8, 4, 2)})


def quiet(done, what=None):
    pass


def curve(cell, phi, accuracy=0.99, status="FINISHED", authors=None, gap=0.0):
    """A run with these values of phi, one for each look."""
    phi = np.asarray(phi, float)
    looks = {name: np.zeros(len(phi)) for name in COLUMNS}
    looks |= {
        "gradients": 100.0 * np.arange(len(phi)),
        "epoch": 1.0 * np.arange(len(phi)),
        "phi": phi,
        "gap": np.full(len(phi), gap),
        "certified": np.ones(len(phi)),
        "accuracy": np.full(len(phi), accuracy),
        "authors": phi if authors is None else np.asarray(authors, float),
    }
    return Curve(cell, "mnist", status, looks, 1.0)


def grid(values, **special):
    """Curves of the paper's grid that end at `values(p, alpha, eta)`, with two seeds."""
    cells = [Cell("logits", p, a) for p in fig2.PS for a in fig2.ALPHAS]
    cells += [Cell("logits", 0.1, a) for a in fig2.LARGER]
    cells += [Cell("logits", 0.25, 0.3, eta) for eta in fig2.ETAS]
    out = []
    for cell in cells:
        made = {"phi": [2.3, values(cell)], "accuracy": 0.99, "status": "FINISHED"}
        made |= special.get("change", lambda cell: {})(cell)
        out += [
            curve(cell._replace(seed=seed), np.add(made["phi"], [0, 1e-3 * seed]),
                  made["accuracy"], made["status"])
            for seed in (0, 1)
        ]  # fmt: skip
    return out


def as_the_paper_says(cell):
    """Values that make all claims hold: a smaller p wants a larger alpha."""
    value, alpha = {0.1: (0.8, 0.6), 0.25: (0.5, 0.3), 0.5: (0.6, 0.25), 0.9: (0.7, 0.2)}[cell.p]
    return value + abs(cell.alpha - alpha) + 1e-3 * (cell.eta - 10)


def diverging(cell):
    lost = cell.alpha > 1 or (cell.p >= 0.5 and cell.alpha > 0.25)
    return {"status": "DIVERGED"} if lost else {}


def verdicts(curves):
    return {f.about.removesuffix(", logits"): f.verdict for f in fig2_claims.findings(curves)}


def test_claims_hold_where_the_runs_are_as_the_paper_says():
    found = verdicts(grid(as_the_paper_says, change=diverging))
    assert found.pop("p = 0.1 with a larger alpha diverges") == "holds in part"  # at 1.2 only
    # 0.6 is best at p = 0.1, but no other p was run with it: 0.3 is the largest for two of them.
    assert found.pop("smaller p allows larger alpha") == "holds in part"
    assert found.pop("the authors' evaluation has values under 0, which phi cannot have") == (
        "none appeared"
    )
    assert set(found.values()) == {"holds"}
    assert len(found) == 6


@pytest.mark.parametrize(
    ("claim", "values", "change", "verdict"),
    [
        (
            "smaller p allows larger alpha",
            lambda cell: 0.5 + abs(cell.alpha - (0.2 if cell.p < 0.5 else 0.3)),
            lambda cell: {},
            "does not hold",
        ),
        (
            "smaller p allows larger alpha",
            lambda cell: 0.5 + abs(cell.alpha - (0.3 if cell.p < 0.5 else 0.2)),
            lambda cell: {},
            "holds in part",
        ),
        ("smaller p allows larger alpha", lambda cell: cell.alpha, lambda cell: {}, "not decided"),
        (
            "p = 0.25 with alpha = 0.3 is best",
            lambda cell: 0.1 if cell.p == 0.9 else as_the_paper_says(cell),
            lambda cell: {},
            "does not hold",
        ),
        (
            "p = 0.25 with alpha = 0.3 is best",
            lambda cell: 0.4995 if cell[1:3] == (0.9, 0.2) else as_the_paper_says(cell),
            lambda cell: {},
            "not decided",
        ),
        (
            "p = 0.1 is slower than p = 0.25",
            lambda cell: 0.1 if cell.p == 0.1 else as_the_paper_says(cell),
            lambda cell: {},
            "does not hold",
        ),
        (
            "p = 0.1 is slower than p = 0.25",
            lambda cell: 0.5 if cell.p == 0.1 else as_the_paper_says(cell),
            lambda cell: {},
            "not decided",
        ),
        (
            "p = 0.1 with a larger alpha diverges",
            as_the_paper_says,
            lambda cell: {},
            "does not hold",
        ),
        (
            "p = 0.1 with a larger alpha diverges",
            as_the_paper_says,
            lambda cell: {"status": "DIVERGED"} if cell.alpha > 0.3 else {},
            "holds",
        ),
        (
            "p >= 0.5 with alpha > 0.25 diverges or falls under 98%",
            as_the_paper_says,
            lambda cell: {},
            "does not hold",
        ),
        (
            "p >= 0.5 with alpha > 0.25 diverges or falls under 98%",
            as_the_paper_says,
            lambda cell: {"accuracy": 0.97} if cell.alpha > 0.25 else {},
            "holds",
        ),
        (
            "p >= 0.5 with alpha > 0.25 diverges or falls under 98%",
            as_the_paper_says,
            lambda cell: {"accuracy": 0.97} if cell.p >= 0.5 else {},
            "not decided",
        ),
        (
            "p >= 0.5 with alpha > 0.25 diverges or falls under 98%",
            as_the_paper_says,
            lambda cell: {"accuracy": 0.97} if cell.p == 0.9 and cell.alpha > 0.25 else {},
            "holds in part",
        ),
        (
            "eta matters less than alpha and p",
            lambda cell: as_the_paper_says(cell) + 0.1 * (cell.eta - 10),
            lambda cell: {},
            "does not hold",
        ),
        (
            "eta matters less than alpha and p",
            lambda cell: 0.5 + 1e-4 * cell.alpha + 1e-4 * cell.p + 2e-6 * cell.eta,
            lambda cell: {},
            "not decided",
        ),
        (
            "more than 98% accuracy can be had",
            as_the_paper_says,
            lambda cell: {"accuracy": 0.9799},
            "does not hold",
        ),
    ],
)  # fmt: skip
def test_claims_follow_the_numbers(claim, values, change, verdict):
    assert verdicts(grid(values, change=change))[claim] == verdict


def test_accuracies_that_still_rise_decide_nothing():
    curves = grid(as_the_paper_says, change=lambda cell: {"accuracy": 0.97})
    assert verdicts(curves)["more than 98% accuracy can be had"] == "does not hold"
    for run in curves:
        run.looks["accuracy"][0] = 0.96
    assert verdicts(curves)["more than 98% accuracy can be had"] == "not decided"


def test_each_p_is_shown_at_its_best_alpha():
    shown = fig2_claims.best_of_each_p(grid(as_the_paper_says, change=diverging))
    assert {cell.p: cell.alpha for cell in shown} == {0.1: 0.6, 0.25: 0.3, 0.5: 0.25, 0.9: 0.2}
    # What the filter drops is not shown, unless it drops all.
    low = lambda cell: {"accuracy": 0.97 if cell.alpha > 0.2 else 0.99}  # noqa: E731
    shown = fig2_claims.best_of_each_p(grid(as_the_paper_says, change=low))
    assert {cell.alpha for cell in shown} == {0.2}


def pair(end_rsgda, end_esgda, spread=0.0):
    cells = Cell("logits", 0.25, 0.25), Cell("logits", 0.25, 0.25, m=3)
    return [
        curve(cell._replace(seed=seed), [2.3, end + spread * (seed - 1), end])
        for cell, end in zip(cells, (end_rsgda, end_esgda), strict=True)
        for seed in range(3)
    ]


@pytest.mark.parametrize(
    ("ends", "spread", "verdict"),
    [
        ((1.05, 1.0), 0.0, "holds"),
        ((1.2, 1.0), 0.0, "does not hold"),
        ((0.8, 1.0), 0.0, "does not hold"),
        # Seeds that differ by as much decide nothing, either way.
        ((1.2, 1.0), 0.6, "not decided"),
        ((1.0, 1.0), 0.6, "not decided"),
        ((1.05, 1.0), 0.02, "holds"),
        # 6.8 % apart with a standard error of 3.3 % may be more than 10 %.
        ((1.068, 1.0), 0.08, "not decided"),
    ],
)
def test_pairs_are_alike_or_not(ends, spread, verdict):
    finding, *_ = fig1.findings(pair(*ends, spread))
    assert finding.verdict == verdict


def test_values_under_the_floor_are_counted():
    cell = Cell("authors", 0.25, 0.3)
    floor = OBJECTIVES["authors"].floor
    runs = [
        curve(cell, [2.3, floor + 1e-3], authors=[2.3, floor - 0.05]),
        curve(cell._replace(seed=1), [2.3, 1.6], authors=[2.3, np.nan]),
        curve(cell._replace(seed=2), [2.3, 1.6], authors=[2.3, floor - 0.01]),
    ]
    # The rule accepts a mean squared gradient of 1e-4 times the samples, 100 · 128 of them here.
    runs[0].looks["authors_slope"][:] = 1.27
    runs[2].looks["authors_slope"][:] = 1.29
    under = under_the_floor(groups(runs))
    assert under[:4] == (5, 2, 1, 0)
    assert np.allclose(under[4:], [floor - 0.05, floor + 1e-3])
    verdicts = [finding.verdict for finding in fig2_claims.floor("authors", groups(runs))]
    assert verdicts == ["they appear", "holds"]
    low = groups([curve(cell, [2.3, 1.4])])
    assert fig2_claims.floor("authors", low)[1].verdict == "does not hold"
    # 1.4 is no value of the double softmax, but one of the logits.
    logits = groups([curve(Cell("logits", 0.25, 0.3), [2.3, 1.4])])
    assert fig2_claims.floor("logits", logits)[1].verdict == "holds"


def test_bands_hold_all_seeds_gaps_and_sampling_errors():
    cell = Cell("logits", 0.5, 0.25)
    runs = [curve(cell, [2.0, 1.0], gap=0.1), curve(cell._replace(seed=1), [2.0, 1.5], gap=0.3)]
    for run in runs:
        run.looks["error"][:] = 0.05
    (group,) = groups(runs)
    low, high = group.band
    assert np.allclose(low, [1.9, 0.9])
    assert np.allclose(high, [2.4, 1.9])
    assert np.isclose(group.end, 1.25)


def test_the_filter_wants_every_seed_over_98_percent():
    cell = Cell("logits", 0.5, 0.25)
    good, bad = curve(cell, [2, 1], 0.99), curve(cell._replace(seed=1), [2, 1], 0.979)
    assert groups([good])[0].kept
    assert not groups([good, bad])[0].kept
    assert not groups([curve(cell, [2, 1], 0.99, status="DIVERGED")])[0].kept


def test_a_loss_that_overflows_is_a_divergence():
    run = curve(Cell("logits", 0.5, 0.25), [2.3, np.nan])
    assert not run.finished
    assert groups([run])[0].told() == "diverged"


def test_files_hold_every_look():
    runs = grid(as_the_paper_says, change=diverging)
    lines = curves_csv(runs).decode().splitlines()
    assert len(lines) == 1 + 2 * len(runs)
    assert lines[0].split(",")[8:] == list(COLUMNS)
    summary = summary_csv(runs).decode().splitlines()
    assert len(summary) == 1 + len(runs) // 2
    assert sum(line.endswith(",yes") for line in summary) == 13


@pytest.mark.slow
def test_figures_are_drawn_whatever_ended_how():
    runs = grid(as_the_paper_says, change=diverging)
    runs += list(_authors(runs))
    png, pdf = draw_fig2(runs, fig2_claims.best_of_each_p(runs), "a caption")
    assert png.startswith(b"\x89PNG")
    assert pdf.startswith(b"%PDF")
    m1 = [Cell("logits", 0.5, 0.25, m=1), Cell("logits", 0.5, 0.25)]
    assert draw_fig1([*pair(1, 1.1), *(curve(c, [2, 1, 1]) for c in m1)], "words")[0]


def _authors(runs):
    for run in runs:
        cell = run.cell._replace(objective="authors")
        yield Curve(cell, "mnist", run.status, run.looks, 1.0)


class Linear(eqx.Module):
    weight: jax.Array

    def __call__(self, x):
        return x @ self.weight


def test_the_authors_rule_is_theirs():
    """Ten ascents of step 50/b between looks, until the mean square is at most 1e-4 n."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 3)), rng.integers(0, 4, 9)
    weight = rng.normal(size=(3, 4))
    gamma, b, n = 0.2, 16, 400
    with jax.enable_x64(True):
        net = Linear(jnp.asarray(weight))
        problem, _, _ = wrm(net, X, y, gamma=gamma, batch_size=9)
        v0 = X + 3 * rng.normal(size=X.shape)
        found = authors_phi(problem, net, jnp.asarray(v0), n=n, batch_size=b)

    def slope(v):
        exp = np.exp(v @ weight)
        share = exp / exp.sum(1, keepdims=True)
        losses = -np.log(share[np.arange(9), y])
        value = np.mean(losses - gamma * np.sum((v - X) ** 2, 1))
        return value, (share - np.eye(4)[y]) @ weight.T - 2 * gamma * (v - X)

    v, rounds = v0, 0
    while rounds < 5:
        rounds += 1
        for _ in range(10):
            v = v + 50 / b * slope(v)[1]
        squared = np.mean(np.sum(slope(v)[1] ** 2, 1))
        if squared <= 1e-4 * n:
            break
    np.testing.assert_allclose([found.value, found.slope], [slope(v)[0], squared], rtol=1e-6)


@pytest.mark.parametrize("target", [fig1, fig2, floor])
def test_looks_come_at_whole_steps_of_all_algorithms(target):
    for scale in target.SCALES.values():
        for cell in target.cells(scale):
            budget = scale.budgets[cell.objective]
            assert budget.gradients % budget.every == 0
            assert budget.every % cell.cost == 0


def test_cells_that_are_shared_between_figures_are_the_same():
    kept = [
        {json.dumps(Cells._settings(_at(scale), cell)) for cell in target.cells(scale)}
        for target, scale in ((fig1, fig1.SCALES["standard"]), (fig2, fig2.SCALES["standard"]))
    ]
    assert len(kept[0] & kept[1]) >= 4


def _at(scale):
    cells = object.__new__(Cells)
    cells.scale = scale
    return cells


@pytest.mark.slow
def test_a_cell_that_is_kept_is_not_run_again(tmp_path, monkeypatch):
    told = []
    cells = [Cell("logits", 0.5, 0.25), Cell("logits", 0.5, 0.25, m=1)]
    first = Cells(TINY, tmp_path).run(cells, lambda done, what: told.append((done, what)))
    assert told[-1][0] <= 1
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    for run in first:
        assert run.finished
        assert run.looks["gradients"].tolist() == [0, 4, 8]
        assert np.all(run.looks["gap"] >= 0)
        # phi is at least F at the samples, and at the adversaries that training keeps.
        assert np.all(run.looks["phi"] >= run.looks["objective"] - 1e-4)
        assert np.all(run.looks["phi"] >= run.looks["authors"] - TOLERANCE)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{cell.name}.json" for cell in cells
    )
    monkeypatch.setattr(robust_cells, "solve", lambda *_, **__: pytest.fail("it ran"))
    again = Cells(TINY, tmp_path).run(cells, quiet)
    for before, after in zip(first, again, strict=True):
        for name in COLUMNS:
            np.testing.assert_array_equal(before.looks[name], after.looks[name])
    # Another setting is another cell, and a damaged file is none.
    for damage in (lambda text: text.replace('"tol": ', '"tol": 1'), lambda text: text[:-9]):
        path = tmp_path / f"{cells[0].name}.json"
        kept = path.read_text()
        path.write_text(damage(kept))
        with pytest.raises(pytest.fail.Exception, match="it ran"):
            Cells(TINY, tmp_path).run(cells[:1], quiet)
        path.write_text(kept)


TOLERANCE = 2e-3


@pytest.mark.slow
def test_the_authors_rule_accepts_values_that_phi_cannot_have():
    """At any network that is not steep: far from the sample, and so far below its floor."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(30, 12)).astype(np.float32), rng.integers(0, 10, 30)
    net = mlp((12, 16, 10), key=jr.key(0))
    problem, theta, v = wrm(net, X, y, gamma=1.3, batch_size=30, loss="double_softmax")
    away = rng.normal(size=X.shape)
    away *= np.sqrt(0.8) / np.linalg.norm(away, axis=1, keepdims=True)
    at = v + away.astype(np.float32)
    value, slope = jax.value_and_grad(lambda v: problem.loss(theta, v, problem.data))(at)
    squared = float(jnp.sum(jnp.square(30 * slope)) / 30)  # of each sample by itself
    floor = OBJECTIVES["authors"].floor
    assert floor == pytest.approx(np.log(1 + 9 / np.e))
    assert value < floor - 0.05
    assert squared <= THEIRS * 60_000
    # phi is what its name says: certified, it is not below.
    best = robust_cells.maximised(problem, theta, v)
    assert np.all(np.isfinite(best.gap))
    assert np.mean(best.value) >= floor
