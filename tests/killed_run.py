"""A run that tests kill, interrupt and starve: a program here, to be continued in the test.

    python killed_run.py VARIANT FOLDER PAUSE

PAUSE is what each record takes in seconds; with it, every chunk is saved.
"""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

import rsgda
from rsgda.drive.checkpoint import Checkpoint

STEPS, EVERY = 1_200, 5
UNFINISHED = "*.orbax-checkpoint-tmp"

pause = 0.0


def rows_loss(theta, v, batch):
    """Separable: v has a row per row of data."""
    x, y = batch
    residuals = jnp.sum(jnp.tanh(v) * theta, axis=1) - y
    return jnp.mean(residuals**2 - jnp.sum((v - x) ** 2, axis=1))


def slowly(k):
    return 0.05 / jnp.sqrt(1.0 + k.astype(jnp.float64))


@functools.cache
def plain():
    toy = rsgda.problems.Toy(kinds="ABC", kappa=4.0, s=0.1, t=0.1)
    return toy.problem, rsgda.RSGDA(p=0.3, alpha=0.05, eta=0.2), *toy.start()


@functools.cache
def rich():
    """Minibatches, an optimiser for each row of a large v, schedules for both players."""
    x = jr.normal(jr.key(1), (2_000, 20))
    problem = rsgda.Problem(rows_loss, data=(x, x[:, 0]), batch_size=16, separable=True)
    eta = optax.adam(optax.exponential_decay(0.1, 500, 0.5))
    return problem, rsgda.RSGDA(p=0.3, alpha=slowly, eta=eta), jnp.full(20, 0.1), x


@functools.cache
def both():
    """Adam for both players and a value that is prepared."""
    problem = rsgda.Problem(prepared_loss, prepare=jnp.sin)
    algorithm = rsgda.RSGDA(p=0.2, alpha=optax.adam(0.01), eta=optax.adam(0.02))
    return problem, algorithm, jnp.full(30, 0.7), jnp.zeros(30)


def prepared_loss(sine, v):
    return jnp.sum(sine**2 + sine * v - v**2)


VARIANTS = {"plain": plain, "rich": rich, "both": both}


def record(problem, state):
    time.sleep(pause)
    return {"size": jnp.sum(state.theta**2), "odd": state.step % 2 == 1}


def call(variant, folder=None, steps=STEPS, **options):
    problem, algorithm, theta, v = VARIANTS[variant]()
    options = {"record": record, "every": EVERY, "checkpoint": folder} | options
    return rsgda.solve(problem, algorithm, theta, v, key=jr.key(7), steps=steps, **options)


def assert_same(one, other):
    """Two runs ended in the same state, bit for bit, and saw the same on the way."""
    assert one.status is other.status
    assert jax.tree.structure(one.state) == jax.tree.structure(other.state)
    paths = jax.tree_util.tree_leaves_with_path(one.state)
    for (path, left), right in zip(paths, jax.tree.leaves(other.state), strict=True):
        name = jax.tree_util.keystr(path)
        if isinstance(left, jax.Array):
            assert isinstance(right, jax.Array), name
            assert left.dtype == right.dtype, name
            assert left.committed == right.committed, name
            if jnp.issubdtype(left.dtype, jax.dtypes.prng_key):
                left, right = jr.key_data(left), jr.key_data(right)
            assert left.shape == right.shape, name
            assert left.weak_type == right.weak_type, name
            assert np.asarray(left).tobytes() == np.asarray(right).tobytes(), name
        else:
            assert left == right, name
    assert list(one.history) == list(other.history)
    for name, column in one.history.items():
        assert column.dtype == other.history[name].dtype, name
        np.testing.assert_array_equal(column, other.history[name], err_msg=name)


class Child:
    """The program of this file, running by itself."""

    program = __file__

    def __init__(self, variant, folder, pause=0.0, **options):
        command = [sys.executable, self.program, variant, str(folder or ""), str(pause)]
        self.folder = Path(folder) if folder else None
        self.process = subprocess.Popen(
            command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
        )

    def wait_for(self, seen, seconds=60):
        """Return as soon as `seen()`; False if the program ends before that."""
        end = time.monotonic() + seconds
        while not seen():
            if self.process.poll() is not None:
                return False
            if time.monotonic() > end:
                self.kill()
                raise TimeoutError("the program did not come as far as expected")
            time.sleep(0.0005)
        return True

    def wait_for_saves(self, count):
        """Wait until `count` more saves are done."""
        before, seen = set(self.saved()), set()
        return self.wait_for(lambda: seen.update(self.saved()) or len(seen - before) >= count)

    def saved(self):
        with contextlib.suppress(FileNotFoundError):
            return [int(name) for name in os.listdir(self.folder) if name.isdigit()]
        return []

    def writing(self):
        return any(self.folder.glob(UNFINISHED))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self, seconds=60):
        """Return the exit code and what was printed."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err


def main():
    global pause
    variant, folder, seconds = sys.argv[1:]
    pause = float(seconds)
    if pause:
        Checkpoint.due = lambda self: True
    call(variant, folder or None)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    # Imported by name, so that its functions are called the same as in the tests.
    import killed_run

    killed_run.main()
