"""`rsgda reproduce toy`: what is written, that it is right, and that it is the same each time."""

import csv
import hashlib
import json
import platform
import subprocess
import sys

import jax
import jax.random as jr
import numpy as np
import pytest
from matplotlib.image import imread

import rsgda
from rsgda.reproduce import runner, toy, toy_numbers

TINY = toy.Scale(seeds=4, gradients=400)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of a tiny run."""
    out = tmp_path_factory.mktemp("out")
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(toy.SCALES, "quick", TINY)
        report = runner.reproduce(
            "toy", scale="quick", out=out, tell=lambda done, what: told.append((done, what))
        )
    assert report.folder == out / "toy"
    assert set(report.files) == {path.name for path in report.folder.iterdir()}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[0][0] == 0
    assert told[-1][0] == 1
    return report.folder


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def curves(folder):
    """Read phi from toy.csv, by algorithm and m, seeds x counts."""
    found = {}
    for row in rows(folder / "toy.csv"):
        place = found.setdefault((row["algorithm"], int(row["m"])), {})
        for seed in range(len(row) - 4):
            place.setdefault(seed, {})[int(row["gradients"])] = float(row[f"seed {seed}"])
    counts = np.array(sorted(found["RSGDA", 1][0]))
    table = {
        place: np.array([[seeds[seed][g] for g in counts] for seed in range(len(seeds))])
        for place, seeds in found.items()
    }
    return counts, table


def test_files(folder):
    names = {"toy.csv", "summary.csv", "toy.png", "toy.pdf", "manifest.json"}
    assert {path.name for path in folder.iterdir()} == names
    assert (folder / "toy.pdf").read_bytes().startswith(b"%PDF-")
    assert (folder / "toy.pdf").read_bytes().rstrip().endswith(b"%%EOF")
    picture = imread(folder / "toy.png")
    assert picture.shape[1] >= 1500
    assert picture[..., :3].std() > 0.05, "an empty picture"


def test_table_is_tidy(folder):
    table = rows(folder / "toy.csv")
    seeds = [f"seed {seed}" for seed in range(TINY.seeds)]
    assert list(table[0]) == ["algorithm", "m", "p", "gradients", *seeds]
    assert {(row["m"], row["p"]) for row in table} == {("1", "0.5"), ("3", "0.25"), ("9", "0.1")}
    counts, phi = curves(folder)
    assert set(phi) == {(name, m) for name in ("RSGDA", "ESGDA") for m in (1, 3, 9)}
    assert len(table) == 6 * len(counts)
    np.testing.assert_array_equal(counts, [*range(101), *range(120, 401, 20)])


def test_curves_are_those_of_single_runs(folder):
    counts, phi = curves(folder)
    problem = toy.TOY
    theta, _ = problem.start()
    for name, m, seed in [("RSGDA", 3, 2), ("ESGDA", 9, 1), ("ESGDA", 1, 3)]:
        alpha = toy.largest_alpha(m)
        if name == "RSGDA":
            algorithm, cost = rsgda.RSGDA(p=1 / (m + 1), alpha=alpha, eta=0.5), 1
        else:
            algorithm, cost = rsgda.ESGDA(m=m, alpha=alpha, eta=0.5), m + 1
        for count in (0, 7, 99, 100, 380):
            run = rsgda.solve(
                problem.problem,
                algorithm,
                theta,
                problem.v_star(theta),
                key=jr.split(jr.key(toy.SEED), TINY.seeds)[seed],
                steps=count // cost,
            )
            expected = float(problem.phi(run.theta))
            found = phi[name, m][seed, counts == count]
            np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=f"{name}({m}) {count}")


def test_steps_are_the_largest_that_the_theory_allows():
    kappa, L, eta, mu = 10.0, 1.0, 0.5, 0.1
    for m in (1, 3, 9):
        p, alpha = 1 / (m + 1), toy.largest_alpha(m)
        # 2 kappa^2 alpha sqrt(p (2p + (1-p) eta mu)) <= (1-p) eta and 4 kappa L alpha <= 1
        left = (2 * kappa**2 * alpha) ** 2 * p * (2 * p + (1 - p) * eta * mu)
        used = max(left / ((1 - p) * eta) ** 2, 4 * kappa * L * alpha)
        assert used == pytest.approx(1.0)


def test_summary_follows_from_the_table(folder):
    counts, phi = curves(folder)
    for row, m, band in zip(rows(folder / "summary.csv"), (1, 3, 9), (1.8, 4.8, 16), strict=True):
        coin, cycle = phi["RSGDA", m], phi["ESGDA", m]
        top = cycle[0, 0]
        mean_coin, mean_cycle = coin.mean(0), cycle.mean(0)
        start = max(g for g, a, b in zip(counts, mean_coin, mean_cycle, strict=True)
                    if max(a, b) >= 0.1 * top)  # fmt: skip
        relative = {
            int(g): 100 * abs(a / b - 1)
            for g, a, b in zip(counts, mean_coin, mean_cycle, strict=True)
            if g > start and g % (m + 1) == 0
        }
        transient = {
            int(g): 100 * abs(a - b) / top
            for g, a, b in zip(counts, mean_coin, mean_cycle, strict=True)
        }
        spread = np.std(coin - cycle, axis=0, ddof=1) / TINY.seeds**0.5
        holds = True
        for kind, gaps, limit in (("relative", relative, 6.0), ("transient", transient, band)):
            at = max(gaps, key=gaps.__getitem__)
            scale = mean_cycle[counts == at] if kind == "relative" else top
            error = float(np.squeeze(100 * spread[counts == at] / scale))
            assert int(row[f"{kind}_gap_at"]) == at
            assert float(row[f"{kind}_gap_percent"]) == pytest.approx(gaps[at], abs=1e-3)
            assert float(row[f"{kind}_gap_error_percent"]) == pytest.approx(error, abs=1e-3)
            assert float(row[f"{kind}_band_percent"]) == limit
            holds = holds and gaps[at] - 2 * error <= limit
        assert row["verdict"] == ("holds" if holds else "does not hold")
        assert (int(row["m"]), float(row["p"])) == (m, 1 / (m + 1))
        assert int(row["seeds"]) == TINY.seeds


def pair(m=3, seeds=6, late=0.0, early=0.0):
    """Two exponentials, RSGDA's higher by `late` after the transient, by `early` before it."""
    counts = np.arange(0, 400, 4)
    fall = 10 * np.exp(-counts / 100)
    noise = 1 + 1e-3 * np.linspace(-1, 1, seeds)[:, None] * (counts > 0)
    settled = fall < 1
    raised = fall * np.where(settled, 1 + late, 1) + 10 * early * (~settled & (counts > 0))
    return toy_numbers.Pair(m, 0.01, 0.5, counts, noise * raised, np.tile(fall, (seeds, 1)))


