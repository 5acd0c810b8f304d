"""The semi-dual of entropic transport: a loss that is a maximum over potentials."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import logsumexp, softmax

from rsgda._trees import PyTree
from rsgda.transport.costs import Cost


def semi_dual(v: Array, costs: Array, nu: Array, epsilon: Array) -> Array:
    r"""Return the mean over the rows of a cost matrix of the semi-dual.

    $$ h(x, v) = \sum_j \nu_j v_j
       - \varepsilon \log \sum_j \nu_j \exp\big((v_j - c(x, y_j)) / \varepsilon\big) $$

    whose gradient in v is $\nu - w$ with the softmax $w$ of `weights`, and in the costs $w$.
    Its expectation over x, at its maximum over v, is
    $W_\varepsilon = \min_\pi \langle c, \pi \rangle + \varepsilon\, \mathrm{KL}(\pi | \mu \otimes
    \nu)$: there is no constant.

    Args:
        v: potentials, one for each target.
        costs: b × n.
        nu: the weights of the targets, which sum to one.
        epsilon: the regularisation.

    >>> costs = jnp.array([[0.0, 2.0], [3.0, 1.0], [1.0, 1.0]])
    >>> round(semi_dual(jnp.zeros(2), costs, jnp.array([0.5, 0.5]), jnp.array(0.1)).item(), 4)
    0.7129

    Source: equation (semi-dual) of Section 5.2, with the constant of errata 34.
    """
    return v @ nu - epsilon * jnp.mean(logsumexp(exponents(v, costs, nu, epsilon), axis=1))


def weights(v: Array, costs: Array, nu: Array, epsilon: Array) -> Array:
    r"""Return $w_j(x_i) \propto \nu_j \exp((v_j - c_{ij}) / \varepsilon)$; rows sum to one."""
    return softmax(exponents(v, costs, nu, epsilon), axis=1)


def exponents(v: Array, costs: Array, nu: Array, epsilon: Array) -> Array:
    """Return the logarithms of the weights before they are normalised."""
    return (v - costs) / epsilon + jnp.log(nu)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class SemiDual:
    """The loss of a minibatch, whose costs a player of the game decides.

    Attributes:
        epsilon: the regularisation.
        nu: the weights of the targets.
        cost: of moving mass.
        batch_size: samples in a minibatch.
    """

    epsilon: Array
    nu: Array
    cost: Cost = dataclasses.field(metadata={"static": True})
    batch_size: int = dataclasses.field(metadata={"static": True})

    @property
    def unit(self) -> Array:
        """The step size of v that Sinkhorn takes near the optimum, n times epsilon."""
        return self.nu.shape[0] * self.epsilon

    def points(self, given: PyTree, batch: Array) -> tuple[Array, PyTree]:
        """Return the points of a minibatch, and the targets as the cost needs them."""
        raise NotImplementedError

    def costs(self, given: PyTree, batch: Array) -> Array:
        """Return the costs of a minibatch, b × n."""
        return self.cost.matrix(*self.points(given, batch))

    def __call__(self, given: PyTree, v: Array, batch: Array) -> Array:
        """Return the semi-dual of a minibatch."""
        x, targets = self.points(given, batch)
        values = self.cost.exponents(x, targets, v, self.nu, self.epsilon)
        return v @ self.nu - self.epsilon * jnp.mean(logsumexp(values, axis=1))


class Moved(NamedTuple):
    """What `matching` prepares of the network: the points that it makes of all y, for the cost.

    Attributes:
        targets: the points.
        pulled: the mean cost of pairs that are known to belong together, times their weight.
    """

    targets: PyTree
    pulled: Array | None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Matched(SemiDual):
    """The loss of `matching`: fixed x against what the network has made of all y."""

    def points(self, given: Moved, batch: Array) -> tuple[Array, PyTree]:
        """Return x, and the targets that `Mapped` has prepared."""
        return batch, given.targets

    def __call__(self, given: Moved, v: Array, batch: Array) -> Array:
        """Return the semi-dual of a minibatch, and what pairs are pulled by."""
        value = super().__call__(given, v, batch)
        return value if given.pulled is None else value + given.pulled


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Generated(SemiDual):
    """The loss of `generation`: what the network makes of a minibatch against fixed y."""

    targets: Any = None

    def points(self, given: PyTree, batch: Array) -> tuple[Array, PyTree]:
        """Return generated points, and the fixed targets."""
        return jax.vmap(given)(batch), self.targets


class Pairs(NamedTuple):
    """Points x that are known to belong to some of the y.

    Attributes:
        x: k × d.
        places: in y, of each.
        weight: of their mean cost.
    """

    x: Array
    places: Array
    weight: Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Mapped:
    """Makes of a network what its loss needs, for all y."""

    y: Array
    cost: Cost = dataclasses.field(metadata={"static": True})
    pairs: Pairs | None = None

    def __call__(self, network: PyTree) -> Moved:
        """Return the targets."""
        made = jax.vmap(network)(self.y)
        if self.pairs is None:
            return Moved(self.cost.targets(made), None)
        apart = jax.vmap(self._cost)(self.pairs.x, made[self.pairs.places])
        return Moved(self.cost.targets(made), self.pairs.weight * jnp.mean(apart))

    def _cost(self, x: Array, y: Array) -> Array:
        return self.cost.matrix(x[None], self.cost.targets(y[None]))[0, 0]
