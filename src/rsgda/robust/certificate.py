"""What the loss can be at most when the samples are moved: a certificate of robustness."""

import dataclasses
import functools
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

from rsgda._search import Best, Numbers
from rsgda._trees import PyTree, freeze
from rsgda.drive.progress import Bar, bar
from rsgda.inner import ConcavityWarning, numbers, search_rows
from rsgda.problem import Problem
from rsgda.robust.attacks import Rows, chunks, door, squared_distances
from rsgda.robust.beyond import Maxima, agree, beyond, convex_between, hold_against_others
from rsgda.robust.losses import Loss
from rsgda.robust.penalty import Range
from rsgda.robust.wrm import wrm
from rsgda.whole import Whole, whole


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
        bound: the smallest `gamma rho + phi + gap` over the gammas.
        share: the part of the samples that are certified there. With all of them, `bound` is
            proved if concavity, which was measured at points, holds between these, too; for
            samples that are not certified it is an estimate that can be too small.
        proof: the smallest over those gammas alone for which all samples are certified; infinite
            where there are none.
        gamma: the gamma that `bound` comes from.
        rest: what the samples that are not certified add to `bound`.
        clean: the mean loss at the samples themselves.
        n: the number of samples.
        inner: the inner maximum at each gamma, from the smallest.
        message: what all this means, in words.
    """

    rho: Any
    bound: Any
    share: Any
    proof: Any
    gamma: Any
    rest: Any
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
    gamma: float | Sequence[float] = 1.3,
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
    with labels that stay. Of several gammas the best is taken at each rho. At
    $\hat\rho = \frac{1}{n} \sum_j \|z^*_j - x_j\|^2$ the bound is attained, by moving every sample
    to its maximiser.

    A sample is certified where $\ell - \gamma \|\cdot\|^2$ was strongly concave wherever it was
    looked at, for it and all others of its label: as in `rsgda.phi` on the ways up from the sample
    and from where attacks lead, and between these; and where no better point was found. If it is
    so elsewhere, too, the bound is proved. It speaks of the given samples: what others add
    (Theorem 3 there) is left out.

    Args:
        network: as in `wrm`, like X, y, `loss`, `label_smoothing` and `box`. With a box the
            distributions are those that live in it.
        X: samples.
        y: labels.
        rho: transport budgets, one or an array.
        gamma: the penalty, or several. Small ones are tight for large rho; too small ones leave
            samples without a certificate.
        loss: what is bounded.
        label_smoothing: from 0 to 1.
        box: the range that samples are moved in.
        tol: the gap to reach for each sample.
        max_gradients: most gradients for each sample.
        progress: show it.

    >>> import jax, rsgda
    >>> X, y = jax.random.normal(jax.random.key(0), (20, 3), "float32"), jnp.arange(20) % 2
    >>> network = rsgda.robust.mlp((3, 8, 2), key=jax.random.key(1))
    >>> found = certificate(network, X, y, [0.0, 0.1], gamma=2.0)
    >>> found.share.tolist(), bool(found.bound[0] >= found.clean)
    ([1.0, 1.0], True)

    Source: Sinha, Namkoong and Duchi (2018), their first result (duality), equation (5).
    """
    rhos = budgets(rho)
    gammas = _gammas(gamma)
    problem, theta, start = wrm(
        network, X, y, gamma=gammas[0], batch_size=1, loss=loss,
        label_smoothing=label_smoothing, box=box,
    )  # fmt: skip
    wanted, n = numbers(tol, None, max_gradients), problem.rows
    theta = freeze(theta)
    # At the samples themselves nothing is penalised.
    clean = float(_value(whole(problem), theta, start))
    rows = door(network, X, y, jr.key(0), loss, label_smoothing, box)
    with bar(progress, "certificate", 0, n * len(gammas)) as shown:
        inner = tuple(
            _inner(problem, rows, g, wanted, functools.partial(_show, shown, n * place))
            for place, g in enumerate(gammas)
        )
    found = _told(rhos, inner, clean, n, box)
    if np.any(np.asarray(found.share) < 1):
        warnings.warn(found.message, ConcavityWarning, stacklevel=2)
    return found


