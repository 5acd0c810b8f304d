"""A folder that is another's, in use, damaged or full: refused with a reason, nothing is lost."""

import dataclasses
import json
import logging
import os
import pickle
import shutil
import threading

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import psutil
import pytest
from killed_run import EVERY, assert_same, call, rich

import rsgda
from rsgda import CheckpointError, CheckpointMismatch
from rsgda.drive import identity as identity_module
from rsgda.drive.checkpoint import HISTORY, Checkpoint
from rsgda.drive.identity import identity
from rsgda.drive.solve import own
from rsgda.projections import ball


def loss(theta, v, batch):
    """Defined for any shapes and dtypes, so that each of them can be changed by itself."""
    size, push, z = mean(theta), mean(v), mean(batch)
    return size**2 + size * push - push**2 + z


def mean(tree):
    leaves = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]
    return sum(jnp.mean(leaf.astype(jnp.float64)) for leaf in leaves)


def other_loss(theta, v, batch):
    return loss(theta, v, batch)


def scaled(number):
    def scaled_loss(theta, v, batch):
        return number * loss(theta, v, batch)

    return scaled_loss


def defaulted(number):
    def loss_with_default(theta, v, batch, number=number):
        return number * loss(theta, v, batch)

    return loss_with_default


def schedule(value):
    return lambda k: value / (1.0 + k.astype(jnp.float64))


def same(theta):
    return theta


def same_again(theta):
    return theta


def draw(key):
    return jr.normal(key, (4, 2))


def draw_more(key):
    return jr.normal(key, (5, 2))


DATA = jnp.arange(12.0).reshape(6, 2)
ADAM = optax.adam(0.1, b1=0.8)
V = jnp.zeros((6, 2))
THETA = {"w": jnp.ones(3), "kind": "a"}


def base(alpha=ADAM, eta=0.2, p=0.5, theta=THETA, v=V, key=0, **changes):
    algorithm = rsgda.RSGDA(p=p, alpha=alpha, eta=eta)
    parts = {"loss": loss, "data": DATA, "batch_size": 4} | changes
    problem = rsgda.Problem(parts.pop("loss"), **parts)
    return problem, algorithm, theta, v, jr.key(key) if isinstance(key, int) else key


def go(folder, problem, algorithm, theta, v, key, steps=2, **options):
    return rsgda.solve(
        problem, algorithm, theta, v, key=key, steps=steps, checkpoint=folder, **options
    )


def listing(folder):
    """Everything in a folder, itself included: names, times, bytes."""
    paths = [folder, *folder.rglob("*")] if folder.is_dir() else [folder]
    return {
        str(path): (path.stat().st_mtime_ns, path.is_dir() or path.read_bytes()) for path in paths
    }


