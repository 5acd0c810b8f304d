"""Speed, memory and closeness of entropic transport, as ratios to PyTorch, OTT and POT.

python benchmarks/transport.py [--quick] [--only NAME ...] [--json FILE]
"""

import functools
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import suite
import timing
from by_hand import close
from matching import EPSILON, Ours, clouds
from suite import Contest

from rsgda import transport


class Size(NamedTuple):
    """How much is run."""

    rounds: int
    rows: int  # of x in the steps
    targets: int
    wide: int  # dimensions of y,
    narrow: int  # and of x
    descents: int
    ascents: int
    whole: tuple[int, int]  # rows and targets of a whole W_eps,
    iterations: int  # and the iterations of it
    largest: tuple[int, int, int]  # whose memory is measured
    samples: int  # of a semi-discrete solve,
    solves: int  # and its rounds, as POT takes long


FULL = Size(
    9, 20_000, 4_683, 1_024, 41, 100, 2_000, (20_000, 4_683), 5, (159_594, 6_661, 37), 384_000, 5,
)  # fmt: skip
QUICK = Size(2, 300, 50, 20, 4, 3, 5, (300, 50), 2, (500, 60, 3), 4_000, 2)


# Steps of matching.


def steps(size: Size) -> Iterator[timing.Line]:
    """Descents, and ascents one after the other."""
    from matching_by_torch import Theirs, compare

    ours = Ours(size.rows, size.targets, size.wide, size.narrow)
    theirs = Theirs(ours)
    compare(ours, theirs)
    kinds = (
        ("descent", 1 - 1e-6, size.descents, 0.9),
        ("ascents in a row", 1e-6, size.ascents, 0.1),
    )
    for name, p, count, most in kinds:
        few = max(1, count // 10) if p < 0.5 else count  # PyTorch's ascents are slow
        seconds = timing.interleave(
            {
                "ours": functools.partial(ours.run, p, count),
                "torch": functools.partial(theirs.run, p > 0.5, few),
            },
            size.rounds,
        )
        note = f"PyTorch {timing.microseconds(seconds['torch'], few)}"
        ratios = (seconds["ours"] / count) / (seconds["torch"] / few)
        yield timing.line(f"matching, {name}", ratios, against="PyTorch", most=most, note=note)


# All of W_eps.


def whole(size: Size) -> Iterator[timing.Line]:
    """Sinkhorn's iterations on all rows, as many for both."""
    few = clouds(200, 50, 3, 3)
    close("potentials", _ours(*few, 3_000), _ott(*few, 3_000))
    (rows, targets), narrow = size.whole, size.narrow
    x, y = clouds(rows, targets, narrow, narrow)
    contestants: dict[str, Callable[[], object]] = {
        "ours": functools.partial(_ours, x, y, size.iterations),
        "ott": functools.partial(_ott, x, y, size.iterations),
        "certified": functools.partial(_certified, x, y, size.iterations),
    }
    seconds = timing.interleave(contestants, size.rounds)
    note = f"OTT {statistics.median(seconds['ott']):.3g} s, {rows:,} × {targets:,} × {narrow}"
    name, rival = f"sinkhorn, {size.iterations} iterations", {"against": "OTT, dense"}
    yield timing.line(name, seconds["ours"] / seconds["ott"], **rival, most=0.4, note=note)
    ratios, note = seconds["certified"] / seconds["ott"], "OTT has no certificate"
    yield timing.line(f"{name} and its gap", ratios, **rival, note=note)


def _solved(x: np.ndarray, y: np.ndarray, count: int) -> transport.Sinkhorn:
    return transport.sinkhorn(
        x, y, epsilon=EPSILON, tol=1e-30, max_iterations=count, accelerate=False
    )


def _ours(x: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    return np.asarray(_solved(x, y, count).v)


def _certified(x: np.ndarray, y: np.ndarray, count: int) -> float:
    return _solved(x, y, count).gap


def _ott(x: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    g = np.asarray(_ott_compiled(x, y, count))
    return g - g.mean()


@functools.partial(jax.jit, static_argnames="count")
def _ott_compiled(x: Any, y: Any, count: int) -> Any:
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn as ott_sinkhorn

    solver = ott_sinkhorn.Sinkhorn(
        threshold=-1.0, min_iterations=count, max_iterations=count, inner_iterations=count
    )
    geometry = pointcloud.PointCloud(x, y, epsilon=EPSILON)
    return solver(linear_problem.LinearProblem(geometry)).g


def memory(size: Size) -> Iterator[timing.Line]:
    """The memory of a W_eps that has no dense cost matrix."""
    script = Path(__file__).with_name("transport_memory.py")
    seen = timing.in_new_process(script, *map(str, size.largest))
    shape = " × ".join(f"{count:,}" for count in size.largest)
    dense = 4 * size.largest[0] * size.largest[1] / 1e9
    note = f"W_eps of {shape}, {seen['seconds']:.3g} s for 2 iterations; its costs: {dense:.3g} GB"
    yield timing.line(
        "sinkhorn, whole process at most", [seen["peak"]], unit="GB", most=2, note=note
    )


# Semi-discrete solves.


def semidiscrete(size: Size) -> Iterator[timing.Line]:
    """Closeness at equal samples, each at its best step of three, and time."""
    from semidiscrete import cases, contest

    for case in cases(quick=size is QUICK):
        name, found = f"semi-discrete, {case.name}", contest(case, size.samples, size.solves)
        for rival in ("POT", "OTT"):
            gaps = found.gaps["rsgda"], found.gaps[rival]
            note = "{:.2g} and {:.2g} below {:.6f}".format(*gaps, found.optimum)
            ratio = [gaps[0] / gaps[1]]
            yield timing.line(f"{name}: gap, rsgda / {rival}", ratio, most=1, note=note)
            ratios = found.seconds["rsgda"] / found.seconds[rival]
            note = f"{rival} {statistics.median(found.seconds[rival]):.3g} s"
            yield timing.line(name, ratios, against=rival, most=1, note=note)


CONTESTS = {
    "steps": Contest(steps, ("torch",)),
    "whole": Contest(whole, ("ott",)),
    "memory": Contest(memory),
    "semidiscrete": Contest(semidiscrete, ("ott", "ot")),
}


if __name__ == "__main__":
    sys.exit(suite.main(__doc__, CONTESTS, full=FULL, quick=QUICK))
