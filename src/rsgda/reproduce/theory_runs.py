"""The runs behind the theory's claims: gradients of phi along runs, and iterations to reach one."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from rsgda import theory
from rsgda.algorithms.rsgda import RSGDA
from rsgda.drive.result import Status
from rsgda.drive.sweep import sweep
from rsgda.moves import State
from rsgda.problem import Problem
from rsgda.problems.toy import Toy

SEED = 0
EPS = 0.5  # of the plans for a precision
REACHED = 1e-2  # the norm of the gradient of phi that iterations are counted to
PS = (0.25, 0.5, 0.9)  # 1/kappa, 1/2 and one above
# Records are even at the end of a run and closer at its start: curves are drawn over log(k).
OPENING, FINER, RECORDS = 100, 16, 250

EXACT = Toy(kinds="ABC", kappa=4.0)
NOISY = Toy(kinds="ABC", kappa=4.0, s=0.2, t=0.2, rho=0.05)
INTERPOLATING = Toy(kinds="ABC", kappa=4.0, s=0.2, rho=0.05)


class Case(NamedTuple):
    """A corollary, and the problem that its bound is held against."""

    toy: Toy
    make: Callable[[theory.Regularity, float], theory.Plan]
    rate: float | None = None  # almost surely the smallest |grad phi|^2 is o(k^-rate)


CASES = {
    "exact": Case(EXACT, lambda r, p: theory.exact(r, p=p, eps=EPS)),
    "exact, main_text": Case(EXACT, lambda r, p: theory.exact(r, p=p, eps=EPS, main_text=True)),
    "almost_sure": Case(NOISY, lambda r, p: theory.almost_sure(r, p=p), 0.3),
    "almost_sure, exact": Case(EXACT, lambda r, p: theory.almost_sure(r, p=p, exact=True), 1.0),
    "anytime": Case(NOISY, lambda r, p: theory.anytime(r, p=p)),
    "precision": Case(NOISY, lambda r, p: theory.precision(r, p=p, eps=EPS)),
    "large_batch": Case(NOISY, lambda r, p: theory.large_batch(r, p=p, eps=EPS)),
    "interpolation_almost_sure": Case(
        INTERPOLATING, lambda r, p: theory.interpolation_almost_sure(r, p=p), 0.4
    ),
    "interpolation_anytime": Case(INTERPOLATING, lambda r, p: theory.interpolation_anytime(r, p=p)),
    "interpolation_precision": Case(
        INTERPOLATING, lambda r, p: theory.interpolation_precision(r, p=p, eps=EPS)
    ),
}

# p as a function of kappa: three inside [1/kappa, 1/2], and one outside.
RULES: dict[str, Callable[[float], float]] = {
    "1/2": lambda kappa: 0.5,
    "1/4": lambda kappa: 0.25,
    "1/kappa": lambda kappa: 1 / kappa,
    "kappa^-2": lambda kappa: kappa**-2.0,
}


class Curve(NamedTuple):
    """Squared gradients of phi along the runs of a plan, with its bound.

    Attributes:
        corollary: a name in `CASES`.
        p: the probability of a descent.
        eps: what the plan is for, if it is for a precision.
        steps: the iterations that it prescribes for it.
        k: iterations.
        mean: of |grad phi(theta_k)|^2 over the seeds.
        error: its standard error.
        bound: the plan's bound for all t < k, from k = 1 on; NaN at 0.
        falls: for a rate that is almost sure, k^rate times the smallest |grad phi|^2 so far: the
            largest over seeds of its last value relative to its highest.
    """

    corollary: str
    p: float
    eps: float | None
    steps: int | None
    k: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    bound: np.ndarray
    falls: float | None

    @property
    def smallest(self) -> np.ndarray:
        """The smallest mean so far, at t < k; infinite where there is none."""
        return np.r_[np.inf, np.minimum.accumulate(self.mean)[:-1]]


class Reach(NamedTuple):
    """Iterations of RGDA until |grad phi| is down to `REACHED`.

    Attributes:
        kappa: the condition number.
        rule: how p depends on it, or "" if it does not.
        p: the probability of a descent.
        planned: the iterations that `theory.exact` prescribes.
        iterations: one for each seed.
    """

    kappa: float
    rule: str
    p: float
    planned: int
    iterations: np.ndarray


def regularity(toy: Toy) -> theory.Regularity:
    """Return the constants of a toy problem at its start."""
    return theory.Regularity.of(toy, *toy.start())


def curves(name: str, *, seeds: int, steps: int) -> list[Curve]:
    """Run the plans of one corollary for all `PS`, `steps` iterations or what they prescribe."""
    case = CASES[name]
    r = regularity(case.toy)
    plans = [case.make(r, p) for p in PS]
    size = plans[0].batch_size or case.toy.batch_size
    toy = dataclasses.replace(case.toy, batch_size=size)
    algorithms = [with_laws(plan.algorithm) for plan in plans]
    if all(plan.steps is not None for plan in plans):
        steps = min(steps, max(plan.steps or 0 for plan in plans))
    every = -(-steps // RECORDS)
    steps = every * RECORDS
    # The same keys give the same runs, so that each sweep is a closer look at the next.
    times, squares = np.zeros(0, int), np.zeros((len(PS), seeds, 0))
    for gap, end in looks(every, steps):
        later, rest = recorded(toy, algorithms, seeds, end, gap)
        new = later > (times[-1] if len(times) else -1)
        times = np.r_[times, later[new]]
        squares = np.concatenate([squares, rest[..., new]], axis=-1)
    return [
        _curve(name, plan, times, square, case.rate)
        for plan, square in zip(plans, squares, strict=True)
    ]


def looks(every: int, steps: int) -> list[tuple[int, int]]:
    """Return steps between records and last steps, finer and shorter ones first.

    >>> looks(240, 60_000)
    [(1, 100), (15, 1500), (240, 60000)]
    """
    found = [(every, steps)]
    while every > 1:
        every = -(-every // FINER)
        found.append((every, min(OPENING * every, steps)))
    return found[::-1]


def with_laws(algorithm: RSGDA) -> RSGDA:
    """Write fixed steps as powers of time too, so that one program runs all plans of a problem."""
    alpha, eta = (
        step if isinstance(step, theory.PowerLaw) else theory.PowerLaw(step, 0.0)  # pyright: ignore
        for step in (algorithm.alpha, algorithm.eta)
    )
    return dataclasses.replace(algorithm, alpha=alpha, eta=eta)


def _curve(
    name: str, plan: theory.Plan, times: np.ndarray, square: np.ndarray, rate: float | None
) -> Curve:
    falls = None
    if rate is not None:
        scaled = times[1:] ** rate * np.minimum.accumulate(square, axis=1)[:, :-1]
        falls = float((scaled[:, -1] / scaled.max(axis=1)).max())
    p = plan.algorithm.p
    return Curve(
        corollary=name,
        p=float(p),  # pyright: ignore[reportArgumentType]
        eps=plan.eps,
        steps=plan.steps,
        k=times,
        mean=_digits(square.mean(axis=0)),
        error=_digits(square.std(axis=0, ddof=1) / np.sqrt(len(square))),
        bound=np.r_[np.nan, _digits(plan.bound(times[1:]))],
        falls=falls,
    )


def _digits(values: np.ndarray) -> np.ndarray:
    """Round to what the files hold, so that everything can be derived from them again."""
    return np.array([float(f"{value:.6g}") for value in values])


def recorded(
    toy: Toy, algorithms: list[Any], seeds: int, steps: int, every: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return times and |grad phi|^2, algorithms x seeds x times, the start included."""
    theta, v = toy.start()
    table = sweep(
        toy.problem,
        algorithms,
        theta,
        v,
        keys=jr.split(jr.key(SEED), seeds),
        steps=steps,
        record=square_of(toy),
        every=every,
    )
    if not np.all(table.status == Status.FINISHED):
        raise RuntimeError(f"runs of the toy problem did not finish: {table}")
    found = table.history["square"]
    start = np.full((*found.shape[:2], 1), float(jnp.sum(jnp.square(toy.grad_phi(theta)))))
    return np.r_[0, table.history["step"][0, 0]], np.concatenate([start, found], axis=-1)


