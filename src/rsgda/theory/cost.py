"""Which p is cheapest, when a descent and an ascent do not cost the same."""

import dataclasses
import functools
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import Array, lax

from rsgda import moves
from rsgda._checks import host_number, positive
from rsgda._trees import PyTree
from rsgda.problem import Problem
from rsgda.theory.exact_gradients import exact
from rsgda.theory.interpolating import interpolation_precision
from rsgda.theory.noisy_gradients import precision
from rsgda.theory.plan import Plan, accuracy, door
from rsgda.theory.regularity import Regularity

GRID = 300
ROUNDS = 7
SECONDS = 0.05  # of one timing
# Steps that change nothing one could see, so that a measurement cannot diverge.
TINY = 1e-12
TEN_TIMES, WIDEST = 20, 40  # of the bars, in characters


@dataclasses.dataclass(frozen=True, kw_only=True)
class BestP:
    """The cheapest p, and the curve that it is the bottom of.

    Attributes:
        p: the probability of a descent at which the total cost is smallest.
        cost: the total cost there.
        plan: the plan there.
        descent_cost: what a descent costs, given or measured in seconds.
        ascent_cost: what an ascent costs, likewise.
        curve: values of p, and the total cost at each.
        range: the p on the curve whose cost is at most twice the smallest.
    """

    p: float
    cost: float
    plan: Plan
    descent_cost: float
    ascent_cost: float
    curve: tuple[np.ndarray, np.ndarray] = dataclasses.field(repr=False)

    @property
    def range(self) -> tuple[float, float]:
        """The p on the curve whose cost is at most twice the smallest."""
        near = self.curve[0][self.curve[1] <= 2 * self.cost]
        return float(near.min()), float(near.max())

    def __str__(self) -> str:
        """Show the curve as a table with bars, which are logarithmic."""
        lines = [f"p = {self.p:.4g} costs {self.cost:.4g} by `{self.plan.corollary}`"]
        shown = [*np.geomspace(self.curve[0][0], 0.1, 6)[1:], 0.25, 0.5, 0.75, 0.9, 0.99]
        times = np.interp(shown, *self.curve) / self.cost
        decades = np.maximum(np.log10(times), 0)
        # A factor of ten is as long as this, or as short as it must be for all to fit.
        longest = min(TEN_TIMES, (WIDEST - 1) / max(decades.max(), 1e-9))
        for p, factor, length in zip(shown, times, 1 + decades * longest, strict=True):
            lines.append(f"  p = {p:8.2g}  {factor:8.3g} x  {'#' * round(length)}")
        return "\n".join(lines)


