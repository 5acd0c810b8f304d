"""The benchmark command: what it keeps, what it leaves out, what it writes. Nothing is timed."""

import csv
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("the benchmarks are not here", allow_module_level=True)
sys.path.insert(0, str(BENCHMARKS))

import chart  # noqa: E402
import growth_chart  # noqa: E402
import report  # noqa: E402
import suite  # noqa: E402
import timing  # noqa: E402
from suite import Contest  # noqa: E402

sys.path.remove(str(BENCHMARKS))


def row(**fields):
    """A row of the report about one line."""
    line = timing.line(fields.pop("name", "step"), fields.pop("values", (0.4, 0.5, 0.8)), **fields)
    contests = {"steps": {"day": "2026-01-01", "lines": [line.__dict__]}}
    (found,) = report.rows({"core": {"about": {"quick": False}, "contests": contests}})
    return found


# Lines and the chart.


def test_a_line_is_judged_by_its_median():
    values = (0.8, 1.2, 0.9, 5.0, 0.7)
    assert timing.line("a", values, most=0.9).verdict == "met"
    assert timing.line("a", values, most=0.89).verdict == "missed"
    assert timing.line("a", values, least=0.9).verdict == "met"
    assert timing.line("a", values, least=0.91).verdict == "missed"
    assert timing.line("a", values).verdict == ""
    assert timing.line("a", values).quartiles == (0.8, 0.9, 1.2)


def test_contestants_take_turns():
    calls = []
    contestants = {name: lambda name=name: calls.append(name) for name in "ab"}
    seconds = timing.interleave(contestants, 3)
    assert "".join(calls) == "ab" + "ab" + "ba" + "ab"  # first all are compiled
    assert {name: len(values) for name, values in seconds.items()} == {"a": 3, "b": 3}


def test_a_ratio_of_times_stays_as_it_is():
    time = chart.as_time(row(against="PyTorch", most=0.9))
    assert (time["median"], time["goal"], time["verdict"]) == (0.5, 0.9, "met")
    assert time["low"] < time["median"] < time["high"]


def test_a_speed_becomes_a_time():
    speed = row(name="toy, speed", values=(80.0, 100.0, 160.0), against="PyTorch", least=60)
    time = chart.as_time(speed)
    assert (time["name"], time["median"], time["goal"]) == ("toy", 1 / 100, 1 / 60)
    assert (time["low"], time["high"]) == (1 / 130, 1 / 90)  # quartiles change places
    assert time["verdict"] == "met"


@pytest.mark.parametrize("fields", [{"most": 1.5}, {"against": "PyTorch"}, {"unit": "s"}])
def test_what_has_no_rival_or_no_goal_is_not_drawn(fields):
    assert chart.as_time(row(**fields)) is None


def test_bars_stand_below_the_title_of_their_suite():
    places, groups = chart.arranged(["core", "core", "robust"])
    assert list(groups) == ["core", "robust"]
    assert groups["core"] < places[0] < places[1] < groups["robust"] < places[2]


def test_the_axis_holds_all_bars_and_one():
    times = [chart.as_time(row(against="a", most=0.9, values=(low, 2 * low))) for low in (0.01, 2)]
    low, high = chart.limits(times)
    assert low < 0.01
    assert high > 4
    low, high = chart.limits(times[:1])
    assert high > 1


def test_ticks_are_plain_ratios():
    assert chart.ticks_between(0.07, 1.6) == [0.1, 0.2, 0.5, 1.0]
    assert chart.ticks_between(0.004, 190.0) == [0.01, 0.1, 1.0, 10.0, 100.0]


@pytest.mark.parametrize(
    ("ratio", "words"), [(1.026, "1.03"), (0.1, "0.10"), (0.0051, "1/196"), (119.5, "120")]
)
def test_ratios_in_words(ratio, words):
    assert chart.said(ratio) == words


# A suite: contests by themselves, one file.


def run_suite(monkeypatch, file, contests, *options):
    monkeypatch.setattr(sys, "argv", ["suite", "--json", str(file), *options])
    return suite.main("About.", contests, full=2.0, quick=1.0)


@pytest.fixture
def ran():
    return []


@pytest.fixture
def contests(ran):
    def contest(name, ends=None):
        def run(size):
            ran.append(name)
            yield timing.line(name, [size], against="PyTorch", most=1.5)
            if ends is not None:
                raise ends

        return run

    return {
        "good": Contest(contest("good")),
        "bad": Contest(contest("bad", ValueError("too small\nby far"))),
        "differs": Contest(contest("differs", SystemExit("gradients differ"))),
        "alone": Contest(contest("alone"), ("torch", "ot")),
        "last": Contest(contest("last")),
    }


