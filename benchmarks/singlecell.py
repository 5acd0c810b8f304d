"""Memory of a match at full size, a thousand steps: RNA of blood to mass cytometry.

python benchmarks/singlecell.py [--quick] [--json FILE]
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import suite
import timing
from suite import Contest


def memory(steps: int) -> Iterator[timing.Line]:
    """A match from counts to scores, in a process of its own."""
    script = Path(__file__).with_name("singlecell_memory.py")
    seen = timing.in_new_process(script, str(steps))
    note = f"{seen['what']}, {steps:,} steps: {seen['seconds']:.0f} s"
    yield timing.line("match, whole process at most", [seen["peak"]], unit="GB", most=4, note=note)


CONTESTS = {"memory": Contest(memory)}


if __name__ == "__main__":
    sys.exit(suite.main(__doc__, CONTESTS, full=1_000, quick=20))