OTHERS = {
    # what is different: the run that made the folder, the run that finds it
    "loss": ({}, {"loss": other_loss}),
    "loss, a number inside": ({"loss": scaled(1.0)}, {"loss": scaled(2.0)}),
    "loss, a default": ({"loss": defaulted(1.0)}, {"loss": defaulted(2.0)}),
    "loss, a number inside of what is compiled": (
        {"loss": jax.jit(scaled(1.0)), "theta": jnp.ones(3)},
        {"loss": jax.jit(scaled(2.0)), "theta": jnp.ones(3)},
    ),
    "data, one value": ({}, {"data": DATA.at[3, 1].add(1e-9)}),
    "data, dtype": ({}, {"data": DATA.astype(jnp.float32)}),
    "data, structure": ({}, {"data": (DATA,)}),
    "batch_size": ({}, {"batch_size": 3}),
    "separable": ({}, {"separable": True}),
    "project_v": ({"project_v": ball(1.0)}, {"project_v": ball(2.0)}),
    "project_v, none before": ({}, {"project_v": ball(1.0)}),
    "project_theta": ({"project_theta": same}, {"project_theta": None}),
    "prepare": ({"prepare": same}, {"prepare": same_again}),
    "sample": (
        {"data": None, "batch_size": None, "sample": draw},
        {"data": None, "batch_size": None, "sample": draw_more},
    ),
    "algorithm, p": ({}, {"p": 0.25}),
    "algorithm, a number": ({}, {"eta": 0.21}),
    "algorithm, number to schedule": ({}, {"eta": schedule(0.2)}),
    "algorithm, of a schedule": ({"eta": schedule(0.2)}, {"eta": schedule(0.3)}),
    "algorithm, of optax": ({}, {"alpha": optax.adam(0.2, b1=0.8)}),
    "algorithm, another of optax": ({}, {"alpha": optax.adam(0.1, b1=0.9)}),
    "algorithm, of a schedule in optax": (
        {"alpha": optax.sgd(optax.exponential_decay(0.1, 10, 0.5))},
        {"alpha": optax.sgd(optax.exponential_decay(0.1, 20, 0.5))},
    ),
    "algorithm, injected into optax": (
        {"alpha": optax.inject_hyperparams(optax.sgd)(learning_rate=0.1)},
        {"alpha": optax.inject_hyperparams(optax.sgd)(learning_rate=0.2)},
    ),
    "key": ({}, {"key": 1}),
    "key, kind": ({}, {"key": jr.key(0, impl="rbg")}),
    "theta, shape": ({}, {"theta": THETA | {"w": jnp.ones(4)}}),
    "theta, dtype": ({}, {"theta": THETA | {"w": jnp.ones(3, jnp.float32)}}),
    "theta, not an array": ({}, {"theta": THETA | {"kind": "b"}}),
    "v, shape": ({}, {"v": jnp.zeros((6, 3))}),
    "v, dtype": ({}, {"v": jnp.zeros((6, 2), jnp.float32)}),
    "v, structure": ({}, {"v": [jnp.zeros((6, 2))]}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_folder_of_another_run_is_refused_by_name(what, tmp_path):
    made, found = OTHERS[what]
    go(tmp_path / "run", *base(**made), steps=0)
    before = listing(tmp_path)
    name = what.partition(",")[0]
    with pytest.raises(CheckpointMismatch, match=rf"{tmp_path}/run .* its {name} is ") as caught:
        go(tmp_path / "run", *base(**found))
    assert listing(tmp_path) == before
    assert len(str(caught.value)) < 700 + len(str(tmp_path))
    go(tmp_path / "run", *base(**made), steps=0)  # the run itself is let in


def test_another_class_of_algorithm_is_refused(tmp_path):
    problem, algorithm, *rest = base(alpha=0.1)
    go(tmp_path, problem, algorithm, *rest, steps=0)
    before = listing(tmp_path)
    with pytest.raises(CheckpointMismatch, match=r"its algorithm is .*RSGDA.* needs .*SGDA"):
        go(tmp_path, problem, rsgda.SGDA(alpha=0.1, eta=0.2), *rest)
    assert listing(tmp_path) == before


def test_another_format_is_refused(tmp_path, monkeypatch):
    go(tmp_path, *base(), steps=0)
    before = listing(tmp_path)
    monkeypatch.setattr(identity_module, "FORMAT", identity_module.FORMAT + 1)
    with pytest.raises(CheckpointMismatch, match="its format is 2, this run needs 3"):
        go(tmp_path, *base())
    assert listing(tmp_path) == before


def foreign(folder):
    folder.mkdir()
    (folder / "thesis.tex").write_text("all of it")


def with_number(folder):
    (folder / "12").mkdir(parents=True)


def a_file(folder):
    folder.write_text("not a folder")


def cut_note(folder):
    go(folder, *base(), steps=0)
    note = folder / "rsgda.json"
    note.write_text(note.read_text()[:50])


def empty_note(folder):
    go(folder, *base(), steps=0)
    (folder / "rsgda.json").write_text("")


def binary_note(folder):
    go(folder, *base(), steps=0)
    (folder / "rsgda.json").write_bytes(bytes(range(256)))


def list_note(folder):
    go(folder, *base(), steps=0)
    (folder / "rsgda.json").write_text("[1, 2]")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (foreign, "holds .*thesis.tex.* choose another"),
        (with_number, "holds .*12.* choose another"),
        (a_file, "must be a folder, .* is a file"),
        (cut_note, "rsgda.json is damaged .* choose another"),
        (empty_note, "rsgda.json is damaged"),
        (binary_note, "rsgda.json is damaged"),
        (list_note, "rsgda.json is damaged"),
    ],
)
def test_what_is_no_folder_of_a_run_is_refused(make, words, tmp_path):
    make(tmp_path / "run")
    before = listing(tmp_path)
    with pytest.raises(CheckpointMismatch, match=words) as caught:
        go(tmp_path / "run", *base())
    assert str(tmp_path / "run") in str(caught.value)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("folder", ["", 3, "gs://bucket/run", b"run"])
def test_what_is_no_path_is_refused(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="`checkpoint` must be"):
        go(folder, *base())
    assert not os.listdir()


def test_another_start_continues_and_says_so(tmp_path, caplog):
    go(tmp_path, *base(), steps=2)
    with caplog.at_level(logging.WARNING):
        go(tmp_path, *base(), steps=4)
        assert not caplog.records
        resumed = go(tmp_path, *base(theta=THETA | {"w": jnp.zeros(3)}), steps=6)
    assert "start elsewhere" in caplog.text
    straight = go(None, *base(), steps=6)
    assert_same(resumed, straight)


def test_folder_in_use_is_refused(tmp_path):
    errors = []

    def intrude(problem, state):
        if state.step:
            with pytest.raises(CheckpointError, match=f"{tmp_path} is in use") as caught:
                go(tmp_path, *base())
            errors.append(caught.value)
        return {}

    go(tmp_path, *base(), record=intrude)
    assert errors
    go(tmp_path, *base(), steps=3)


