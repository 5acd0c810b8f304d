"""A run that is continued from its folder is the run that was never interrupted, bit for bit."""

import dataclasses
import functools
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from killed_run import assert_same, prepared_loss, rich, slowly

import rsgda
from rsgda import ESGDA, RSGDA, SGDA, Extragradient, Optimistic, SGDmax, Status, TiAda
from rsgda.drive import checkpoint as checkpoint_module
from rsgda.drive.checkpoint import Checkpoint

TOY = rsgda.problems.Toy(kinds="ABC", kappa=4.0)
NOISY = dataclasses.replace(TOY, s=0.1, t=0.1)
STEPS, EVERY = 57, 10


class Crash(Exception):
    pass


class Network(eqx.Module):
    layer: eqx.nn.Linear
    activation: object
    name: str = eqx.field(static=True)
    scale: float = 0.5

    def __call__(self, x):
        return self.activation(self.layer(x)) * jnp.asarray(self.scale, x.dtype)


def network_loss(theta, v, batch):
    outputs = jax.vmap(theta)(batch + v["shift"])
    return jnp.mean(outputs**2) - jnp.sum(v["shift"] ** 2)


def odd_loss(theta, v):
    """Several dtypes, and an array without elements."""
    half = theta["half"].astype(jnp.float32)
    return jnp.sum(half**2) + jnp.sum(half * v[0]) - jnp.sum(v[0] ** 2) + jnp.sum(theta["none"])


def decay(k):
    return 0.2 / (1.0 + 0.1 * k.astype(jnp.float64))


# Its state holds a key of its own.
NOISE = optax.chain(optax.add_noise(0.1, 0.5, jr.key(3)), optax.sgd(0.1))


class Case(NamedTuple):
    problem: rsgda.Problem
    algorithm: object
    theta: object
    v: object


def toy(algorithm, toy=NOISY, dtype=jnp.float64):
    return Case(toy.problem, algorithm, *toy.start(dtype))


def rows(algorithm):
    problem, _, theta, v = rich()
    return Case(problem, algorithm, theta, v)


def network(algorithm):
    theta = Network(eqx.nn.Linear(3, 2, key=jr.key(1), dtype=jnp.float32), jax.nn.tanh, "net")
    data = jr.normal(jr.key(2), (20, 3), jnp.float32)
    problem = rsgda.Problem(network_loss, data=data, batch_size=4)
    return Case(problem, algorithm, theta, {"shift": jnp.zeros(3, jnp.float32), "label": "a"})


def odd(algorithm):
    theta = {"half": jnp.ones(4, jnp.bfloat16), "none": jnp.zeros((0, 3), jnp.float32)}
    return Case(rsgda.Problem(odd_loss), algorithm, theta, (jnp.zeros(4, jnp.float32), None, 3))


CASES = {
    "rsgda": lambda: toy(RSGDA(p=0.4, alpha=0.1, eta=0.3)),
    "float32": lambda: toy(RSGDA(p=0.4, alpha=0.1, eta=0.3), dtype=jnp.float32),
    "sgda": lambda: toy(SGDA(alpha=0.1, eta=0.3)),
    "esgda": lambda: toy(ESGDA(m=2, alpha=0.1, eta=0.3)),
    "sgdmax-exact": lambda: toy(SGDmax(delta=1e-3, alpha=0.1, eta=0.3), TOY),
    "sgdmax": lambda: toy(SGDmax(delta=1e-2, alpha=0.1, eta=0.2, max_ascents=9)),
    "tiada": lambda: toy(TiAda()),
    "extragradient": lambda: toy(Extragradient(alpha=0.1, eta=0.3)),
    "schedules": lambda: toy(SGDA(alpha=decay, eta=slowly)),
    "adam": lambda: toy(RSGDA(p=0.4, alpha=optax.adam(0.1), eta=optax.adam(0.05))),
    "noise": lambda: toy(SGDA(alpha=NOISE, eta=0.3)),
    "rows": lambda: rows(RSGDA(p=0.4, alpha=optax.adam(0.1), eta=optax.adam(0.05))),
    "rows-esgda": lambda: rows(ESGDA(m=3, alpha=slowly, eta=optax.sgd(0.1, momentum=0.9))),
    "rows-optimistic": lambda: rows(Optimistic(alpha=slowly, eta=optax.adam(0.05))),
    "rows-tiada": lambda: rows(TiAda()),
    "prepare": lambda: Case(
        rsgda.Problem(prepared_loss, prepare=jnp.sin), RSGDA(p=0.3, alpha=0.1, eta=0.2),
        jnp.full(3, 0.7), jnp.zeros(3),
    ),
    "network": lambda: network(RSGDA(p=0.4, alpha=optax.adam(0.01), eta=0.1)),
    "odd": lambda: odd(SGDA(alpha=0.02, eta=0.1)),
}  # fmt: skip

