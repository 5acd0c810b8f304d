"""The numbers of the toy comparison: curves, gaps between them, verdicts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rsgda.reproduce.effects import over_seeds
from rsgda.reproduce.outcome import FAILS, HOLDS, Effect
from rsgda.reproduce.stored import Row, grouped

# What was found for this comparison before, with kappa = 10 and noise: after the transient the
# mean curves are within 1 to 6 % of each other, and before it within so many % of phi_0.
RELATIVE_BAND = 6.0
TRANSIENT_BANDS = {1: 1.8, 3: 4.8, 9: 16.0}
TRANSIENT_ENDS = 0.1  # of phi_0
# A gap is a mean over seeds. It is held against the band with this many standard errors to spare.
ERRORS_TO_SPARE = 2.0


class Pair(NamedTuple):
    """phi along RSGDA(1/(m + 1)) and ESGDA(m), seeds x gradient counts."""

    m: int
    alpha: float
    eta: float
    counts: np.ndarray
    rsgda: np.ndarray
    esgda: np.ndarray


def as_written(pair: Pair) -> Pair:
    """Round phi to what the file holds, so that everything can be derived from the file again."""
    return pair._replace(rsgda=_rounded(pair.rsgda), esgda=_rounded(pair.esgda))


def _rounded(phi: np.ndarray) -> np.ndarray:
    return np.array([float(f"{value:.6g}") for value in phi.flat]).reshape(phi.shape)


def curves_csv(pairs: list[Pair]) -> bytes:
    """One row for each algorithm, m and count; phi of each seed in a column of its own."""
    seeds = [f"seed {seed}" for seed in range(len(pairs[0].rsgda))]
    lines = [",".join(["algorithm", "m", "p", "gradients", *seeds])]
    for pair in pairs:
        for name, phi in (("RSGDA", pair.rsgda), ("ESGDA", pair.esgda)):
            for count, row in zip(pair.counts.tolist(), phi.T.tolist(), strict=True):
                start = f"{name},{pair.m},{1 / (pair.m + 1):g},{count}"
                lines.append(",".join([start, *(f"{value:.6g}" for value in row)]))
    return ("\n".join(lines) + "\n").encode()


def pairs_of(rows: Sequence[Row], settings: dict[str, Any]) -> list[Pair]:
    """Return the pairs that a file holds."""
    places = grouped(rows, ("m", "algorithm"))
    return [
        Pair(
            m, alpha, settings["eta"],
            np.array([int(row["gradients"]) for row in places[f"{m}", "RSGDA"]]),
            *(_phi(places[f"{m}", name]) for name in ("RSGDA", "ESGDA")),
        )
        for m, alpha in zip(settings["m"], settings["alpha"], strict=True)
    ]  # fmt: skip


def _phi(rows: list[Row]) -> np.ndarray:
    seeds = [name for name in rows[0] if name.startswith("seed ")]
    return np.array([[float(row[name]) for row in rows] for name in seeds])


def summary_of(pair: Pair) -> dict[str, Any]:
    """Return the largest gaps between the mean curves, with standard errors, and the verdict.

    The relative gap is |mean RSGDA - mean ESGDA| / mean ESGDA where ESGDA has completed a cycle,
    from the count on where both means are below a tenth of phi_0. The transient gap is the
    largest at any count, in % of phi_0: it is there because ESGDA's first descent comes after m
    ascents, and RSGDA's first coin may be one.
    """
    mean, phi_0 = pair.esgda.mean(axis=0), float(pair.esgda[0, 0])
    apart = pair.rsgda - pair.esgda  # by seed, as the two share their samples
    gap = np.abs(apart.mean(axis=0))
    error = apart.std(axis=0, ddof=1) / np.sqrt(len(apart))
    high = np.maximum(mean, pair.rsgda.mean(axis=0)) >= TRANSIENT_ENDS * phi_0
    if high[-1]:
        raise ValueError(f"phi must fall below {TRANSIENT_ENDS:g} of where it started.")
    after = pair.counts > pair.counts[high].max()
    matched = pair.counts % (pair.m + 1) == 0
    row: dict[str, Any] = {
        "m": pair.m,
        "p": 1 / (pair.m + 1),
        "alpha": pair.alpha,
        "eta": pair.eta,
        "seeds": len(apart),
    }
    places = {
        "relative": np.argmax(np.where(after & matched, gap / mean, -1.0)),
        "transient": np.argmax(gap),
    }
    bands = {"relative": RELATIVE_BAND, "transient": TRANSIENT_BANDS[pair.m]}
    for kind, at in places.items():
        unit = 100 / (mean[at] if kind == "relative" else phi_0)
        row |= {
            f"{kind}_gap_percent": round(float(unit * gap[at]), 4),
            f"{kind}_gap_error_percent": round(float(unit * error[at]), 4),
            f"{kind}_gap_at": int(pair.counts[at]),
            f"{kind}_band_percent": bands[kind],
        }
    row["verdict"] = HOLDS if all(_within(row, kind) for kind in places) else FAILS
    return row


def effect_of(pair: Pair, at: int) -> Effect | None:
    """Return how far apart the two are at a count, seed by seed."""
    place = pair.counts == at
    apart = np.squeeze(pair.rsgda[:, place] - pair.esgda[:, place], axis=1)
    mean = pair.esgda[:, place].mean()
    what = f"RSGDA less ESGDA after {at:,} gradients, % of φ"
    return over_seeds(100 * apart / mean, what, paired=True)


def _within(row: dict[str, Any], kind: str) -> bool:
    spare = ERRORS_TO_SPARE * row[f"{kind}_gap_error_percent"]
    return row[f"{kind}_gap_percent"] - spare <= row[f"{kind}_band_percent"]


def summary_csv(summaries: list[dict[str, Any]]) -> bytes:
    """One row for each m."""
    lines = [",".join(summaries[0])]
    for row in summaries:
        values = (f"{v:.6g}" if isinstance(v, float) else str(v) for v in row.values())
        lines.append(",".join(values))
    return ("\n".join(lines) + "\n").encode()
