"""What the loss can be at most when the samples are moved: a certificate of robustness."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

from rsgda import _checks
from rsgda._search import Best, Numbers
from rsgda._trees import PyTree
from rsgda.drive.progress import bar
from rsgda.inner import ConcavityWarning, numbers, search_rows
from rsgda.problem import Problem
from rsgda.robust.attacks import Rows, chunks, door, squared_distances, unmoved
from rsgda.robust.beyond import Maxima, agree, beyond, convex_between, hold_against_others
from rsgda.robust.losses import Loss
from rsgda.robust.penalty import Range
from rsgda.robust.wrm import wrm
from rsgda.whole import Whole, whole

START = 1.3  # the gamma that a search begins at
DOUBLINGS = 16  # as many times, at most, is it doubled and halved
BISECTIONS = 2  # between a gamma that certifies all samples and one that does not
LEAST, MOST = 1e-30, 1e30  # gammas that float32 can compute with


@dataclasses.dataclass(frozen=True, eq=False)
class Inner:
    r"""The inner maximum at one gamma: $\varphi_\gamma = \max_v \ell(v) - \gamma \|v - x\|^2$.

    Attributes:
        gamma: the penalty.
        phi: the mean over the samples of the values found.
        gap: what the certified samples can be above it, in the mean over all samples.
        share: the part of the samples that are certified.
        rest: what the other samples add to `phi`: for them it is an estimate, from below.
        rho_hat: the mean squared distance of the maximisers to their samples.
        attained: the mean loss at the maximisers, `phi + gamma rho_hat`.
        certified: which samples are certified.
        values: the value found for each sample.
        gaps: what each can be above its value; infinite where it is not certified.
    """

    gamma: float
    phi: float
    gap: float
    share: float
    rest: float
    rho_hat: float
    attained: float
    certified: np.ndarray = dataclasses.field(repr=False)
    values: np.ndarray = dataclasses.field(repr=False)
    gaps: np.ndarray = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, eq=False)
class Certificate:
    """Upper bounds of the loss under movements of the samples; `certificate` makes one.

    What depends on rho is one number if rho was one, and else an array like it.

    Attributes:
        rho: the transport budgets.
        bound: the smallest `gamma rho + phi + gap` over the gammas of the largest share, and at
            rho = 0, where nothing moves, `clean`.
        gamma: the gamma that it comes from; infinite at rho = 0.
        share: the part of the samples that are certified with these gammas. If it is 1, `bound`
            is right where concavity, which was measured at points, holds between these, too. If
            it is less, `bound` is an estimate that can be too small.
        rest: what the samples that are not certified add to `bound`.
        curvature: the constant that was given, with which a share of 1 is a proof; or None.
        clean: the mean loss at the samples themselves.
        n: the number of samples.
        inner: the inner maximum at each gamma that was tried, from the smallest.
        message: what all this means, in words.
    """

    rho: Any
    bound: Any
    gamma: Any
    share: float
    rest: Any
    curvature: float | None
    clean: float
    n: int
    inner: tuple[Inner, ...] = dataclasses.field(repr=False)
    message: str


def certificate(
    network: PyTree,
    X: Any,
    y: Any,
    rho: Any,
    *,
    gamma: float | Sequence[float] | None = None,
    curvature: float | None = None,
    loss: str | Loss = "cross_entropy",
    label_smoothing: float = 0.0,
    box: Range | None = None,
    tol: float = 1e-4,
    max_gradients: int = 1_000,
    progress: bool = False,
) -> Certificate:
    r"""Bound the loss under every distribution near that of the samples.

    $$ \mathbb{E}_P[\ell] \le \gamma \rho + \frac{1}{n} \sum_j \varphi_\gamma(x_j, y_j)
       \quad\text{for all } P \text{ with } W_c(P, P_n) \le \rho, \qquad
       \varphi_\gamma(x, y) = \max_z \ell(f(z), y) - \gamma \|z - x\|^2 $$

    where $W_c$ is the least mean cost of moving the samples to P, $c = \|x - z\|^2$ (not halved)
    with labels that stay. At $\hat\rho = \frac{1}{n} \sum_j \|z^*_j - x_j\|^2$ the bound is
    attained, by moving every sample to its maximiser. It speaks of the given samples: what others
    add (Theorem 3 there) is left out.

    A sample is certified where $\ell - \gamma \|\cdot\|^2$ was strongly concave wherever it was
    looked at, for it and all others of its label: as in `rsgda.phi` on the ways up from the sample
    and from where attacks lead, and between these; and where no better point was found. That is no
    proof: a narrow peak of the loss that no way leads to is not seen. With `curvature` it is one,
    up to rounding, wherever $2 \gamma$ is larger.

    Args:
        network: as in `wrm`, like X, y, `loss`, `label_smoothing` and `box`. With a box the
            distributions are those that live in it.
        X: samples.
        y: labels.
        rho: transport budgets, one or an array.
        gamma: the penalty, or several. Small ones are tight for large rho; too small ones leave
            samples without a certificate. None looks for some: 1.3 is doubled until all samples
            are certified, and then others are tried for which the bound is tight at the rhos.
        curvature: what no eigenvalue of the Hessian of the loss in z exceeds, at any z (of the
            box), if you know it. For the cross-entropy of logits $W z$ it is a quarter of the
            largest $\|w_a - w_b\|^2$ of two rows of W.
        loss: what is bounded.
        label_smoothing: from 0 to 1.
        box: the range that samples are moved in.
        tol: the gap to reach for each sample.
        max_gradients: most gradients for each sample.
        progress: show it.

    >>> import jax, rsgda
    >>> X, y = jax.random.normal(jax.random.key(0), (20, 3), "float32"), jnp.arange(20) % 2
    >>> network = rsgda.robust.mlp((3, 8, 2), key=jax.random.key(1))
    >>> found = certificate(network, X, y, [0.0, 0.1])
    >>> found.share, bool(found.bound[0] == found.clean < found.bound[1])
    (1.0, True)

    Source: Sinha, Namkoong and Duchi (2018), their first result (duality), equation (5).
    """
    rhos = budgets(rho)
    gammas = None if gamma is None else _gammas(gamma)
    if curvature is not None:
        _checks.positive("curvature", curvature)
        curvature = float(curvature)
    start = START if curvature is None else min(max(0.51 * curvature, LEAST), MOST)
    problem, _, _ = wrm(
        network, X, y, gamma=gammas[0] if gammas else start, batch_size=1, loss=loss,
        label_smoothing=label_smoothing, box=box,
    )  # fmt: skip
    wanted = numbers(tol, None, max_gradients)
    rows = door(network, X, y, jr.key(0), loss, label_smoothing, box)
    clean = float(np.mean(unmoved(rows)))

    def at(gamma: float) -> Inner:
        return _inner(problem, rows, gamma, wanted, curvature, progress)

    if gammas is None:
        tried = _searched(at, start, np.asarray(rhos), smaller=curvature is None)
    else:
        tried = [at(g) for g in gammas]
    inner = tuple(sorted(tried, key=lambda one: one.gamma))
    found = _told(rhos, inner, clean, problem.rows, box, curvature)
    if found.share < 1:
        warnings.warn(found.message, ConcavityWarning, stacklevel=2)
    return found


def _searched(
    at: Callable[[float], Inner], start: float, rho: np.ndarray, *, smaller: bool
) -> list[Inner]:
    """Look for gammas that certify all samples and give good bounds at the rhos.

    The best gamma at rho is the one whose maximisers are at rho in the mean, `rho_hat`, which falls
    as gamma rises.
    """
    tried = [at(start)]
    while tried[-1].share < 1:
        if len(tried) > DOUBLINGS:
            return tried
        tried.append(at(2 * tried[-1].gamma))
    small = large = tried[-1]
    fails = 0.0 if len(tried) == 1 else small.gamma / 2
    furthest, nearest = np.max(rho), np.min(rho[rho > 0], initial=np.inf)
    bisected = 0
    for _ in range(DOUBLINGS if smaller else 0):
        if small.rho_hat >= furthest or bisected == BISECTIONS:
            break
        bisected += fails > 0
        between = math.sqrt((fails or small.gamma / 4) * small.gamma)
        tried.append(at(float(f"{between:.3g}")))
        if tried[-1].share == 1:
            small = tried[-1]
        else:
            fails = tried[-1].gamma
    for _ in range(DOUBLINGS):
        if large.rho_hat <= nearest:
            break
        large = at(2 * large.gamma)
        tried.append(large)
    return tried


def _inner(
    problem: Problem,
    rows: Rows,
    gamma: float,
    wanted: Numbers,
    curvature: float | None,
    progress: bool,
) -> Inner:
    n = problem.rows
    data = {**problem.data, "gamma": jnp.full_like(problem.data["gamma"], gamma)}
    found = Maxima(np.empty_like(rows.X), *np.empty((2, n)))
    # What is known of the concavity, and need not be measured.
    mu = 0.0 if curvature is None else 2 * gamma - curvature
    with bar(progress, f"certificate, gamma {gamma:g}", 0, n) as shown:
        for places, take in chunks(np.arange(n), n):
            part = jax.tree.map(lambda leaf, at=places: leaf[at], data)
            F = whole(dataclasses.replace(problem, data=part))
            if mu > 0:
                given = wanted._replace(mu=jnp.asarray(mu / len(places), float))
                best = _maxima(F, rows.network, part["x"], given)
                each = Maxima(*(np.asarray(one) for one in (best.v, best.value, best.gap)))
                _check_curvature(each.gap, 2 * gamma - float(jnp.min(best.low)), curvature)
            else:
                near = _maxima(F, rows.network, part["x"], wanted)
                start, bent = beyond(rows, gamma, places)
                far = _maxima(F, rows.network, start, wanted)
                bent |= convex_between(rows, np.asarray(near.v), np.asarray(far.v), places, gamma)
                each = agree(near, far, bent | (curvature is not None))
            for to, come in zip(found, each, strict=True):
                to[places[:take]] = come[:take]
            shown.update(int(places[take - 1]) + 1, {})
    if not np.all(np.isfinite(found.value)):
        raise ValueError("`network` must give a finite loss at all samples; NaN or infinity came.")
    v, value, gap = hold_against_others(rows, found, gamma)
    if mu > 0:
        _check_curvature(gap, np.inf, curvature)
    moved = squared_distances(rows, v, np.arange(n))
    # The penalty curves alike everywhere, so that where the objective of one sample is not concave
    # that of no sample of its label is.
    certified = ~np.isin(rows.y, rows.y[~np.isfinite(gap)])
    gap = np.where(certified, gap, np.inf)
    phi, rho_hat = float(np.mean(value)), float(np.mean(moved))
    return Inner(
        gamma=gamma,
        phi=phi,
        gap=float(np.mean(np.where(certified, gap, 0))),
        share=float(np.mean(certified)),
        rest=float(np.mean(np.where(certified, 0, value))),
        rho_hat=rho_hat,
        attained=phi + gamma * rho_hat,
        certified=certified,
        values=value,
        gaps=gap,
    )


@jax.jit
def _maxima(F: Whole, theta: PyTree, start: Array, wanted: Numbers) -> Best:
    return search_rows(F, F.prepared(theta), start, wanted, jr.key(0))[0]


def _check_curvature(gap: np.ndarray, seen: float, curvature: float | None) -> None:
    """Refuse a constant that what was found contradicts."""
    if np.any(np.isinf(gap)):
        how = f"one of {seen:.6g} was seen" if np.isfinite(seen) else "it rules out what was found"
        raise ValueError(
            "`curvature` must be what the curvature of the loss in its input never exceeds, got "
            f"{curvature!r}, but {how}."
        )


def _told(
    rho: Any,
    inner: tuple[Inner, ...],
    clean: float,
    n: int,
    box: Any,
    curvature: float | None,
) -> Certificate:
    """Take the best of the gammas at each rho, among those that certify most samples."""
    share = max(at.share for at in inner)
    used = [at for at in inner if at.share == share]
    gammas = np.array([at.gamma for at in used])
    bounds = np.multiply.outer(rho, gammas) + [at.phi + at.gap for at in used]
    best, moves = np.argmin(bounds, axis=-1), np.asarray(rho) > 0
    return Certificate(
        rho=rho,
        bound=np.where(moves, np.min(bounds, axis=-1), clean)[()],
        gamma=np.where(moves, gammas[best], np.inf)[()],
        share=share,
        rest=np.where(moves, np.array([at.rest for at in used])[best], 0)[()],
        curvature=curvature,
        clean=clean,
        n=n,
        inner=inner,
        message=_message(used, n, box, curvature),
    )


def _message(used: list[Inner], n: int, box: Any, curvature: float | None) -> str:
    """Say what a bound rests on; where that is not enough, first of all."""
    where = "" if box is None else f" that lives in [{box[0]:g}, {box[1]:g}]"
    most = f"{used[0].gamma:g} rho + {used[0].phi + used[0].gap:.6g}"
    if len(used) > 1:
        ends = f"{used[0].gamma:g} to {used[-1].gamma:g}"
        most = f"the least of gamma rho + phi + gap over {len(used)} gammas from {ends}"
    count = int(np.sum(used[0].certified))
    first, verb = "", "is"
    if count < n:
        why = "concavity fails" if curvature is None else "2 gamma is no more than `curvature`"
        who = f"only {count:,} of {n:,} samples are" if count else f"none of the {n:,} samples is"
        first = f"An estimate that can be too small, as {why}: {who} certified. "
        verb = "is estimated to be"
        last = "A larger gamma certifies more."
    elif curvature is None:
        last = (
            "This rests on strong concavity, which held wherever it was looked at, for all "
            "samples, and was not proved in between."
        )
    else:
        last = f"This is proved, up to rounding, if no curvature exceeds {curvature:g}, as given."
    return (
        f"{first}Under every distribution{where} to which the {n:,} samples can be moved at a "
        f"mean squared distance of at most rho, labels kept, the mean loss {verb} at most {most}. "
        f"{last} It is about these samples, not about those they were drawn from."
    )


def budgets(rho: Any) -> Any:
    """Return transport budgets as a number or an array; refuse what is none."""
    try:
        found = np.asarray(rho, float)[()]
    except (TypeError, ValueError):
        found = np.array([])
    if found.size == 0 or not np.all((found >= 0) & (found <= MOST)):
        raise ValueError(
            f"`rho` must hold finite numbers, none of them negative or over {MOST:g}, got {rho!r}."
        )
    return found


def _gammas(gamma: Any) -> list[float]:
    """Return one or several penalties in order; refuse what is none."""
    try:
        found = np.unique(np.asarray(gamma, float))
    except (TypeError, ValueError):
        found = np.array([])
    if found.size == 0 or not np.all((found >= LEAST) & (found <= MOST)):
        raise ValueError(
            f"`gamma` must hold positive finite numbers, from {LEAST:g} to {MOST:g}, got {gamma!r}."
        )
    return found.tolist()
