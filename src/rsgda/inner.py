"""The maximum over v, with a bound on how far the value found can be below it."""

import dataclasses
import functools
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array, lax

from rsgda import _checks
from rsgda._concavity import ROW_STEPS, STEPS, ConcavityWarning, rows_at_once
from rsgda._flat import norm
from rsgda._search import Best, Function, Numbers, search
from rsgda._start import check_player, check_project_rows, check_rows
from rsgda._trees import PyTree, freeze, thaw
from rsgda.problem import Problem
from rsgda.whole import Whole, whole

POINTS = 2  # around the start, and as many around the end
ROW_POINTS = 1  # likewise for each row of a separable problem


@dataclasses.dataclass(frozen=True, eq=False)
class Phi:
    r"""A value of $\varphi(\theta) = \max_{v \in V} F(\theta, v)$ and how far it can be off.

    Attributes:
        value: $F(\theta, v)$ at the best v found, a lower bound of phi.
        gap: phi is at most `value + gap`; infinite where `certified` is False. It is right up to
            the rounding of F itself.
        grad_norm: the norm of $\nabla_\theta F(\theta, v)$, which at the maximiser is that of
            the gradient of phi.
        v: the best v found, in the structure it was given in.
        certified: that F was strongly concave with the constant `mu` wherever it was looked at,
            and the gap is finite. Whether `tol` was reached is for `gap` to say.
        mu: the strong concavity of F in v that the gap rests on; 0 where there is none.
        gradients: full gradients of F spent, in v and one in theta. On a separable problem:
            gradients of rows, divided by n and rounded up.
        values: values of F without a gradient spent, counted likewise.
        products: Hessian-vector products spent, counted likewise.
        message: what all this means, in words.
        rows_certified: of a separable problem, the part of rows that are certified; else None.
        rows_gap: likewise, the gap that these rows add up to.
        rest: likewise, what the other rows add to `value`: for them it is a lower bound only.
    """

    value: float
    gap: float
    grad_norm: float
    v: PyTree = dataclasses.field(repr=False)
    certified: bool
    mu: float
    gradients: int
    values: int
    products: int
    message: str
    rows_certified: float | None = None
    rows_gap: float | None = None
    rest: float | None = None


def phi(
    problem: Problem,
    theta: PyTree,
    v: PyTree,
    *,
    tol: float = 1e-6,
    mu: float | None = None,
    key: Array | None = None,
    batches: int = 256,
    max_gradients: int = 10_000,
) -> Phi:
    r"""Maximise F over v and say how far the value can be below the maximum.

    $$ \mathtt{value} \le \varphi(\theta) = \max_{v \in V} F(\theta, v)
       \le \mathtt{value} + \mathtt{gap} $$

    Accelerated projected gradient ascent with its own step sizes. The gap rests on a constant mu
    of strong concavity. It is checked, or measured, by Lanczos at the start, at the end and at
    points around both, and between successive points of the ascent; a measured one is divided by
    2. What these points do not show, such as a second maximum far away, the gap does not know.

    Args:
        problem: what is being solved; with data F is the mean over all rows.
        theta: where phi is wanted.
        v: where the ascent starts; it is projected on V first.
        tol: the gap to reach.
        mu: strong concavity of F in v, on V; None measures it. On a separable problem it is
            that of the mean over rows, 1/n of what each row by itself has.
        key: needed with `sample`, where F is the mean over the batches it draws. It also draws
            the points at which curvature is measured, which are otherwise always the same.
        batches: with `sample`, the number of batches.
        max_gradients: most gradients in v; on a separable problem for each row.

    >>> import jax.numpy as jnp, rsgda
    >>> toy = rsgda.problems.Toy(kinds="AB", kappa=10.0)
    >>> theta, v = toy.start()
    >>> found = phi(toy.problem, theta, v, tol=1e-3)
    >>> found.value <= toy.phi(theta) <= found.value + found.gap, found.gap <= 1e-3
    (Array(True, dtype=bool), True)
    >>> found.certified, round(found.mu / toy.mu, 3)
    (True, 0.5)

    Source: the delta-maximiser of the paper's SGDmax; the certificate is beyond the paper: the
    gradient mapping of Nesterov, Introductory Lectures on Convex Optimization, Section 2.2.3.
    """
    F = whole(problem, key=key, batches=batches)
    check_player("theta", theta)
    check_player("v", v)
    check_rows(problem, v)
    if not any(leaf.size for leaf in jax.tree.leaves(freeze(v))):
        raise ValueError("`v` must hold at least one number, got empty arrays.")
    wanted = numbers(tol, mu, max_gradients)
    if problem.separable and problem.project_v is not None:
        check_project_rows(problem.project_v, v)
    found = compiled(
        F,
        freeze(theta),
        freeze(v),
        wanted,
        jr.key(0) if key is None else key,
    )
    return _told(problem, found, tol, max_gradients, measured=mu is None)


