"""The constants of the theory, measured on a problem."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.random as jr
import numpy as np
from jax import Array

from rsgda import _checks
from rsgda._lanczos import Spectrum
from rsgda._trees import PyTree
from rsgda.problem import Problem
from rsgda.theory.door import check_points
from rsgda.theory.local import Local, is_inside, measure
from rsgda.theory.regularity import Regularity
from rsgda.whole import whole


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(Regularity):
    """Constants that were measured, and how; `estimate` builds one.

    Plans take it as they take any `Regularity`. Where the problem turned out not to be strongly
    concave in v, `mu` is what was measured, zero or below, and plans refuse it.

    Args:
        kind: where the numbers hold: at a point, or along a run; never everywhere.
        concave: whether F curved strongly and no sample curved the wrong way in v.
        worst: the sample (row of the data, or draw) that curves least in v, None if F is exact.
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
        lines = [f"{self.kind}; concave in v: {'yes' if self.concave else 'no'}"]
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
    rows: int = 1024,
    batches: int | None = None,
    steps: int = 256,
    tol: float = 1e-6,
) -> Estimate:
    r"""Measure the constants of the theory at a point, and at further ones along a run.

    $$ L = \|\nabla^2 F\|, \quad \mu = \lambda_{\min}(-\nabla^2_{vv} F), \quad
       L_{\max} = \max_z \|\nabla^2_{vv} f_z\|, \quad
       \sigma^2 = \mathbb{E} |\nabla_\theta f_z - \nabla_\theta F|^2 $$

    and sigma_v likewise in v, which the theory wants at v*: give a v near the maximum. Curvature
    in v is that along V. Noise is that of the problem's own minibatches; L_max is that of single
    rows, which no minibatch exceeds. r0 and D0 are upper bounds at `(theta, v)` if mu holds
    throughout. No Hessian is formed: all is Lanczos on Hessian-vector products.

    A separable v of n rows is measured as $w = v / \sqrt n$, in which F curves as its rows do:
    mu is that of the worst row, L_max is n / b times the norm of the stiffest (a batch of b moves
    b rows by themselves), r0 is a mean over the rows. A plan's eta times `eta_scale` = n is the
    eta of the algorithm.

    Args:
        problem: what is to be solved.
        theta: where, for the minimised variable.
        v: where, for the maximised variable; in V.
        key: draws the starts of Lanczos, the samples and the rows. Sample i of a sampler is
            `problem.sample(fold_in(split(key)[0], i))`.
        points: further pairs (theta, v), as of `solve` called in pieces; the worst constants
            over all points are reported.
        inf_phi: a lower bound of phi, for D0.
        rows: most samples to look at one by one, for L_max and for concavity; all of them or
            as many at random. Of a separable problem nothing beyond these is looked at.
        batches: draws that stand for F, and for the noise, of a problem with a sampler; None
            takes between 1024 and 131072, more of small problems. Relative standard errors fall
            with their root: that of sigma is about half of its inverse.
        steps: most products of one Lanczos run.
        tol: how well an end of a spectrum is to be known, relative.

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
        batches = _many(*pairs[0])
    _check_numbers(problem, rows, batches, steps, tol, inf_phi)
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
    _warn(problem, result, float(_samples(found)[0].min()))
    return result


def _summary(
    problem: Problem, found: list[Local], chosen: np.ndarray, count: int, inf_phi: float | None
) -> Estimate:
    """Return the worst of what was found at the points, and how it was found."""
    start = found[0]
    stiff = max(found, key=lambda local: _norm(local.joint))
    soft = min(found, key=lambda local: float(local.curvature.low))
    mu = float(soft.curvature.low)
    # Curvature in v is part of the joint one, and may have been met with a better start.
    L = max(_norm(spectrum) for local in found for spectrum in (local.joint, local.curvature))
    if not (np.isfinite(L) and np.isfinite(mu)):
        raise ValueError(
            "`loss` must be finite and twice differentiable at every point, but a product with "
            "its Hessian is not finite."
        )
    lows, norms = _samples(found)
    L_max, lowest = float(norms.max()), float(lows.min())
    rounding = 100 * float(np.finfo(soft.curvature.low.dtype).eps)
    row_scale, noise_scale, noise_scale_v = _scales(problem, chosen.size, count)
    noise = max(float(local.noise) for local in found)
    noise_v = max(float(local.noise_v) for local in found)
    r0 = D0 = None
    if mu > rounding * L:
        r0 = float(start.steepness) / mu**2
        if inf_phi is not None:
            D0 = max(float(start.value) + float(start.gap) - inf_phi, 0.0)
    products = sum(
        count * int(local.joint.products + local.curvature.products)
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
        how=_how(problem, stiff, soft, found, chosen.size, count, L_max),
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


def _how(
    problem: Problem,
    stiff: Local,
    soft: Local,
    found: list[Local],
    looked: int,
    count: int,
    L_max: float,
) -> dict[str, str]:
    """Say how each constant was measured."""
    along = "" if problem.project_v is None else " along V"
    if not all(is_inside(local.inside) for local in found):
        along = " in all directions (those of V could not be told)"
    joint = stiff.joint
    error = joint.low_error if abs(joint.low) > abs(joint.high) else joint.high_error
    F = "F" if problem.sample is None else f"F (a mean of {count} draws)"
    metric = ", in w = v / sqrt(n)" if problem.separable else ""
    one_by_one = f"{looked} draws" if problem.sample is not None else f"{looked} rows"
    if problem.data is not None and looked < problem.rows:
        one_by_one += f" of {problem.rows} at random"
    how = {
        "L": f"norm of the joint Hessian of {F}{metric}, Lanczos, residual {error:.1e}",
        "mu": f"smallest curvature of -{F} in v{along}, Lanczos, "
        f"residual {soft.curvature.low_error:.1e}",
        "L_max": f"largest norm of the Hessian in v{along} of {one_by_one}, Lanczos",
        "sigma": f"unbiased sample variance of {count} gradients",
        "r0": "squared gradient mapping in v over mu^2, an upper bound",
        "D0": "F plus its largest rise under mu, minus `inf_phi`, an upper bound",
    }
    if problem.exact:
        how["L_max"] = f"norm of the Hessian of F in v{along}: F is the only sample"
        how["sigma"] = "gradients are exact"
    elif problem.data is not None:
        how["sigma"] = f"variance over {count} rows by themselves, over batch_size"
    if problem.separable:
        how["mu"] = f"smallest curvature in v{along} among {one_by_one}, Lanczos each"
        how["L_max"] = f"n / batch_size times {L_max:.4g}, the largest norm of {one_by_one}"
    how["sigma_v"] = how["sigma"] + (metric if problem.separable else "")
    return how


def _warn(problem: Problem, result: Estimate, lowest: float) -> None:
    """Warn where the theory does not hold because of a lack of concavity."""
    if result.concave:
        return
    if problem.exact or (lowest >= 0 and result.worst is None) or result.mu == lowest:
        what = f"F is not strongly concave in `v`: its smallest curvature is {result.mu:.3g}"
        if problem.separable:
            what += f", in row {result.worst}"
    elif lowest < 0 < result.mu:
        kind = "row" if problem.sample is None else "draw"
        what = f"F is concave in `v`, but not each sample: {kind} {result.worst} curves the wrong "
        what += f"way, by {lowest:.3g}"
    else:
        what = f"F is not strongly concave in `v`: its smallest curvature is {result.mu:.3g}, "
        what += f"and that of sample {result.worst} is {lowest:.3g}"
    warnings.warn(
        f"{what}. The theory's steps and bounds do not hold there; if v is meant to stay in a "
        "subspace or a smaller set, give the problem its `project_v`.",
        stacklevel=3,
    )


def _samples(found: list[Local]) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest curvature and the norm of each sample (of F itself) at each point."""
    of = [local.curvature if local.samples is None else local.samples for local in found]
    lows = np.stack([np.atleast_1d(spectrum.low) for spectrum in of])
    highs = np.stack([np.atleast_1d(spectrum.high) for spectrum in of])
    return lows, np.maximum(np.abs(lows), np.abs(highs))


def _norm(spectrum: Spectrum) -> float:
    return max(abs(float(spectrum.low)), abs(float(spectrum.high)))


def _chosen(problem: Problem, key: Array, rows: int, batches: int) -> np.ndarray:
    """Return the samples to look at one by one."""
    if problem.data is None:
        return np.arange(1 if problem.exact else min(rows, batches), dtype=np.int32)
    if problem.rows <= rows:
        return np.arange(problem.rows, dtype=np.int32)
    picked = jr.choice(key, problem.rows, (rows,), replace=False)
    return np.sort(np.asarray(picked)).astype(np.int32)


def _many(theta: PyTree, v: PyTree) -> int:
    """Return how many draws make about one second's work."""
    size = sum(leaf.size for leaf in jax.tree.leaves((theta, v)))
    return min(max(2**21 // size, 2**10), 2**17)


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
