"""Figures 4 and 5: what is run, kept, judged and drawn."""

import json

import jax
import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from rsgda.reproduce import fig4, fig5, match_cells, match_numbers, registry, runner
from rsgda.reproduce.match_cells import Cells, Curve, best_of
from rsgda.reproduce.match_files import read_points
from rsgda.reproduce.match_numbers import Ends, all_hold, below, groups
from rsgda.reproduce.match_setting import Cell, Clouds, Method, Scale, load, network, of_rna
from rsgda.reproduce.match_target import SCALES
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN

TINY = Scale("simulated", 4, 2, 20, (0.01, 0.02), 2, 1e-2)


def quiet(done, what):
    del done, what


def curve(method, ends, *, alpha=0.01, seed=0, status="FINISHED", steps=100):
    """A run whose W goes straight from 10 to its end, on the subset and on all rows."""
    cost = 1 if method.m_sin is None else method.m_sin + 1
    share = np.linspace(0, 1, 5)
    W = 10 + (ends - 10) * share
    looks = {
        "gradients": cost * steps * share,
        "epoch": share,
        "W": W,
        "gap": np.full(5, 1e-3),
        "error": np.full(5, 0.1),
        "off": np.full(5, 1e-3),
        "W_all": np.r_[[np.nan] * 4, ends],
        "gap_all": np.r_[[np.nan] * 4, 1e-3],
    }
    return Curve(Cell(method, alpha, seed), status, looks, 1.0)


def runs(ends):
    """Three seeds of each method about where it ended."""
    return groups(
        [
            curve(method, end + 0.01 * (seed - 1), seed=seed)
            for method, end in ends.items()
            for seed in range(3)
        ]
    )


@pytest.mark.parametrize(
    ("of_p", "of_sinkhorn", "verdicts"),
    [
        # As the paper has it.
        ((5.0, 4.0, 2.0, 3.0, 6.0), 7.0, (HOLDS,) * 6),
        # Turned round: each claim fails.
        ((1.0, 4.0, 4.2, 4.3, 3.5), -10.0, (FAILS,) * 6),
        # At equal gradients Sinkhorn has made half of the way: 10 to 1.5 has come to 5.75.
        ((5.0, 4.0, 2.0, 3.0, 6.0), 1.5, (FAILS, HOLDS, HOLDS, HOLDS, HOLDS, HOLDS)),
        # Apart by less than seeds scatter.
        ((4.0, 4.0, 4.0, 4.0, 4.0), 4.0, (OPEN, HOLDS, OPEN, OPEN, OPEN, OPEN)),
    ],
)
def test_the_claims_of_figure_4(of_p, of_sinkhorn, verdicts):
    ends = {Method(p=p): end for p, end in zip(fig4.PS, of_p, strict=True)}
    found = fig4.findings(runs({**ends, Method(m_sin=1): of_sinkhorn}))
    assert tuple(finding.verdict for finding in found) == verdicts


@pytest.mark.parametrize(
    ("warm", "cold", "verdicts"),
    [
        ((2.0, 4.0, 5.0), (6.0, 7.0, 8.0), (HOLDS, HOLDS, HOLDS)),
        ((4.0, 2.0, 5.0), (6.0, 1.0, 8.0), (FAILS, HOLDS, FAILS)),
        ((9.9, 2.0, 3.0), (2.0, 7.0, 8.0), (FAILS, FAILS, OPEN)),
    ],
)
def test_the_claims_of_figure_5(warm, cold, verdicts):
    ends = {
        Method(m_sin=m, warm=is_warm): end
        for is_warm, ends in ((True, warm), (False, cold))
        for m, end in zip(fig5.ITERATIONS, ends, strict=True)
    }
    found = fig5.findings(runs(ends))
    assert tuple(finding.verdict for finding in found) == verdicts


def test_gaps_and_divergence_leave_open_or_decide():
    low, high = (Ends(np.full(3, W), np.full(3, 0.01)) for W in (1.0, 1.2))
    wide = Ends(np.full(3, 1.0), np.full(3, 0.5))
    lost = Ends(np.full(3, np.nan), np.full(3, np.nan))
    assert (below(low, high), below(high, low), below(low, low)) == (HOLDS, FAILS, OPEN)
    assert below(wide, high) == OPEN
    assert (below(low, lost), below(lost, low)) == (HOLDS, FAILS)
    assert all_hold([HOLDS, OPEN, FAILS]) == FAILS
    assert all_hold([HOLDS, OPEN]) == OPEN
    assert low.mean == pytest.approx(1.005)


def test_the_best_alpha_is_of_those_that_ended():
    method = Method(p=0.5)
    tuned = [
        curve(method, 3.0, alpha=0.1),
        curve(method, 2.0, alpha=0.2),
        curve(method, 1.0, alpha=0.3, status="DIVERGED"),
        curve(Method(p=0.9), 0.5, alpha=0.4),
    ]
    assert best_of(tuned, method).alpha == 0.2
    assert best_of([tuned[2]], method).alpha == 0.3


def test_what_is_run_at_each_scale():
    for scale in SCALES.values():
        assert scale.steps % scale.every == 0
    assert SCALES["paper"].steps >= 400 * 159_594 / 128
    assert fig4.PS == (0.25, 0.5, 0.9, 0.95, 0.99)
    # What both figures need is run once.
    assert set(fig4.METHODS) & set(fig5.METHODS) == {Method(m_sin=1)}


