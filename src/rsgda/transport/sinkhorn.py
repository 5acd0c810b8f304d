"""Sinkhorn's iteration over all rows, streamed, in the logarithm, with a certificate."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rsgda import _checks
from rsgda._trees import PyTree
from rsgda.drive.pace import Pacer
from rsgda.drive.progress import bar
from rsgda.transport import clouds, stream
from rsgda.transport.costs import Cost, checked
from rsgda.transport.plan import Sinkhorn, solved
from rsgda.transport.potentials import Potentials

ROUGH = 0.1  # marginal error at which a larger epsilon of the scaling has done its part
ROUGHLY = 20  # iterations that it may take for that
SLOWEST = 0.99  # factor of a scaling


class Point(NamedTuple):
    """Where the iteration is, and what was seen there."""

    v: Array  # looked at in the next pass
    plain: Array  # what a plain iteration has made of the best v
    best: Array  # the v with the highest value so far,
    seen: stream.Seen  # what was seen there,
    error: Array  # and what its plan is off the marginal nu
    momentum: Array  # the t of the extrapolation
    passes: Array


def sinkhorn(
    x: Any,
    y: Any,
    *,
    epsilon: float,
    a: Any = None,
    b: Any = None,
    cost: Any = "quadratic",
    v: Any = None,
    tol: float = 1e-3,
    max_iterations: int = 1_000,
    scaling: float | None = None,
    accelerate: bool = True,
    progress: bool = False,
) -> Sinkhorn:
    r"""Solve entropic optimal transport between two clouds.

    $$ W_\varepsilon = \min_{\pi \in \Pi(\mu, \nu)} \langle c, \pi \rangle
       + \varepsilon\, \mathrm{KL}(\pi | \mu \otimes \nu), \qquad
       u_i = -\varepsilon \log \sum_j \nu_j e^{(v_j - c_{ij}) / \varepsilon}, \quad
       v_j \leftarrow v_j + \varepsilon (\log \nu_j - \log \bar w_j) $$

    where $\bar w_j = \sum_i \mu_i w_j(x_i)$ is what the plan gives to $y_j$. Costs are computed
    anew in each pass, some rows of x at a time: memory is that of some rows times n.

    Args:
        x: points, N × d.
        y: points, n × d.
        epsilon: the regularisation, in the units of the cost.
        a: weights of x, uniform by default.
        b: weights of y, likewise.
        cost: as in `matching`.
        v: potentials of y to start from, zero by default.
        tol: the error $\|\nu - \bar w\|_1$ to stop at.
        max_iterations: passes over x at most.
        scaling: with it epsilon falls to its value from the largest cost, by this factor each
            time, such as 0.5; for small epsilons, from a cold start.
        accelerate: extrapolate, and take back what does not raise the value.
        progress: show it.

    >>> x, y = np.random.default_rng(0).normal(size=(2, 40, 3)).astype("float32")
    >>> found = sinkhorn(x, y[:30], epsilon=0.5)
    >>> bool(found.converged), found.plan_rows([0, 5]).shape
    (True, (2, 30))

    Source: Algorithm Sinkhorn of the paper, in the logarithm (errata 34, 35, 36 and 40).
    """
    x, y = clouds.points("x", x), clouds.points("y", y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"`x` and `y` must have one dimension, got {x.shape[1]} and {y.shape[1]}.")
    dtype = jnp.promote_types(x.dtype, y.dtype)
    x, y = x.astype(dtype), y.astype(dtype)
    mu = clouds.weights("a", a, len(x), dtype, zero=True)
    nu = clouds.weights("b", b, len(y), dtype)
    final = clouds.epsilon_of(epsilon, dtype)
    _one_number("tol", tol)
    _checks.whole("max_iterations", max_iterations, 1)
    _checks.counted("max_iterations", max_iterations)
    if scaling is not None and not 0 < _one_number("scaling", scaling) <= SLOWEST:
        raise ValueError(f"`scaling` must be above 0 and at most {SLOWEST}, got {scaling!r}.")
    if not isinstance(accelerate, bool):
        raise ValueError(f"`accelerate` must be True or False, got {accelerate!r}.")
    kind = checked(cost, x.shape[1], dtype)
    clouds.check_resolved(final, kind.matrix(x[: clouds.SOME], kind.targets(y[: clouds.SOME])))
    start = jnp.zeros(len(y), dtype) if v is None else _potentials(v, len(y), dtype)
    rows = stream.chunked(x, mu, len(y))
    targets = kind.targets(y)
    epsilons = [final]
    if scaling is not None:
        largest = oscillation(cost=kind, rows=rows, targets=targets)
        epsilons = _falling(float(largest), final, scaling)
    point = _begin(start, 0, rows)
    with bar(progress, "sinkhorn", 0, max_iterations) as shown:
        for each in epsilons:
            done, last = int(point.passes), each is epsilons[-1]
            stop = tol if last else max(tol, ROUGH)
            end = max_iterations if last else min(max_iterations, done + ROUGHLY)
            point, pacer = _begin(point.best, done, rows), Pacer()
            while done < end and not float(point.error) <= stop:
                until = np.int32(pacer.end(done, end, end))
                point = _advance(
                    rows, targets, nu, each, point, until, stop, bool(accelerate), cost=kind
                )
                if not np.isfinite(point.seen.value):
                    raise ValueError(
                        f"the costs between `x` and `y` must be finite in {dtype}, and not beyond "
                        "what it can hold over epsilon; scale the points, or mend the cost."
                    )
                pacer.saw(int(point.passes) - done)
                done = int(point.passes)
                shown.update(done, {"error": float(point.error)})
    found = Potentials(point.best, final, y, nu, kind)
    converged = bool(point.error <= tol)
    seen = point.seen if np.isfinite(point.error) else None
    return solved(found, x, mu, seen=seen, converged=converged, iterations=int(point.passes))


def _potentials(v: Any, n: int, dtype: Any) -> Array:
    try:
        given = np.asarray(v)
        given = given.astype(float) if given.dtype.kind in "biuf" else np.full(0, np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`v` must hold {n:,} numbers, got {v!r:.80}.") from error
    if given.shape != (n,) or not np.all(np.isfinite(given)):
        raise ValueError(
            f"`v` must hold one finite number for each of the {n:,} points y, got the shape "
            f"{np.shape(v)}."
        )
    # A constant has no meaning, and would take digits from all that has.
    return jnp.asarray(given - given.mean(), dtype)


def _one_number(name: str, value: Any) -> float:
    _checks.positive(name, value)
    number = _checks.host_number(value)
    if number is None:
        raise ValueError(f"`{name}` must be a single number, got {value!r:.80}.")
    return number


def _falling(largest: float, final: Array, factor: float) -> list[Array]:
    """Return the epsilons of a scaling, the last of them the one that is wanted."""
    epsilons = []
    each = largest
    while each > float(final):
        epsilons.append(jnp.asarray(each, final.dtype))
        each *= factor
    return [*epsilons, final]


def _begin(v: Array, count: int, rows: stream.Rows) -> Point:
    worst = jnp.full((), jnp.inf, v.dtype)
    one = jnp.ones((), v.dtype)
    seen = stream.Seen(-worst, rows.log_mu, v)  # nothing yet
    return Point(v, v, v, seen, worst, one, jnp.asarray(count, jnp.int32))


@stream.compiled
def _advance(
    rows: stream.Rows,
    targets: PyTree,
    nu: Array,
    epsilon: Array,
    point: Point,
    until: Array,
    tol: Array,
    accelerate: Array,
    *,
    cost: Cost,
) -> Point:
    """Iterate until a count or an error is reached."""

    def iterate(at: Point) -> Point:
        seen = stream.look(rows, targets, at.v, nu, epsilon, cost=cost)
        plain = at.v + epsilon * (jnp.log(nu) - seen.log_mean)
        error = jnp.sum(jnp.abs(nu - jnp.exp(seen.log_mean)))
        t = (1 + jnp.sqrt(1 + 4 * at.momentum**2)) / 2
        by = jnp.where(accelerate, (at.momentum - 1) / t, 0)
        ahead = plain + by * (plain - at.plain)
        new = Point(ahead, plain, at.v, seen, error, t, at.passes + 1)
        # What was extrapolated too far is taken back. A plain iteration never lowers the value.
        back = at._replace(v=at.plain, momentum=jnp.ones_like(t), passes=at.passes + 1)
        lost = (seen.value < at.seen.value) & (at.momentum > 1) & accelerate
        return jax.tree.map(lambda one, other: jnp.where(lost, one, other), back, new)

    def unfinished(at: Point) -> Array:
        return (at.passes < until) & ~(at.error <= tol)

    return lax.while_loop(unfinished, iterate, point)


oscillation = stream.compiled(stream.row_oscillation)