QUICK = ("rsgda", "float32", "sgdmax-exact", "adam", "rows", "network")


@functools.cache
def case(name):
    return CASES[name]()


def watch(problem, state):
    """Values that are hard to write down: the history of a resumed run has them too."""
    step = int(state.step)
    third = jnp.float32(step) / jnp.float32(3)
    return {
        "third": third,
        "nan": jnp.nan if step % 20 else np.inf,
        "minus": -np.inf,
        "even": step % 2 == 0,
        "large": 2**53 + step,
        "ünicode [x]": 1e-310,
    }


def run(name, folder=None, steps=STEPS, every=EVERY, record=watch, **options):
    given = case(name)
    return rsgda.solve(
        *given, key=jr.key(5), steps=steps, every=every, record=record, checkpoint=folder, **options
    )


@functools.cache
def straight(name, every=EVERY):
    return run(name, every=every)


def crash(name, folder, monkeypatch, record_number):
    """Stop a run that saves after every chunk when it makes its n-th record."""
    made = iter(range(record_number))

    def record(problem, state):
        if next(made, None) is None:
            raise Crash
        return watch(problem, state)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "due", lambda self: True)
        with pytest.raises(Crash):
            run(name, folder, record=record)


def newest(folder):
    return max((int(name) for name in os.listdir(folder) if name.isdigit()), default=None)


