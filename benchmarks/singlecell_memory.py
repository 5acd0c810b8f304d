"""Measure, in a process of its own, what `match` takes; the number of steps as argument.

Cells are those of `rsgda.data` where their files are, all of them; else simulated ones, as many.
With fewer than a thousand steps there are a hundredth as many, to see that everything runs.
"""

import json
import sys
import time

import numpy as np
from peaks import resident

from rsgda import data
from rsgda import singlecell as sc

SIZES, FEATURES = (159_594, 6_661), (37, 1_000)


def main() -> None:
    """Match, and print the peak of the whole process."""
    steps = int(sys.argv[1])
    part = 1 if steps >= 1_000 else 100
    try:
        cytometry = data.cytof_pbmc()
        x, types, y = cytometry.counts, cytometry.types, data.citeseq_pbmc().rna
        name = "blood"
    except (FileNotFoundError, ImportError):
        cells = data.simulated_cells(SIZES, features=FEATURES)
        x, types, y = cells.x, cells.x_types.astype(str), cells.y
        name = "simulated cells"
    x, types, y = x[::part], types[::part], y[::part]
    began = time.perf_counter()
    matcher = sc.match(
        y, x, label_key=types, steps=steps,
        source_steps=[sc.normalize_total(), sc.log1p(), sc.scale()],
        target_steps=[sc.arcsinh(5), sc.scale()],
    )  # fmt: skip
    assert np.isfinite(matcher.scores["W_eps"])
    seconds = time.perf_counter() - began
    what = f"{name}, {len(y):,} × {y.shape[1]:,} to {len(x):,} × {x.shape[1]}"
    print(json.dumps({"peak": resident("VmHWM") / 1e9, "seconds": seconds, "what": what}))


if __name__ == "__main__":
    main()
