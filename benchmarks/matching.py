"""Steps of matching, by `solve`."""

import jax
import jax.random as jr
import numpy as np

import rsgda
from rsgda import transport

EPSILON, BATCH, ALPHA, ETA = 0.1, 128, 0.005, 5.0
KEY = jr.key(0)


def clouds(rows: int, targets: int, wide: int, narrow: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points x and y."""
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(rows, narrow)).astype(np.float32)
    return x, numbers.normal(size=(targets, wide)).astype(np.float32)


class Ours:
    """The library's run."""

    def __init__(self, rows: int, targets: int, wide: int, narrow: int):
        self.x, self.y = clouds(rows, targets, wide, narrow)
        self.network = transport.mlp((wide, 128, 96, 64, narrow), key=KEY)
        self.problem, self.theta, self.v = transport.matching(
            self.x, self.y, self.network, epsilon=EPSILON, batch_size=BATCH
        )

    def run(self, p: float, steps: int) -> None:
        algorithm = rsgda.RSGDA(p=p, alpha=ALPHA, eta=ETA)
        result = rsgda.solve(
            self.problem, algorithm, self.theta, self.v, key=KEY, steps=steps, every=max(steps, 1)
        )
        jax.block_until_ready((result.theta, result.v))
