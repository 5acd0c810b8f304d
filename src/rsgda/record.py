"""Ready-made record functions for `solve` and `sweep`.

Each call below returns a function `record(problem, state)` that gives scalars for the history;
with `stop_below` it also ends the run, with `Status.STOPPED`. Functions with equal numbers are
equal, so that a second one compiles nothing anew. F is that of all samples: data are streamed,
and of a problem with `sample` the same batches are drawn throughout a run, from the run's key.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array

from rsgda import _checks
from rsgda._flat import flattened, norm, unflattened, widest
from rsgda._lanczos import lanczos
from rsgda._trees import PyTree, freeze, thaw
from rsgda.inner import Found, compiled, numbers
from rsgda.moves import State
from rsgda.problem import Problem
from rsgda.whole import Whole, whole

__all__ = ["gradient_norms", "phi", "stationarity", "steps"]

OWN = 2**32 - 1  # folded into the run's key; its steps fold in less than 2^31
CROSS_STEPS = 20  # of Lanczos, for a norm


def phi(
    *,
    tol: float = 1e-6,
    mu: float | None = None,
    stop_below: float | None = None,
    batches: int = 256,
    max_gradients: int = 10_000,
) -> "_Phi":
    r"""Record phi at the current theta, the ascent starting from the current v.

    $$ \mathtt{phi} \le \varphi(\theta_k) \le \mathtt{phi} + \mathtt{gap} $$

    The history gets `F` at the current theta and v, how far v lags being `phi - F`, and `phi`,
    `gap`, `phi_grad_norm` and `certified`, the fields of `rsgda.phi`. The gradients that this
    takes are not counted as the run's.

    Args:
        tol: the gap to reach.
        mu: strong concavity of F in v; None measures it, at each record.
        stop_below: end the run when phi is certified to be at most this.
        batches: with `sample`, the number of batches that F is the mean of.
        max_gradients: most gradients in v for one record.

    >>> import jax, rsgda
    >>> toy = rsgda.problems.Toy(kinds="B", kappa=5.0)
    >>> theta, v = toy.start()
    >>> result = rsgda.solve(
    ...     toy.problem, rsgda.RSGDA(p=0.5, alpha=0.5, eta=1.0), theta, v, key=jax.random.key(0),
    ...     steps=1000, every=10, record=phi(tol=1e-4, stop_below=1e-3),
    ... )
    >>> result.status.name, result.history["phi"][-1] <= 1e-3
    ('STOPPED', np.True_)

    Source: beyond the paper; its experiments on the toy problem know phi in closed form.
    """
    numbers(tol, mu, max_gradients)
    _checks.whole("batches", batches, 1)
    return _Phi(
        float(tol), _float(mu), _limit(stop_below, least=None), int(batches), int(max_gradients)
    )


def stationarity(
    *,
    tol: float = 1e-8,
    mu: float | None = None,
    stop_below: float | None = None,
    batches: int = 256,
    max_gradients: int = 10_000,
) -> "_Stationarity":
    r"""Record the norm of the gradient of phi, and how far it can be off.

    $$ \bigl| \|\nabla \varphi(\theta)\| - \|\nabla_\theta F(\theta, v)\| \bigr|
       \le \ell\, \|v - v^*(\theta)\| \le \ell \sqrt{2\, \mathtt{gap} / \mu} $$

    at the v that `rsgda.phi` finds. $\ell$ is twice the norm of the cross derivative
    $\nabla^2_{\theta v} F$ there, measured by Lanczos: a bound as long as this norm does not
    double on the way to the maximiser. The history gets `stationarity`, `stationarity_error`
    and `certified`. A projection of theta is not looked at.

    Args:
        tol: the gap to reach; the error falls as its square root.
        mu: strong concavity of F in v; None measures it, at each record.
        stop_below: end the run when the norm plus its error is certified to be at most this.
        batches: with `sample`, the number of batches that F is the mean of.
        max_gradients: most gradients in v for one record.

    >>> import jax, rsgda
    >>> toy = rsgda.problems.Toy(kinds="B", kappa=5.0)
    >>> theta, v = toy.start()
    >>> result = rsgda.solve(
    ...     toy.problem, rsgda.RSGDA(p=0.5, alpha=0.5, eta=1.0), theta, v, key=jax.random.key(0),
    ...     steps=1000, every=10, record=stationarity(stop_below=1e-2),
    ... )
    >>> bool(abs(toy.grad_phi(result.theta)[0]) <= 1e-2)
    True

    Source: the paper's measure of stationarity, the norm of the gradient of phi; the error is
    beyond the paper.
    """
    numbers(tol, mu, max_gradients)
    _checks.whole("batches", batches, 1)
    return _Stationarity(
        float(tol), _float(mu), _limit(stop_below, least=0.0), int(batches), int(max_gradients)
    )


def gradient_norms(
    *, step: float = 1.0, stop_below: float | None = None, batches: int = 256
) -> "_GradientNorms":
    r"""Record the norms of both gradients of F at the current theta and v.

    $$ \|\Pi(\theta - s \nabla_\theta F) - \theta\| / s, \qquad
       \|\Pi(v + s \nabla_v F) - v\| / s, \qquad s = \mathtt{step} $$

    Without projections these are the norms of the gradients themselves. The history gets
    `grad_theta_norm` and `grad_v_norm`.

    Args:
        step: the step of the gradient mappings; it matters only with a projection.
        stop_below: end the run when both norms are at most this.
        batches: with `sample`, the number of batches that F is the mean of.

    >>> import jax, rsgda
    >>> toy = rsgda.problems.Toy(kinds="A", kappa=5.0)
    >>> state = rsgda.SGDA(alpha=0.1, eta=0.1).init(toy.problem, *toy.start(), jax.random.key(0))
    >>> norms = gradient_norms()(toy.problem, state)
    >>> {name: round(float(norm), 3) for name, norm in norms.items()}
    {'grad_theta_norm': 0.227, 'grad_v_norm': 1.549}

    Source: beyond the paper: what first-order stationarity of F asks for.
    """
    _checks.positive("step", step)
    _checks.whole("batches", batches, 1)
    return _GradientNorms(float(step), _limit(stop_below, least=0.0), int(batches))


def steps(also: Any = None) -> "_Steps":
    """Record the steps that an algorithm has found, and the signals that moved them.

    The history gets what `state.memory.shown()` returns: of `Auto`, the fields of its Info.
    `rsgda.plots.trace` draws them.

    Args:
        also: another record function, whose values are recorded too.

    >>> import jax, rsgda
    >>> toy = rsgda.problems.Toy(kinds="B", kappa=5.0)
    >>> result = rsgda.solve(
    ...     toy.problem, rsgda.Auto(), *toy.start(), key=jax.random.key(0), steps=50, every=10,
    ...     record=steps(also=gradient_norms()),
    ... )
    >>> bool(result.history["eta"][-1] * result.history["L_v"][-1] <= 1.001)
    True

    Source: none in the paper, whose steps are given.
    """
    if also is not None:
        _checks.function("also", also)
    return _Steps(also)


@dataclasses.dataclass(frozen=True)
class _Steps:
    also: Any

    def __call__(self, problem: Problem, state: State) -> dict[str, Any]:
        if not hasattr(state.memory, "shown"):
            raise ValueError(
                "`record` is rsgda.record.steps(), which needs an algorithm that finds its steps, "
                "such as rsgda.Auto()."
            )
        values = {} if self.also is None else self.also(problem, state)
        return {**state.memory.shown(), **values}


@dataclasses.dataclass(frozen=True)
class _Maximum:
    """What the records that maximise over v have in common."""

    tol: float
    mu: float | None
    stop_below: float | None
    batches: int
    max_gradients: int


class _Phi(_Maximum):
    def __call__(self, problem: Problem, state: State) -> dict[str, Array]:
        found = _found(self, problem, state)
        F = _whole(problem, state, self.batches)
        values = {
            "F": F.value(freeze(state.theta), freeze(state.v)),
            "phi": found.value,
            "gap": found.gap,
            "phi_grad_norm": found.grad_norm,
            "certified": found.certified,
        }
        if self.stop_below is not None:
            values["stop"] = found.certified & (found.value + found.gap <= self.stop_below)
        return values


class _Stationarity(_Maximum):
    def __call__(self, problem: Problem, state: State) -> dict[str, Array]:
        found = _found(self, problem, state)
        F = _whole(problem, state, self.batches)
        error = _error(F, freeze(state.theta), found)
        values = {
            "stationarity": found.grad_norm,
            "stationarity_error": error,
            "certified": found.certified,
        }
        if self.stop_below is not None:
            total = found.grad_norm.astype(error.dtype) + error
            values["stop"] = found.certified & (total <= self.stop_below)
        return values


@dataclasses.dataclass(frozen=True)
class _GradientNorms:
    step: float
    stop_below: float | None
    batches: int

    def __call__(self, problem: Problem, state: State) -> dict[str, Array]:
        F = _whole(problem, state, self.batches)
        of_theta, of_v = _mappings(F, freeze(state.theta), freeze(state.v), jnp.asarray(self.step))
        values = {"grad_theta_norm": of_theta, "grad_v_norm": of_v}
        if self.stop_below is not None:
            values["stop"] = (of_theta <= self.stop_below) & (of_v <= self.stop_below)
        return values


def _whole(problem: Problem, state: State, batches: int) -> Whole:
    return whole(problem, key=jr.fold_in(state.key, OWN), batches=batches)


def _found(record: _Maximum, problem: Problem, state: State) -> Found:
    F = _whole(problem, state, record.batches)
    key = jr.key(0) if F.key is None else F.key  # as `rsgda.phi` has it
    wanted = numbers(record.tol, record.mu, record.max_gradients)
    return compiled(F, freeze(state.theta), freeze(state.v), wanted, key)


@jax.jit
def _error(F: Whole, theta: PyTree, found: Found) -> Array:
    distance = jnp.sqrt(2 * found.gap / jnp.where(found.mu > 0, found.mu, 1))
    cross = 2 * _cross_norm(F, theta, found.v)
    # Where nothing is certified the gap is infinite, and the error is to be so, too.
    return jnp.where(found.certified, cross.astype(distance.dtype) * distance, jnp.inf)


def _cross_norm(F: Whole, theta: PyTree, v: PyTree) -> Array:
    """Return the norm of the cross derivative, from the side that has fewer dimensions."""
    players = (theta, v)
    zeros = jax.tree.map(jnp.zeros_like, players)
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(player)) for player in players]
    side, dtype = int(sizes[1] < sizes[0]), widest(players)

    def across(side: int, along: PyTree) -> PyTree:
        pair = (along, zeros[1]) if side == 0 else (zeros[0], along)
        return F.product(theta, v, pair)[1 - side]

    def there_and_back(u: Array) -> Array:
        there = across(side, unflattened(u, players[side]))
        return flattened(across(1 - side, there), dtype)

    size = sizes[side]
    seen = lanczos(
        there_and_back,
        jr.normal(jr.key(0), (size,), dtype),
        steps=min(size, CROSS_STEPS),
        tol=0.1,
        own_scale=False,
    )
    return jnp.sqrt(jnp.maximum(seen.high, 0))


@jax.jit
def _mappings(F: Whole, theta: PyTree, v: PyTree, step: Array) -> tuple[Array, Array]:
    _, of_theta = F.slope_theta(theta, v)
    _, of_v = F.slope_v(theta, v)
    sides = ((F.problem.project_theta, theta, of_theta, -1), (F.problem.project_v, v, of_v, 1))
    norms = []
    for project, player, slope, sign in sides:
        if project is not None:
            moved = jax.tree.map(
                lambda x, g, by=sign * step: x + by.astype(x.dtype) * g, player, slope
            )
            moved = freeze(project(thaw(moved)))
            slope = jax.tree.map(lambda new, x: (new - x) / step.astype(x.dtype), moved, player)
        norms.append(norm(slope))
    return norms[0], norms[1]


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def _limit(value: Any, least: float | None) -> float | None:
    """Return `stop_below` as a plain number."""
    if value is None:
        return None
    number = None if _checks.is_foreign(value) else _checks.host_number(value)
    if number is None or not math.isfinite(number) or (least is not None and number <= least):
        wish = "a finite number" if least is None else "a positive finite number"
        raise ValueError(f"`stop_below` must be {wish} or None, got {value!r}.")
    return number
