"""RSGDA without tuning, and its rivals, against the best cell of a grid of plain RSGDA.

python benchmarks/auto.py [--quick] [--only TASK ...] [--contestants NAME ...] [--out DIR]

Each task of `rsgda.problems.names()` has a reference, which is searched once and kept in
DIR/references (`auto_reference.py`), and then the contestants run (`auto_contest.py`). What is
done is not done again; a run that was interrupted goes on at the task it was at. `--references`
searches only, `--report` only writes the table anew.
"""

import argparse
import datetime
import hashlib
import json
import logging
import platform
import sys
import time
from pathlib import Path
from typing import Any

import auto_contest
import auto_reference
import auto_table
import matplotlib as mpl
import suite
from auto_reference import Reference

from rsgda import problems
from rsgda.reproduce.runner import write_aside

OUT = Path(__file__).resolve().parents[1] / "results" / "auto"
QUICK = (
    "toy-ABC-5-exact", "toy-D-5-noisy", "toy-ABC-30-noisy", "toy-ABC-30-interpolating",
    "groups-diabetes", "wrm-wine-1", "matching-50-eps1-scale1",
)  # fmt: skip


def main() -> int:
    mpl.use("Agg")
    names = problems.names()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a part of it, in five minutes")
    parser.add_argument("--only", nargs="+", metavar="TASK", help="these tasks, or what starts so")
    parser.add_argument("--contestants", nargs="+", choices=auto_contest.CONTESTANTS)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--references", action="store_true", help="search the grids only")
    parser.add_argument("--report", action="store_true", help="write what there is")
    asked = parser.parse_args()
    wanted = asked.only or (QUICK if asked.quick else names)
    begins = tuple(name for name in wanted if name not in names)
    chosen = [name for name in names if name in wanted or (begins and name.startswith(begins))]
    if not chosen:
        parser.error(f"--only must be names, or their beginnings, of {', '.join(names)}")
    logging.getLogger("rsgda").setLevel(logging.ERROR)  # that a run diverges is a result
    contestants = list(asked.contestants or auto_contest.CONTESTANTS)
    references: dict[str, dict[str, Reference]] = {}
    families: dict[str, str] = {}
    found: dict[str, dict[str, Any]] = {}
    began = time.perf_counter()
    for i, name in enumerate(chosen):
        task = problems.task(name)
        path = asked.out / "references" / f"{name}.json"
        reference = auto_reference.kept(path, task)
        minutes = (time.perf_counter() - began) / 60
        print(f"{i + 1} of {len(chosen)}, {minutes:.0f} min: {name}", flush=True)
        if reference is None:
            if asked.report:
                continue
            reference = auto_reference.compute(task, path, tell)
        if asked.references:
            continue
        references[name], families[name] = reference, task.family
        if asked.report:
            found[name] = on_file(task, reference, contestants, asked.out, quick=asked.quick)
        else:
            found[name] = auto_contest.contest(
                task, reference, contestants, asked.out, quick=asked.quick, tell=tell
            )
    if not asked.references:
        made = auto_table.rows(references, families, found, quick=asked.quick)
        files = auto_table.write(asked.out, made, references)
        manifest(asked.out, files, chosen)
        print(f"written to {asked.out}: {', '.join(files)}")
    return 0


def on_file(
    task: problems.Task,
    reference: dict[str, Reference],
    names: list[str],
    out: Path,
    *,
    quick: bool,
) -> dict[str, Any]:
    """Return the runs that are written down."""
    found = {}
    for name in names:
        contestant = auto_contest.CONTESTANTS[name]
        seeds = min(contestant.seeds, auto_contest.SEEDS) if quick else contestant.seeds
        ran = auto_contest.Kept(out, name, contestant).get(task.name, reference, seeds)
        if ran is not None:
            found[name] = ran
    return found


def manifest(out: Path, files: list[str], tasks: list[str]) -> None:
    """Write down how the files came about."""
    content = {
        "command": "python benchmarks/auto.py",
        "day": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "tasks": tasks,
        "references": {
            "p": auto_reference.PS, "alpha": auto_reference.ALPHAS, "eta": auto_reference.ETAS,
            "seeds": [auto_reference.SEEDS, auto_reference.MORE_SEEDS],
            "version": auto_reference.VERSION,
        },
        "contest": {
            "most": auto_contest.MOST, "least": auto_contest.LEAST, "looks": auto_contest.LOOKS,
            "seeds": {name: one.seeds for name, one in auto_contest.CONTESTANTS.items()},
        },
        "sha256": {
            name: hashlib.sha256((out / name).read_bytes()).hexdigest()
            for name in files if name.endswith(".csv")
        },
        **suite.about(quick=False),
        "platform": platform.platform(),
    }  # fmt: skip
    write_aside(out / "manifest.json", (json.dumps(content, indent=1) + "\n").encode())


def tell(line: str) -> None:
    """Print at once."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
