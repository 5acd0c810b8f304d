"""What users get who give no step: the robust loss and the distance that runs come to.

python benchmarks/auto_users.py [--quick] [--out DIR]

Robust classification of five sets that come with scikit-learn, by `RobustClassifier` with steps
that are found, with those it has beside a p, and with the best of a grid; and matching of the sets
of `rsgda.data` whose cells were seen twice, by `Auto` and by `transport.algorithm`. All have as
many gradients. What is compared is certified, and no run of the table was used to choose steps.
"""

import argparse
import statistics
import sys
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np
from sklearn import datasets

import rsgda
from rsgda import transport
from rsgda._trees import thaw
from rsgda.problems.transport import standardised
from rsgda.report import as_csv
from rsgda.reproduce.runner import write_aside

OUT = Path(__file__).resolve().parents[1] / "results" / "auto"
SEEDS = (1, 2, 3, 4, 5)  # of the table; the grid is chosen with seed 0
PS, ALPHAS, ETAS = (0.25, 0.5, 0.75), (0.03, 0.1, 0.3, 1.0), (0.3, 1.0, 3.0)
GAMMA, BATCH = 1.3, 128
STEPS, TARGETS, POINTS, EPSILON = 2_000, 1_000, 500, 0.1  # of matching
COLUMNS = ("set", "what", "steps", "median", "lowest", "highest", "runs")


class Line(NamedTuple):
    """What runs came to, of one set with one kind of steps."""

    of: str
    what: str
    steps: str
    values: list[float]


def sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return features and classes: pixels in [0, 1], else columns of mean zero and variance one."""
    found = {}
    for name in ("iris", "wine", "breast_cancer", "digits", "diabetes"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        if name == "diabetes":
            y = np.asarray(y > np.median(y), int)  # worse than half of the patients
        X = X / 16 if name == "digits" else standardised(X)
        found[name] = np.asarray(X, np.float32), y
    return found


def robust_loss(X: np.ndarray, y: np.ndarray, seed: int, **given: Any) -> float:
    """Return the certified robust loss of a classifier on the samples that it is trained on."""
    fitted = rsgda.robust.RobustClassifier(gamma=GAMMA, random_state=seed, **given).fit(X, y)
    if fitted.status_ == "DIVERGED":
        return float("inf")
    codes = np.unique(y, return_inverse=True)[1]
    problem, theta, v = rsgda.robust.wrm(fitted.network_, X, codes, gamma=GAMMA, batch_size=1)
    return float(rsgda.phi(problem, theta, v, tol=1e-3).value)


def classification(seeds: tuple[int, ...], grid: list[dict[str, float]]) -> Iterator[Line]:
    """Robust classification of five sets."""
    for name, (X, y) in sets().items():
        unit = min(BATCH, len(X)) / (4 * GAMMA)
        cells = [cell | {"eta": cell["eta"] * unit} for cell in grid]
        best = min(cells, key=lambda cell: robust_loss(X, y, 0, **cell))
        kinds = {"found": {}, "by hand": {"p": 0.25}, "best of a grid": best}
        for steps, given in kinds.items():
            yield Line(name, "robust loss", steps, [robust_loss(X, y, s, **given) for s in seeds])


def matching(seeds: tuple[int, ...]) -> Iterator[Line]:
    """Matching of cells that were seen twice; W_eps to some of the cells."""
    loaders = {
        "SNARE-seq, chromatin to RNA": lambda: rsgda.data.snareseq()[:2],
        "scGEM, expression to methylation": lambda: rsgda.data.scgem()[:2],
        "CITE-seq, RNA to proteins": lambda: rsgda.data.citeseq_pbmc()[:2],
    }
    for name, load in loaders.items():
        try:
            y, x = (standardised(np.asarray(points, float)) for points in load())
        except (OSError, ValueError) as error:
            print(f"{name} is left out: {str(error).splitlines()[0]}")
            continue
        x, y = (
            points[np.random.default_rng(0).permutation(len(points))[:most]]
            for points, most in ((x, len(x)), (y, TARGETS))
        )
        network = transport.mlp((y.shape[1], 64, x.shape[1]), key=jr.key(0))
        problem, theta, v = transport.matching(x, y, network, epsilon=EPSILON)
        for steps in ("found", "transport.algorithm"):
            ends = []
            for seed in seeds:
                algorithm = rsgda.Auto() if steps == "found" else transport.algorithm(STEPS)
                count = int(0.9 * STEPS) if steps == "found" else STEPS  # a tenth looks around
                done = rsgda.solve(problem, algorithm, theta, v, key=jr.key(seed), steps=count)
                made = np.asarray(jax.vmap(thaw(done.state.theta))(y))
                ends.append(
                    transport.sinkhorn(x[:POINTS], made, epsilon=EPSILON, v=done.v, tol=0.03).value
                )
            yield Line(name, "W_eps", steps, ends)


def table(lines: list[Line]) -> str:
    """Return the lines as Markdown, a row for each set."""
    text = [
        "| set | what | steps | median | lowest to highest |",
        "|---|---|---|---|---|",
    ]
    for of, what, steps, values in lines:
        middle = statistics.median(values)
        text.append(
            f"| {of} | {what} | {steps} | {middle:.4g} | {min(values):.4g} to {max(values):.4g} |"
        )
    return "\n".join(text) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, a grid of two")
    parser.add_argument("--out", type=Path, help="folder; else results/auto")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of certificates that do not hold everywhere
    cells = [{"p": p, "alpha": a, "eta": e} for p, a, e in product(PS, ALPHAS, ETAS)]
    seeds, grid = (SEEDS[:1], cells[4:6]) if asked.quick else (SEEDS, cells)
    out = asked.out or (Path("rsgda-benchmarks-quick") / "auto" if asked.quick else OUT)
    lines = [*_told(classification(seeds, grid)), *_told(matching(seeds[:3]))]
    out.mkdir(parents=True, exist_ok=True)
    rows = [
        (of, what, steps, statistics.median(values), min(values), max(values), len(values))
        for of, what, steps, values in lines
    ]
    write_aside(out / "users.csv", as_csv(COLUMNS, rows))
    write_aside(out / "users.md", table(lines).encode())
    print(table(lines), f"written to {out}: users.csv, users.md", sep="\n")
    return 0


def _told(lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        print(f"{line.of}, {line.steps}: {statistics.median(line.values):.4g}", flush=True)
        yield line


if __name__ == "__main__":
    sys.exit(main())
