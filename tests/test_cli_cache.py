"""Compiled programs are kept between commands, where the user says or in the user's cache."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rsgda import cli_cache

PROGRAM = """
from rsgda.cli_cache import keep_programs
keep_programs()
import jax
print(jax.jit(lambda x: x * 3.0)(2.0))
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(cli_cache.FOLDER, raising=False)
    monkeypatch.setenv(cli_cache.SHORTEST, "0")
    yield tmp_path
    os.environ.pop(cli_cache.FOLDER, None)


@pytest.mark.skipif(sys.platform != "linux", reason="caches of users are elsewhere")
def test_a_second_process_finds_the_programs_of_the_first(home):
    told, found = [], []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
        )
        told.append(done.stdout)
        found.append({path: path.stat().st_mtime for path in home.rglob("*-cache")})
    assert told == ["6.0\n"] * 2
    assert len(found[0]) > 0
    assert found[1] == found[0]  # nothing was compiled and written again


def test_what_the_user_says_stands(home, monkeypatch):
    for own in ("", "elsewhere"):
        monkeypatch.setenv(cli_cache.FOLDER, own)
        cli_cache.keep_programs()
        assert os.environ[cli_cache.FOLDER] == own
    assert not list(home.iterdir())


def test_a_home_that_cannot_be_written_to(home, monkeypatch):
    (home / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "file"))
    cli_cache.keep_programs()
    assert cli_cache.FOLDER not in os.environ


def test_old_programs_go(home):
    cli_cache.keep_programs()
    folder = Path(os.environ.pop(cli_cache.FOLDER))
    (folder / "a-folder").mkdir()
    for name, age in (("old", 31), ("new", 29), ("a-folder", 31)):
        if name != "a-folder":
            (folder / name).write_text("a program")
        then = time.time() - age * 24 * 3600
        os.utime(folder / name, (then, then))
    cli_cache.keep_programs()
    assert sorted(path.name for path in folder.iterdir()) == ["a-folder", "new"]
    assert os.environ[cli_cache.FOLDER] == str(folder)


def test_what_another_command_removes_meanwhile(home, monkeypatch):
    cli_cache.keep_programs()
    folder = Path(os.environ.pop(cli_cache.FOLDER))
    gone = [folder / "gone", folder / "gone-too"]
    monkeypatch.setattr(Path, "iterdir", lambda self: iter(gone))
    cli_cache.keep_programs()
    assert os.environ[cli_cache.FOLDER] == str(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="caches of users are elsewhere")
def test_a_program_that_a_full_disk_left_empty_is_written_again(home):
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
        )
        said.append(done.stderr)
        found = list(home.rglob("*-cache"))
        assert found
        assert all(path.stat().st_size for path in found)
        for path in found:
            path.write_bytes(b"")
    assert "cache" not in said[1]  # JAX warns of what it cannot read
