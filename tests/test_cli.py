"""The command line: it answers at once, shows what was done, and ends badly in one line."""

import importlib.metadata
import logging
import os
import signal
import subprocess
import sys
import types

import pytest
from typer.testing import CliRunner

from rsgda.cli import app
from rsgda.reproduce.outcome import Finding, Outcome
from rsgda.reproduce.registry import SCALES, TARGETS, Target

HEAVY = ["jax", "numpy", "scipy", "matplotlib", "optax", "equinox", "orbax", "sklearn", "pooch"]


def run(*arguments):
    # Wide enough for no line of a table to be broken.
    return CliRunner(env={"COLUMNS": "240"}).invoke(app, [str(argument) for argument in arguments])


def python(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **options
    )


@pytest.fixture
def fake(monkeypatch):
    """A function that puts others in the place of all targets."""
    real = dict(TARGETS)
    TARGETS.clear()

    def install(function, name="fake"):
        module = types.ModuleType(f"rsgda.reproduce.{name}")
        module.run, module.judge = function, judge
        monkeypatch.setitem(sys.modules, module.__name__, module)
        TARGETS[name] = Target("nothing", name)

    yield install
    TARGETS.clear()
    TARGETS.update(real)  # in their order


def result(scale, tell, work):
    tell(0.5, "half way")
    return Outcome({"a.csv": b"x\n1\n", "a.txt": b"words"}, {"seed": 0, "scale": scale})


def judge(tables, settings):
    value = tables["a.csv"][0]["x"]
    finding = Finding("[b]this[/b] against that", f"{value}.5 % at {settings['scale']}", "holds")
    return [finding]


@pytest.mark.parametrize("arguments", [["--help"], ["reproduce", "--help"], ["--version"]])
def test_nothing_heavy_is_imported_for_help(arguments):
    done = python(
        "import sys\nfrom rsgda.cli import main\n"
        f"sys.argv = ['rsgda', *{arguments}]\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n"
        f"    loaded = [name for name in {HEAVY} if name in sys.modules]\n"
        "    sys.exit(f'loaded {loaded}' if loaded else end.code)\n"
    )
    assert done.returncode == 0, done.stderr
    assert "rsgda" in done.stdout


def test_help_names_targets_and_scales():
    shown = run("reproduce", "--help").output
    for name in [*TARGETS, *SCALES]:
        assert name in shown


def test_without_arguments_help_is_shown():
    assert "reproduce" in run().output


def test_version():
    shown = run("--version")
    assert shown.exit_code == 0
    assert shown.output == f"rsgda {importlib.metadata.version('rsgda')}\n"


def test_the_command_is_installed():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="rsgda")
    assert script.value == "rsgda.cli:main"


@pytest.mark.parametrize("arguments", [[], ["all"]])
def test_all_targets_run_when_none_is_named(arguments, fake, tmp_path):
    fake(result, "first")
    fake(result, "second")
    shown = run("reproduce", *arguments, "--scale", "standard", "--out", tmp_path)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("1.5 % at standard") == 2
    for name in ("first", "second"):
        assert f"{tmp_path / name}: a.csv, a.txt, manifest.json (" in shown.stdout
        assert (tmp_path / name / "a.txt").read_bytes() == b"words"


@pytest.mark.parametrize("names", [["second"], ["third", "second"]])
def test_targets_run_that_are_named(names, fake, tmp_path):
    for name in ("first", "second", "third"):
        fake(result, name)
    shown = run("reproduce", *names, "--out", tmp_path)
    assert shown.exit_code == 0, shown.output
    assert {path.name for path in tmp_path.iterdir()} == {*names, "report.html"}


def test_a_file_has_lines_now_and_then_in_place_of_a_bar(fake, tmp_path, monkeypatch):
    def telling(scale, tell, work):
        for done in (0.0, 0.25, 0.5):
            tell(done, "a cell [1]")
        return result(scale, tell, work)

    fake(telling)
    assert run("reproduce", "--out", tmp_path).stderr.count("fake, 0%: a cell [1]\n") == 1
    assert "25%" not in run("reproduce", "--out", tmp_path).stderr
    monkeypatch.setattr("rsgda.cli_progress.SECONDS", -1.0)
    assert "fake, 25%: a cell [1]\n" in run("reproduce", "--out", tmp_path).stderr


