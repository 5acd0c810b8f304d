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
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import auto_contest
import auto_reference
import auto_table
import matplotlib as mpl
import suite

from rsgda import problems
from rsgda.reproduce.runner import write_aside

OUT = Path(__file__).resolve().parents[1] / "results" / "auto"
QUICK_OUT = Path("rsgda-benchmarks-quick") / "auto"
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
    parser.add_argument("--out", type=Path, help="folder; else results/auto, or one of --quick")
    parser.add_argument("--references", action="store_true", help="search the grids only")
    parser.add_argument("--report", action="store_true", help="write what there is")
    asked = parser.parse_args()
    wanted = asked.only or (QUICK if asked.quick else names)
    out = asked.out or (QUICK_OUT if asked.quick else OUT)
    begins = tuple(name for name in wanted if name not in names)
    chosen = [name for name in names if name in wanted or (begins and name.startswith(begins))]
    if not chosen:
        parser.error(f"--only must be names, or their beginnings, of {', '.join(names)}")
    logging.getLogger("rsgda").setLevel(logging.ERROR)  # that a run diverges is a result
    contestants = list(asked.contestants or auto_contest.CONTESTANTS)
    began = time.perf_counter()
    for i, name in enumerate([] if asked.report else chosen):
        task = problems.task(name)
        path = out / "references" / f"{name}.json"
        if not path.exists() and (OUT / "references" / path.name).exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(OUT / "references" / path.name, path)
        reference = auto_reference.kept(path, task)
        minutes = (time.perf_counter() - began) / 60
        print(f"{i + 1} of {len(chosen)}, {minutes:.0f} min: {name}", flush=True)
        if reference is None:
            reference = auto_reference.compute(task, path, tell)
        if not asked.references:
            auto_contest.contest(task, reference, contestants, out, quick=asked.quick, tell=tell)
    files = report(out, names, quick=asked.quick)
    print(f"written to {out}: {', '.join(files)}")
    return 0


def report(out: Path, names: list[str], *, quick: bool) -> list[str]:
    """Write tables and the picture of all that is kept, whenever it was run; return their names."""
    out.mkdir(parents=True, exist_ok=True)
    files = ["references.csv"]
    write_aside(out / files[0], auto_table.references_as_csv(out / "references"))
    paths = {name: out / "references" / f"{name}.json" for name in names}
    references = {name: auto_reference.read(path) for name, path in paths.items() if path.exists()}
    found: dict[str, dict[str, Any]] = {name: {} for name in references}
    for contestant, one in auto_contest.CONTESTANTS.items():
        kept = auto_contest.Kept(out, contestant, one)
        for name, reference in references.items():
            ran = kept.get(name, reference, auto_contest.seeds_of(contestant, quick=quick))
            if ran is not None:
                found[name][contestant] = ran
    made = auto_table.rows(references, found, quick=quick)
    if made:
        files += auto_table.write(out, made, references)
    manifest(out, files)
    return files


def manifest(out: Path, files: list[str]) -> None:
    """Write down how the files came about."""
    content = {
        "command": "python benchmarks/auto.py",
        "day": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "references_of": sorted(path.stem for path in (out / "references").glob("*.json")),
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
