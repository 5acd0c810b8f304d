"""All contests, one suite after the other, each in a process of its own: a table and a chart.

python -m benchmarks [--quick] [--only SUITE ...] [--out DIR]

It installs nothing: a suite whose rivals are not there is named, and left out.
"""

import argparse
import csv
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # as it is for the suites, which are scripts

import chart  # noqa: E402

# Each suite is a script, with the packages that its rivals are in.
SUITES: dict[str, dict[str, str]] = {
    "core": {"torch": "PyTorch"},
    "theory": {},
    "robust": {"torch": "PyTorch"},
    "transport": {"torch": "PyTorch", "ott": "OTT", "ot": "POT"},
    "singlecell": {},
    "growth": {},
}
COLUMNS = ("suite", "name", "median", "low", "high", "unit", "goal", "verdict", "note")
PACKAGES = ("rsgda", "jax", "jaxlib", "numpy", "optax", "equinox", "torch", "ott-jax", "POT")


def main() -> int:
    """Run what the command line asks for and write it down."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that it runs")
    parser.add_argument("--only", nargs="+", choices=SUITES, default=list(SUITES))
    parser.add_argument("--out", type=Path, default=Path("rsgda-benchmarks"), help="folder")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    failed, missing, seconds = [], {}, {}
    for suite in arguments.only:
        lacking = [
            title for name, title in SUITES[suite].items() if importlib.util.find_spec(name) is None
        ]
        if lacking:
            missing[suite] = lacking
            print(f"\n{suite}: left out, {', '.join(lacking)} not installed (extra `bench`).")
            continue
        print(f"\n{suite}", flush=True)
        began = time.perf_counter()
        found = run(suite, quick=arguments.quick)
        seconds[suite] = round(time.perf_counter() - began, 1)
        if found is None:
            failed.append(suite)
        rows += [{"suite": suite, **row} for row in found or []]
    write(arguments.out, rows, missing, failed, seconds, quick=arguments.quick)
    print(f"\nwritten: {arguments.out}: benchmarks.csv, benchmarks.png, manifest.json")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(suite: str, *, quick: bool) -> list[dict[str, Any]] | None:
    """Run a suite and return its lines, or None if it failed; what it prints is seen."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = Path(folder, "numbers.json")
        command = [sys.executable, str(HERE / f"{suite}.py"), "--json", str(numbers)]
        done = subprocess.run([*command, *(["--quick"] if quick else [])], check=False)
        return json.loads(numbers.read_text()) if done.returncode == 0 else None


def write(
    out: Path,
    rows: list[dict[str, Any]],
    missing: dict[str, list[str]],
    failed: list[str],
    seconds: dict[str, float],
    *,
    quick: bool,
) -> None:
    """Write the table, the chart, and how they came about."""
    with (out / "benchmarks.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)
    where = hardware()
    chart.draw(
        rows, out / "benchmarks.png", caption=f"{where['processor']}, {where['cores']} cores"
    )
    manifest = {
        "command": " ".join(["python -m benchmarks", *(["--quick"] if quick else [])]),
        "quick": quick,  # then no verdict counts
        "left_out": missing,
        "failed": failed,
        "seconds": seconds,
        "hardware": where,
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := installed(name))},
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def hardware() -> dict[str, Any]:
    """Say what the numbers were measured on."""
    about = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in (about.read_text().splitlines() if about.exists() else [])
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "platform": platform.platform(),
    }


def installed(name: str) -> str | None:
    """Return the version of a package, if it is there."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
