"""The inner maximum at each gamma, held against all that was seen at any."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

from rsgda._search import Best, Numbers
from rsgda._trees import PyTree
from rsgda.drive.progress import bar
from rsgda.inner import search_rows
from rsgda.problem import Problem
from rsgda.robust.attacks import Rows, chunks, judged, squared_distances
from rsgda.robust.beyond import (
    ROUNDING,
    Maxima,
    Seen,
    agree,
    beyond,
    curvature_between,
    hold_against_others,
    look,
)
from rsgda.robust.budget import attacks_at
from rsgda.whole import Whole, whole

RESTARTS = 2  # of the attacks that are made once, for all gammas


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

    def lost(self) -> "Inner":
        """Return the same with no sample certified."""
        none, gaps = np.zeros_like(self.certified), np.full_like(self.gaps, np.inf)
        return dataclasses.replace(
            self, gap=0.0, share=0.0, rest=self.phi, certified=none, gaps=gaps
        )


class Found(NamedTuple):
    """What the searches at one gamma found, before it is held against the others."""

    gamma: float
    moved: np.ndarray
    value: np.ndarray
    gap: np.ndarray


class Tries:
    r"""The gammas that were tried, and all that was seen of the loss on the way.

    A point with $\ell(z) - \gamma \|z - x\|^2$ above the largest value at gamma contradicts that
    gamma, whichever other it was found with; and where the loss curves more than 2 gamma, there is
    no concavity. So every gamma is held against what was seen at all.
    """

    def __init__(
        self,
        problem: Problem,
        rows: Rows,
        wanted: Numbers,
        curvature: float | None,
        progress: bool,
    ):
        self._problem, self._rows, self._wanted = problem, rows, wanted
        self._curvature, self._progress = curvature, progress
        self._found: list[Found] = []
        self._points: list[np.ndarray] = []  # each 2 by points by samples
        self._bent = np.full(len(rows.X), -np.inf)

    def attack(self, rhos: Any) -> None:
        """See what `transport_attack` finds at some budgets, from a few starts."""
        n = len(self._rows.X)
        starts = [self._rows, *(self._turn(-i) for i in range(1, RESTARTS))]
        attacks = [one for rows in starts for one in attacks_at(rows, rhos)]
        seen = Seen(np.empty((2, len(attacks), n)), np.full(n, -np.inf))
        with bar(self._progress, "certificate, attacks", 0, n) as shown:
            for places, take in chunks(np.arange(n), n):
                here = places[:take]
                for a, one in enumerate(attacks):
                    point, bent = look(self._rows, one(places), places)
                    seen.points[:, a, here] = point[:, :take]
                    seen.curvature[here] = np.maximum(seen.curvature[here], bent[:take])
                shown.update(int(here[-1]) + 1, {})
        self._see(seen)

    def at(self, gamma: float) -> Inner:
        """Try one gamma, unless it was tried, and return what holds of it so far."""
        if all(found.gamma != gamma for found in self._found):
            self._found.append(self._search(gamma))
        return next(one for one in self.settled() if one.gamma == gamma)

    def settled(self) -> tuple[Inner, ...]:
        """Return the inner maximum at each gamma from the smallest, held against all seen."""
        inner, failed = [], np.zeros(len(self._rows.y), bool)
        for found in sorted(self._found, key=lambda found: -found.gamma):
            inner.append(self._settle(found, failed))
            failed = ~inner[-1].certified
        return tuple(inner[::-1])

    def _settle(self, found: Found, failed: np.ndarray) -> Inner:
        """Hold one gamma against all that was seen; what failed at a larger one fails here."""
        gamma, moved, value, gap = found
        y, each, eps = self._rows.y, np.arange(len(value)), np.finfo(self._rows.X.dtype).eps
        for points in self._points:
            offered = points[1] - gamma * points[0]
            best = np.argmax(np.where(np.isfinite(offered), offered, -np.inf), axis=0)
            (cost, loss), offered = points[:, best, each], offered[best, each]
            better = np.isfinite(offered) & (offered > value)
            rounding = ROUNDING * eps * (1 + np.maximum(np.abs(loss), np.abs(offered)))
            gap = np.where(better & (offered > value + gap + rounding), np.inf, gap)
            gap = np.where(better, np.maximum(gap - (offered - value), 0), gap)
            value, moved = np.where(better, offered, value), np.where(better, cost, moved)
        if self._proved(gamma):
            check_curvature(gap, np.inf, self._curvature)
        else:
            gap = np.where(2 * gamma <= self._bent, np.inf, gap)
        # The penalty curves alike everywhere, so that where the objective of one sample is not
        # concave that of no sample of its label is.
        certified = ~np.isin(y, y[~np.isfinite(gap) | failed])
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

    def _search(self, gamma: float) -> Found:
        problem, rows, n = self._problem, self._turn(len(self._found) + 1), self._problem.rows
        data = {**problem.data, "gamma": jnp.full_like(problem.data["gamma"], gamma)}
        found = Maxima(np.empty_like(rows.X), *np.empty((2, n)))
        seen = []
        with bar(self._progress, f"certificate, gamma {gamma:g}", 0, n) as shown:
            for places, take in chunks(np.arange(n), n):
                part = jax.tree.map(lambda leaf, at=places: leaf[at], data)
                F = whole(dataclasses.replace(problem, data=part))
                each, new = self._maxima(F, rows, gamma, places)
                seen.append(Seen(new.points[..., :take], new.curvature[:take]))
                for to, come in zip(found, each, strict=True):
                    to[places[:take]] = come[:take]
                shown.update(int(places[take - 1]) + 1, {})
        if not np.all(np.isfinite(found.value)):
            raise ValueError(
                "`network` must give a finite loss at all samples; NaN or infinity came."
            )
        self._see(Seen(*(np.concatenate(part, axis=-1) for part in zip(*seen, strict=True))))
        v, value, gap = hold_against_others(rows, found, gamma)
        moved = squared_distances(rows, v, np.arange(n))
        self._points.append(np.stack([moved, value + gamma * moved])[:, None])
        return Found(gamma, moved, value, gap)

    def _maxima(
        self, F: Whole, rows: Rows, gamma: float, places: np.ndarray
    ) -> tuple[Maxima, Seen]:
        x, known = rows.X[places], self._curvature
        if self._proved(gamma):
            # What is known of the concavity need not be measured.
            mu = jnp.asarray((2 * gamma - (known or 0)) / len(places), float)
            best = _maxima(F, rows.network, x, self._wanted._replace(mu=mu))
            each = Maxima(*(np.asarray(one) for one in (best.v, best.value, best.gap)))
            check_curvature(each.gap, 2 * gamma - float(jnp.min(best.low)), known)
            return each, Seen(judged(rows, each.v, places)[:, None], np.full(len(x), -np.inf))
        near = _maxima(F, rows.network, x, self._wanted)
        start, seen = beyond(rows, gamma, places)
        far = _maxima(F, rows.network, start, self._wanted)
        ends = [np.asarray(one.v) for one in (near, far)]
        bent = [seen.curvature, curvature_between(rows, ends[0], ends[1], places)]
        rounding = ROUNDING * np.finfo(rows.X.dtype).eps
        for one in (near, far):
            low = np.asarray(one.low, float)
            bent.append(np.where(np.isfinite(low), 2 * gamma * (1 - rounding) - low, -np.inf))
        points = np.stack([judged(rows, z, places) for z in ends], axis=1)
        each = agree(near, far)
        if known is not None:
            each = each._replace(gap=np.full(len(x), np.inf))
        return each, Seen(np.concatenate([seen.points, points], axis=1), np.max(bent, axis=0))

    def _proved(self, gamma: float) -> bool:
        return self._curvature is not None and 2 * gamma > self._curvature

    def _see(self, seen: Seen) -> None:
        self._points.append(seen.points)
        self._bent = np.maximum(self._bent, seen.curvature)

    def _turn(self, i: int) -> Rows:
        """Return the samples with another key, so that every gamma looks elsewhere."""
        return self._rows._replace(key=jr.fold_in(self._rows.key, i % 2**31))


@jax.jit
def _maxima(F: Whole, theta: PyTree, start: Array, wanted: Numbers) -> Best:
    return search_rows(F, F.prepared(theta), start, wanted, jr.key(0))[0]


def check_curvature(gap: np.ndarray, seen: float, curvature: float | None) -> None:
    """Refuse a constant that what was found contradicts."""
    if np.any(np.isinf(gap)):
        how = f"one of {seen:.6g} was seen" if np.isfinite(seen) else "it rules out what was found"
        raise ValueError(
            "`curvature` must be what the curvature of the loss in its input never exceeds, got "
            f"{curvature!r}, but {how}."
        )
