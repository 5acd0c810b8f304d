"""Semi-discrete solvers side by side: the same samples in number, steps tuned on as many."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import ot
import timing
from ott.geometry import semidiscrete_pointcloud
from ott.problems.linear import semidiscrete_linear_problem
from ott.solvers.linear import semidiscrete as ott_semidiscrete
from scipy.special import logsumexp

from rsgda import transport

BATCH = 128
TRIED = (0.3, 1.0, 3.0)  # times a solver's own step
KEY = jr.key(0)


class Case(NamedTuple):
    """A cloud x, targets y with their weights, and epsilon."""

    name: str
    x: np.ndarray
    y: np.ndarray
    b: np.ndarray
    epsilon: float


class Found(NamedTuple):
    """What is known of a case: how far each solver is below the optimum, and its times."""

    optimum: float
    gaps: dict[str, float]
    seconds: dict[str, np.ndarray]


def cases(*, quick: bool) -> list[Case]:
    """Return the case of 5,000 × 1,000 in ten dimensions, and two others."""
    part = 20 if quick else 1
    numbers = np.random.default_rng(0)

    def normal(rows: int, d: int) -> np.ndarray:
        return (numbers.normal(size=(max(rows // part, 8), d)) / np.sqrt(d)).astype(np.float32)

    first = Case("normal", normal(5_000, 10), normal(1_000, 10), np.ones(1), 0.1)
    second = Case("few, weighted", normal(20_000, 3), 0.7 * normal(300, 3) + 0.3, np.ones(1), 0.05)
    centres = 2 * normal(40, 20)
    x = centres[numbers.integers(0, len(centres), 8_000 // part)]
    third = Case(
        "clusters", x + 0.3 * normal(8_000, 20)[: len(x)], normal(2_000, 20), np.ones(1), 0.1
    )
    weights = numbers.dirichlet(np.full(len(second.y), 2.0))
    return [
        first._replace(b=np.full(len(first.y), 1 / len(first.y))),
        second._replace(b=weights),
        third._replace(b=np.full(len(third.y), 1 / len(third.y))),
    ]


def contest(case: Case, samples: int, rounds: int) -> Found:
    """Tune each solver's step on the same three multiples, then compare and time it."""
    solvers = {"rsgda": ours, "POT": pot, "OTT": ott}
    best = transport.sinkhorn(
        case.x, case.y, epsilon=case.epsilon, b=case.b, tol=1e-5, max_iterations=20_000
    )
    optimum = value(case, np.asarray(best.v))
    gaps, chosen = {}, {}
    for name, solver in solvers.items():
        ended = {times: value(case, solver(case, samples, times)) for times in TRIED}
        times = max(ended, key=ended.__getitem__)
        gaps[name], chosen[name] = optimum - ended[times], times
    runs: dict[str, Callable[[], object]] = {
        name: functools.partial(solver, case, samples, chosen[name])
        for name, solver in solvers.items()
    }
    return Found(optimum, gaps, timing.interleave(runs, rounds, compiled=True))


def value(case: Case, v: np.ndarray) -> float:
    """Return the semi-dual in float64, by NumPy alone."""
    x, y, v = case.x.astype(float), case.y.astype(float), v.astype(float)
    total = 0.0
    for rows in np.array_split(x, 1 + len(x) // 1_000):
        costs = np.square(rows).sum(1)[:, None] + np.square(y).sum(1) - 2 * rows @ y.T
        total += logsumexp((v - costs) / case.epsilon + np.log(case.b), axis=1).sum()
    return float(v @ case.b - case.epsilon * total / len(x))


def ours(case: Case, samples: int, times: float) -> np.ndarray:
    """Return the potentials of `semidiscrete`, whose own step is b epsilon."""
    found = transport.semidiscrete(
        case.x, case.y, epsilon=case.epsilon, b=case.b, key=KEY, samples=samples,
        batch_size=BATCH, eta=times * BATCH * case.epsilon,
    )  # fmt: skip
    return np.asarray(found.v)


def pot(case: Case, samples: int, times: float) -> np.ndarray:
    """Return the potentials of `ot.semidiscrete`, whose own step is the root of n b."""
    numbers = np.random.default_rng(0)

    def draw(count: int) -> np.ndarray:
        return case.x[numbers.integers(0, len(case.x), count)]

    return ot.semidiscrete.solve_semidiscrete(
        case.y, draw, case.b.astype(np.float32), reg=case.epsilon, max_iter=samples // BATCH,
        batch_size=BATCH, lr0=times * float(np.sqrt(len(case.y) * BATCH)),
    )  # fmt: skip


def ott(case: Case, samples: int, times: float) -> np.ndarray:
    """Return the potentials of OTT's solver with decaying steps."""
    steps = samples // BATCH
    return np.asarray(_ott(case.x, case.y, case.b.astype(np.float32), times, case.epsilon, steps))


@functools.partial(jax.jit, static_argnames=("epsilon", "steps"))
def _ott(x: jax.Array, y: jax.Array, b: jax.Array, times: float, epsilon: float, steps: int):
    def draw(key: jax.Array, shape: tuple[int, ...], dtype: object = None) -> jax.Array:
        del dtype
        return jnp.asarray(x)[jr.randint(key, shape[:1], 0, len(x))]

    solver = ott_semidiscrete.SemidiscreteSolver(
        num_iterations=steps, batch_size=BATCH, threshold=0.0, error_eval_every=steps,
        optimizer=optax.sgd(
            optax.cosine_decay_schedule(times * BATCH * epsilon, steps, alpha=1e-3)
        ),
    )  # fmt: skip
    geometry = semidiscrete_pointcloud.SemidiscretePointCloud(draw, y, epsilon=epsilon)
    problem = semidiscrete_linear_problem.SemidiscreteLinearProblem(geometry, b=b)
    return solver(KEY, problem).g