@pytest.mark.slow
@pytest.mark.parametrize("target", [fig4, fig5])
def test_cells_are_run_once_and_drawn(target, tmp_path, monkeypatch):
    jax.config.update("jax_enable_x64", False)
    try:
        monkeypatch.setitem(SCALES, "quick", TINY)
        monkeypatch.setattr(target, "METHODS", target.METHODS[:1] + target.METHODS[-1:])
        told = []
        first = target.run("quick", lambda done, what: told.append(done), tmp_path)
        assert told == sorted(told)
        assert told[-1] <= 1
        assert len(list(tmp_path.iterdir())) == 2 * (2 + 2)
        monkeypatch.setattr(match_cells, "solve", lambda *_, **__: pytest.fail("it ran"))
        again = target.run("quick", quiet, tmp_path)
    finally:
        jax.config.update("jax_enable_x64", True)
    name = target.__name__.rpartition(".")[2]
    assert set(first.files) == {f"{name}.csv", "tuning.csv", f"{name}.png", f"{name}.pdf"}
    assert first.files[f"{name}.csv"] == again.files[f"{name}.csv"]
    rows = first.files[f"{name}.csv"].decode().split()
    assert len(rows) == 1 + 2 * 2 * 3
    json.dumps(first.settings)


@pytest.mark.slow
def test_what_is_evaluated_is_transport_of_the_mapped_cells():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(25, 4))
    clouds = Clouds("two", x.astype(np.float32), y.astype(np.float32))
    net = network(clouds, 0)
    cells = Cells(TINY._replace(tol=1e-6), clouds, None)
    found, potentials = cells.evaluated(clouds.x, net, np.zeros(25, np.float32))
    mapped = np.asarray(jax.vmap(net)(clouds.y), float)
    costs = cdist(clouds.x, mapped, "sqeuclidean")
    plan = ot.sinkhorn(
        np.full(40, 1 / 40),
        np.full(25, 1 / 25),
        costs,
        0.1,
        method="sinkhorn_log",
        numItermax=50_000,
    )
    exact = np.sum(plan * costs) + 0.1 * np.sum(plan * np.log(np.maximum(plan, 1e-300) * 1_000))
    assert found["W"] == pytest.approx(exact, rel=1e-5)
    # What it hands on are the potentials: the semi-dual there is this W.
    v = np.asarray(potentials, float)
    semi_dual = v.mean() - 0.1 * np.mean(logsumexp((v - costs) / 0.1 - np.log(25), axis=1))
    assert semi_dual == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("far", [np.nan, np.inf, 1e30, 1e19])
def test_cells_that_went_astray_are_not_evaluated(far):
    x, y = np.random.default_rng(0).normal(size=(2, 40, 3)).astype(np.float32)
    cells = Cells(TINY, Clouds("two", x, y), None)
    v = np.zeros(40, np.float32)
    lost, _ = cells.evaluated(x, lambda y: y * np.float32(far), v)
    assert np.isnan(list(lost.values())).all()
    lost, _ = cells.evaluated(x, lambda y: y, v + np.float32(far))
    assert np.isnan(list(lost.values())).all()


def test_simulated_clouds_are_standardised():
    clouds = load("simulated", None)
    for points in (clouds.x, clouds.y):
        np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-4)
        np.testing.assert_allclose(points.std(axis=0), 1, atol=1e-3)
    # A gene that no cell has stays zero, and depth has no part.
    counts = np.array([[1, 0, 3], [10, 0, 30], [5, 0, 1]])
    scaled = of_rna(counts)
    np.testing.assert_array_equal(scaled[:, 1], 0)
    np.testing.assert_allclose(scaled[0], scaled[1], rtol=1e-6)


def test_files_of_ones_own(tmp_path, monkeypatch):
    points = np.random.default_rng(0).normal(size=(7, 3))
    np.save(tmp_path / "x.npy", points)
    np.savetxt(tmp_path / "y.csv", points, delimiter=",", header="a,b,c", comments="")
    np.savetxt(tmp_path / "z.csv", points, delimiter=",")
    for name in ("x.npy", "y.csv", "z.csv"):
        np.testing.assert_allclose(read_points(tmp_path / name), points)
    seen = {}

    def run(scale, tell, work, files):
        seen["files"] = files
        raise InterruptedError

    monkeypatch.setattr(registry.Target, "load", lambda self: run)
    both = (tmp_path / "x.npy", tmp_path / "y.csv")
    with pytest.raises(InterruptedError):
        runner.reproduce("fig4", scale="quick", out=tmp_path / "out", tell=quiet, files=both)
    assert seen["files"] == both
    clouds = load("blood", both)
    assert clouds.x.shape == clouds.y.shape == (7, 3)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.npy", b"nonsense", "must hold points"),
        ("a.csv", b"a,b\n1,2\n3\n", "must hold points"),
        ("a.csv", b"a,b\n1,nan\n", "must hold finite points"),
        ("a.txt", b"1 2", "must be a .npy"),
        ("a.h5ad", b"nonsense", "must hold points"),
    ],
)
def test_foreign_files_are_refused(name, content, said, tmp_path):
    if name.endswith("h5ad"):
        pytest.importorskip("anndata", reason="needs the extra singlecell")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        read_points(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_points(tmp_path / "absent.npy")


def test_numbers_of_a_group():
    (group,) = groups([curve(Method(p=0.5), end, seed=k) for k, end in enumerate((2.0, 3.0))])
    low, high = group.band
    assert (low[-1], high[-1]) == (2.0, 3.0 + 1e-3)
    assert group.end().half == pytest.approx(2 * 0.5 + 0.5e-3)
    np.testing.assert_allclose(group.at_gradients(50.0).W, [6.0, 6.5])
    assert "RSGDA,0.5,,,0.01,0,FINISHED" in match_numbers.curves_csv(group.curves).decode()