def _inner(problem: Problem, rows: Rows, gamma: float, wanted: Numbers, show: Any) -> Inner:
    n = problem.rows
    data = {**problem.data, "gamma": jnp.full_like(problem.data["gamma"], gamma)}
    found = Maxima(np.empty_like(rows.X), *np.empty((2, n)))
    for places, take in chunks(np.arange(n), n):
        part = jax.tree.map(lambda leaf, at=places: leaf[at], data)
        F = whole(dataclasses.replace(problem, data=part))
        near = _maxima(F, rows.network, part["x"], wanted)
        start, bent = beyond(rows, gamma, places)
        far = _maxima(F, rows.network, start, wanted)
        bent |= convex_between(rows, np.asarray(near.v), np.asarray(far.v), places, gamma)
        agreed, where = agree(near, far, bent), places[:take]
        for to, come in zip(found, agreed, strict=True):
            to[where] = come[:take]
        show(int(where[-1]) + 1)
    if not np.all(np.isfinite(found.value)):
        raise ValueError("`network` must give a finite loss at all samples; NaN or infinity came.")
    v, value, gap = hold_against_others(rows, found, gamma)
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


@jax.jit
def _value(F: Whole, theta: PyTree, v: Array) -> Array:
    return F.value(theta, v)


def _show(shown: Bar, before: int, done: int) -> None:
    shown.update(before + done, {})


def _told(rho: Any, inner: tuple[Inner, ...], clean: float, n: int, box: Any) -> Certificate:
    """Take the best of the gammas at each rho."""
    gammas = np.array([at.gamma for at in inner])
    shares = np.array([at.share for at in inner])
    bounds = np.multiply.outer(rho, gammas) + [at.phi + at.gap for at in inner]
    best = np.argmin(bounds, axis=-1)
    return Certificate(
        rho=rho,
        bound=np.min(bounds, axis=-1),
        share=shares[best],
        proof=np.min(np.where(shares == 1, bounds, np.inf), axis=-1),
        gamma=gammas[best],
        rest=np.array([at.rest for at in inner])[best],
        clean=clean,
        n=n,
        inner=inner,
        message=_message(inner, n, box),
    )


def _message(inner: tuple[Inner, ...], n: int, box: Any) -> str:
    where = "" if box is None else f" that lives in [{box[0]:g}, {box[1]:g}]"
    most = f"{inner[0].gamma:g} rho + {inner[0].phi + inner[0].gap:.6g}"
    if len(inner) > 1:
        ends = f"{inner[0].gamma:g} to {inner[-1].gamma:g}"
        most = f"the least of gamma rho + phi + gap over {len(inner)} gammas from {ends}"
    is_most = "is" if all(at.share == 1 for at in inner) else "is estimated to be"
    words = (
        f"Under every distribution{where} to which the {n} samples can be moved at a mean squared "
        f"distance of at most rho, labels kept, the mean loss {is_most} at most {most}."
    )
    proved = [at.gamma for at in inner if at.share == 1]
    if proved:
        which = "" if len(inner) == 1 else f" for gamma from {proved[0]:g} on"
        if len(inner) > 1 and proved != [at.gamma for at in inner[-len(proved) :]]:
            which = f" for {len(proved)} of the gammas"
        words += (
            f" All samples are certified{which}: their objectives were strongly concave wherever "
            "they were looked at."
        )
    shares = sorted(at.share for at in inner if at.share < 1)
    if shares:
        which = "" if len(inner) == 1 else f" for {len(shares)} of the gammas"
        share = f"{shares[0]:.4g}"
        share += "" if shares[0] == shares[-1] else f" to {shares[-1]:.4g}"
        words += (
            f" Concavity fails{which}: {share} of the samples are certified, and for the others "
            "it is an estimate that can be too small; a larger gamma certifies more."
        )
    return f"{words} It is about these samples, not about those they were drawn from."


def budgets(rho: Any) -> Any:
    """Return transport budgets as a number or an array; refuse what is none."""
    try:
        found = np.asarray(rho, float)[()]
    except (TypeError, ValueError):
        found = np.array([])
    if found.size == 0 or not np.all(np.isfinite(found)) or np.any(found < 0):
        raise ValueError(f"`rho` must hold finite numbers, none of them negative, got {rho!r}.")
    return found


def _gammas(gamma: Any) -> list[float]:
    """Return one or several penalties in order; refuse what is none."""
    try:
        found = np.unique(np.asarray(gamma, float))
    except (TypeError, ValueError):
        found = np.array([])
    if found.size == 0 or not (np.all(np.isfinite(found)) and found[0] > 0):
        raise ValueError(f"`gamma` must hold positive finite numbers, got {gamma!r}.")
    return found.tolist()