def test_kind_of_numbers_makes_no_other_run(tmp_path):
    """A description is the same in every process, and for NumPy's numbers."""
    problem, algorithm, theta, v, key = base()
    problem = dataclasses.replace(problem, batch_size=np.int64(4))
    go(tmp_path, *base(), steps=1)
    go(tmp_path, problem, algorithm, theta, v, key)
    state = algorithm.init(problem, theta, v, key)
    told = identity(problem, algorithm, state)
    assert json.loads(json.dumps(told)) == told
    assert "0x" not in json.dumps(told)


def saved(folder):
    return sorted(int(name) for name in os.listdir(folder) if name.isdigit())


def two_saves(folder):
    for steps in (20, 40):
        call("rich", folder, steps=steps)
    assert saved(folder) == [20, 40]


def largest(folder):
    return max((path for path in folder.rglob("*") if path.is_file()), key=os.path.getsize)


def truncate(save):
    path = largest(save / "state")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(save):
    path = largest(save / "state")
    content = bytearray(path.read_bytes())
    assert len(content) > 10_000  # so it holds numbers, of which Orbax keeps no checksum
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def flip_history(save):
    path = save.parent / HISTORY
    before, flag, after = path.read_text().rpartition('"odd": true')  # the newest, of this save
    assert flag
    path.write_text(f'{before}"odd": false{after}')


def remove_history(save):
    shutil.rmtree(save / "history")


def remove_all(save):
    for path in save.rglob("*"):
        if path.is_file():
            path.unlink()


def test_the_history_is_written_once(tmp_path):
    """A save adds what is new: what it costs does not grow with the records before."""
    call("rich", tmp_path, steps=20)
    before, place = (tmp_path / HISTORY).read_bytes(), os.stat(tmp_path / HISTORY).st_ino
    assert before.count(b"\n") == 20 // EVERY
    call("rich", tmp_path, steps=40)
    after = (tmp_path / HISTORY).read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == 40 // EVERY
    assert os.stat(tmp_path / HISTORY).st_ino == place


def test_what_a_save_that_was_cut_off_has_written_is_cut_off(tmp_path):
    call("rich", tmp_path, steps=20)
    with open(tmp_path / HISTORY, "a") as file:
        file.write('{"step": 25, "odd": tr')
    assert_same(call("rich", tmp_path, steps=40), call("rich", steps=40))
    assert_same(call("rich", tmp_path, steps=60), call("rich", steps=60))


# Orbax drops coroutines that have failed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("damage", [truncate, flip, flip_history, remove_history, remove_all])
def test_damaged_save_is_noticed_and_the_one_before_is_taken(damage, tmp_path, caplog, capfd):
    two_saves(tmp_path)
    damage(tmp_path / "40")
    with caplog.at_level(logging.INFO):
        resumed = call("rich", tmp_path, steps=60)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 1
    assert f"the save of step 40 in {tmp_path} is damaged and was removed" in told[0]
    assert "continuing from step 20" in caplog.text
    assert_same(resumed, call("rich", steps=60))
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_folder_with_damaged_saves_only_is_an_error_and_left_alone(tmp_path):
    two_saves(tmp_path)
    flip(tmp_path / "40")
    truncate(tmp_path / "20")
    before = listing(tmp_path)
    with pytest.raises(CheckpointError, match=rf"{tmp_path} .* step 40 .*checksum.* remove it"):
        call("rich", tmp_path, steps=60)
    after = listing(tmp_path)
    assert {name: content for name, (_, content) in after.items()} == {
        name: content for name, (_, content) in before.items()
    }


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    two_saves(tmp_path)

    def refuse(*arguments, **options):
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler", "_Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(np, "load", refuse)
    assert_same(call("rich", tmp_path, steps=60), call("rich", steps=60))


class Peak:
    """The most memory in use within this context, beyond what was in use before."""

    def __enter__(self):
        self._process, self._done = psutil.Process(), threading.Event()
        self._first = self.most = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while not self._done.wait(0.001):
            self.most = max(self.most, self._process.memory_info().rss)

    def __exit__(self, *error):
        self._done.set()
        self._thread.join()
        self.growth = self.most - self._first


@pytest.mark.slow
def test_saving_takes_one_more_copy_of_a_large_v_and_restoring_none(tmp_path):
    problem, algorithm, theta, _ = rich()
    algorithm = dataclasses.replace(algorithm, eta=0.1)
    state = own(algorithm.init(problem, theta, jnp.zeros(1), jr.key(0)))
    v = jax.device_put(np.random.default_rng(0).normal(size=(20_000, 1_000)))
    for number, at in enumerate([jnp.zeros(1), v]):  # the small one pays for imports
        store = Checkpoint(tmp_path / str(number), {}, state._replace(v=at))
        with Peak() as peak:
            store.save(0, state._replace(v=at), lambda first: [])
        assert number == 0 or peak.growth < 1.3 * v.nbytes
        store.close()
    store = Checkpoint(tmp_path / "1", {}, state._replace(v=v))
    with Peak() as peak:
        restored, _ = store.restore(state._replace(v=v))
    store.close()
    # While one array is read there are two, but the one that was there before is gone.
    assert peak.growth < 1.3 * restored.v.nbytes
