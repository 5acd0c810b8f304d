"""`rsgda reproduce`: the targets by name, and files that are whole whatever happens."""

import sys
from pathlib import Path

import pytest

from rsgda.reproduce import registry, runner


def quiet(done, what):
    pass


def test_targets_are_known_by_name():
    assert registry.chosen([]) == registry.chosen(["all"]) == list(registry.TARGETS)
    with pytest.raises(ValueError, match=r"one of .*toy.* or all, got 'tou'"):
        registry.chosen(["toy", "tou"])
    with pytest.raises(ValueError, match="one of quick, standard, paper, got 'big'"):
        registry.check_scale("big")


@pytest.mark.parametrize("name", registry.TARGETS)
def test_each_target_has_all_scales(name):
    run = registry.TARGETS[name].load()
    assert set(sys.modules[run.__module__].SCALES) == set(registry.SCALES)


def outcome(scale, tell, work=None):
    return runner.Outcome({"a.csv": b"new", "b.csv": b"new"}, {})


def test_a_folder_that_cannot_be_is_noticed_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(registry.Target, "load", lambda _: pytest.fail("it ran"))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        runner.reproduce("toy", scale="quick", out=tmp_path / "file", tell=quiet)


def test_a_write_that_fails_leaves_whole_files(tmp_path, monkeypatch):
    folder = tmp_path / "toy"
    monkeypatch.setattr(registry.Target, "load", lambda _: outcome)
    monkeypatch.setattr(registry.Target, "judge", lambda *_: ())
    runner.reproduce("toy", scale="quick", out=tmp_path, tell=quiet)
    for path in folder.iterdir():
        path.write_bytes(b"old")
    write = Path.write_bytes

    def full(path, content):
        write(path, content[: len(content) // 2 if "b.csv" in path.name else None])
        if "b.csv" in path.name:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        runner.reproduce("toy", scale="quick", out=tmp_path, tell=quiet)
    # The manifest was about files that are no longer all there.
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "a.csv": b"new",
        "b.csv": b"old",
    }
