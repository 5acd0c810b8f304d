"""`rsgda reproduce --check`: every verdict again from the tables, and whatever does not fit."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rsgda.cli import app
from rsgda.reproduce import check, registry, runner
from rsgda.reproduce.outcome import Effect, Finding
from rsgda.reproduce.stored import Lacking, table, tables

RESULTS = Path(__file__).resolve().parents[1] / "results"


def run(*arguments):
    environment = {"COLUMNS": "200"}
    return CliRunner(env=environment).invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture
def stored(tmp_path):
    """A copy of two targets of the committed results, which are small."""
    for name in ("fig1", "paired"):
        (tmp_path / name).mkdir()
        for path in (RESULTS / name).iterdir():
            if path.suffix in (".csv", ".json"):
                shutil.copy(path, tmp_path / name)
    return tmp_path


def change(path, function):
    manifest = json.loads(path.read_text())
    function(manifest)
    path.write_text(json.dumps(manifest))


def wrong(folder):
    return [line for line in check.check(folder) if not line.good]


def test_the_committed_results_are_what_their_tables_say():
    lines = check.check(RESULTS)
    assert [line for line in lines if not line.good] == []
    assert {line.target for line in lines} == set(registry.TARGETS)
    assert sum(bool(line.verdict) for line in lines) > 60


def test_what_is_the_same_ends_well(stored):
    shown = run("--check", stored)
    assert shown.exit_code == 0, shown.output
    assert "17 verdicts and 3 tables: all as in the manifests" in shown.stdout


def test_a_verdict_that_was_changed_is_found(stored):
    def flip(manifest):
        manifest["findings"][0]["verdict"] = "holds"

    change(stored / "fig1" / "manifest.json", flip)
    (line,) = wrong(stored)
    assert line.target == "fig1"
    assert line.what.startswith("ESGDA(1) and RSGDA(1/2)")
    assert line.result == "the numbers say: not decided"
    shown = run("--check", stored)
    assert shown.exit_code == 1
    assert "fig1, ESGDA(1) and RSGDA(1/2) perform similarly, logits: the numbers say" in (
        shown.stdout
    )


def test_a_number_that_was_changed_is_found(stored):
    path = stored / "paired" / "paired.csv"
    path.write_text(path.read_text().replace(",0.51167", ",0.01167"))
    results = {line.what: line.result for line in wrong(stored)}
    assert "another checksum" in results.pop("paired.csv")
    (changed,) = results.values()
    assert changed == "the numbers say: holds" or "other numbers are derived" in changed
    # A new checksum hides the one, and not the other.
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    change(
        stored / "paired" / "manifest.json",
        lambda manifest: manifest["sha256"].update({"paired.csv": digest}),
    )
    assert {line.what for line in wrong(stored)} == set(results)
    assert run("--check", stored).exit_code == 1


def test_headline_numbers_and_effects_are_compared(stored):
    def other(manifest):
        first, second = manifest["findings"][:2]
        first["numbers"] = first["numbers"].replace("1.0%", "0.1%")
        second["effect"]["low"] -= 0.1

    change(stored / "fig1" / "manifest.json", other)
    results = [line.result for line in wrong(stored)]
    assert [result.split(":")[0] for result in results] == [
        "other numbers are derived", "another effect is derived",
    ]  # fmt: skip


def test_a_manifest_from_before_there_were_effects_is_good(stored):
    def older(manifest):
        for finding in manifest["findings"]:
            del finding["effect"]

    change(stored / "fig1" / "manifest.json", older)
    assert wrong(stored) == []


def test_findings_that_were_left_out_or_made_up_are_found(stored):
    def other(manifest):
        manifest["findings"][0]["about"] = "all is well"

    change(stored / "fig1" / "manifest.json", other)
    assert sorted(line.result for line in wrong(stored)) == [
        "not in the manifest; derived: not decided", "the numbers have no such finding",
    ]  # fmt: skip


def test_files_that_are_missing_are_named(stored):
    (stored / "fig1" / "fig1.csv").unlink()
    (stored / "paired" / "manifest.json").unlink()
    assert [(line.target, line.what, line.result) for line in wrong(stored)] == [
        ("fig1", "fig1.csv", "missing"),
        (
            "fig1",
            "all findings",
            "cannot be re-derived: there is no fig1.csv, or nothing is in it",
        ),
        ("paired", "manifest.json", "missing"),
    ]
    assert run("--check", stored).exit_code == 1


@pytest.mark.parametrize("text", ["", "[]", "{", '{"target": "fig1"}', '{"findings": [1]}'])
def test_a_manifest_that_cannot_be_read_is_no_crash(stored, text):
    (stored / "fig1" / "manifest.json").write_text(text)
    (line,) = wrong(stored)
    assert (line.target, line.what) == ("fig1", "manifest.json")
    assert line.result.startswith("cannot be read")


def test_a_table_that_is_cut_off_is_no_crash(stored):
    path = stored / "fig1" / "fig1.csv"
    path.write_bytes(path.read_bytes()[:1000])
    assert any(line.what == "fig1.csv" for line in wrong(stored))


def test_a_folder_without_targets_is_an_error(tmp_path):
    shown = run("--check", tmp_path)
    assert shown.exit_code == 1
    assert "holds no target" in shown.stderr
    assert run("toy", "--check", tmp_path).exit_code == 2


def test_rules_that_changed_are_written_down_again(stored, monkeypatch):
    finding = Finding("new", "1", "holds", Effect("x", 1.0, 0.5, 1.5, 3))
    monkeypatch.setattr(registry.Target, "judge", lambda *_: (finding,))
    assert wrong(stored)
    assert run("--judge", stored).exit_code == 0
    assert wrong(stored) == []
    manifest = json.loads((stored / "fig1" / "manifest.json").read_text())
    assert [each["about"] for each in manifest["findings"]] == ["new"]
    assert manifest["settings"]["data"] == "mnist"
    assert (stored / "report.html").exists()
    # Tables that were changed are not judged.
    (stored / "fig1" / "fig1.csv").write_text("objective_name\n")
    shown = run("--judge", stored)
    assert shown.exit_code == 2
    assert "fig1.csv: another checksum" in " ".join(shown.stderr.split())


def test_what_a_run_writes_passes(tmp_path, monkeypatch):
    def work(scale, tell, work=None):
        return runner.Outcome({"a.csv": b"x\n2\n"}, {"pair": (1, 2)})

    def judge(self, files, settings):
        assert settings == {"pair": [1, 2]}  # as it will be read again
        (row,) = tables(files)["a.csv"]
        return (Finding("x", row["x"], "holds"),)

    monkeypatch.setattr(registry.Target, "load", lambda _: work)
    monkeypatch.setattr(registry.Target, "judge", judge)
    runner.reproduce("toy", scale="quick", out=tmp_path, tell=lambda *_: None)
    assert [line.result for line in check.check(tmp_path)] == [check.SAME] * 2


def test_tables_that_lack_something_say_what():
    found = tables({"a.csv": b"x\n1\n", "b.csv": b"x\n"})
    assert table(found, "a.csv", ["x"])[0] == {"x": "1"}
    for name, columns, words in (
        ("a.csv", ["y"], "a.csv lacks y"),
        ("b.csv", [], "there is no b.csv, or nothing"),
        ("c.csv", [], "there is no c.csv"),
    ):
        with pytest.raises(Lacking, match=words):
            table(found, name, columns)