def best_p(
    r: Regularity,
    *,
    eps: float,
    descent_cost: float | None = None,
    ascent_cost: float | None = None,
    plan: Callable[..., Plan] | None = None,
    measure: bool = False,
    problem: Problem | None = None,
    theta: PyTree = None,
    v: PyTree = None,
    key: Array | None = None,
) -> BestP:
    r"""Find the p with the smallest guaranteed cost of reaching a precision.

    $$ \min_{0 < p < 1} \; \mathtt{steps}(p) \cdot \mathtt{batch\_size}(p) \cdot
       \bigl( p\, \mathtt{descent\_cost} + (1 - p)\, \mathtt{ascent\_cost} \bigr) $$

    The curve is flat over a wide range of p, often; `range` says how wide.

    Args:
        r: the constants.
        eps: the wanted norm of the gradient of phi.
        descent_cost: of one descent, in any unit; 1 if not given.
        ascent_cost: of one ascent, in the same unit; 1 if not given.
        plan: the corollary, a function of this module that takes `p` and `eps`. None: `exact`
            without noise, `interpolation_precision` if sigma_v = 0, else `precision`.
        measure: time both steps on `problem` first, and take seconds for the costs.
        problem: what to time, with a start `theta`, `v` and a `key` for its batches.
        theta: see `problem`.
        v: see `problem`.
        key: see `problem`.

    >>> r = Regularity(L=1.0, mu=0.01)
    >>> cheap = best_p(r, eps=0.1, descent_cost=1.0, ascent_cost=1.0)
    >>> dear = best_p(r, eps=0.1, descent_cost=100.0, ascent_cost=1.0)
    >>> dear.p < cheap.p
    True

    Source: beyond the paper, which leaves it at "if descent steps are cheaper, take p larger".
    """
    door(r, 0.5)
    eps = accuracy(eps)
    if measure:
        if descent_cost is not None or ascent_cost is not None:
            raise ValueError("`measure` finds the costs; give no `descent_cost`, `ascent_cost`.")
        descent_cost, ascent_cost = seconds(problem, theta, v, key)
    elif problem is not None:
        raise ValueError("`problem` is for `measure=True`, which is False.")
    descent_cost = _cost("descent_cost", descent_cost)
    ascent_cost = _cost("ascent_cost", ascent_cost)
    if plan is None:
        plan = precision if r.sigma_v else interpolation_precision if r.sigma else exact
    try:
        make = functools.partial(plan, r, eps=eps)
        make(p=0.5)
    except TypeError as error:
        raise ValueError(
            f"`plan` must be a function of `rsgda.theory` that takes `p` and `eps`, got {plan!r}."
        ) from error

    def total(p: float) -> float:
        made = make(p=p)
        if made.steps is None:
            raise ValueError(f"`plan` must be one with `steps`, got {made.corollary}.")
        return made.steps * (made.batch_size or 1) * (p * descent_cost + (1 - p) * ascent_cost)

    # Evenly in log(p / (1 - p)): both ends matter.
    logits = np.linspace(math.log(1e-2 * min(1.0, eps) / r.kappa**2), math.log(1e6), GRID)
    grid = 1 / (1 + np.exp(-logits))
    costs = np.asarray([total(p) for p in grid.tolist()])
    at = int(np.argmin(costs))
    near = logits[max(0, at - 1)], logits[min(GRID - 1, at + 1)]
    finer = (1 / (1 + np.exp(-np.linspace(*near, 101)))).tolist()
    p = min([*finer, float(grid[at])], key=total)
    return BestP(
        p=p,
        cost=total(p),
        plan=make(p=p),
        descent_cost=descent_cost,
        ascent_cost=ascent_cost,
        curve=(grid, costs),
    )


def seconds(
    problem: Problem | None, theta: PyTree, v: PyTree, key: Array | None
) -> tuple[float, float]:
    """Return the seconds of a descent and of an ascent, medians of interleaved timings.

    A descent makes the next ascent prepare theta again; that time is the descent's.
    """
    for name, value in (("problem", problem), ("theta", theta), ("v", v), ("key", key)):
        if value is None:
            raise ValueError(f"`{name}` must be given to be measured, got None.")
    state = moves.start(problem, theta, v, key, TINY, TINY)  # pyright: ignore[reportArgumentType]
    # From here ascents find theta prepared, as they do in the middle of a run.
    state = _loop(problem, state, 1, descends=False)  # pyright: ignore[reportArgumentType]

    def timed(descends: bool, rounds: int) -> float:
        begun = time.perf_counter()
        jax.block_until_ready(_loop(problem, state, rounds, descends=descends))
        return time.perf_counter() - begun

    rounds = {}
    for descends in (False, True):
        timed(descends, 1)  # compiles
        count = 1
        while timed(descends, count) < SECONDS:
            count *= 2
        rounds[descends] = count
    pairs = [(timed(False, rounds[False]), timed(True, rounds[True])) for _ in range(ROUNDS)]
    ascent = statistics.median(a for a, _ in pairs) / rounds[False]
    both = statistics.median(b for _, b in pairs) / rounds[True]
    return max(both - ascent, 0.01 * ascent), ascent


@functools.partial(jax.jit, static_argnames="descends")
def _loop(problem: Problem, state: moves.State, rounds: int, *, descends: bool) -> moves.State:
    def once(k: Array, state: moves.State) -> moves.State:
        key = jax.random.fold_in(state.key, k)
        if descends:
            state = moves.descend(problem, state, key, TINY)
        return moves.ascend(problem, state, key, TINY)

    return lax.fori_loop(0, rounds, once, state)


def _cost(name: str, value: Any) -> float:
    if value is None:
        return 1.0
    positive(name, value)
    number = host_number(value)
    if number is None:
        raise ValueError(f"`{name}` must be one positive number, got {value!r}.")
    return number
