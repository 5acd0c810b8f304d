"""Measure, in a process of its own, what `solve` allocates on a separable problem: n as argument.

Prints the peaks beyond what the caller holds, in units of v, as JSON: of the first call, with
what the compiler takes, and of another; and the JAX arrays that are left while the result lives.
"""

import json
import sys

import core
import jax
from peaks import forget, resident


def arrays() -> int:
    """Return the bytes of all live JAX arrays."""
    return sum(array.nbytes for array in jax.live_arrays())


def main() -> None:
    """Run twice and print the peaks."""
    case = core.Robust(int(sys.argv[1]), steps=500)
    v, held = case.data[0].nbytes, arrays()
    seen: dict[str, float] = {"v": v}
    for call in ("first", "again"):
        before = forget()
        result = case.by_solve()
        seen[call] = (resident("VmHWM") - before) / v
        seen["arrays"] = (arrays() - held) / v
        del result
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
