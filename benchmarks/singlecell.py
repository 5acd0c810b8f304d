"""Memory and time of a match at full size, all defaults: RNA of blood to mass cytometry.

python benchmarks/singlecell.py [--quick] [--json FILE]
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import timing


def memory(steps: int) -> Iterator[timing.Line]:
    """A match from counts to scores, in a process of its own."""
    script = Path(__file__).with_name("singlecell_memory.py")
    seen = timing.in_new_process(script, str(steps))
    note = f"{seen['what']}, {steps:,} steps: {seen['seconds']:.0f} s"
    yield timing.line("match, whole process at most", [seen["peak"]], unit="GB", most=4, note=note)


BENCHMARKS: dict[str, Callable[[int], Iterator[timing.Line]]] = {"memory": memory}


if __name__ == "__main__":
    timing.main(__doc__ or "", BENCHMARKS, full=6_000, quick=20)
