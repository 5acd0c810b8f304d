"""Measure, in a process of its own, what `sinkhorn` takes: N, n and d as arguments."""

import json
import sys
import time

import numpy as np
from peaks import resident

from rsgda import transport


def main() -> None:
    """Iterate twice and print the peak of the whole process."""
    rows, targets, d = map(int, sys.argv[1:])
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(rows, d)).astype(np.float32)
    y = numbers.normal(size=(targets, d)).astype(np.float32)
    began = time.perf_counter()
    found = transport.sinkhorn(x, y, epsilon=0.1, tol=1e-30, max_iterations=2)
    assert np.isfinite(found.value)
    seconds = time.perf_counter() - began
    print(json.dumps({"peak": resident("VmHWM") / 1e9, "seconds": seconds}))


if __name__ == "__main__":
    main()