def reach(kappa: float, rule: str, p: float, *, seeds: int) -> Reach:
    """Count the iterations of RGDA with the steps of `theory.exact`."""
    # phi of kind B does not depend on kappa: what changes with it is the algorithm alone.
    toy = Toy(kinds="B", kappa=kappa)
    theta, v = toy.start()
    plan = theory.exact(regularity(toy), p=p, eps=REACHED)
    # The time scale of the descents; a run takes about 20 of them.
    scale = 1 / (plan.algorithm.alpha * p)  # pyright: ignore[reportOperatorIssue]
    table = sweep(
        toy.problem,
        [plan.algorithm],
        theta,
        v,
        keys=jr.split(jr.key(SEED), seeds),
        steps=min(plan.steps or 0, int(500 * scale)),
        record=reached(toy),
        every=max(1, int(scale / 10)),
    )
    if not np.all(table.status == Status.STOPPED):
        raise RuntimeError(f"runs of the toy problem did not come to {REACHED:g}: {table}")
    iterations = table.history["step"][0, :, -1]
    return Reach(kappa, rule, p, plan.steps or 0, iterations)


@functools.lru_cache(maxsize=64)
def square_of(toy: Toy) -> Callable[[Problem, State], dict[str, jax.Array]]:
    """Return a record of |grad phi|^2; one function for each problem, which is compiled once."""

    def record(problem: Problem, state: State) -> dict[str, jax.Array]:
        return {"square": jnp.sum(jnp.square(toy.grad_phi(state.theta)))}

    return record


@functools.lru_cache(maxsize=64)
def reached(toy: Toy) -> Callable[[Problem, State], dict[str, jax.Array]]:
    """Return a record that stops a run at `REACHED`."""
    square = square_of(toy)

    def record(problem: Problem, state: State) -> dict[str, jax.Array]:
        return {"stop": square(problem, state)["square"] <= REACHED**2}

    return record
