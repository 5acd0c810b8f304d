"""Time steps whose minibatch is shared out among 1, 2, 4 and 8 simulated devices.

All are in this process and take turns; steps and rounds are arguments. Prints microseconds a step
as JSON.
"""

import json
import os
import sys

MOST = 8
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={MOST}"
)

import functools  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import jax.random as jr  # noqa: E402
import numpy as np  # noqa: E402
import timing  # noqa: E402

import rsgda  # noqa: E402

BATCH, WIDE, KEY = 2_048, 256, jr.key(0)
ALGORITHM = rsgda.RSGDA(p=0.5, alpha=1e-3, eta=1e-2)


def loss(theta: list[jax.Array], v: jax.Array, batch: jax.Array) -> jax.Array:
    """A network of two layers on inputs that are shifted by v."""
    hidden = jnp.tanh((batch + v) @ theta[0])
    return jnp.mean(jnp.square(hidden @ theta[1])) - jnp.sum(jnp.square(v))


def run(mesh: jax.sharding.Mesh, problem: rsgda.Problem, steps: int) -> object:
    """Run on the devices of a mesh."""
    theta = [jnp.full((WIDE, WIDE), 1 / WIDE), jnp.full((WIDE, WIDE), 1 / WIDE)]
    result = rsgda.solve(
        problem, ALGORITHM, theta, jnp.zeros(WIDE), key=KEY, steps=steps, every=max(steps, 1),
        mesh=mesh,
    )  # fmt: skip
    return jax.block_until_ready((result.theta, result.v))


def main() -> None:
    """Let all numbers of devices take turns."""
    steps, rounds = map(int, sys.argv[1:])
    problem = rsgda.Problem(loss, data=jr.normal(KEY, (10 * BATCH, WIDE)), batch_size=BATCH)
    counts, contestants = [2**k for k in range(MOST.bit_length())], {}
    for count in counts:
        mesh = jax.make_mesh((count,), ("rows",), devices=jax.devices()[:count])
        contestants[f"{count}"] = functools.partial(run, mesh, problem, steps)
        contestants[f"begin {count}"] = functools.partial(run, mesh, problem, 0)
    seconds = timing.interleave(contestants, rounds)
    columns = [seconds[f"{count}"] - seconds[f"begin {count}"] for count in counts]
    values = 1e6 / steps * np.stack(columns, axis=1)
    print(json.dumps({"sizes": counts, "values": values.tolist()}))


if __name__ == "__main__":
    main()
