"""Regression that is to be right for each of several groups: their weights are the adversary."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

from rsgda._trees import PyTree
from rsgda.problem import Problem
from rsgda.problems.task import Task
from rsgda.projections import simplex

HIDDEN = 16
BATCH = 32
PENALTY = 0.2  # of weights that differ from one another
GRADIENTS = 1_500


def names() -> list[str]:
    """Return the names of all tasks."""
    return ["groups-diabetes"]


def task(name: str) -> Task:
    r"""Return scikit-learn's diabetes, whose groups are sex by two halves of age.

    $$ \min_\theta \max_{v \in \Delta} \sum_g v_g \ell_g(\theta)
       - \tfrac{\lambda}{2} G \|v - \tfrac1G\|^2, \qquad
       \ell_g(\theta) = \tfrac{1}{n_g} \sum_{i \in g} (f_\theta(x_i) - y_i)^2 $$
    """
    from sklearn.datasets import load_diabetes

    X, y = (np.asarray(part) for part in load_diabetes(return_X_y=True))
    groups = 2 * (X[:, 0] > np.median(X[:, 0])) + (X[:, 1] > 0)
    X, y = X / X.std(axis=0), (y - y.mean()) / y.std()
    counts = np.bincount(groups)
    data = {
        "x": jnp.asarray(X, "float32"),
        "y": jnp.asarray(y, "float32"),
        "group": jnp.asarray(groups, "int32"),
        "weight": jnp.asarray(len(y) / counts[groups], "float32"),
    }
    keys = jr.split(jr.key(0))
    layers = [
        eqx.nn.Linear(X.shape[1], HIDDEN, dtype=jnp.float32, key=keys[0]),
        eqx.nn.Lambda(jnp.tanh),
        eqx.nn.Linear(HIDDEN, "scalar", dtype=jnp.float32, key=keys[1]),
    ]
    count = len(counts)
    return Task(
        name=name,
        family="groups",
        problem=Problem(group_loss, data=data, batch_size=BATCH, project_v=simplex()),
        theta=eqx.nn.Sequential(layers),
        v=jnp.full(count, 1 / count, "float32"),
        merit=WorstMix(data["x"], data["y"], data["group"], data["weight"], count),
        gradients=GRADIENTS,
    )


def group_loss(network: PyTree, v: Array, batch: dict[str, Array]) -> Array:
    """Return the loss of a minibatch: its mean is that of the groups, weighted by v."""
    errors = batch["weight"] * jnp.square(jax.vmap(network)(batch["x"]) - batch["y"])
    return jnp.mean(v[batch["group"]] * errors) - penalty(v)


def penalty(v: Array) -> Array:
    """Return what weights cost that differ from one another."""
    count = v.shape[0]
    return 0.5 * PENALTY * count * jnp.sum(jnp.square(v - 1 / count))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class WorstMix:
    """The maximum over v, in closed form: a projection on the simplex."""

    x: Array
    y: Array
    group: Array
    weight: Array
    count: int = dataclasses.field(metadata={"static": True})

    def __call__(self, network: PyTree, v: Array) -> Array:
        """Return phi; v is not looked at."""
        errors = self.weight * jnp.square(jax.vmap(network)(self.x) - self.y)
        losses = jax.ops.segment_sum(errors, self.group, self.count) / len(self.x)
        worst = simplex()(1 / self.count + losses / (PENALTY * self.count))
        return worst @ losses - penalty(worst)
