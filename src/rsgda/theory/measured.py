r"""The constants of the theory, measured on a problem.

**What they are.** $L = \|\nabla^2 F\|$, $\mu = \lambda_{\min}(-\nabla^2_{vv} F)$,
$L_{\max} = \max_z \|\nabla^2_{vv} f_z\|$, $\sigma^2 = \mathbb{E} |\nabla_\theta f_z -
\nabla_\theta F|^2$, and sigma_v likewise in v, which the theory wants at v*. Curvature in v is that
along V. Noise is that of the problem's own minibatches; L_max is that of single rows, which no
minibatch exceeds. r0 and D0 are upper bounds at the first point if mu holds throughout. No Hessian
is formed: all is Lanczos on Hessian-vector products.

**What they are not.** The theory wants suprema over all (theta, v); sigma, as all else, is that of
the points looked at. mu is the smallest curvature that Lanczos found, less its residual where that
is above a thousandth; the residual is a distance to some eigenvalue, and nothing that is computed
from products bounds the smallest one.

**What is statistical.** With `sample`, L and mu belong to a mean of `batches` draws: `how` has
their standard errors, from eight groups of these draws, and above a hundredth there is a warning.
sigma and sigma_v are sample deviations. L_max, `concave` and `worst` know only of the samples that
were looked at one by one. Of a separable problem with more than `rows` rows all constants are those
of some rows at random.

**Rows of v.** A separable v of n rows is measured as $w = v / \sqrt n$, in which F curves as its
rows do: mu is that of the worst row, L_max is n / b times the norm of the stiffest (a batch of b
moves b rows by themselves), r0 is a mean over the rows. A plan's eta times `eta_scale` = n is the
eta of the algorithm.
"""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.random as jr
import numpy as np
from jax import Array

from rsgda import _checks
from rsgda._trees import PyTree
from rsgda.problem import Problem
from rsgda.theory import words
from rsgda.theory.door import check_points
from rsgda.theory.local import Local, measure, sample_steps
from rsgda.theory.pieces import size_of
from rsgda.theory.regularity import Regularity
from rsgda.whole import whole


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(Regularity):
    """Constants that were measured, and how; `estimate` builds one.

    Plans take it as they take any `Regularity`. Where the problem turned out not to be strongly
    concave in v, `mu` is what was measured, zero or below, and plans refuse it.

    Args:
        kind: where the numbers hold: at a point, or along a run; never everywhere.
        concave: whether F curved strongly, and none of the samples looked at curved the wrong
            way in v; `how` says how many these were.
        worst: of the samples looked at (rows of the data, or draws) the one that curves least in
            v, None if F is exact.
        points: how many points were looked at.
        eta_scale: what turns the eta of the theory into that of the algorithm: n on a separable
            problem, otherwise 1.
        products: Hessian-vector products spent, each on one sample; F has all of them.
        gradients: gradients of one player spent, each on one sample.
        how: for each constant, how it was measured.
    """

    kind: str
    concave: bool
    worst: int | None
    points: int
    eta_scale: float = 1.0  # pyright: ignore[reportIncompatibleVariableOverride]
    products: int
    gradients: int
    how: dict[str, str] = dataclasses.field(compare=False)

    def _check(self) -> None:
        if self.mu > 0:
            super()._check()

    def __repr__(self) -> str:
        """Show the constants and where they hold."""
        shown = [
            f"{field.name}={_short(getattr(self, field.name))}"
            for field in dataclasses.fields(Regularity)
        ]
        return f"Estimate({', '.join(shown)}, concave={self.concave}; {self.kind})"

    def __str__(self) -> str:
        """Show a line for each constant."""
        lines = [self.kind]
        for name, text in self.how.items():
            lines.append(f"  {name:<8}{_short(getattr(self, name)):<12}{text}")
        spent = f"{self.products} Hessian-vector products, {self.gradients} gradients"
        return "\n".join([*lines, f"  spent   {spent}, each of one sample"])


