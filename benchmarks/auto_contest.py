"""Contestants on a task: gradients to its targets, as ratios to the best cell of the grid."""

import hashlib
import inspect
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import auto_runs
import jax.random as jr
import numpy as np
import optax
from auto_reference import KINDS, Reference, gradients_to
from jax import Array
from neada import NeAda

import rsgda
from rsgda import theory
from rsgda.problems import Task
from rsgda.reproduce.runner import write_aside

MOST = 8  # times what the reference needs: who is not there by then has failed
LEAST = 2  # times that, which each run is watched for in any case
LOOKS = 25  # in the time of the reference that needs less
SEEDS, AUTO_SEEDS = 5, 20


class Contestant(NamedTuple):
    """Who takes part: what makes the algorithm of a task, or None where it has none."""

    make: Callable[[Task, int], Any]
    seeds: int = SEEDS


def by_theory(task: Task, steps: int) -> Any:
    """Return RSGDA with the steps that a plan has for constants measured at the start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that constants of a sample are not exact
        r = theory.estimate(
            task.problem, task.theta, task.v, key=jr.key(2), rows=256, batches=64, steps=100,
            tol=1e-2,
        )  # fmt: skip
    exact = task.problem.exact
    plan = theory.exact(r, p=0.5) if exact else theory.anytime(r, p=0.5)
    return plan.algorithm


def by_transport(task: Task, steps: int) -> Any:
    """Return the algorithm that `rsgda.transport` has for a run of this length."""
    if task.family not in ("matching", "generation"):
        return None
    return rsgda.transport.algorithm(steps, p=0.1 if task.family == "matching" else 0.5)


CONTESTANTS = {
    "SGDA 0.01, 0.01": Contestant(lambda task, steps: rsgda.SGDA(alpha=0.01, eta=0.01)),
    "SGDA 0.01, 0.1": Contestant(lambda task, steps: rsgda.SGDA(alpha=0.01, eta=0.1)),
    "Adam, p = 1/2": Contestant(
        lambda task, steps: rsgda.RSGDA(p=0.5, alpha=optax.adam(1e-3), eta=optax.adam(1e-3))
    ),
    "NeAda": Contestant(lambda task, steps: NeAda()),
    "transport.algorithm": Contestant(by_transport),
    "RSGDA, theory": Contestant(by_theory),
}
# Those that the installed version of the package has.
if hasattr(rsgda, "TiAda"):
    CONTESTANTS["TiAda"] = Contestant(lambda task, steps: rsgda.TiAda())
if hasattr(rsgda, "Auto"):
    CONTESTANTS = {"Auto": Contestant(lambda task, steps: rsgda.Auto(), AUTO_SEEDS), **CONTESTANTS}


class Ran(NamedTuple):
    """What a run of a contestant came to: gradients to either target, and how it ended."""

    seed: int
    last: float
    averaged: float
    diverged: bool
    spent: float


def run(
    task: Task,
    references: dict[str, Reference],
    contestant: Contestant,
    seeds: int,
    tell: Any = print,
) -> list[Ran] | str:
    """Return the runs of a contestant; or why it has none: "" if it is not for such tasks.

    All have the same seeds. If more than half of them have failed the median is known, and no more
    are run of a contestant that is not asked for all.
    """
    needs = {kind: references[kind].gradients for kind in KINDS}
    most, least = int(MOST * max(needs.values())), int(LEAST * max(needs.values()))
    try:
        algorithm = contestant.make(task, task.gradients)
    except ValueError as error:
        return str(error)
    if algorithm is None:
        return ""
    ran: list[Ran] = []
    for seed in range(seeds):
        curve = auto_runs.curve(
            task, algorithm, contest_key(seed), every=max(1, int(min(needs.values())) // LOOKS),
            most=most, least=least, targets=(references["last"].target,
            references["averaged"].target),
        )  # fmt: skip
        to = [gradients_to(curve, kind, references[kind].target) for kind in KINDS]
        ran.append(Ran(seed, *to, curve.diverged, float(curve.gradients[-1])))
        failed = [sum(not np.isfinite(getattr(one, kind)) for one in ran) for kind in KINDS]
        if contestant.seeds == SEEDS and min(failed) > seeds / 2:
            break
    return ran


def seeds_of(name: str, *, quick: bool) -> int:
    """Return how many seeds a contestant has."""
    seeds = CONTESTANTS[name].seeds
    return min(seeds, SEEDS) if quick else seeds


def contest_key(seed: int) -> Array:
    """Return the key of a seed of the contest, none of which the grid was searched with."""
    return jr.fold_in(jr.key(1), seed)


def ratio(ran: list[Ran], kind: str, reference: Reference, seeds: int) -> float:
    """Return the median over the seeds of gradients to the target, to those of the reference.

    Seeds that were not run are those that could not change a median of failures.
    """
    to = [getattr(one, kind) for one in ran]
    missing = max(0, seeds - len(to))
    return float(np.median(to + [np.inf] * missing)) / reference.gradients


# What is kept: a file for each contestant, with its runs on each task.


class Kept:
    """The runs of a contestant that are written down."""

    def __init__(self, folder: Path, name: str, contestant: Contestant):
        self.path = folder / "runs" / f"{slug(name)}.json"
        self.name, self.contestant = name, contestant
        self.code = code_of(name)
        self.tasks: dict[str, Any] = {}
        if self.path.exists():
            self.tasks = json.loads(self.path.read_text())["tasks"]

    def get(self, task: str, references: dict[str, Reference], seeds: int) -> Any:
        """Return the runs on a task, if they were held against the same and by the same code."""
        row = self.tasks.get(task)
        if row is None or row["of"] != self._of(references, seeds):
            return None
        return row["ran"] if isinstance(row["ran"], str) else [Ran(*each) for each in row["ran"]]

    def put(
        self, task: str, references: dict[str, Reference], seeds: int, ran: Any, seconds: float
    ) -> None:
        """Write down the runs on a task."""
        rows = ran if isinstance(ran, str) else [list(each) for each in ran]
        self.tasks[task] = {
            "of": self._of(references, seeds), "seconds": round(seconds, 1), "ran": rows
        }  # fmt: skip
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(
            f"{json.dumps(name)}: {json.dumps(row)}" for name, row in self.tasks.items()
        )
        content = f'{{"contestant": {json.dumps(self.name)}, "tasks": {{\n{lines}\n}}}}\n'
        write_aside(self.path, content.encode())

    def _of(self, references: dict[str, Reference], seeds: int) -> dict[str, Any]:
        return {
            "code": self.code, "seeds": seeds, "most": MOST, "least": LEAST, "looks": LOOKS,
            **{f"{kind}_{name}": getattr(references[kind], name)
               for kind in KINDS for name in ("target", "gradients")},
        }  # fmt: skip


def code_of(name: str) -> str:
    """Return a checksum of the source of an algorithm, so that none is mistaken for an older."""
    made = {
        "Auto": lambda: rsgda.Auto, "TiAda": lambda: rsgda.TiAda, "NeAda": lambda: NeAda
    }.get(name)  # fmt: skip
    if made is None:
        return ""
    source = inspect.getsource(sys.modules[made().__module__])
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def slug(name: str) -> str:
    """Return a name that is fit for a file."""
    kept = "".join(c if c.isalnum() or c == "." else " " for c in name.lower())
    return "-".join(kept.split())


def contest(
    task: Task,
    references: dict[str, Reference],
    names: list[str],
    out: Path,
    *,
    quick: bool,
    tell: Any = print,
) -> dict[str, Any]:
    """Run the contestants on a task, those that have not been; return the runs of each."""
    found = {}
    for name in names:
        contestant, seeds = CONTESTANTS[name], seeds_of(name, quick=quick)
        kept = Kept(out, name, contestant)
        ran = kept.get(task.name, references, seeds)
        if ran is None:
            began = time.perf_counter()
            ran = run(task, references, contestant, seeds, tell)
            kept.put(task.name, references, seeds, ran, time.perf_counter() - began)
        found[name] = ran
        tell(f"    {name:20} {said(ran, references, seeds)}")
    return found


def said(ran: Any, references: dict[str, Reference], seeds: int) -> str:
    """Say what came out, in a few words."""
    if isinstance(ran, str):
        return f"refused: {ran:.80}" if ran else "not for such tasks"
    ratios = [f"{ratio(ran, kind, references[kind], seeds):6.2f}" for kind in KINDS]
    diverged = sum(one.diverged for one in ran)
    return f"last {ratios[0]}, averaged {ratios[1]}" + f", {diverged} diverged" * (diverged > 0)