def numbers(tol: Any, mu: Any, max_gradients: Any) -> Numbers:
    """Return the numbers of a search as arrays; refuse those that cannot work."""
    _checks.positive("tol", tol)
    if mu is not None:
        _checks.positive("mu", mu)
    _checks.whole("max_gradients", max_gradients, 1)
    _checks.counted("max_gradients", max_gradients)
    return Numbers(
        jnp.asarray(tol, float),
        None if mu is None else jnp.asarray(mu, float),
        jnp.asarray(max_gradients, jnp.int32),
    )


class Found(NamedTuple):
    """What `maximise` returns: `Phi` as arrays, v with its structure frozen."""

    value: Array
    gap: Array
    grad_norm: Array
    v: PyTree
    certified: Array
    mu: Array
    low: Array  # the smallest curvature that was seen, of one row if separable
    gradients: Array
    values: Array
    products: Array
    rows_certified: Array
    rows_gap: Array
    rest: Array


def maximise(F: Whole, theta: PyTree, v: PyTree, numbers: Numbers, key: Array) -> Found:
    """Maximise F over v, as `phi` does; may be compiled and mapped. Trees are frozen."""
    search_all = search_rows if F.problem.separable else _search_whole
    best, count = search_all(F, F.prepared(theta), v, numbers, key)
    _, slope = F.slope_theta(theta, best.v)
    sound = jnp.isfinite(best.gap)
    return Found(
        value=jnp.mean(best.value),
        gap=jnp.mean(best.gap),
        grad_norm=norm(slope),
        v=best.v,
        certified=jnp.all(sound),
        mu=jnp.min(best.mu) / count,
        low=jnp.min(best.low),
        gradients=_spent(best.gradients) + 1,
        values=_spent(best.values),
        products=_spent(best.products),
        rows_certified=jnp.mean(sound.astype(best.gap.dtype)),
        rows_gap=jnp.mean(jnp.where(sound, best.gap, 0)),
        rest=jnp.mean(jnp.where(sound, 0, best.value)),
    )


compiled = jax.jit(maximise)  # one cache for all callers


def _search_whole(
    F: Whole, prepared: PyTree, v: PyTree, numbers: Numbers, key: Array
) -> tuple[Best, int]:
    project = F.problem.project_v
    function = Function(
        value=functools.partial(F.value_from, prepared),
        slope=functools.partial(F.slope_v_from, prepared),
        product=functools.partial(F.product_v_from, prepared),
        project=None if project is None else lambda v: freeze(project(thaw(v))),
    )
    return search(function, v, numbers, key, points=POINTS, steps=STEPS), 1