def estimate(
    problem: Problem,
    theta: PyTree,
    v: PyTree,
    *,
    key: Array,
    points: Sequence[tuple[PyTree, PyTree]] = (),
    inf_phi: float | None = None,
    rows: int | None = None,
    batches: int | None = None,
    steps: int = 1000,
    tol: float = 1e-6,
) -> Estimate:
    r"""Measure L, mu, L_max, the noise, r0 and D0 at a point, and at further ones along a run.

    $$ L = \|\nabla^2 F\|, \quad \mu = \lambda_{\min}(-\nabla^2_{vv} F), \quad
       L_{\max} = \max_z \|\nabla^2_{vv} f_z\| $$

    Give a v near the maximum, where the theory wants sigma_v. What is measured, and what is known
    of it only statistically, is told in `rsgda.theory.measured` and for each constant in `how`.

    Args:
        problem: what is to be solved.
        theta: where, for the minimised variable.
        v: where, for the maximised variable; in V.
        key: draws the starts of Lanczos, the samples and the rows. Draw i looked at by itself is
            `problem.sample(fold_in(split(key)[0], i))`.
        points: further pairs (theta, v); the worst constants over all points are reported.
        inf_phi: a lower bound of phi, for D0.
        rows: most samples to look at one by one, at random, for L_max and for concavity; of a
            separable problem for all. None: as many as take seconds, at least 1024.
        batches: draws that stand for F, and for the noise, of a problem with a sampler. None:
            between 2^10 and 2^20, more of small problems.
        steps: most products of one Lanczos run; a large basis allows fewer.
        tol: how well mu is to be known, relative; norms and rows are content with less.

    >>> import jax.numpy as jnp
    >>> from rsgda.problems import Toy
    >>> toy = Toy(kinds="AB", kappa=10.0, L=2.0)
    >>> r = estimate(toy.problem, jnp.full(2, jnp.pi), jnp.zeros(2), key=jax.random.key(0))
    >>> round(r.L, 4), round(r.mu, 4), r.sigma, r.concave
    (2.0, 0.2, 0.0, True)

    Source: assumptions A1 to A3 of the paper, corrected.
    """
    pairs = check_points(problem, theta, v, key, points)
    if batches is None:
        batches = _many(problem, key, *pairs[0])
    _check_numbers(problem, 1024 if rows is None else rows, batches, steps, tol, inf_phi)
    if rows is None:
        rows = _cheap(problem, *pairs[0], int(steps))
    key_draws, key_rest = jr.split(key)
    key_rows, key_points = jr.split(key_rest)
    chosen = _chosen(problem, key_rows, int(rows), int(batches))
    places = np.arange(chosen.size, dtype=np.int32) if problem.separable else chosen
    part = _part(problem, chosen)
    F = whole(part, key=key_draws, batches=int(batches))
    found = []
    for i, (theta, v) in enumerate(pairs):
        mine = jax.tree.map(lambda leaf: leaf[chosen], v) if problem.separable else v
        local = measure(
            F, theta, mine, places, jr.fold_in(key_points, i), steps=int(steps), tol=float(tol)
        )
        found.append(jax.tree.map(np.asarray, local))
    count = 1 if problem.exact else int(batches) if problem.sample is not None else part.rows
    result = _summary(problem, found, chosen, count, _checks.host_number(inf_phi))
    for text in (*words.doubts(problem, result, found, int(steps)), *words.errors(found, count)):
        warnings.warn(text, stacklevel=2)
    return result


def _summary(
    problem: Problem, found: list[Local], chosen: np.ndarray, count: int, inf_phi: float | None
) -> Estimate:
    """Return the worst of what was found at the points, and how it was found."""
    start = found[0]
    stiff = max(found, key=lambda local: words.norm(local.joint))
    soft = words.softest(found)
    mu = float(soft.mu)
    # Curvature in v is part of the joint one, and may have been met with a better start.
    L = max(words.norm(spectrum) for local in found for spectrum in (local.joint, local.curvature))
    if not (np.isfinite(L) and np.isfinite(mu)):
        raise ValueError(
            "`loss` must be finite and twice differentiable at every point, but a product with "
            "its Hessian is not finite."
        )
    lows, norms = words.samples(found)
    L_max, lowest = float(norms.max()), float(lows.min())
    rounding = words.rounding_of(soft)
    row_scale, noise_scale, noise_scale_v = _scales(problem, chosen.size, count)
    noise = max(float(local.noise) for local in found)
    noise_v = max(float(local.noise_v) for local in found)
    r0 = D0 = None
    if mu > rounding * L:
        r0 = float(start.steepness) / mu**2
        if inf_phi is not None:
            D0 = max(float(start.value) + float(start.gap) - inf_phi, 0.0)
    products = sum(
        round(count * float(local.products))
        + (0 if local.samples is None else int(np.sum(local.samples.products)))
        for local in found
    )
    where = "local estimate at one point"
    if len(found) > 1:
        where = f"largest along a run of {len(found)} points, not a global constant"
    return Estimate(
        L=L,
        mu=mu,
        sigma=float(np.sqrt(noise * noise_scale)),
        sigma_v=float(np.sqrt(noise_v * noise_scale_v)),
        L_max=L_max * row_scale,
        D0=D0,
        r0=r0,
        kind=where,
        concave=mu > rounding * L and lowest >= -rounding * L_max,
        worst=None if problem.exact else int(chosen[np.argmin(lows) % lows.shape[1]]),
        points=len(found),
        eta_scale=float(problem.rows) if problem.separable else 1.0,
        products=products,
        gradients=len(found) * count * (2 if problem.exact else 4),
        how=words.how(problem, stiff, soft, found, chosen.size, count, L_max),
    )


