"""Speed of robust training with the network of Sinha et al., as ratios to a loop in PyTorch.

python benchmarks/robust.py [--quick] [--only NAME ...] [--json FILE]
"""

import functools
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import timing
import torch
import torch.nn.functional as F
from by_hand import close
from jax import lax
from torch.utils.data import DataLoader, TensorDataset

import rsgda
from rsgda.robust.networks import Network

GAMMA, ALPHA, ETA, BATCH = 1.3, 0.1, 10.0, 128
KEY = jr.key(0)


class Size(NamedTuple):
    """How much is run."""

    rounds: int
    rows: int  # of a run of steps of one kind, few: a run begins with a copy of v
    steps: int
    epochs: int  # how often an epoch is run
    epoch_rows: int


FULL = Size(9, 3_000, 100, 5, 60_000)
QUICK = Size(2, 300, 3, 2, 600)


def images(rows: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return images, labels, and what they are."""
    try:
        data = rsgda.data.mnist()
        return data.X_train[:rows], data.y_train[:rows], "MNIST"
    except FileNotFoundError:
        numbers = np.random.default_rng(0)
        x = numbers.random((rows, 28, 28, 1), dtype=np.float32)
        return x, numbers.integers(0, 10, rows, dtype=np.int32), "random pixels, MNIST is not there"


# By `solve`.


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
            self.problem, algorithm, self.theta, self.v, key=KEY, steps=steps, every=steps
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


# By PyTorch.


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


# What is compared.


def steps(size: Size) -> Iterator[timing.Line]:
    """Steps of one kind."""
    x, y, _ = images(size.rows)
    ours = Ours(x, y)
    theirs = rival(ours, x, y)
    for name, p in (("descent", 1 - 1e-6), ("ascent", 1e-6)):
        seconds = timing.interleave(
            {
                "ours": functools.partial(ours.run, p, size.steps),
                "torch": functools.partial(theirs.run, [p > 0.5] * size.steps),
            },
            size.rounds,
        )
        note = f"PyTorch {timing.microseconds(seconds['torch'], size.steps)}"
        ratios = seconds["ours"] / seconds["torch"]
        yield timing.line(f"{name} step, solve / PyTorch", ratios, most=0.9, note=note)


def epoch(size: Size) -> Iterator[timing.Line]:
    """An epoch of RSGDA at p = 1/2, against batches by index and by `DataLoader`."""
    x, y, what = images(size.epoch_rows)
    ours = Ours(x, y)
    theirs = rival(ours, x, y)
    count = -(-len(x) // BATCH)
    descents = int(ours.run(0.5, count).state.descents)
    coins = np.random.default_rng(0).permutation(np.arange(count) < descents)
    contestants = {
        "ours": functools.partial(ours.run, 0.5, count),
        "torch": functools.partial(theirs.run, coins),
        "loader": functools.partial(theirs.run_loader, theirs.loader(), coins),
    }
    seconds = timing.interleave(contestants, size.epochs)
    note = f"PyTorch {statistics.median(seconds['torch']):.3g} s, {what}"
    ratios = seconds["ours"] / seconds["torch"]
    yield timing.line("epoch at p = 0.5, solve / PyTorch", ratios, most=0.9, note=note)
    ratios = seconds["ours"] / seconds["loader"]
    note = f"PyTorch {statistics.median(seconds['loader']):.3g} s"
    yield timing.line("epoch, solve / PyTorch with DataLoader", ratios, most=0.6, note=note)


# Rows, depth and columns of the products that the convolutions of a minibatch come down to.
PRODUCTS = ((BATCH * 14 * 14, 64, 64), (BATCH * 5 * 5, 36 * 64, 128), (BATCH, 25 * 128, 128))


def profile(size: Size) -> Iterator[timing.Line]:
    """What a step comes to if nothing but its matrix products took time."""
    x, y, _ = images(size.rows)
    theirs = rival(Ours(x, y), x, y)
    numbers = np.random.default_rng(0)
    layers = [
        tuple(
            jnp.asarray(numbers.normal(size=shape), jnp.float32)
            for shape in ((r, d), (d, c), (r, c))
        )
        for r, d, c in PRODUCTS
    ]
    # The gradient in the images is needed by ascents, that in the kernels by descents.
    for name, descend in (("descent", True), ("ascent", False)):
        multiply = functools.partial(products, layers, size.steps, descend=descend)
        contestants = {
            "products": lambda multiply=multiply: jax.block_until_ready(multiply()),
            "torch": functools.partial(theirs.run, [descend] * size.steps),
        }
        seconds = timing.interleave(contestants, size.rounds)
        ratios = seconds["products"] / seconds["torch"]
        yield timing.line(f"products of the {name} alone, XLA / PyTorch's step", ratios)


@functools.partial(jax.jit, static_argnames="descend")
def products(layers: Any, steps: int, *, descend: bool) -> Any:
    """Multiply as a step does, again and again."""

    def once(one: Any) -> Any:
        made = []
        for i, (patches, kernel, slope) in enumerate(layers):
            # The smaller factor takes part in the loop: else all rounds would be found to be one.
            made.append(patches @ (one * kernel))
            if descend:
                made.append(patches.T @ (one * slope))
            if i > 0 or not descend:
                made.append(slope @ (one * kernel).T)
        return made

    def step(_: Any, made: Any) -> Any:
        return once(1 + 0 * made[-1][0, 0])

    return lax.fori_loop(0, steps, step, once(jnp.float32(1)))


BENCHMARKS: dict[str, Callable[[Size], Iterator[timing.Line]]] = {
    "steps": steps,
    "epoch": epoch,
    "profile": profile,
}


if __name__ == "__main__":
    timing.main(__doc__ or "", BENCHMARKS, full=FULL, quick=QUICK)