def search_rows(
    F: Whole, prepared: PyTree, v: PyTree, numbers: Numbers, key: Array
) -> tuple[Best, int]:
    """Search for the maximum of each row by itself, many side by side."""
    n, project = F.problem.rows, F.problem.project_v
    if numbers.mu is not None:
        numbers = numbers._replace(mu=numbers.mu * n)  # the user's number is that of F

    def alone(v: PyTree) -> PyTree:
        among = jax.tree.map(lambda leaf: leaf[None], v)
        return jax.tree.map(lambda leaf: leaf[0], freeze(project(thaw(among))))  # pyright: ignore

    def one(args: tuple[PyTree, PyTree, Array]) -> Best:
        v, row, place = args
        function = Function(
            value=lambda v: F.row_value(prepared, v, row),
            slope=lambda v: F.row_slope_v(prepared, v, row),
            product=lambda v, u: F.row_product_v(prepared, v, u, row),
            project=None if project is None else alone,
        )
        key_row = jr.fold_in(key, place)
        return search(function, v, numbers, key_row, points=ROW_POINTS, steps=ROW_STEPS)

    at_once = rows_at_once(sum(leaf[0].size for leaf in jax.tree.leaves(v)))

    def chunk(v: PyTree, rows: PyTree, places: Array) -> Best:
        if at_once >= F.chunk:
            return jax.vmap(one)((v, rows, places))
        return lax.map(one, (v, rows, places), batch_size=at_once)

    return F.over_rows(chunk, v), n


def _spent(count: Array) -> Array:
    """Return the mean over rows, rounded up; as floats, which do not overflow."""
    return jnp.ceil(jnp.mean(count.astype(jnp.float32))).astype(jnp.int32)


def _told(problem: Problem, found: Found, tol: float, limit: int, *, measured: bool) -> Phi:
    """Return what was found as plain numbers, with a sentence, and warn where it is due."""
    v = thaw(found.v)
    plain = jax.tree.map(lambda leaf: np.asarray(leaf).item(), found._replace(v=None))
    if not np.isfinite(plain.value):
        where = "at all rows of the start" if problem.separable else "at the start"
        raise ValueError(f"`loss` must be finite {where}; NaN or infinity came.")
    message = _message(problem, plain, float(tol), int(limit), measured)
    if not plain.certified:
        warnings.warn(message, ConcavityWarning, stacklevel=3)
    rows = problem.separable
    return Phi(
        value=plain.value,
        gap=plain.gap,
        grad_norm=plain.grad_norm,
        v=v,
        certified=plain.certified,
        mu=plain.mu,
        gradients=plain.gradients,
        values=plain.values,
        products=plain.products,
        message=message,
        rows_certified=plain.rows_certified if rows else None,
        rows_gap=plain.rows_gap if rows else None,
        rest=plain.rest if rows else None,
    )


def _message(problem: Problem, found: Any, tol: float, limit: int, measured: bool) -> str:
    if not found.certified:
        who = "F is"
        if problem.separable:
            failed = round((1 - found.rows_certified) * problem.rows)
            who = f"{failed} of {problem.rows} rows of F are"
        if found.low > 0 and measured and not problem.separable:
            return (
                f"the strong concavity of F in v could not be told from zero: the smallest "
                f"curvature seen is {found.low:.3g}, within the rounding or the error of its "
                f"measurement; the value {found.value:.6g} is a lower bound of phi only. "
                "Give a `mu` that holds, or add a strongly concave term in v."
            )
        return (
            f"{who} not strongly concave in v as counted on: a curvature of {found.low:.3g} was "
            f"seen; the value {found.value:.6g} is a lower bound of phi only. Add a strongly "
            "concave term in v (a larger gamma), restrict V by `project_v`, or give a smaller `mu`."
        )
    bound = f"phi is between {found.value:.6g} and that plus {found.gap:.3g}"
    rests = f"as F was strongly concave in v, mu = {found.mu:.3g}, wherever it was looked at"
    if found.gap <= tol:
        return f"{bound}, {rests}."
    return (
        f"{bound}, {rests}; tol = {tol:.3g} was not reached within {limit} gradients or the "
        "rounding of F."
    )