def _scales(problem: Problem, looked: int, count: int) -> tuple[float, float, float]:
    """Return what turns norms, noise and noise in v of samples into those of a minibatch."""
    if problem.exact:
        return 1.0, 1.0, 1.0
    if problem.sample is not None:
        unbiased = count / (count - 1)  # the mean was taken over the same draws
        return 1.0, unbiased, unbiased
    n, b = problem.rows, problem.batch_size or 1
    if not problem.separable:
        return 1.0, 1 / b, 1 / b
    unbiased = 1.0 if looked == n else looked / (looked - 1) * (n - 1) / n
    # In w = v / sqrt(n) a row's gradient is sqrt(n) times as long, and is drawn once in n times.
    return n / b, unbiased / b, (n - 1) / b


def _chosen(problem: Problem, key: Array, rows: int, batches: int) -> np.ndarray:
    """Return the samples to look at one by one."""
    if problem.data is None:
        return np.arange(1 if problem.exact else min(rows, batches), dtype=np.int32)
    if problem.rows <= rows:
        return np.arange(problem.rows, dtype=np.int32)
    picked = jr.choice(key, problem.rows, (rows,), replace=False)
    return np.sort(np.asarray(picked)).astype(np.int32)


def _many(problem: Problem, key: Array, theta: PyTree, v: PyTree) -> int:
    """Return how many draws make about a second's work."""
    drawn = () if problem.sample is None else jax.eval_shape(problem.sample, key)
    size = max(size_of((theta, v)), size_of(drawn))
    return max(min(2**20, 2**30 // size**2), min(2**17, 2**21 // size), 2**10)


def _cheap(problem: Problem, theta: PyTree, v: PyTree, steps: int) -> int:
    """Return how many samples may be looked at one by one in about a second."""
    size = size_of(v) // (problem.rows if problem.separable else 1)
    work = sample_steps(problem.separable, steps, size) * (size_of((theta,)) + size + 64)
    many = max(2**24 // work, 2**10)
    if problem.separable:
        many = min(many, max(2**20 // size, 2**10))  # F of them all needs a basis of its own
    return many if problem.sample is None else min(many, 2**14)


def _part(problem: Problem, chosen: np.ndarray) -> Problem:
    """Return the problem that is measured: some rows of a separable one are one of its kind."""
    if problem.data is None:
        return problem
    data = problem.data
    if problem.separable and chosen.size < problem.rows:
        data = jax.tree.map(lambda leaf: leaf[chosen], data)
    # Batches are not drawn here, and their size alone shall compile nothing anew.
    return dataclasses.replace(problem, data=data, batch_size=1)


def _check_numbers(
    problem: Problem, rows: Any, batches: Any, steps: Any, tol: Any, inf_phi: Any
) -> None:
    least_rows = 2 if problem.separable and problem.rows > 1 else 1
    least_batches = 1 if problem.sample is None else 2  # one has no variance
    for name, number, least in (
        ("rows", rows, least_rows),
        ("batches", batches, least_batches),
        ("steps", steps, 1),
    ):
        _checks.whole(name, number, least)
        _checks.counted(name, number)
    _checks.positive("tol", tol)
    bound = _checks.host_number(inf_phi)
    if inf_phi is not None and (bound is None or not np.isfinite(bound)):
        raise ValueError(f"`inf_phi` must be a finite number or None, got {inf_phi!r}.")


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
