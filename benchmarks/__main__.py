"""All contests, one suite after the other, each in a process of its own: a table and a chart.

python -m benchmarks [--quick] [--only SUITE ...] [--out DIR | --publish]

It installs nothing: what cannot run without a rival that is not there is named, and left out. Run
again with the same folder it goes on where it was interrupted; `--only` measures suites anew and
keeps the numbers of the others.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # as it is for the suites, which are scripts

import report  # noqa: E402
import suite  # noqa: E402

PUBLISHED, PICTURES = HERE.parent / "results" / "benchmarks", HERE.parent / "docs" / "images"


def main(given: list[str] | None = None) -> int:
    """Run what the command line asks for and write it down; return 1 if something failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that it runs")
    parser.add_argument("--only", nargs="+", choices=report.SUITES, help="measure these anew")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, help="folder; else rsgda-benchmarks, here")
    where.add_argument(
        "--publish", action="store_true", help="into results/benchmarks and docs/images"
    )
    asked = parser.parse_args(given)
    if asked.publish and asked.quick:
        parser.error("--publish is for numbers that count, not for those of --quick")
    usual = Path("rsgda-benchmarks-quick" if asked.quick else "rsgda-benchmarks")
    out = PUBLISHED if asked.publish else asked.out or usual
    raw = out / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    broken = {}
    for name in asked.only or report.SUITES:
        print(f"\n{name}", flush=True)
        file = raw / f"{name}.json"
        if asked.only:
            file.unlink(missing_ok=True)
        why = run(HERE / f"{name}.py", file, quick=asked.quick)
        if why:
            broken[name] = why
    suites = report.gather(raw)
    files = report.write(out, suites, broken)
    if asked.publish:
        for name in ("benchmarks.png", "growth.png"):
            if out / name in files:
                shutil.copy(out / name, PICTURES / name)
    print(f"\nwritten to {out}: {', '.join(file.name for file in files)}")
    print(*report.reasons(suites, broken), sep="\n")
    failed = broken or any(
        "failed" in outcome for each in suites.values() for outcome in each["contests"].values()
    )
    return 1 if failed else 0


def run(script: Path, numbers: Path, *, quick: bool) -> str:
    """Run a suite, which prints what it does; return why it ended early, if it did."""
    command = [sys.executable, str(script), "--json", str(numbers)]
    done = subprocess.run([*command, *(["--quick"] if quick else [])], check=False)
    # A contest that failed is in the numbers.
    return "" if done.returncode in (0, suite.FAILED) else f"exit status {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
