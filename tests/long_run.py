"""A long run that says what memory it takes on the way: a program, for a test.

    python long_run.py FOLDER STEPS EVERY

Prints a line of JSON after a tenth of the steps and at the end.
"""

import json
import sys
from pathlib import Path

import jax
import jax.random as jr

import rsgda

TOY = rsgda.problems.Toy(kinds="A", kappa=4.0, s=0.1, t=0.1)


def peak():
    """Bytes that this process had at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    raise SystemExit("/proc/self/status has no VmHWM")


def main(folder, steps, every):
    def record(problem, state):
        step = int(state.step)
        if step in (steps // 10, steps):
            told = {"step": step, "peak": peak(), "arrays": len(jax.live_arrays())}
            print(json.dumps(told), flush=True)
        return {"phi": float(TOY.phi(state.theta)), "even": step % 2 == 0}

    result = rsgda.solve(
        TOY.problem, rsgda.RSGDA(p=0.3, alpha=0.05, eta=0.2), *TOY.start("float32"),
        key=jr.key(0), steps=steps, every=every, record=record, checkpoint=folder,
    )  # fmt: skip
    records = len(result.history["step"])
    print(json.dumps({"records": records, "status": result.status.name}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
