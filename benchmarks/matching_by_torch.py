"""The rival in matching: the same steps as one would write them in PyTorch."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import torch
from by_hand import close
from matching import ALPHA, BATCH, EPSILON, ETA, Ours


class Theirs:
    """The same steps as one would write them in PyTorch: the network is evaluated at each."""

    def __init__(self, ours: Ours):
        torch.set_num_threads(2)
        torch.manual_seed(0)
        layers: list[torch.nn.Module] = []
        for layer in ours.network.layers[::2]:
            weight: Any = np.asarray(layer.weight)
            linear = torch.nn.Linear(weight.shape[1], weight.shape[0])
            with torch.no_grad():
                linear.weight.copy_(torch.tensor(weight))
                linear.bias.copy_(torch.tensor(np.asarray(layer.bias)))
            layers += [linear, torch.nn.GELU(approximate="tanh")]
        self.network = torch.nn.Sequential(*layers[:-1])
        self.parameters = list(self.network.parameters())
        self.x, self.y = torch.tensor(ours.x), torch.tensor(ours.y)
        self.v = torch.zeros(len(self.y))

    def loss(self, x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        made = self.network(self.y)
        costs = x.square().sum(1)[:, None] + (made.square().sum(1) - 2 * x @ made.T)
        logs = (v - costs) / EPSILON - float(np.log(len(v)))
        return v.mean() - EPSILON * torch.logsumexp(logs, 1).mean()

    def descent(self, x: torch.Tensor) -> None:
        gradients = torch.autograd.grad(self.loss(x, self.v), self.parameters)
        with torch.no_grad():
            torch._foreach_add_(self.parameters, gradients, alpha=-ALPHA)

    def ascent(self, x: torch.Tensor) -> None:
        with torch.no_grad():
            made = self.network(self.y)
            costs = x.square().sum(1)[:, None] + (made.square().sum(1) - 2 * x @ made.T)
            logs = (self.v - costs) / EPSILON
            self.v += ETA * (1 / len(self.v) - torch.softmax(logs, 1).mean(0))

    def run(self, descend: bool, steps: int) -> None:
        for _ in range(steps):
            x = self.x[torch.randint(len(self.x), (BATCH,))]
            (self.descent if descend else self.ascent)(x)


def compare(ours: Ours, theirs: Theirs) -> None:
    """Stop if a gradient differs."""
    x, v = ours.x[:BATCH], np.linspace(-1, 1, len(ours.y), dtype=np.float32)

    def loss(network: Any, v: Any) -> Any:
        return ours.problem.loss(ours.problem.prepare(network), v, jnp.asarray(x))

    of_theta, of_v = rsgda_gradients(loss, ours.network, v)
    given = torch.tensor(v, requires_grad=True)
    value = theirs.loss(torch.tensor(x), given)
    *of_parameters, of_potentials = torch.autograd.grad(value, [*theirs.parameters, given])
    close("gradients in v", of_v, of_potentials.numpy())
    for i, layer in enumerate(of_theta.layers[::2]):
        close(f"gradients in weight {i}", layer.weight, of_parameters[2 * i].numpy())


def rsgda_gradients(loss: Callable[..., Any], network: Any, v: Any) -> Any:
    """Return gradients in the network and in v."""
    of_both = eqx.filter_grad(lambda both: loss(*both))
    return eqx.filter_jit(of_both)((network, jnp.asarray(v)))
