"""`rsgda sweep`: a grid in a file to a table in a file, once, whatever comes in between."""

import csv
import hashlib
import json
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from own_cluster import cluster, running, wait_for
from typer.testing import CliRunner

import rsgda
from rsgda.cli import app
from rsgda.cli_sweep import grid
from rsgda.cli_sweep import run as run_module
from rsgda.cli_sweep.places import Place

GRID = """
steps = 40
every = 20
seeds = 2

[[problems]]
problem = "toy"
kappa = [5.0, 20.0]
s = 0.1

[[algorithms]]
name = "RSGDA"
p = [0.25, 0.5]
alpha = 0.05
eta = 0.3

[[algorithms]]
name = "SGDA"
alpha = [0.05, 1e300]
eta = "steps_of_mine:slowly"
"""

MODULE = """
import os
import time
import jax.numpy as jnp
import rsgda

def slowly(k):
    return 0.3 / jnp.sqrt(1.0 + k)

def loss(theta, v):
    return jnp.sum(jnp.cos(theta)) + theta @ v - v @ v

def look(problem, state):
    time.sleep(float(os.environ.get("PAUSE", 0)))
    return {"size": float(jnp.sum(state.theta**2)), "small": bool(state.theta[0] < 0.4)}

def build(n, shift=0.0):
    return rsgda.Problem(loss), jnp.full(n, 0.5 + shift), jnp.zeros(n), look

def wrong(kind):
    if kind == "nothing":
        return None
    if kind == "loss":
        return loss, jnp.ones(2), jnp.ones(2)
    if kind == "start":
        return rsgda.Problem(loss), jnp.full(2, jnp.nan), jnp.ones(2)
    raise KeyError(kind)

class NoAlgorithm:
    pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("steps_of_mine", "module_of_mine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


def run(*options, grid="grid.toml", workers=1):
    local = [] if workers is None else ["--workers", str(workers)]
    return CliRunner().invoke(app, ["sweep", grid, *local, *options], catch_exceptions=False)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_is_tidy(folder):
    done = run()
    assert done.exit_code == 0, done.output
    assert "2 problems × 4 algorithms × 2 seeds, 16 runs of 40 steps in 4 blocks" in done.output
    out = folder / "rsgda-sweep"
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "table.csv"]
    rows = rows_of(out / "table.csv")
    assert list(rows[0]) == [
        "problem", "problem.kappa", "problem.s", "algorithm", "p", "alpha", "eta", "seed",
        "step", "descents", "ascents", "gradients", "grad_norm", "phi", "status",
    ]  # fmt: skip
    ends = {(row["algorithm"], row["alpha"], row["status"]) for row in rows}
    assert ends == {
        ("RSGDA", "0.05", "FINISHED"), ("SGDA", "0.05", "FINISHED"), ("SGDA", "1e+300", "DIVERGED"),
    }  # fmt: skip
    # What has ended has one line, the others two; what an algorithm does not have is empty.
    assert len(rows) == 2 * 2 * (2 + 2 + 2 + 1)
    assert {row["p"] for row in rows if row["algorithm"] == "SGDA"} == {""}
    assert {row["eta"] for row in rows if row["algorithm"] == "SGDA"} == {"steps_of_mine:slowly"}
    # A line is what the single run with that seed finds.
    toy = rsgda.problems.Toy(kappa=20.0, s=0.1)
    algorithm = rsgda.RSGDA(p=0.5, alpha=0.05, eta=0.3)
    single = rsgda.solve(toy.problem, algorithm, *toy.start(), key=jax.random.key(1), steps=40)
    (row,) = (
        row
        for row in rows
        if (row["problem.kappa"], row["p"], row["seed"], row["step"]) == ("20.0", "0.5", "1", "40")
    )
    np.testing.assert_allclose(float(row["phi"]), toy.phi(single.theta), rtol=1e-9)
    assert int(row["descents"]) == single.history["descents"][-1]


def test_the_manifest_says_what_it_is(folder):
    run("--out", "here")
    manifest = json.loads((folder / "here" / "manifest.json").read_text())
    table = (folder / "here" / "table.csv").read_bytes()
    assert manifest["table"]["sha256"] == hashlib.sha256(table).hexdigest()
    assert manifest["runs"] == {"FINISHED": 12, "DIVERGED": 4, "STOPPED": 0}
    assert manifest["command"] == "rsgda sweep grid.toml --out here --workers 1"
    assert manifest["grid"]["problems"][0]["kappa"] == [5.0, 20.0]
    assert manifest["floats"] == "float64"
    assert {"versions", "hardware", "seconds", "started"} < set(manifest)


def test_what_is_done_is_not_run_again(folder, monkeypatch):
    assert run().exit_code == 0
    before = (folder / "rsgda-sweep" / "manifest.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("rsgda.cli_sweep.run.tables", lambda *_: pytest.fail("it ran again"))
        again = run()
    assert again.exit_code == 0
    assert "table.csv is there already" in again.output
    assert (folder / "rsgda-sweep" / "manifest.json").read_bytes() == before
    # Another grid is refused, unless it may take the place.
    (folder / "grid.toml").write_text(GRID.replace("steps = 40", "steps = 20"))
    refused = run()
    assert refused.exit_code == 2
    assert "holds another sweep: its steps is 40, this one needs 20" in refused.output
    assert (folder / "rsgda-sweep" / "manifest.json").read_bytes() == before
    assert run("--force").exit_code == 0
    assert {row["step"] for row in rows_of("rsgda-sweep/table.csv")} >= {"20"}
    # A table that somebody has changed is not passed off as the sweep's.
    with open("rsgda-sweep/table.csv", "a") as file:
        file.write("\n")
    assert "is not what manifest.json beside it says" in run().output


def test_an_interrupted_sweep_goes_on(folder, monkeypatch):
    assert run("--out", "straight").exit_code == 0
    from rsgda.drive import job, sweep

    done = []

    def some(given, place, tell):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(place)
        return job.run_block(given, place, tell)

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "run_block", some)
        stopped = run("--out", "parts")
    assert stopped.exit_code == 130
    assert "parts holds what was done: the same command continues" in stopped.output
    assert sorted(path.name for path in (folder / "parts").iterdir()) == [
        "checkpoints", "manifest.json",
    ]  # fmt: skip
    # Another grid is refused here, too.
    (folder / "other.toml").write_text(GRID.replace("seeds = 2", "seeds = 3"))
    refused = run("--out", "parts", grid="other.toml")
    assert refused.exit_code == 2
    assert "its seeds is 2, this one needs 3" in refused.output
    assert run("--out", "parts").exit_code == 0
    assert not (folder / "parts" / "checkpoints").exists()
    straight, parts = (folder / name / "table.csv" for name in ("straight", "parts"))
    assert straight.read_bytes() == parts.read_bytes()


MINE = """
steps = 20
every = 10
seeds = [7, 3]
[[problems]]
problem = "module_of_mine:build"
name = "mine"
n = [2, 3]
[[algorithms]]
name = "rsgda.algorithms.sgda:SGDA"
alpha = 0.1
eta = 0.3
"""


def test_a_problem_of_ones_own(folder):
    (folder / "mine.toml").write_text(MINE)
    done = run("--out", "mine", grid="mine.toml")
    assert done.exit_code == 0, done.output
    rows = rows_of("mine/table.csv")
    assert {(row["problem"], row["problem.n"], row["seed"]) for row in rows} == {
        ("mine", n, seed) for n in "23" for seed in "73"
    }
    assert {row["small"] for row in rows} <= {"True", "False"}
    assert all(float(row["size"]) > 0 for row in rows)


def test_local_workers_find_the_same(folder):
    """Also the modules that stand beside the grid."""
    (folder / "mine.toml").write_text(MINE)
    assert run("--out", "one", grid="mine.toml").exit_code == 0
    two = run("--out", "two", grid="mine.toml", workers=2)
    assert two.exit_code == 0, two.output
    assert (folder / "one/table.csv").read_bytes() == (folder / "two/table.csv").read_bytes()
    manifest = json.loads((folder / "two/manifest.json").read_text())
    assert manifest["hardware"]["workers"] == {"127.0.0.1": 2}


@pytest.mark.slow
def test_a_worker_that_is_killed_leaves_no_trace(folder, tmp_path):
    """The command with a scheduler and two workers, one of which is killed in a block."""
    text = MINE.replace("steps = 20", "steps = 200")
    text += '[[algorithms]]\nname = "RSGDA"\np = [0.25, 0.5]\nalpha = 0.1\neta = 0.3\n'
    (folder / "mine.toml").write_text(text)
    assert run("--out", "calm", grid="mine.toml").exit_code == 0
    with cluster(tmp_path / "cluster", "a", "b") as (started, client):
        client.run(lambda: __import__("os").environ.update(PAUSE="0.05"))
        command = [
            sys.executable, "-c",
            "import jax; jax.config.update('jax_enable_x64', True); "
            "from rsgda.cli import main; main()",
            "sweep", "mine.toml", "--out", "harmed", "--cluster", started.address,
        ]  # fmt: skip
        sweep = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        saves = lambda: [*folder.glob("harmed/checkpoints/*/*/[0-9]*")]  # noqa: E731
        wait_for(lambda: saves() and running(client))
        process = started.workers.pop(next(iter(running(client))))
        process.send_signal(signal.SIGKILL)
        process.wait()
        out, _ = sweep.communicate(timeout=120)
    assert sweep.returncode == 0, out
    assert (folder / "calm/table.csv").read_bytes() == (folder / "harmed/table.csv").read_bytes()
    manifest = json.loads((folder / "harmed/manifest.json").read_text())
    assert manifest["hardware"]["workers"] == {"127.0.0.1": 1}


TOY = '[[problems]]\nproblem = "toy"\n'
SGDA = '[[algorithms]]\nname = "SGDA"\nalpha = 0.1\neta = 0.3\n'
NUMBERS = "steps = 10\nseeds = 1\n"
LONG = list(range(1000))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps = ", "must be a TOML file"),
        ("stepz = 3", "`stepz` is no key; there are steps, every, seeds, problems, algorithms"),
        ("seeds = 1\n", "`steps` must be a whole number, at least 1, got nothing"),
        ("steps = 1.5\n", "`steps` must be a whole number, at least 1, got 1.5"),
        ("steps = 5\nevery = 0\n", "`every` must be a whole number, at least 1, got 0"),
        ("steps = 5\n", "`seeds` must be how many there are, or a list of different whole"),
        ("steps = 5\nseeds = [1, 1]\n", "numbers from 0 to 4294967295, got [1, 1]"),
        ("steps = 5\nseeds = [-1]\n", "got [-1]"),
        ("steps = 5\nseeds = true\n", "got True"),
        (NUMBERS, "`problems` must be one or more tables, each under [[problems]], got nothing"),
        (NUMBERS + '[problems]\nproblem = "toy"\n', "each under [[problems]], got {'problem': "),
        (NUMBERS + TOY, "`algorithms` must be one or more tables, each under [[algorithms]]"),
        (NUMBERS + SGDA + "[[problems]]\nkappa = 3\n", "`problems[0].problem` must be one of toy"),
        (
            NUMBERS + SGDA + '[[problems]]\nproblem = "ty"\n',
            'or "package.module:function", got \'t',
        ),
        (NUMBERS + SGDA + TOY + "kapa = 3\n", "`problems[0].kapa` is no key; there are problem, n"),
        (NUMBERS + SGDA + TOY + "kappa = []\n", "`problems[0].kappa` must be a value or a list"),
        (NUMBERS + SGDA + TOY + "kappa = 1.0\n", "`problems[0]`: `kappa` must be a finite number"),
        (NUMBERS + SGDA + TOY + "kappa = 2020-01-01\n", "must be a number, a text or a list"),
        (NUMBERS + SGDA + TOY + "kappa = [5.0, 5.0]\n", "has toy with kappa = 5.0 twice"),
        (
            "steps = 1\nseeds = 1_000_001\n" + TOY + SGDA,
            "at most 1,000,000 runs, got 1 problems × 1 algorithms × 1,000,001 seeds = 1,000,001",
        ),
        (
            f"{NUMBERS}{SGDA}{TOY}kappa = {LONG}\ns = {LONG}\nt = {LONG}\n",
            "got 1,000,000,000 problems × 1 algorithms × 1 seeds = 1,000,000,000; make several",
        ),
        (NUMBERS + TOY + SGDA + "p = 0.5\n", "`algorithms[0].p` is no key; there are name, alpha"),
        (NUMBERS + TOY + '[[algorithms]]\nname = "Adam"\n', "must be one of RSGDA, SGDA, ESGDA, S"),
        (NUMBERS + TOY + '[[algorithms]]\nname = "SGDA"\n', "`algorithms[0]` lacks `alpha`"),
        (NUMBERS + TOY + SGDA.replace("0.1", "-1"), "`alpha` must be a positive finite number, g"),
        (NUMBERS + TOY + SGDA.replace("0.1", '"no_such:x"'), "No module named 'no_such'"),
        (NUMBERS + TOY + SGDA.replace("0.1", '"steps_of_mine:x"'), "has no attribute 'x'"),
        (
            NUMBERS + TOY + '[[algorithms]]\nname = "module_of_mine:NoAlgorithm"\n',
            "must be a class with `init` and `step`",
        ),
        *(
            (
                f'{NUMBERS}{SGDA}[[problems]]\nproblem = "module_of_mine:wrong"\nkind = "{kind}"\n',
                said,
            )
            for kind, said in [
                ("nothing", "must be a function that returns (problem, theta, v) or"),
                ("loss", "must be a function that returns an rsgda.Problem first"),
                ("start", "problem 'module_of_mine:wrong': `theta` must be finite"),
                ("else", "`problems[0]`: KeyError: 'else'"),
            ]
        ),
    ],
)
def test_a_wrong_grid_is_refused(folder, text, said):
    (folder / "grid.toml").write_text(text)
    done = run()
    assert done.exit_code == 2, done.output
    assert done.output.startswith("rsgda: grid.toml")
    assert said in done.output
    assert not (folder / "rsgda-sweep").exists()


def test_a_large_grid_is_arranged_soon(folder):
    """Thousands of seeds, each with the key that `jax.random.key` makes of it, or of numbers."""
    seeds = [2**32 - 1, *range(2999), 2**31, 2**31 - 1]
    (folder / "grid.toml").write_text(f"steps = 10\nseeds = {seeds}\n{TOY}{SGDA}")
    began = time.monotonic()
    given = grid.read(folder / "grid.toml")
    planned = run_module._planned(given, given.settings[0], Place(folder / "out", "csv", {}), 0)
    assert time.monotonic() - began < 10
    for place in (0, 1, 2, 2999, 3000, 3001):
        assert planned.keys[place] == jax.random.key(seeds[place])
    numbers = [(name, {"alpha": [0.1, i]}) for name in "ab" for i in range(10_000)]
    began = time.monotonic()
    grid._Door(folder).once("algorithms", numbers)
    assert time.monotonic() - began < 5
    with pytest.raises(ValueError, match=r"`algorithms` has a with alpha = \[0\.1, 7\] twice"):
        grid._Door(folder).once("algorithms", [*numbers, numbers[7]])


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--format", "xlsx"], 2, "--format must be one of csv, parquet, got 'xlsx'"),
        (["--workers", "0"], 2, "--workers must be at least 1, got 0"),
        (["--workers", "2", "--cluster", "tcp://x:1"], 2, "a --cluster has its own"),
        (["--out", "grid.toml"], 1, "--out must be a folder, grid.toml is a file"),
        (["--out", "."], 2, "--out must be a new or empty folder or one of this sweep"),
    ],
)
def test_wrong_options_are_refused(folder, options, code, said):
    done = run(*options, workers=None)
    assert done.exit_code == code
    assert said in done.output


def test_a_grid_that_is_not_there(folder):
    done = run(grid="none.toml")
    assert done.exit_code == 1
    assert "none.toml cannot be read: No such file or directory" in done.output


def test_parquet_is_refused_at_the_door(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    done = run("--format", "parquet")
    assert done.exit_code == 2
    assert "--format parquet needs pyarrow, which is not installed: pip install pyarrow" in (
        done.output
    )
    assert not (folder / "rsgda-sweep").exists()


def test_parquet_holds_the_same(folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run("--format", "parquet").exit_code == 0
    assert run("--out", "csv").exit_code == 0
    table = parquet.read_table("rsgda-sweep/table.parquet").to_pydict()
    rows = rows_of("csv/table.csv")
    assert [str(phi) for phi in table["phi"]] == [row["phi"] for row in rows]


def test_force_leaves_other_files_alone(folder):
    (folder / "full").mkdir()
    (folder / "full" / "thesis.tex").write_text("years of work")
    assert run("--out", "full", "--force").exit_code == 2
    assert (folder / "full" / "thesis.tex").exists()
