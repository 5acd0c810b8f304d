"""Matching of simulated cells and generation of digits, as tasks."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array, lax
from jax.nn import logsumexp

from rsgda._trees import PyTree
from rsgda.data.simulated import simulated_cells
from rsgda.problems.task import Task
from rsgda.transport.generation import generation
from rsgda.transport.matching import matching
from rsgda.transport.networks import mlp
from rsgda.transport.semidual import semi_dual

SIZES = (50, 500, 2_000, 4_178)  # targets
EPSILONS = (1.0, 0.1)  # in units of the cost at scale 1, of which a feature has variance 1
SCALES = (1, 10)  # of the features
POINTS, FEATURES, HIDDEN = 2_000, (10, 30), (32,)
BATCH = 128
GRADIENTS = 1_000
LATENT, GENERATED, DIGITS_EPSILON = 8, (64, 64), 0.5
ROUNDS = 40  # of Sinkhorn, half of which bring epsilon down
SEEN = 500_000  # costs that the merit looks at, at most


def names() -> list[str]:
    """Return the names of all tasks, the smallest first."""
    matchings = [
        f"matching-{n}-eps{eps:g}-scale{scale}"
        for n in SIZES for eps in EPSILONS for scale in SCALES
    ]  # fmt: skip
    return [*matchings[:8], "generation-digits", *matchings[8:]]


def task(name: str) -> Task:
    """Return a task by its name."""
    if name == "generation-digits":
        return _digits(name)
    _, n, eps, scale = name.split("-")
    return _cells(name, int(n), float(eps[3:]), float(scale[5:]))


def _cells(name: str, n: int, epsilon: float, scale: float) -> Task:
    cells = simulated_cells((POINTS, n), features=FEATURES)
    x = np.float32(scale) * standardised(np.arcsinh(cells.x / 5.0))
    y = np.float32(scale) * standardised(np.log1p(cells.y))
    network = mlp((FEATURES[1], *HIDDEN, FEATURES[0]), key=jr.key(0))
    epsilon *= scale**2  # costs are squares
    problem, theta, v = matching(x, y, network, epsilon=epsilon, batch_size=BATCH)
    rows = min(len(x), 512, max(64, SEEN // n))
    merit = Distance(jnp.asarray(x[:rows]), jnp.asarray(y), jnp.float32(epsilon), maps="y")
    return Task(
        name=name, family="matching", problem=problem, theta=theta, v=v, merit=merit,
        gradients=GRADIENTS,
    )  # fmt: skip


def _digits(name: str) -> Task:
    from sklearn.datasets import load_digits

    y = np.asarray(load_digits(return_X_y=True)[0], np.float32) / 16
    layers: Any = mlp((LATENT, *GENERATED, y.shape[1]), key=jr.key(0)).layers
    network = eqx.nn.Sequential([*layers, eqx.nn.Lambda(jax.nn.sigmoid)])
    problem, theta, v = generation(noise, y, network, epsilon=DIGITS_EPSILON, batch_size=BATCH)
    z = jax.vmap(noise)(jr.split(jr.key(1), 256))
    merit = Distance(z, jnp.asarray(y), jnp.float32(DIGITS_EPSILON), maps="x")
    return Task(
        name=name, family="generation", problem=problem, theta=theta, v=v, merit=merit,
        gradients=2 * GRADIENTS,
    )  # fmt: skip


def noise(key: Array) -> Array:
    """Draw what a generator is given."""
    return jr.normal(key, (LATENT,), "float32")


def standardised(points: np.ndarray) -> np.ndarray:
    """Return columns of mean zero and variance one; a constant column is zero."""
    spread = points.std(axis=0)
    return ((points - points.mean(axis=0)) / np.where(spread > 0, spread, 1)).astype(np.float32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Distance:
    r"""$W_\varepsilon$ between some of the x and all of the y, one of them made by the network.

    The semi-dual after a fixed number of Sinkhorn's rounds from zero, in the first half of which
    epsilon falls from the largest cost to what it is: a value from below that depends on the
    network alone.
    """

    x: Array
    y: Array
    epsilon: Array
    maps: str = dataclasses.field(metadata={"static": True})

    def __call__(self, network: PyTree, v: PyTree) -> Array:
        """Return the distance; v is not looked at."""
        x = jax.vmap(network)(self.x) if self.maps == "x" else self.x
        y = jax.vmap(network)(self.y) if self.maps == "y" else self.y
        inner = jnp.matmul(x, y.T, precision=lax.Precision.HIGHEST)
        costs = jnp.sum(x * x, axis=1)[:, None] + jnp.sum(y * y, axis=1) - 2 * inner
        m, n = costs.shape
        nu = jnp.full(n, 1 / n, costs.dtype)
        most = jnp.maximum(jnp.max(costs), self.epsilon)

        def round_(i: Array, v: Array) -> Array:
            left = jnp.maximum(1 - i / (ROUNDS // 2), 0).astype(costs.dtype)
            eps = self.epsilon * (most / self.epsilon) ** left
            f = -eps * logsumexp((v - costs) / eps - jnp.log(n), axis=1)
            return -eps * logsumexp((f[:, None] - costs) / eps - jnp.log(m), axis=0)

        v = lax.fori_loop(0, ROUNDS, round_, jnp.zeros(n, costs.dtype))
        return semi_dual(v, costs, nu, self.epsilon)
