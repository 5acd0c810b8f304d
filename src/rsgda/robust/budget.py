"""What an attacker who may move all samples achieves with a transport budget."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import Array

from rsgda._trees import PyTree
from rsgda.drive.progress import bar
from rsgda.robust.attacks import Rows, chunks, door, judged, numbers_of, run_pgd, run_wrm
from rsgda.robust.losses import Loss
from rsgda.robust.penalty import Range

LEAST, MOST = 1e-30, 1e30  # gammas and budgets that float32 can compute with
STEPS = 40  # of each attack, unless said otherwise


@dataclasses.dataclass(frozen=True, eq=False)
class TransportAttack:
    """What moving the samples achieves at a transport budget; `transport_attack` makes one.

    Attributes:
        rho: the budgets.
        loss: the largest mean loss found at a mean squared distance of at most rho, like rho.
        clean: the mean loss at the samples themselves.
        cost: the corners of the curve through all budgets: mean squared distances,
        reached: and the mean losses there.
        n: the number of samples.
    """

    rho: Any
    loss: Any
    clean: float
    cost: np.ndarray = dataclasses.field(repr=False)
    reached: np.ndarray = dataclasses.field(repr=False)
    n: int


def transport_attack(
    network: PyTree,
    X: Any,
    y: Any,
    rho: Any,
    *,
    key: Array,
    gammas: Any = None,
    radii: Any = None,
    steps: int = STEPS,
    restarts: int = 1,
    loss: str | Loss = "cross_entropy",
    label_smoothing: float = 0.0,
    box: Range | None = None,
    progress: bool = False,
) -> TransportAttack:
    r"""Spend a transport budget on the samples so that the mean loss is large.

    Every sample is attacked by `wrm_attack` with several gammas and by `pgd` in L2 with several
    radii. Of the points $z_{ja}$ found for it one is chosen, or a mixture of two:

    $$ \max_{w \ge 0} \frac{1}{n} \sum_{j,a} w_{ja}\, \ell(f(z_{ja}), y_j)
       \quad\text{with}\quad \sum_a w_{ja} = 1, \quad
       \frac{1}{n} \sum_{j,a} w_{ja} \|z_{ja} - x_j\|^2 \le \rho $$

    The samples moved so are a distribution within transport cost rho, so that no `certificate`
    can be below this loss.

    Args:
        network: maps one sample to its logits.
        X: samples, one along the first axis.
        y: labels.
        rho: budgets, one or an array.
        key: draws the starts.
        gammas: penalties; None: 10 of them, for which a gain in loss of 0.03 to 10 costs between
            the smallest and the largest rho.
        radii: of balls; None: 4, up to twice the root of the largest rho.
        steps: gradient steps of each attack.
        restarts: starts of each attack.
        loss: what to make large; that of the certificate.
        label_smoothing: from 0 to 1.
        box: (low, high), the range that samples are kept in.
        progress: show it.

    >>> import jax, rsgda
    >>> X, y = jax.random.normal(jax.random.key(0), (20, 3), "float32"), [0, 1] * 10
    >>> network = rsgda.robust.mlp((3, 8, 2), key=jax.random.key(1))
    >>> found = transport_attack(network, X, y, [0.0, 0.1], key=jax.random.key(2))
    >>> bool(found.loss[0] == found.clean), bool(found.loss[1] > found.clean)
    (True, True)
    """
    rhos = budgets(rho)
    rows = door(network, X, y, key, loss, label_smoothing, box)
    attacks = attacks_at(rows, rhos, gammas, radii, steps, restarts)
    n = len(rows.X)
    points = np.empty((2, 1 + len(attacks), n))  # squared distances and losses
    with bar(progress, "attack", 0, n * len(attacks)) as shown:
        for a, attack in enumerate((lambda places: rows.X[places], *attacks)):
            for places, take in chunks(np.arange(n), n):
                found = judged(rows, attack(places), places)
                points[:, a, places[:take]] = found[:, :take]
                shown.update(max(a - 1, 0) * n + (a > 0) * int(places[take - 1] + 1), {})
    cost, reached = _spent(*points)
    return TransportAttack(
        rhos, np.interp(rhos, cost, reached), float(reached[0]), cost, reached, n
    )


def attacks_at(
    rows: Rows,
    rhos: Any,
    gammas: Any = None,
    radii: Any = None,
    steps: int = STEPS,
    restarts: int = 1,
) -> list[Callable[[np.ndarray], np.ndarray]]:
    """Return the attacks of some budgets, each a function of the places of samples."""
    most = max(float(np.max(rhos)), LEAST)
    least = max(float(np.min(rhos, initial=most, where=np.asarray(rhos) > 0)), most / 1e3)
    gammas = np.geomspace(10 / least, 0.03 / most, 10) if gammas is None else gammas
    radii = 2 * np.sqrt(np.geomspace(least, most, 4)) if radii is None else radii
    attacks = [
        functools.partial(run_wrm, rows, numbers_of("gammas", gamma, rows, steps, None, restarts))
        for gamma in _listed("gammas", gammas)
    ]
    for radius in _listed("radii", radii):
        ball = numbers_of("radii", radius, rows, steps, None, restarts, ball=True)
        attacks.append(functools.partial(run_pgd, rows, ball, "l2"))
    return attacks


def _listed(name: str, numbers: Any) -> list[float]:
    try:
        return [float(one) for one in np.ravel(np.asarray(numbers, float))]
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` must hold positive numbers, got {numbers!r}.") from None


def _spent(costs: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of the largest mean loss against the mean cost, points by samples.

    A sample's choices lie on the upper concave hull of its points, and all steps along the hulls
    are made in the order of their slopes.
    """
    n = costs.shape[1]
    steps: list[tuple[float, float]] = []
    for cost, loss in zip(costs.T, losses.T, strict=True):
        steps += _hull(cost, loss)
    more_cost, more_loss = np.array(steps).reshape(-1, 2).T
    order = np.argsort(-more_loss / more_cost, kind="stable")
    cost = np.cumsum([0.0, *more_cost[order]]) / n
    return cost, np.mean(losses[0]) + np.cumsum([0.0, *more_loss[order]]) / n


def _hull(cost: np.ndarray, loss: np.ndarray) -> list[tuple[float, float]]:
    """Return the steps up along the concave hull of one sample's points; the first is the start."""
    steps, at = [], 0
    while True:
        better = np.flatnonzero((loss > loss[at]) & (cost > cost[at]))
        if not len(better):
            return steps
        further, gained = cost[better] - cost[at], loss[better] - loss[at]
        slopes = gained / further
        # Of equal slopes the longest step, so that no corner is met twice.
        best = np.lexsort((further, slopes))[-1]
        steps.append((float(further[best]), float(gained[best])))
        at = better[best]


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