def hide(monkeypatch, *names):
    find = suite.importlib.util.find_spec
    util = types.SimpleNamespace(find_spec=lambda name: None if name in names else find(name))
    monkeypatch.setattr(suite, "importlib", types.SimpleNamespace(
        util=util, metadata=suite.importlib.metadata,
    ))  # fmt: skip


def test_a_contest_that_fails_or_lacks_a_rival_leaves_the_others(
    monkeypatch, tmp_path, contests, ran, capsys
):
    hide(monkeypatch, "torch")
    assert run_suite(monkeypatch, tmp_path / "core.json", contests) == suite.FAILED
    assert ran == ["good", "bad", "differs", "last"]
    found = json.loads((tmp_path / "core.json").read_text())["contests"]
    assert found["good"]["lines"][0]["values"] == [2.0]
    assert found["bad"] == {"failed": "ValueError: too small"}
    assert found["differs"] == {"failed": "SystemExit: gradients differ"}
    assert found["alone"] == {"missing": ["PyTorch"]}
    assert list(found) == list(contests)
    assert "not installed: PyTorch" in capsys.readouterr().out


def test_what_was_finished_is_not_run_again(monkeypatch, tmp_path, contests, ran):
    hide(monkeypatch, "torch", "ot")
    for _ in range(2):
        run_suite(monkeypatch, tmp_path / "core.json", contests)
    assert ran == ["good", "bad", "differs", "last", "bad", "differs"]
    assert run_suite(monkeypatch, tmp_path / "core.json", contests, "--only", "last") == 0
    assert ran[6:] == ["last"]
    found = json.loads((tmp_path / "core.json").read_text())["contests"]
    assert list(found) == list(contests)


def test_an_interrupted_suite_goes_on(monkeypatch, tmp_path, contests, ran):
    def interrupted(size):
        raise KeyboardInterrupt

    stopped = {"good": contests["good"], "last": Contest(interrupted)}
    with pytest.raises(KeyboardInterrupt):
        run_suite(monkeypatch, tmp_path / "core.json", stopped)
    stopped["last"] = contests["last"]
    assert run_suite(monkeypatch, tmp_path / "core.json", stopped) == 0
    assert ran == ["good", "last"]


def test_numbers_of_other_sizes_or_versions_are_not_mixed(monkeypatch, tmp_path, contests, ran):
    good = {"good": contests["good"]}
    run_suite(monkeypatch, tmp_path / "core.json", good, "--quick")
    run_suite(monkeypatch, tmp_path / "core.json", good)
    monkeypatch.setattr(suite, "_version", lambda name: "0")
    run_suite(monkeypatch, tmp_path / "core.json", good)
    assert ran == ["good"] * 3
    kept = json.loads((tmp_path / "core.json").read_text())
    assert kept["about"]["versions"]["jax"] == "0"
    assert kept["contests"]["good"]["lines"][0]["values"] == [2.0]


# The report.

GROWTH = {
    "title": "rows", "sizes": (10, 100, 1000), "expected": 1, "why": "each is read",
    "cost": "µs a step", "values": [[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]],
}  # fmt: skip


def numbers(lines, **contests):
    about = suite.about(quick=False)
    done = {"day": "2026-01-01", "seconds": 1.5, "lines": [line.__dict__ for line in lines]}
    return {"about": about, "contests": {"steps": done} | contests}


SOME = {
    "core": numbers([
        timing.line("toy, speed", (80.0, 100.0, 160.0), against="PyTorch", least=60),
        timing.line("memory", (1.0,), most=1.5, note="of v"),
    ]),
    "robust": numbers(
        [timing.line("descent", (0.9, 1.0, 1.1), against="PyTorch", most=0.9)],
        epoch={"missing": ["PyTorch"]}, rows={"failed": "ValueError: no"},
    ),
    "growth": numbers([timing.line("exponent in rows", (1.0, 1.1), unit="", growth=GROWTH)]),
}  # fmt: skip


def test_the_report_is_written(tmp_path):
    files = report.write(tmp_path, SOME, {"transport": "exit status -9"})
    assert {file.name for file in files} == {
        "benchmarks.csv", "benchmarks.png", "growth.csv", "growth.png", "manifest.json", "table.md",
    }  # fmt: skip
    with (tmp_path / "benchmarks.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(line["suite"], line["name"], line["verdict"]) for line in lines] == [
        ("core", "toy, speed", "met"), ("core", "memory", "met"), ("robust", "descent", "missed"),
        ("growth", "exponent in rows", ""),
    ]  # fmt: skip
    assert lines[0] | {"median": "100", "rounds": "3", "goal": "at least 60 x"} == lines[0]
    with (tmp_path / "growth.csv").open() as file:
        assert [float(line["value"]) for line in csv.DictReader(file)] == [1, 10, 100, 2, 20, 200]
    table = (tmp_path / "table.md").read_text()
    assert "| toy, speed | PyTorch | 100 × | 90 to 130 | at least 60 × | met |" in table
    assert "| rows | 1 | 1.05 | 1.02 to 1.08 | each is read |" in table
    assert "not installed: robust epoch (PyTorch)." in table
    assert "Failed: transport (exit status -9); robust rows (ValueError: no)." in table
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["suites"]["robust"]["contests"]["epoch"] == {"missing": ["PyTorch"]}
    assert manifest["suites"]["core"]["seconds"] == 1.5
    for name in ("benchmarks.png", "growth.png"):
        assert np.ptp(matplotlib.image.imread(tmp_path / name)) > 0.5


