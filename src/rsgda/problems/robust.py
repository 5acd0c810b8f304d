"""Distributionally robust classification of data that come with scikit-learn, as tasks."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array, lax

from rsgda._trees import PyTree
from rsgda.problems.task import Task
from rsgda.robust.losses import cross_entropy
from rsgda.robust.networks import mlp
from rsgda.robust.wrm import wrm

DATA = {"wine": 16, "breast": 16, "digits": 32}  # with the units of the hidden layer
SCALES = (1, 10)  # of the features
GAMMA, SMALL = 1.3, 0.02  # the second is below the curvature of the loss
BATCH = 32
GRADIENTS = 2_000
ROWS, CLIMBS = 256, 30  # of the data that the merit looks at, and steps for each


def names() -> list[str]:
    """Return the names of all tasks."""
    return [f"wrm-{data}-{scale}" for data in DATA for scale in SCALES] + ["wrm-digits-smallgamma"]


def task(name: str) -> Task:
    """Return a task by its name."""
    _, data, last = name.split("-")
    small = last == "smallgamma"
    X, y = load(data)
    X = X * np.float32(1 if small else int(last))
    gamma = SMALL if small else GAMMA
    network = mlp((X.shape[1], DATA[data], int(y.max()) + 1), key=jr.key(0))
    problem, theta, v = wrm(network, X, y, gamma=gamma, batch_size=BATCH)
    some = np.random.default_rng(0).permutation(len(X))[:ROWS]
    merit = RobustLoss(
        jnp.asarray(X[some]), jnp.asarray(y[some], "int32"), jnp.asarray(gamma, X.dtype)
    )
    return Task(
        name=name, family="wrm", problem=problem, theta=theta, v=v, merit=merit,
        gradients=GRADIENTS,
    )  # fmt: skip


def load(data: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels: pixels in [0, 1], else columns of mean zero and variance one."""
    from sklearn import datasets

    loaders = {
        "wine": datasets.load_wine,
        "breast": datasets.load_breast_cancer,
        "digits": datasets.load_digits,
    }
    X, y = (np.asarray(part) for part in loaders[data](return_X_y=True))
    X = X / 16 if data == "digits" else (X - X.mean(axis=0)) / X.std(axis=0)
    return np.asarray(X, np.float32), np.asarray(y)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class RobustLoss:
    r"""The robust loss $\varphi_\gamma$ of some rows, each maximised by steps that only climb.

    A step that leads up is taken and the next is longer; else the next is half as long. Where the
    loss is concave in v that finds the maximum, elsewhere a value from below.
    """

    x: Array
    y: Array
    gamma: Array

    def __call__(self, network: PyTree, v: PyTree) -> Array:
        """Return the mean of the maxima; v is not looked at."""
        return jnp.mean(jax.vmap(lambda x, y: self._climbed(network, x, y))(self.x, self.y))

    def _climbed(self, network: Any, x: Array, y: Array) -> Array:
        def value(z: Array) -> Array:
            return cross_entropy(network(z), y) - self.gamma * jnp.sum(jnp.square(z - x))

        def climb(_: Array, at: tuple[Array, Array, Array, Array]) -> tuple:
            z, best, slope, size = at
            new = z + size * slope
            found, uphill = jax.value_and_grad(value)(new)
            up = found > best
            keep = lambda a, b: jnp.where(up, a, b)  # noqa: E731
            return keep(new, z), keep(found, best), keep(uphill, slope), size * keep(1.5, 0.5)

        best, slope = jax.value_and_grad(value)(x)
        size = 1 / (2 * self.gamma)
        return lax.fori_loop(0, CLIMBS, climb, (x, best, slope, size))[1]