def test_words_are_shown_as_they_are(fake, tmp_path):
    fake(result)
    assert "[b]this[/b] against that" in run("reproduce", "--out", tmp_path).stdout


def test_out_has_a_default(fake, tmp_path, monkeypatch):
    fake(result)
    monkeypatch.chdir(tmp_path)
    assert run("reproduce").exit_code == 0
    assert (tmp_path / "rsgda-reproduce" / "fake" / "manifest.json").exists()


def test_warnings_of_the_library_are_shown(fake, tmp_path):
    def warns(scale, tell, work):
        logging.getLogger("rsgda.drive.sweep").warning("3 of 20 runs diverged")
        return result(scale, tell, work)

    before = list(logging.getLogger("rsgda").handlers)
    fake(warns)
    shown = run("reproduce", "--out", tmp_path)
    assert "3 of 20 runs diverged" in shown.stderr
    assert logging.getLogger("rsgda").handlers == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fig9"], ["TARGET", *TARGETS, "all", "'fig9'"]),
        (["toy", "--scale", "huge"], ["--scale", *SCALES, "'huge'"]),
        (["--scale", ""], ["--scale", *SCALES, "''"]),
    ],
)
def test_wrong_names_are_answered_with_the_known_ones(arguments, words, tmp_path):
    shown = run("reproduce", *arguments, "--out", tmp_path / "out")
    assert shown.exit_code == 2
    assert shown.stdout == ""
    (line,) = shown.stderr.splitlines()
    for word in words:
        assert word in line
    assert not (tmp_path / "out").exists()


def test_an_unknown_option_is_bad_usage():
    assert run("reproduce", "--scalle", "quick").exit_code == 2


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("`p` must be\n  in (0, 1), got [2]."), 2, "`p` must be in (0, 1), got [2]."),
        (OSError(28, "No space left on device"), 1, "[Errno 28] No space left on device"),
        (KeyboardInterrupt(), 130, "interrupted."),
        (KeyboardInterrupt("interrupted at step 7."), 130, "interrupted at step 7."),
    ],
)
def test_errors_are_one_line(error, code, line, fake, tmp_path):
    def fails(scale, tell, work):
        raise error

    fake(fails)
    shown = run("reproduce", "--out", tmp_path)
    assert shown.exit_code == code
    assert shown.stdout == ""
    assert shown.stderr.strip() == f"rsgda: {line}"


def test_the_line_is_red_and_whole_on_a_terminal(fake, tmp_path, monkeypatch):
    def fails(scale, tell, work):
        raise ValueError("word " * 60)

    fake(fails)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path)])
    assert f"\x1b[31mrsgda: {' '.join(['word'] * 60)}\x1b[0m\n" in shown.stderr


def test_a_folder_that_cannot_be_is_one_line(fake, tmp_path):
    fake(result)
    (tmp_path / "file").write_text("in the way")
    shown = run("reproduce", "--out", tmp_path / "file")
    assert shown.exit_code == 1
    (line,) = shown.stderr.splitlines()
    assert str(tmp_path / "file") in line


def test_the_traceback_is_there_for_the_asking(fake, tmp_path):
    def fails(scale, tell, work):
        raise ValueError("wrong")

    fake(fails)
    shown = run("--traceback", "reproduce", "--out", tmp_path)
    assert isinstance(shown.exception, ValueError)


def test_a_mistake_of_ours_is_not_hidden(fake, tmp_path):
    def fails(scale, tell, work):
        raise RuntimeError("ours")

    fake(fails)
    assert isinstance(run("reproduce", "--out", tmp_path).exception, RuntimeError)


@pytest.mark.skipif(os.name == "nt", reason="has no SIGINT to send")
def test_ctrl_c_ends_with_130(tmp_path):
    code = (
        "import sys, time, types\n"
        "from rsgda.cli import main\n"
        "from rsgda.reproduce.registry import TARGETS, Target\n"
        "module = types.ModuleType('rsgda.reproduce.slow')\n"
        "module.run = lambda scale, tell, work: (print('ready', flush=True), time.sleep(60))\n"
        "sys.modules[module.__name__] = module\n"
        "TARGETS['slow'] = Target('sleeps', 'slow')\n"
        f"sys.argv = ['rsgda', 'reproduce', 'slow', '--out', {str(tmp_path)!r}]\n"
        "main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