def listing(folder):
    """Everything in a folder: names, times, bytes."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.is_dir() or path.read_bytes())
        for path in [folder, *folder.rglob("*")]
    }


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in CASES],
)
def test_resumed_run_is_the_straight_run(name, tmp_path, monkeypatch):
    for steps in (23, 40, STEPS):  # 23 is no multiple of `every`
        resumed = run(name, tmp_path / "longer", steps)
    assert_same(resumed, straight(name))
    crash(name, tmp_path / "crashed", monkeypatch, 3)
    assert 20 <= newest(tmp_path / "crashed") < 30
    assert_same(run(name, tmp_path / "crashed"), straight(name))
    assert_same(run(name, tmp_path / "crashed"), straight(name))  # nothing left to do


@pytest.mark.parametrize(("name", "field"), [
    (name, field)
    for name, fields in {
        "adam": ["theta", "v", "key", "step", "descents", "ascents", "gradients",
                 "descent_state", "ascent_state"],
        "rows": ["v", "ascent_state"],
        "sgdmax-exact": ["memory"],
        "prepare": ["prepared"],
    }.items()
    for field in fields
])  # fmt: skip
def test_comparison_sees_any_field_that_is_restored_wrongly(name, field, tmp_path, monkeypatch):
    run(name, tmp_path, 23)

    def restore(self, state, restore=Checkpoint.restore):
        state, rows = restore(self, state)
        return state._replace(**{field: jax.tree.map(changed, getattr(state, field))}), rows

    monkeypatch.setattr(Checkpoint, "restore", restore)
    with pytest.raises(AssertionError):
        assert_same(run(name, tmp_path), straight(name))


def changed(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jr.split(leaf)[0]
    if leaf.dtype == bool:
        return ~leaf
    return leaf + jnp.asarray(1, leaf.dtype)


@pytest.mark.parametrize("again", [5, 10, 20])
def test_every_may_differ(again, tmp_path):
    run("rsgda", tmp_path, 40)
    resumed = run("rsgda", tmp_path, every=again)
    if again == 5:  # what was not recorded then cannot be now
        assert resumed.history["step"].tolist() == [10, 20, 30, 40, 45, 50, 55, 57]
        assert_same(resumed, dataclasses.replace(straight("rsgda", 5), history=resumed.history))
    else:
        assert_same(resumed, straight("rsgda", again))
    # Nothing that was recorded is lost: it is there for who asks for it.
    assert {10, 20, 30, 40} <= set(run("rsgda", tmp_path, every=1).history["step"].tolist())


def test_record_of_a_step_that_was_the_last_once_is_not_in_the_way(tmp_path):
    def stop_at_23(problem, state):
        return {"stop": int(state.step) == 23}

    stopped = run("rsgda", tmp_path, 23, record=stop_at_23)
    assert stopped.status is Status.STOPPED
    assert run("rsgda", tmp_path, 23, record=stop_at_23).status is Status.STOPPED
    assert_same(run("rsgda", tmp_path, record=stop_at_23), run("rsgda", record=stop_at_23))


def test_stopped_run_stays_stopped(tmp_path):
    def stop_at_30(problem, state):
        return {"stop": int(state.step) == 30}

    for steps in (40, STEPS):
        assert_same(run("rsgda", tmp_path, steps, record=stop_at_30),
                    run("rsgda", record=stop_at_30))  # fmt: skip


def test_diverged_run_diverges_again_and_keeps_what_was_saved(tmp_path):
    algorithm = RSGDA(p=0.5, alpha=3.0, eta=1e60)
    given = NOISY.problem, algorithm, *NOISY.start()
    options = {"key": jr.key(0), "steps": 100, "every": 1}
    expected = rsgda.solve(*given, **options)
    assert expected.status is Status.DIVERGED
    for _ in range(2):
        assert_same(rsgda.solve(*given, **options, checkpoint=tmp_path), expected)
    assert len(set(expected.history["step"].tolist())) == len(expected.history["step"])


def test_fewer_steps_than_saved_are_refused(tmp_path):
    run("rsgda", tmp_path, 23)
    with pytest.raises(ValueError, match=r"`steps` must be at least the 23 .* got 22"):
        run("rsgda", tmp_path, 22)


def test_folder_may_be_relative_and_at_home_and_moved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def wander(problem, state):
        os.chdir("/")
        return watch(problem, state)

    run("rsgda", "a/b", 23, record=wander)
    assert newest(tmp_path / "a/b") == 23
    monkeypatch.chdir(tmp_path)
    assert_same(run("rsgda", "~/a/b"), straight("rsgda"))
    os.rename("a/b", "c")
    before = listing(tmp_path / "c")["57"]
    assert_same(run("rsgda", Path("c")), straight("rsgda"))
    assert listing(tmp_path / "c")["57"] == before


def test_folder_that_is_removed_meanwhile_is_made_again(tmp_path, monkeypatch):
    def remove(problem, state):
        if int(state.step) == 30:
            shutil.rmtree(tmp_path / "run")
        return watch(problem, state)

    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    run("rsgda", tmp_path / "run", 40, record=remove)
    assert_same(run("rsgda", tmp_path / "run"), straight("rsgda"))


def test_at_most_two_saves_are_kept_and_nothing_is_saved_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    run("rsgda", tmp_path)
    assert sorted(name for name in os.listdir(tmp_path) if name.isdigit()) == ["50", "57"]
    before = listing(tmp_path)["57"]
    run("rsgda", tmp_path)
    assert listing(tmp_path)["57"] == before


def test_saves_take_little_of_the_time(tmp_path, monkeypatch):
    now = 0.0

    def write(self, step, state, rows):
        nonlocal now
        now += 3.0

    monkeypatch.setattr(Checkpoint, "_write", write)
    monkeypatch.setattr(checkpoint_module.time, "perf_counter", lambda: now)
    given = case("rsgda")
    state = given.algorithm.init(given.problem, given.theta, given.v, jr.key(0))
    store = Checkpoint(tmp_path, {}, state)
    assert not store.due()
    now += 1.5
    assert store.due()
    store.save(0, state, lambda first: [])
    now += 59.0
    assert not store.due()
    now += 2.0
    assert store.due()
    store.close()
