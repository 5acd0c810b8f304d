"""What the loss can be at most when the samples are moved: a certificate of robustness."""

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any

import jax.random as jr
import numpy as np

from rsgda import _checks
from rsgda._trees import PyTree
from rsgda.inner import ConcavityWarning, numbers
from rsgda.robust.attacks import door, unmoved
from rsgda.robust.budget import LEAST, MOST, budgets
from rsgda.robust.inner_maxima import Inner, Tries, check_curvature
from rsgda.robust.losses import Loss
from rsgda.robust.penalty import Range
from rsgda.robust.wrm import wrm

START = 1.3  # the gamma that a search begins at
DOUBLINGS = 16  # as many times, at most, is it doubled and halved
SAFETY = 2  # a gamma that was searched for counts if one that much smaller certifies, too


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
        box: the range that the samples are moved in, or None.
        inner: the inner maximum at each gamma, from the smallest. Of those that were searched for
            it has the ones that count, or all if none does.
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
    box: Range | None
    inner: tuple[Inner, ...] = dataclasses.field(repr=False)
    message: str

    def against(self, attack: Any) -> "Certificate":
        """Return the certificate without what an attack on the same samples contradicts.

        Where it reached more than a gamma allows the objective is not concave, so that neither
        that gamma nor a smaller one certifies anything. What is left is the same certificate if
        nothing was contradicted, and an estimate if no gamma remains.

        Args:
            attack: what `transport_attack` returned.
        """
        over = [at.gamma for at in self.inner if at.share == 1 and _exceeds(attack, at)]
        if not over:
            return self
        if self.curvature is not None:
            check_curvature(np.array([np.inf]), np.inf, self.curvature)
        inner = tuple(at.lost() if at.gamma <= max(over) else at for at in self.inner)
        return _told(self.rho, inner, self.clean, self.n, self.box, None)


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
    looked at, for it and all others of its label, and where no better point was found. It is looked
    at as in `rsgda.phi` on the ways up from the sample and from where attacks lead, and on straight
    ways to where these and random directions lead. What is seen at one gamma counts for all, so
    that at a share of 1 nothing that `transport_attack` finds at these rhos, with its own settings
    and `jax.random.key(0)`, is above the bound. That is no proof: a narrow peak of the loss that no
    way leads to is not seen. With `curvature` it is one, up to rounding, wherever $2 \gamma$ is
    larger.

    Args:
        network: as in `wrm`, like X, y, `loss`, `label_smoothing` and `box`. With a box the
            distributions are those that live in it.
        X: samples.
        y: labels.
        rho: transport budgets, one or an array.
        gamma: the penalty, or several. Small ones are tight for large rho; too small ones leave
            samples without a certificate. None looks for some: 1.3 is doubled until all samples
            are certified, and then others are tried for which the bound is tight at the rhos. Of
            these only such count of which the half certifies all samples, too.
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
    >>> X, y = jax.random.normal(jax.random.key(0), (20, 3), "float32"), np.arange(20) % 2
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

    tries = Tries(problem, rows, wanted, curvature, progress)
    if curvature is None and np.any(np.asarray(rhos) > 0):
        tries.attack(rhos)
    if gammas is None:
        inner = _searched(tries, start, np.asarray(rhos), smaller=curvature is None)
    else:
        for one in gammas:
            tries.at(one)
        inner = tries.settled()
    found = _told(rhos, inner, clean, problem.rows, box, curvature)
    if found.share < 1:
        warnings.warn(found.message, ConcavityWarning, stacklevel=2)
    return found


def _searched(tries: Tries, start: float, rho: np.ndarray, *, smaller: bool) -> tuple[Inner, ...]:
    """Look for gammas that certify all samples and give good bounds at the rhos.

    The best gamma at rho is the one whose maximisers are at rho in the mean, `rho_hat`, which falls
    as gamma rises. Concavity that is seen to hold at a gamma may just be missed there, so that
    `smaller` ones are tried, and only those count of which the half certifies all samples as well.
    """
    gamma, safety = start, SAFETY if smaller else 1
    for _ in range(DOUBLINGS + 1):
        if tries.at(gamma).share == 1:
            break
        gamma *= 2
    else:
        return tries.settled()
    furthest, nearest = np.max(rho), np.min(rho[rho > 0], initial=np.inf)
    for _ in range(DOUBLINGS if smaller else 0):
        if tries.at(SAFETY * gamma).rho_hat >= furthest:
            break
        if tries.at(gamma / 2).share < 1:
            tries.at(float(f"{gamma / math.sqrt(2):.3g}"))
            break
        gamma /= 2
    gamma = tries.settled()[-1].gamma
    for _ in range(DOUBLINGS):
        if tries.at(gamma).rho_hat <= nearest:
            break
        gamma *= 2
    while True:  # what was seen last can rule out what held before
        inner = tries.settled()
        sure = [at.gamma for at in inner if at.share == 1]
        counts = tuple(at for at in inner if sure and at.gamma >= safety * sure[0])
        done = counts and counts[0].gamma == safety * sure[0]
        if done or len(inner) > 4 * DOUBLINGS:
            return counts or inner
        tries.at(safety * sure[0] if sure else 2 * inner[-1].gamma)


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
        box=box,
        inner=inner,
        message=_message(used, n, box, curvature),
    )


def _exceeds(attack: Any, at: Inner) -> bool:
    """Say whether an attack reached more than the bound of a gamma, at any budget."""
    most = at.gamma * attack.cost + at.phi + at.gap
    return bool(np.any(attack.reached > most + 1e-6 * (1 + np.abs(attack.reached))))


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
