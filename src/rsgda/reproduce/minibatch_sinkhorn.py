"""The rival of a semi-discrete loss: transport between a minibatch of noise and one of images."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax

from rsgda._trees import PyTree
from rsgda.moves import Algorithm, Info, State, Step, descend, spent, start
from rsgda.problem import Problem
from rsgda.reproduce.generation_setting import noise
from rsgda.transport.costs import Quadratic
from rsgda.transport.semidual import semi_dual
from rsgda.transport.sinkhorn_descent import iterated


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Pairs:
    """A sampler of a minibatch of noise and one of images."""

    images: Array
    batch_size: int = dataclasses.field(metadata={"static": True})

    def __call__(self, key: Array) -> tuple[Array, Array]:
        """Draw both."""
        key_noise, key_images = jr.split(key)
        places = jr.randint(key_images, (self.batch_size,), 0, len(self.images))
        z = jax.vmap(noise)(jr.split(key_noise, self.batch_size))
        return z, self.images[places]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Loss:
    """W_eps between what the network makes of noise and images, by a few iterations from zero.

    The gradient is taken at the potentials that these lead to, as Danskin's theorem has it. The
    loss has no v of its own.
    """

    epsilon: Array
    iterations: int = dataclasses.field(metadata={"static": True})

    def __call__(self, network: PyTree, v: Array, batch: tuple[Array, Array]) -> Array:
        """Return the loss of a pair of minibatches."""
        del v
        z, y = batch
        cost = Quadratic()
        costs = cost.matrix(jax.vmap(network)(z), cost.targets(y))
        nu = jnp.full(len(y), 1 / len(y), costs.dtype)
        zero = jnp.zeros_like(nu)
        potentials = iterated(lax.stop_gradient(costs), nu, self.epsilon, zero, self.iterations)
        return semi_dual(potentials, costs, nu, self.epsilon)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Descents(Algorithm):
    """Stochastic gradient descent on theta, for a loss that has no v."""

    alpha: Step

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step."""
        return start(problem, theta, v, key, self.alpha, 1.0)

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        """Descend."""
        new = descend(problem, state, jr.fold_in(state.key, state.step), self.alpha)
        return new._replace(step=state.step + 1), spent(state, new)


def minibatch_sinkhorn(
    images: Array, network: PyTree, *, epsilon: float, iterations: int, batch_size: int
) -> tuple[Problem, PyTree, Array]:
    """Return the problem with its start; v is a placeholder."""
    loss = Loss(jnp.asarray(epsilon, images.dtype), iterations)
    return Problem(loss, sample=Pairs(images, batch_size)), network, jnp.zeros(1, images.dtype)
