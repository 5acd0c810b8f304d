"""`rsgda plan`: all corollaries side by side, in any width, with words where one does not apply."""

import csv
import os
import re
import subprocess
import sys

import pytest
from test_cli import HEAVY, python
from typer.testing import CliRunner

from rsgda import _planned, theory
from rsgda.cli import app
from rsgda.cli_reproduce import told
from rsgda.reproduce.outcome import Finding
from rsgda.reproduce.runner import Report

MAIN = "from rsgda.cli import main; main()"
NAMES = [*_planned.COROLLARIES, _planned.RIVAL]


def plan(*arguments, columns=200):
    environment = {"COLUMNS": str(columns)}
    return CliRunner(env=environment).invoke(app, ["plan", *[str(item) for item in arguments]])


def shown(*arguments, columns=200):
    done = plan(*arguments, columns=columns)
    assert done.exit_code == 0, done.output
    return done.stdout


def cells(output):
    """The rows of the table by name; cells have two or more spaces, or one, between them."""
    rows = {}
    for line in output.splitlines():
        for name in sorted(NAMES, key=len, reverse=True):
            if line.startswith(name + " "):
                rows[name] = line.removeprefix(name).split()
                break
    return rows


def test_nothing_heavy_is_imported_for_help():
    done = python(
        "import sys\nfrom rsgda.cli import main\nsys.argv = ['rsgda', 'plan', '--help']\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n"
        f"    loaded = [name for name in {HEAVY} if name in sys.modules]\n"
        "    sys.exit(f'loaded {loaded}' if loaded else end.code)\n"
    )
    assert done.returncode == 0, done.stderr
    for option in ("--L", "--mu", "--sigma-v", "--D0", "--eps", "--plot"):
        assert option in done.stdout


def test_a_row_for_each_corollary():
    rows = cells(shown("--L", 10, "--mu", 0.1, "--eps", 0.01))
    assert list(rows) == NAMES
    r = theory.Regularity(L=10.0, mu=0.1)
    exact = theory.exact(r, eps=0.01)
    alpha, eta, steps, batch, low, to, high, bound, *order = rows["exact"]
    assert float(alpha) == pytest.approx(exact.algorithm.alpha, rel=5e-3)
    assert float(eta) == exact.algorithm.eta
    assert float(steps) == pytest.approx(exact.steps, rel=5e-3)
    assert (batch, low, to, high) == ("-", "0.01", "to", "0.5")
    assert float(bound) == pytest.approx(exact.bound(exact.steps), rel=5e-3)
    assert " ".join(order) == exact.order
    assert float(rows["exact, main_text"][1]) == 0.05
    assert rows["almost_sure"][2] == "-"
    rival = theory.gda(r, eps=0.01)
    assert float(rows[_planned.RIVAL][2]) == pytest.approx(rival.steps, rel=5e-3)


def test_constants_are_stated_with_what_was_not_given():
    first = shown("--L", 10, "--mu", 0.1, "--sigma", 2).splitlines()[0]
    wanted = "L=10, L_max=10, mu=0.1, kappa=100, sigma=2, sigma_v=2, D0=1, r0=1, p=0.5, no eps"
    assert first == wanted
    other = shown("--L", 1, "--L-max", 2, "--mu", 0.1, "--sigma-v", 3, "--eps", 0.5, "--p", 0.1)
    assert "L_max=2, mu=0.1, kappa=20, sigma=0, sigma_v=3" in other
    assert "p=0.1, eps=0.5" in other


def test_a_condition_that_fails_is_named_with_both_numbers():
    rows = cells(shown("--L", 10, "--mu", 0.1, "--sigma", 2, "--eps", 0.1))
    for name in ("exact", "exact, main_text", "almost_sure, exact", _planned.RIVAL):
        assert " ".join(rows[name]) == "- - - - - - needs sigma = 0: 2 <= 0 is false"
    for name in NAMES:
        if name.startswith("interpolation"):
            assert "needs sigma_v = 0: 2 <= 0 is false" in " ".join(rows[name])
    assert "needs" not in rows["precision"]
    # The noise in v is as large as that in theta unless something else is said.
    rows = cells(shown("--L", 10, "--mu", 0.1, "--sigma", 2, "--sigma-v", 0, "--eps", 0.1))
    assert "needs" not in rows["interpolation_precision"]


def test_without_eps_there_are_no_steps():
    output = shown("--L", 1, "--mu", 0.1)
    rows = cells(output)
    assert {row[2] for row in rows.values()} == {"-"}
    assert " ".join(rows["precision"]).endswith("needs --eps")
    assert "bound at k=1e6" in output
    assert output.rstrip().endswith("with --eps: iterations, and the cheapest p")


