r"""The theory against runs: bounds, growth with kappa, the range of p, claims as printed.

All on toy problems, whose constants are known exactly, from `Toy.start()`. A curve is the mean of
$\lVert\nabla\phi(\theta_t)\rVert^2$ over the seeds; of it the smallest so far is held against the
bound. It is recorded at each of the first iterations and then evenly, which can only make the
smallest larger: what holds for the records holds for all iterations.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax

from rsgda.reproduce import theory_claims, theory_numbers
from rsgda.reproduce.outcome import Finding, Outcome, Tell
from rsgda.reproduce.stored import Tables, table
from rsgda.reproduce.theory_figure import draw
from rsgda.reproduce.theory_printed import judged, measured_of, printed_csv
from rsgda.reproduce.theory_runs import CASES, EPS, PS, REACHED, RULES, SEED, curves, reach

ABOVE = (0.75, 0.9, 0.97)  # p outside of the range, at its other end


class Scale(NamedTuple):
    """How much is run.

    Attributes:
        seeds: of each curve.
        steps: of each curve, if its plan does not prescribe fewer.
        few: seeds of the runs that count iterations, which vary little.
        kappas: condition numbers of these.
    """

    seeds: int
    steps: int
    few: int
    kappas: tuple[float, ...]


SCALES = {
    "quick": Scale(10, 60_000, 5, (4.0, 8.0, 16.0)),
    "standard": Scale(30, 400_000, 10, (4.0, 8.0, 16.0, 32.0)),
    "paper": Scale(100, 2_000_000, 20, (4.0, 8.0, 16.0, 32.0, 64.0)),
}


def run(scale: str, tell: Tell, work: Path | None = None) -> Outcome:
    """Measure, judge and draw at a named scale."""
    return outcome(SCALES[scale], tell)


def outcome(scale: Scale, tell: Tell) -> Outcome:
    """Measure, judge and draw."""
    # The numbers must depend on the seed alone, not on how JAX happens to be set up.
    with jax.enable_x64(True):
        found = []
        for i, name in enumerate(CASES):
            tell(0.6 * i / len(CASES), f"{name} under its bound")
            found += curves(name, seeds=scale.seeds, steps=scale.steps)
        scaling, along_p = counted(scale, tell)
        tell(0.9, "claims as printed")
        printed = theory_claims.printed(scale.few)
    tell(0.95, "drawing")
    png, pdf = draw(found, scaling, along_p)
    return Outcome(
        files={
            "curves.csv": theory_numbers.curves_csv(found),
            "iterations.csv": theory_numbers.reaches_csv([*scaling, *along_p]),
            "printed.csv": printed_csv(printed),
            "theory.png": png,
            "theory.pdf": pdf,
        },
        settings=_settings(scale),
    )


def judge(tables: Tables, settings: dict[str, Any]) -> list[Finding]:
    """Say what curves, counts and the claims as printed come to."""
    curves = table(tables, "curves.csv", (*theory_numbers.OF_CURVE, "k", "bound"))
    reaches = table(tables, "iterations.csv", ("kappa", "rule", "p", "iterations", "planned"))
    printed = table(tables, "printed.csv", ("claim", "of", "name", "value"))
    found = theory_numbers.findings(
        theory_numbers.curves_of(curves), theory_numbers.reaches_of(reaches), settings["seeds"]
    )
    return found + [judged(measured) for measured in measured_of(printed)]


def counted(scale: Scale, tell: Tell) -> tuple[list[Any], list[Any]]:
    """Count iterations for all kappa and rules for p, and for all p at one kappa."""
    scaling, along_p = [], []
    middle = scale.kappas[len(scale.kappas) // 2]
    for i, kappa in enumerate(scale.kappas):
        tell(0.6 + 0.3 * i / len(scale.kappas), f"iterations at kappa = {kappa:g}")
        for rule, p_of in RULES.items():
            scaling.append(reach(kappa, rule, p_of(kappa), seeds=scale.few))
        if kappa == middle:
            for p in all_p(kappa):
                along_p.append(reach(kappa, "", p, seeds=scale.few))
    return scaling, along_p


def all_p(kappa: float) -> list[float]:
    """Return values of p below, in and above the range [1/kappa, 1/2]."""
    inside = [(0.5 * kappa) ** (i / 4) / kappa for i in range(5)]
    return [kappa**-2, kappa**-1.5, *inside, *ABOVE]


def _settings(scale: Scale) -> dict[str, Any]:
    return {
        "problems": {name: repr(case.toy) for name, case in CASES.items()},
        "start": "theta = 2, v = 0",
        "p": list(PS),
        "eps": EPS,
        "reached": REACHED,
        "seed": SEED,
        "seeds": scale.seeds,
        "steps": scale.steps,
        "few": scale.few,
        "kappas": list(scale.kappas),
        "precision": "float64",
    }
