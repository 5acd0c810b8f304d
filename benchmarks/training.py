"""Robust training with the network of Sinha et al., by `solve`."""

from typing import Any

import jax
import jax.random as jr
import numpy as np

import rsgda
from rsgda.robust.networks import Network

GAMMA, ALPHA, ETA, BATCH = 1.3, 0.1, 10.0, 128
KEY = jr.key(0)


def images(rows: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return images, labels, and what they are."""
    try:
        data = rsgda.data.mnist()
        return data.X_train[:rows], data.y_train[:rows], "MNIST"
    except FileNotFoundError:
        numbers = np.random.default_rng(0)
        x = numbers.random((rows, 28, 28, 1), dtype=np.float32)
        return x, numbers.integers(0, 10, rows, dtype=np.int32), "random pixels, MNIST is not there"


class Ours:
    """The library's run on some rows."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        self.network = rsgda.robust.sinha_cnn(key=KEY)
        self.problem, self.theta, self.v = rsgda.robust.wrm(
            self.network, x, y, gamma=GAMMA, batch_size=BATCH
        )

    def run(self, p: float, steps: int) -> rsgda.Result:
        algorithm = rsgda.RSGDA(p=p, alpha=ALPHA, eta=ETA)
        result = rsgda.solve(
            self.problem, algorithm, self.theta, self.v, key=KEY, steps=steps, every=max(steps, 1)
        )
        jax.block_until_ready((result.theta, result.v))
        return result

    def gradients(self, rows: int) -> tuple[Any, np.ndarray]:
        """Return both gradients at the first rows, to compare."""
        batch = jax.tree.map(lambda leaf: leaf[:rows], self.problem.data)

        def loss(network: Network, v: Any) -> Any:
            return self.problem.loss(network, v, batch)

        of_theta, of_v = jax.jit(jax.grad(loss, (0, 1)))(self.theta, 0.9 * batch["x"])
        return of_theta, np.asarray(of_v)