@pytest.mark.parametrize(
    ("late", "early", "verdict"),
    [
        (0.0, 0.0, "holds"),
        (0.058, 0.0, "holds"),
        (0.063, 0.0, "does not hold"),
        (-0.063, 0.0, "does not hold"),
        (0.0, 0.046, "holds"),
        (0.0, 0.050, "does not hold"),
        (0.0, -0.050, "does not hold"),
    ],
)
def test_verdict(late, early, verdict):
    assert toy_numbers.summary_of(pair(late=late, early=early))["verdict"] == verdict


def test_phi_that_stays_up_is_refused():
    short = pair()
    short = short._replace(
        counts=short.counts[:9], rsgda=short.rsgda[:, :9], esgda=short.esgda[:, :9]
    )
    with pytest.raises(ValueError, match="phi must fall"):
        toy_numbers.summary_of(short)


def test_manifest(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["target"] == "toy"
    assert manifest["scale"] == "quick"
    assert manifest["command"] == f"rsgda reproduce toy --scale quick --out {folder.parent}"
    assert manifest["python"] == platform.python_version()
    assert manifest["versions"]["jax"] == jax.__version__
    assert manifest["versions"]["numpy"] == np.__version__
    assert set(manifest["versions"]) >= {"rsgda", "jaxlib", "matplotlib"}
    assert manifest["settings"]["seed"] == toy.SEED
    assert manifest["settings"]["seeds"] == TINY.seeds
    assert manifest["settings"]["problem"] == repr(toy.TOY)
    assert manifest["seconds"] > 0
    for name in ("toy.csv", "summary.csv"):
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert manifest["sha256"][name] == digest


@pytest.mark.slow
def test_another_process_writes_the_same(folder, tmp_path):
    # JAX is as out of the box there: single precision, promotion not strict.
    code = (
        "import sys\nfrom pathlib import Path\nfrom rsgda.reproduce import runner, toy\n"
        f"toy.SCALES['quick'] = toy.Scale{tuple(TINY)}\n"
        "runner.reproduce('toy', scale='quick', out=Path(sys.argv[1]), tell=lambda *_: None)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=120)
    for name in ("toy.csv", "summary.csv", "toy.png", "toy.pdf"):
        assert (tmp_path / "toy" / name).read_bytes() == (folder / name).read_bytes(), name
    first, second = (
        json.loads((place / "manifest.json").read_text()) for place in (folder, tmp_path / "toy")
    )
    for changing in ("command", "started", "seconds"):
        del first[changing], second[changing]
    assert first == second
