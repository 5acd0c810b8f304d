"""A sweep that tests kill: a program here, to be continued in the test.

    python killed_sweep.py sweep FOLDER PAUSE

PAUSE is what each record takes in seconds; with it, every chunk is saved.
"""

import os
import sys
import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from killed_run import Child, assert_same

import rsgda
from rsgda.drive.checkpoint import Checkpoint

STEPS, EVERY = 100, 5
TOY = rsgda.problems.Toy(kinds="ABC", kappa=4.0, s=0.1, t=0.1)
KEYS = jr.split(jr.key(3), 2)

pause, log = 0.0, None


def slowly(k):
    return 0.05 / jnp.sqrt(1.0 + k.astype(jnp.float64))


ALGORITHMS = (
    rsgda.RSGDA(p=0.3, alpha=slowly, eta=0.2),
    rsgda.ESGDA(m=2, alpha=optax.adam(0.05), eta=0.3),
    rsgda.SGDA(alpha=0.05, eta=0.3),
    rsgda.SGDA(alpha=1e308, eta=0.3),  # diverges
)


def record(problem, state):
    """One of each kind: float, NaN, whole number, Boolean; and a row that asks to stop."""
    phi = TOY.phi(state.theta)
    return {
        "phi": phi,
        "root": jnp.sqrt(phi - 0.5),
        "odd": state.step % 2 == 1,
        "half": state.gradients // 2,
        "single": phi.astype(jnp.float32),
        "stop": phi < 0.02,
    }


def slow_record(problem, state):
    time.sleep(pause)
    if log:
        with open(log, "a") as file:
            file.write(f"{os.getpid()} {int(state.step)}\n")
    return {name: np.asarray(value).item() for name, value in record(problem, state).items()}


def slow_down(seconds, path=None):
    """Make records of this process slow, save all chunks, and write down when it records."""
    global pause, log
    pause, log = seconds, path
    Checkpoint.due = lambda self: True


def call(folder=None, **options):
    options = {"record": slow_record, "every": EVERY, "steps": STEPS, "keys": KEYS} | options
    return rsgda.sweep(TOY.problem, ALGORITHMS, *TOY.start(), checkpoint=folder, **options)


def assert_same_table(one, other):
    """Bit for bit, the states of all runs and what was seen on the way."""
    assert list(one.history) == list(other.history)
    for name, column in one.history.items():
        assert column.dtype == other.history[name].dtype, name
        np.testing.assert_array_equal(column, other.history[name], err_msg=name)
    assert one.status.tolist() == other.status.tolist()
    for row in np.ndindex(one.status.shape):
        assert_same(one[row], other[row])


class SweepChild(Child):
    """The program of this file, running by itself."""

    program = __file__

    def saved(self):
        return [str(path) for path in self.folder.glob("block-*/[0-9]*") if path.name.isdigit()]


def main():
    _, folder, seconds = sys.argv[1:]
    slow_down(float(seconds))
    call(folder)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    # Imported by name, so that its functions are called the same as in the tests.
    import killed_sweep

    killed_sweep.main()
