"""The rival in robust training: the same network and steps in PyTorch."""

import statistics
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from by_hand import close
from torch.utils.data import DataLoader, TensorDataset
from training import ALPHA, BATCH, ETA, GAMMA, Ours

from rsgda.robust.networks import Network


class Net(torch.nn.Module):
    """The network of Sinha et al."""

    def __init__(self, network: Network):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 64, 8, stride=2, padding=3)
        self.second = torch.nn.Conv2d(64, 128, 6, stride=2)
        self.third = torch.nn.Conv2d(128, 128, 5)
        self.dense = torch.nn.Linear(128, 10)
        *layers, dense = network.layers
        with torch.no_grad():
            for ours, theirs in zip((self.first, self.second, self.third), layers, strict=True):
                ours.weight.copy_(torch.tensor(np.asarray(theirs.kernel)).permute(3, 2, 0, 1))
                ours.bias.copy_(torch.tensor(np.asarray(theirs.bias)))
            self.dense.weight.copy_(torch.tensor(np.asarray(dense.weight)))
            self.dense.bias.copy_(torch.tensor(np.asarray(dense.bias)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.elu(self.third(F.elu(self.second(F.elu(self.first(x))))))
        return self.dense(x.flatten(1))


class Theirs:
    """RSGDA as one would write it in PyTorch, in place, without needless graphs."""

    def __init__(self, network: Network, x: np.ndarray, y: np.ndarray, memory_format: Any):
        self.network = Net(network).to(memory_format=memory_format)
        self.parameters = list(self.network.parameters())
        self.x = torch.tensor(x).permute(0, 3, 1, 2).contiguous(memory_format=memory_format)
        self.y = torch.tensor(y, dtype=torch.int64)
        self.v = self.x.clone()

    def loss(self, v: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        moved = (v - x).square().sum() / len(x)
        return F.cross_entropy(self.network(v), y) - GAMMA * moved

    def descent(self, places: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
        gradients = torch.autograd.grad(self.loss(self.v[places], x, y), self.parameters)
        with torch.no_grad():
            torch._foreach_add_(self.parameters, gradients, alpha=-ALPHA)

    def ascent(self, places: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
        for parameter in self.parameters:
            parameter.requires_grad_(False)
        v = self.v[places].requires_grad_()
        (gradient,) = torch.autograd.grad(self.loss(v, x, y), v)
        self.v.index_add_(0, places, gradient, alpha=ETA)
        for parameter in self.parameters:
            parameter.requires_grad_(True)

    def run(self, coins: Iterable[bool]) -> None:
        """Take these steps on batches drawn with replacement."""
        for descend in coins:
            places = torch.randint(len(self.x), (BATCH,))
            step = self.descent if descend else self.ascent
            step(places, self.x[places], self.y[places])

    def run_loader(self, loader: DataLoader, coins: Iterable[bool]) -> None:
        """Take these steps on the batches of a loader."""
        for descend, (places, x, y) in zip(coins, loader, strict=True):
            (self.descent if descend else self.ascent)(places, x, y)

    def loader(self) -> DataLoader:
        dataset = TensorDataset(torch.arange(len(self.x)), self.x, self.y)
        return DataLoader(dataset, batch_size=BATCH, shuffle=True)


def rival(ours: Ours, x: np.ndarray, y: np.ndarray) -> Theirs:
    """Return PyTorch's loop in its faster memory format, its gradients compared with ours."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    both = {}
    for memory_format in (torch.contiguous_format, torch.channels_last):
        theirs = Theirs(ours.network, x, y, memory_format)
        theirs.run([True, False])
        seconds = []
        for _ in range(5):
            began = time.perf_counter()
            theirs.run([True, False])
            seconds.append(time.perf_counter() - began)
        both[statistics.median(seconds)] = memory_format
    theirs = Theirs(ours.network, x, y, both[min(both)])
    compare(ours, theirs)
    return theirs


def compare(ours: Ours, theirs: Theirs) -> None:
    """Stop if a gradient differs."""
    of_theta, of_v = ours.gradients(BATCH)
    x, y = theirs.x[:BATCH], theirs.y[:BATCH]
    v = (0.9 * x).requires_grad_()
    *of_parameters, of_images = torch.autograd.grad(theirs.loss(v, x, y), [*theirs.parameters, v])
    close("gradients in v", of_v, of_images.permute(0, 2, 3, 1).numpy())
    for i, layer in enumerate(of_theta.layers[:3]):
        weight = of_parameters[2 * i].permute(2, 3, 1, 0)
        close(f"gradients in kernel {i}", layer.kernel, weight.numpy())
        close(f"gradients in bias {i}", layer.bias, of_parameters[2 * i + 1].numpy())