def test_bounds_at_a_chosen_k():
    output = shown("--L", 1, "--mu", 0.1, "--k", 5000)
    assert "bound at k=5,000" in output
    bound = theory.exact(theory.Regularity(L=1.0, mu=0.1)).bound(5000)
    assert float(cells(output)["exact"][7]) == pytest.approx(bound, rel=5e-3)


def test_the_cheapest_p():
    r = theory.Regularity(L=1.0, mu=0.01)
    options = ["--L", 1, "--mu", 0.01, "--eps", 0.1]
    for extra, costs in (
        ([], {}),
        (
            ["--descent-cost", 100, "--ascent-cost", 2],
            {"descent_cost": 100.0, "ascent_cost": 2.0},
        ),
    ):
        best = theory.best_p(r, eps=0.1, **costs)
        half = theory.exact(r, p=0.5, eps=0.1).steps * (best.descent_cost + best.ascent_cost) / 2
        said = f"p={best.p:.3g}, {best.cost / half:.3g} of the cost at p=1/2"
        assert said in shown(*options, *extra)


@pytest.mark.parametrize("noise", [[], ["--sigma", "1"]])
@pytest.mark.parametrize("columns", [80, 100, 120, 200])
def test_nothing_is_cut_off(columns, noise):
    options = ["--L", 10, "--mu", 0.1, "--eps", 0.01, *noise]
    narrow, wide = shown(*options, columns=columns), shown(*options, columns=300)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= columns

    def content(output):
        return sorted(re.sub(r"\s", "", output))

    assert content(narrow) == content(wide)


def from_blocks(output):
    """The blocks by name, each with its values by key, lines that go on joined."""
    found, values, key = {}, {}, ""
    for line in output.splitlines():
        if line.strip() in NAMES:
            values = found[line.strip()] = {}
        elif values is not None and line.startswith("  ") and line[2] != " ":
            key, value = re.split(r"\s{2,}", line.strip(), maxsplit=1)
            values[key] = value
        elif line.startswith("   "):
            values[key] += " " + line.strip()
    return found


@pytest.mark.parametrize("noise", [{}, {"sigma": 1.0}, {"sigma": 1.0, "sigma_v": 0.0}])
@pytest.mark.parametrize("eps", [0.01, None])
@pytest.mark.parametrize("columns", [40, 60, 77])
def test_blocks_where_a_table_does_not_fit(columns, eps, noise):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in noise.items()]
    options += [] if eps is None else [f"--eps={eps}"]
    output = shown("--L", 10, "--mu", 0.1, *options, columns=columns)
    assert "…" not in output
    assert max(map(len, output.splitlines())) <= columns
    found = from_blocks(output)
    assert list(found) == NAMES
    r = theory.Regularity(L=10.0, mu=0.1, **{"sigma_v": noise.get("sigma", 0.0)} | noise)
    for row in _planned.rows(r, p=0.5, eps=eps, k=None):
        values, plan = found[row.name], row.plan
        if plan is None:
            assert values == {"fails": row.fails}
            continue
        alpha, eta = _planned.first_steps(plan)
        bound = _planned.number(plan.bound(row.k))
        wanted = {
            "alpha": _planned.number(alpha),
            "eta": _planned.number(eta),
            "bound": f"{bound} at k={_planned.number(row.k)}",
            "order": _planned._order(plan),
        }
        if plan.steps is not None:
            wanted["steps"] = _planned.number(plan.steps)
        if isinstance(plan, theory.Plan):
            wanted["p range"] = _planned._range(plan)
            if plan.batch_size is not None:
                wanted["batch"] = _planned.number(plan.batch_size)
        assert values == wanted


def test_a_table_from_80_columns_on():
    for columns, is_table in ((60, False), (77, False), (80, True)):
        output = shown("--L", 10, "--mu", 0.1, "--sigma", 1, "--eps", 0.01, columns=columns)
        assert ("corollary" in output) is is_table


def test_numbers_too_wide_for_a_table():
    """At 80 columns, where each of them has more digits than it has room for."""
    options = ["--L", 1e101, "--mu", 1.23e97, "--sigma", 1e-101, "--eps", 1.23456e-30]
    output = shown(*options, columns=80)
    assert "…" not in output
    for row in _planned.rows(
        theory.Regularity(L=1e101, mu=1.23e97, sigma=1e-101, sigma_v=1e-101),
        p=0.5,
        eps=1.23456e-30,
        k=None,
    ):
        if row.plan is not None:
            for value in _planned.first_steps(row.plan):
                assert _planned.number(value) in output


