r"""RSGDA(p) against ESGDA(m = 1/p - 1) on the toy problem, at equal gradient counts.

Both start from `Toy.start()` with v = v*(theta), and take the largest fixed steps that the
paper's Proposition 1 (corrected) allows: $\eta = 1/(2L)$ and the $\alpha$ of `theory.alpha_max`.
RSGDA's coin then decides when the descents come, on average as often as ESGDA's.

phi is in closed form. It is recorded at each of the first `OPENING` gradients and then at each
multiple of `EVERY`, where ESGDA has completed a cycle for all m. Within a cycle its theta, and so
phi, is what it was at the cycle's start: nothing is interpolated.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np

from rsgda.algorithms.esgda import ESGDA
from rsgda.algorithms.rsgda import RSGDA
from rsgda.drive.result import Status
from rsgda.drive.sweep import sweep
from rsgda.moves import State
from rsgda.problem import Problem
from rsgda.problems.toy import Toy
from rsgda.reproduce.outcome import Finding, Outcome, Tell
from rsgda.reproduce.stored import Tables, table
from rsgda.reproduce.toy_figure import draw
from rsgda.reproduce.toy_numbers import (
    Pair,
    as_written,
    curves_csv,
    effect_of,
    pairs_of,
    summary_csv,
    summary_of,
)
from rsgda.theory.proposition import alpha_max
from rsgda.theory.regularity import Regularity

TOY = Toy(kinds="ABC", kappa=10.0, s=0.3, t=0.3, rho=0.05)
LOOPS = (1, 3, 9)  # the values of m
ETA = 0.5 / TOY.L
SEED = 0
OPENING = 100
EVERY = 20  # a multiple of all m + 1, and OPENING of it


class Scale(NamedTuple):
    """How much is run; `gradients` is a multiple of `EVERY`.

    phi comes down to about 2 % of where it started in 2,000 gradients. Much later it is at its
    noise floor, where the curves of any two algorithms tell of their seeds alone.
    """

    seeds: int
    gradients: int = 2_000


SCALES = {"quick": Scale(20), "standard": Scale(100), "paper": Scale(500)}


def run(scale: str, tell: Tell, work: Path | None = None) -> Outcome:
    """Compare, summarise and draw at a named scale."""
    return outcome(SCALES[scale], tell)


def outcome(scale: Scale, tell: Tell) -> Outcome:
    """Compare, summarise and draw."""
    # The numbers must depend on the seed alone, not on how JAX happens to be set up.
    with jax.enable_x64(True):
        pairs = [as_written(pair) for pair in compare(scale, tell)]
    summaries = [summary_of(pair) for pair in pairs]
    tell(0.9, "drawing")
    png, pdf = draw(pairs)
    return Outcome(
        files={
            "toy.csv": curves_csv(pairs),
            "summary.csv": summary_csv(summaries),
            "toy.png": png,
            "toy.pdf": pdf,
        },
        settings=_settings(scale),
    )


def judge(tables: Tables, settings: dict[str, Any]) -> list[Finding]:
    """Say of each m whether the two are alike."""
    rows = table(tables, "toy.csv", ("algorithm", "m", "gradients", "seed 0"))
    return [_finding(pair, summary_of(pair)) for pair in pairs_of(rows, settings)]


def compare(scale: Scale, tell: Tell) -> list[Pair]:
    """Run both algorithms for each m and return phi at equal gradient counts."""
    keys = jr.split(jr.key(SEED), scale.seeds)
    alphas = [largest_alpha(m) for m in LOOPS]
    counts = np.r_[: OPENING + 1, OPENING + EVERY : scale.gradients + 1 : EVERY]
    tell(0.0, "RSGDA")
    coins = [
        RSGDA(p=1 / (m + 1), alpha=alpha, eta=ETA) for m, alpha in zip(LOOPS, alphas, strict=True)
    ]
    random = recorded(coins, 1, keys, scale.gradients)
    pairs = []
    for i, (m, alpha) in enumerate(zip(LOOPS, alphas, strict=True)):
        tell(0.4 + 0.5 * i / len(LOOPS), f"ESGDA({m})")
        # A sweep has one number of steps, and an ESGDA step costs m + 1 gradients.
        (cyclic,) = recorded([ESGDA(m=m, alpha=alpha, eta=ETA)], m + 1, keys, scale.gradients)
        pairs.append(Pair(m, alpha, ETA, counts, random[i], cyclic))
    return pairs


def recorded(algorithms: list[Any], cost: int, keys: jax.Array, gradients: int) -> np.ndarray:
    """Return phi, algorithms x seeds x gradient counts, for steps that cost `cost` gradients."""
    theta, _ = TOY.start()
    # The same keys give the same runs, so that the first sweep is a closer look at the second.
    opening = _swept(algorithms, theta, keys, OPENING // cost, 1)
    whole = _swept(algorithms, theta, keys, gradients // cost, EVERY // cost)
    start = np.full((*opening.shape[:2], 1), float(TOY.phi(theta)))
    cycle = np.arange(OPENING + 1) // cost
    held = np.concatenate([start, opening], axis=-1)[..., cycle]
    return np.concatenate([held, whole[..., OPENING // EVERY :]], axis=-1)


def _swept(
    algorithms: list[Any], theta: jax.Array, keys: jax.Array, steps: int, every: int
) -> np.ndarray:
    table = sweep(
        TOY.problem,
        algorithms,
        theta,
        TOY.v_star(theta),
        keys=keys,
        steps=steps,
        record=_phi,
        every=every,
    )
    if not np.all(table.status == Status.FINISHED):
        raise RuntimeError(f"runs of the toy problem did not finish: {table}")
    return table.history["phi"]


def _phi(problem: Problem, state: State) -> dict[str, jax.Array]:
    return {"phi": TOY.phi(state.theta)}


def largest_alpha(m: int) -> float:
    """Return the largest fixed alpha that Proposition 1 allows at p = 1 / (m + 1)."""
    return alpha_max(Regularity(L=TOY.L, mu=TOY.mu), p=1 / (m + 1), eta=ETA)


def _settings(scale: Scale) -> dict[str, Any]:
    return {
        "problem": repr(TOY),
        "start": "theta = 2, v = v*(theta)",
        "m": list(LOOPS),
        "p": [1 / (m + 1) for m in LOOPS],
        "alpha": [largest_alpha(m) for m in LOOPS],
        "eta": ETA,
        "seed": SEED,
        "seeds": scale.seeds,
        "gradients": scale.gradients,
        "precision": "float64",
    }


def _finding(pair: Pair, summary: dict[str, Any]) -> Finding:
    m = summary["m"]
    gaps = [
        f"{summary[f'{kind}_gap_percent']:.1f} ± {summary[f'{kind}_gap_error_percent']:.1f} % "
        f"of {unit} (band: {summary[f'{kind}_band_percent']:g} %)"
        for kind, unit in (("relative", "phi"), ("transient", "phi_0 in the transient"))
    ]
    about = f"RSGDA(p = 1/{m + 1}) against ESGDA(m = {m})"
    effect = effect_of(pair, summary["relative_gap_at"])
    return Finding(about, "gap " + ", ".join(gaps), summary["verdict"], effect)
