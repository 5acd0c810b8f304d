"""Speed, memory and closeness of entropic transport, as ratios to PyTorch, OTT and POT.

python benchmarks/transport.py [--quick] [--only NAME ...] [--json FILE]
"""

import functools
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import timing
import torch
from by_hand import close
from contest import Case, cases, contest
from ott.geometry import pointcloud
from ott.problems.linear import linear_problem
from ott.solvers.linear import sinkhorn as ott_sinkhorn

import rsgda
from rsgda import transport

EPSILON, BATCH, ALPHA, ETA = 0.1, 128, 0.005, 5.0
KEY = jr.key(0)


class Size(NamedTuple):
    """How much is run."""

    rounds: int
    rows: int  # of x in the steps
    targets: int
    wide: int  # dimensions of y,
    narrow: int  # and of x
    descents: int
    ascents: int
    whole: tuple[int, int]  # rows and targets of a whole W_eps,
    iterations: int  # and the iterations of it
    largest: tuple[int, int, int]  # whose memory is measured
    samples: int  # of a semi-discrete solve


FULL = Size(
    9, 20_000, 4_683, 1_024, 41, 100, 2_000, (20_000, 4_683), 5, (159_594, 6_661, 37), 384_000
)  # fmt: skip
QUICK = Size(2, 300, 50, 20, 4, 3, 5, (300, 50), 2, (500, 60, 3), 4_000)


def clouds(rows: int, targets: int, wide: int, narrow: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points x and y."""
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(rows, narrow)).astype(np.float32)
    return x, numbers.normal(size=(targets, wide)).astype(np.float32)


# Steps of matching, by `solve` and by PyTorch.


class Ours:
    """The library's run."""

    def __init__(self, size: Size):
        self.x, self.y = clouds(size.rows, size.targets, size.wide, size.narrow)
        self.network = transport.mlp((size.wide, 128, 96, 64, size.narrow), key=KEY)
        self.problem, self.theta, self.v = transport.matching(
            self.x, self.y, self.network, epsilon=EPSILON, batch_size=BATCH
        )

    def run(self, p: float, steps: int) -> None:
        algorithm = rsgda.RSGDA(p=p, alpha=ALPHA, eta=ETA)
        result = rsgda.solve(
            self.problem, algorithm, self.theta, self.v, key=KEY, steps=steps, every=steps
        )
        jax.block_until_ready((result.theta, result.v))


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
    import equinox as eqx

    of_both = eqx.filter_grad(lambda both: loss(*both))
    return eqx.filter_jit(of_both)((network, jnp.asarray(v)))


def steps(size: Size) -> Iterator[timing.Line]:
    """Descents, and ascents one after the other."""
    ours = Ours(size)
    theirs = Theirs(ours)
    compare(ours, theirs)
    kinds = (
        ("descent", 1 - 1e-6, size.descents, 0.9),
        ("ascents in a row", 1e-6, size.ascents, 0.1),
    )
    for name, p, count, most in kinds:
        few = max(1, count // 10) if p < 0.5 else count  # PyTorch's ascents are slow
        seconds = timing.interleave(
            {
                "ours": functools.partial(ours.run, p, count),
                "torch": functools.partial(theirs.run, p > 0.5, few),
            },
            size.rounds,
        )
        note = f"PyTorch {timing.microseconds(seconds['torch'], few)}"
        ratios = (seconds["ours"] / count) / (seconds["torch"] / few)
        yield timing.line(f"{name}, solve / PyTorch", ratios, most=most, note=note)


# All of W_eps.


def whole(size: Size) -> Iterator[timing.Line]:
    """Sinkhorn's iterations on all rows, as many for both."""
    few = clouds(200, 50, 3, 3)
    close("potentials", _ours(*few, 3_000), _ott(*few, 3_000))
    (rows, targets), narrow = size.whole, size.narrow
    x, y = clouds(rows, targets, narrow, narrow)
    contestants: dict[str, Callable[[], object]] = {
        "ours": functools.partial(_ours, x, y, size.iterations),
        "ott": functools.partial(_ott, x, y, size.iterations),
        "certified": functools.partial(_certified, x, y, size.iterations),
    }
    seconds = timing.interleave(contestants, size.rounds)
    note = f"OTT {statistics.median(seconds['ott']):.3g} s, {rows:,} × {targets:,} × {narrow}"
    name = f"W_eps, {size.iterations} iterations, sinkhorn / OTT dense"
    yield timing.line(name, seconds["ours"] / seconds["ott"], most=0.4, note=note)
    note = "OTT has no certificate"
    yield timing.line(f"{name}, with its gap", seconds["certified"] / seconds["ott"], note=note)


def _solved(x: np.ndarray, y: np.ndarray, count: int) -> transport.Sinkhorn:
    return transport.sinkhorn(
        x, y, epsilon=EPSILON, tol=1e-30, max_iterations=count, accelerate=False
    )


def _ours(x: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    return np.asarray(_solved(x, y, count).v)


def _certified(x: np.ndarray, y: np.ndarray, count: int) -> float:
    return _solved(x, y, count).gap


def _ott(x: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    g = np.asarray(_ott_compiled(x, y, count))
    return g - g.mean()


@functools.partial(jax.jit, static_argnames="count")
def _ott_compiled(x: Any, y: Any, count: int) -> Any:
    solver = ott_sinkhorn.Sinkhorn(
        threshold=-1.0, min_iterations=count, max_iterations=count, inner_iterations=count
    )
    geometry = pointcloud.PointCloud(x, y, epsilon=EPSILON)
    return solver(linear_problem.LinearProblem(geometry)).g


def memory(size: Size) -> Iterator[timing.Line]:
    """The memory of a W_eps that has no dense cost matrix."""
    script = Path(__file__).with_name("transport_memory.py")
    seen = timing.in_new_process(script, *map(str, size.largest))
    shape = " × ".join(f"{count:,}" for count in size.largest)
    dense = 4 * size.largest[0] * size.largest[1] / 1e9
    note = f"W_eps of {shape}, {seen['seconds']:.3g} s for 2 iterations; its costs: {dense:.3g} GB"
    yield timing.line(
        "sinkhorn, whole process at most", [seen["peak"]], unit="GB", most=2, note=note
    )


# Semi-discrete solves.


def semidiscrete(size: Size) -> Iterator[timing.Line]:
    """Closeness at equal samples, each at its best step of three, and time."""
    for case in cases(quick=size is QUICK):
        yield from _contest(case, size)


def _contest(case: Case, size: Size) -> Iterator[timing.Line]:
    found = contest(case, size.samples, size.rounds)
    for rival in ("POT", "OTT"):
        note = f"{found.gaps['rsgda']:.2g} and {found.gaps[rival]:.2g} below {found.optimum:.6f}"
        gaps = found.gaps["rsgda"] / found.gaps[rival]
        yield timing.line(f"{case.name}: gap, rsgda / {rival}", [gaps], most=1, note=note)
        ratios = found.seconds["rsgda"] / found.seconds[rival]
        note = f"{rival} {statistics.median(found.seconds[rival]):.3g} s"
        yield timing.line(f"{case.name}: time, rsgda / {rival}", ratios, most=1, note=note)


BENCHMARKS: dict[str, Callable[[Size], Iterator[timing.Line]]] = {
    "steps": steps,
    "whole": whole,
    "memory": memory,
    "semidiscrete": semidiscrete,
}


if __name__ == "__main__":
    timing.main(__doc__ or "", BENCHMARKS, full=FULL, quick=QUICK)