def test_a_pipe_gets_whole_rows():
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    options = ["plan", "--L", "10", "--mu", "0.1", "--eps", "0.01", "--sigma", "1"]
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *options],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert list(cells(done.stdout)) == NAMES
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mu", 1], ["--L"]),
        (["--L", "x", "--mu", 1], ["--L"]),
        (["--L", -1, "--mu", 1], ["--L must be a positive finite number, got -1.0."]),
        (["--L", 1, "--mu", 2], ["--mu must be at most L"]),
        (["--L", 1, "--mu", 0.1, "--sigma", "nan"], ["--sigma must be"]),
        (["--L", 1, "--mu", 0.1, "--sigma-v", -1], ["--sigma-v must be"]),
        (["--L", 1, "--mu", 0.1, "--L-max", -1], ["--L-max must be"]),
        (["--L", 1, "--mu", 0.1, "--D0", -1], ["--D0 must be"]),
        (["--L", 1, "--mu", 0.1, "--p", 1], ["--p must lie in (0, 1)"]),
        (["--L", 1, "--mu", 0.1, "--eps", 0], ["--eps must be"]),
        (["--L", 1, "--mu", 0.1, "--eps", 1e-200], ["--eps must be"]),
        (["--L", 1, "--mu", 0.1, "--k", 0], ["--k must be at least 1, got 0."]),
        (["--L", 1, "--mu", 0.1, "--eps", 1, "--ascent-cost", 0], ["--ascent-cost must be"]),
        (["--L", 1, "--mu", 0.1, "--plot", "a.jpg"], ["--plot must end in .png, .pdf, .svg"]),
    ],
)
def test_wrong_input_is_one_line_that_names_the_option(arguments, words):
    done = plan(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    for word in words:
        assert word in line


def test_a_precision_out_of_reach_is_no_error():
    rows = cells(shown("--L", 10, "--mu", 1e-3, "--eps", 1e-5))
    assert "--eps must be reachable" in " ".join(rows["anytime"])
    assert "e" in rows["exact"][2]


@pytest.mark.parametrize("suffix", [".png", ".PDF", ".svg"])
def test_plot_is_written(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    assert f"wrote {path}" in shown("--L", 1, "--mu", 0.1, "--eps", 0.1, "--plot", path)
    start = {".png": b"\x89PNG", ".PDF": b"%PDF", ".svg": b"<?xml"}[suffix]
    assert path.read_bytes().startswith(start)
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_plot_without_eps_has_the_bounds_alone(tmp_path):
    shown("--L", 1, "--mu", 0.1, "--plot", tmp_path / "a.svg")
    assert (tmp_path / "a.svg").exists()


def test_a_folder_that_is_not_there_is_one_line_before_the_table(tmp_path):
    for option in ("--plot", "--csv"):
        done = plan("--L", 1, "--mu", 0.1, option, tmp_path / "no" / "a.png")
        assert done.exit_code == 1
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert option in line
        assert str(tmp_path / "no") in line


def test_a_folder_in_the_place_of_a_file_is_one_line(tmp_path):
    (tmp_path / "d.png").mkdir()
    for option in ("--plot", "--csv"):
        done = plan("--L", 1, "--mu", 0.1, option, tmp_path / "d.png")
        assert done.exit_code == 1
        assert done.stdout == ""
        assert done.stderr.strip() == f"rsgda: {option} {tmp_path / 'd.png'} is a folder."
    assert list((tmp_path / "d.png").iterdir()) == []


def test_csv_has_all_digits(tmp_path):
    path = tmp_path / "a.csv"
    shown("--L", 10, "--mu", 0.1, "--sigma", 1, "--sigma-v", 0, "--eps", 0.1, "--csv", path)
    with path.open(newline="") as file:
        rows = {row["corollary"]: row for row in csv.DictReader(file)}
    assert list(rows) == NAMES
    r = theory.Regularity(L=10.0, mu=0.1, sigma=1.0)
    wanted = theory.large_batch(r, eps=0.1)
    row = rows["large_batch"]
    assert float(row["alpha"]) == wanted.algorithm.alpha
    assert (int(row["steps"]), int(row["batch"])) == (wanted.steps, wanted.batch_size)
    assert float(row["bound"]) == wanted.bound(wanted.steps)
    assert rows["exact"]["fails"] == "needs sigma = 0: 1 <= 0 is false"
    assert rows["exact"]["alpha"] == ""


def test_a_best_p_at_the_end_of_the_curve_is_said_to_be_one():
    r = theory.Regularity(L=10.0, mu=0.1, sigma=1.0, sigma_v=1.0)
    for eps in (0.1, 0.01):
        best = theory.best_p(r, eps=eps)
        output = shown("--L", 10, "--mu", 0.1, "--sigma", 1, "--eps", eps)
        assert ("the smallest that was looked at" in output) == (best.p == best.curve[0][0])


def test_findings_are_not_cut_off(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "60")
    name = "interpolation_almost_sure_with_a_name_that_is_long"
    finding = Finding(f"{name}: holds", "some numbers", "holds")
    told.reports([Report("theory", tmp_path, ("a.csv",), (finding,), 1.0)], tmp_path / "a.html")
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert name in "".join(line.split("│")[2].strip() for line in printed.splitlines()[3:-3])
