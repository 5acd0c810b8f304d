"""A run that several processes share: a program for `rsgda launch`.

    python launched_run.py OUT [--kind KIND] [--checkpoint FOLDER] [--pause SECONDS] [--steps N] \
        [--late SECONDS]

PAUSE is what each record takes in seconds; with it, every chunk is saved. LATE is how much later
than the others the last process comes to the run.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

import rsgda
from rsgda.drive.checkpoint import Checkpoint


def rows_loss(theta, v, batch):
    """One row of v for each row of data."""
    x, y = batch
    errors = jnp.sum(jnp.tanh(v) * theta, axis=1) - y
    return jnp.mean(errors**2 - jnp.sum((v - x) ** 2, axis=1))


def shared_loss(theta, v, batch):
    """One v for all rows."""
    x, y = batch
    errors = jnp.tanh((x + v) @ theta) - y
    return jnp.mean(errors**2) - 2 * jnp.sum(v**2)


def cases():
    x = np.random.default_rng(0).normal(size=(64, 5))  # the same bits, however JAX is set up
    data = {"data": (x, x[:, 0] ** 2), "batch_size": 16}
    adam = optax.adam(0.02)
    return {
        "rows": (
            rsgda.Problem(rows_loss, **data, separable=True),
            rsgda.RSGDA(p=0.3, alpha=0.05, eta=adam), jnp.full(5, 0.1), jnp.asarray(x),
        ),
        "shared": (
            rsgda.Problem(shared_loss, **data),
            rsgda.ESGDA(m=2, alpha=adam, eta=0.05), jnp.full(5, 0.1), jnp.zeros(5),
        ),
    }  # fmt: skip


def run(kind, mesh, *, steps, checkpoint=None, pause=0.0):
    """Return the end of a run."""
    problem, algorithm, theta, v = cases()[kind]

    def record(problem, state):
        if pause:
            time.sleep(pause)
        return {"phi": float(jnp.sum(state.theta**2) + jnp.sum(state.v**2))}

    return rsgda.solve(
        problem, algorithm, theta, v, key=jr.key(7), steps=steps, every=5, record=record,
        checkpoint=checkpoint, mesh=mesh,
    )  # fmt: skip


def arrays(result):
    """Return all numbers of a result."""
    state = {name: np.asarray(getattr(result.state, name)) for name in ("step", "ascents")}
    history = {f"history.{name}": column for name, column in result.history.items()}
    return {"theta": np.asarray(result.theta), "v": np.asarray(result.v), **state, **history}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--kind", default="rows")
    parser.add_argument("--checkpoint")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--late", type=float, default=0.0)
    parser.add_argument("--alone", action="store_true", help="without a mesh")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if given.pause:
        Checkpoint.due = lambda self: True
    if jax.process_index() == 0:
        run(given.kind, None, steps=5)  # others need not take part in a run without a mesh
    if jax.process_index() == jax.process_count() - 1:
        time.sleep(given.late)
    mesh = None if given.alone else jax.make_mesh((jax.device_count(),), ("rows",))
    result = run(
        given.kind, mesh, steps=given.steps, checkpoint=given.checkpoint, pause=given.pause
    )
    np.savez(f"{given.out}.{jax.process_index()}.npz", **arrays(result))


if __name__ == "__main__":
    main()