def test_what_is_shown_is_what_was_measured(tmp_path):
    """The table and the pictures of the pages are those of the numbers that stand beside them."""
    published, pictures = (
        BENCHMARKS.parent / "results/benchmarks",
        BENCHMARKS.parent / "docs/images",
    )
    report.write(tmp_path, report.gather(published / "raw"), {})
    for name in ("benchmarks.csv", "growth.csv", "table.md"):
        assert (tmp_path / name).read_text() == (published / name).read_text(), name
    for name in ("benchmarks.png", "growth.png"):
        assert (pictures / name).read_bytes() == (published / name).read_bytes(), name


def test_numbers_of_quick_are_no_verdict(tmp_path):
    quick = SOME["robust"] | {"about": suite.about(quick=True)}
    report.write(tmp_path, {"robust": quick}, {})
    table = (tmp_path / "table.md").read_text()
    assert "missed" not in table
    assert table.startswith("Small sizes, which say nothing about speed")


def test_a_report_of_nothing(tmp_path):
    assert [file.name for file in report.write(tmp_path, {}, {})] == [
        "benchmarks.csv", "table.md", "manifest.json",
    ]  # fmt: skip


def test_names_of_sizes():
    assert [growth_chart._short(size) for size in (8, 1_000, 2_500, 3_000_000)] == [
        "8", "1k", "2.5k", "3M",
    ]  # fmt: skip


# The command.


@pytest.fixture
def command(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS.parent))
    import benchmarks.__main__ as command

    return command


def test_the_command_runs_all_suites_and_says_what_failed(command, tmp_path, monkeypatch, capsys):
    asked = []

    def run(script, file, *, quick):
        assert script.exists()
        asked.append((script.stem, file.exists(), quick))
        if script.stem == "transport":
            return "exit status -9"
        if script.stem in SOME and not file.exists():
            file.write_text(json.dumps(SOME[script.stem]))
        return ""

    monkeypatch.setattr(command, "run", run)
    assert command.main(["--out", str(tmp_path), "--quick"]) == 1
    assert asked == [(name, False, True) for name in report.SUITES]
    assert "Failed: transport (exit status -9); robust rows" in capsys.readouterr().out
    asked.clear()
    command.main(["--out", str(tmp_path), "--only", "core"])
    assert asked == [("core", False, False)]  # anew
    table = (tmp_path / "table.md").read_text()
    assert "| descent |" in table  # of what is kept
    with pytest.raises(SystemExit):
        command.main(["--publish", "--quick"])


@pytest.mark.parametrize(
    ("code", "why"), [("3", ""), ("0", ""), ("1", "exit status 1"), ("-9", "exit status -9")]
)
def test_a_suite_that_dies_is_named(command, tmp_path, code, why):
    script = tmp_path / "script.py"
    end = "os.kill(os.getpid(), 9)" if code == "-9" else f"raise SystemExit({code})"
    script.write_text(f"import os\n{end}\n")
    assert command.run(script, tmp_path / "x.json", quick=True) == why


@pytest.mark.slow
def test_without_rivals_the_rest_is_run(tmp_path):
    """With PyTorch, POT and OTT out of sight, as they are without the extra."""
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "def find_spec(name, path=None, target=None):\n"
        "    hidden = name.partition('.')[0] in {'torch', 'ot', 'ott'}\n"
        "    return None if hidden else find(name, path, target)\n"
        "PathFinder.find_spec = find_spec\n"
    )
    paths = filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])
    command = [sys.executable, "-m", "benchmarks", "--quick", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [*command, "--only", "core", "robust", "transport"], cwd=BENCHMARKS.parent, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    missing = {
        f"{name} {contest}": outcome["missing"]
        for name, each in manifest["suites"].items()
        for contest, outcome in each["contests"].items()
        if "missing" in outcome
    }
    assert missing == {
        "core torch": ["PyTorch"], "robust steps": ["PyTorch"], "robust epoch": ["PyTorch"],
        "robust profile": ["PyTorch"], "transport steps": ["PyTorch"],
        "transport whole": ["OTT"], "transport semidiscrete": ["OTT", "POT"],
    }  # fmt: skip
    assert sum(len(each["contests"]) for each in manifest["suites"].values()) == 15
