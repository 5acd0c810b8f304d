"""Matching cells: RNA of 300 cells, mapped to where mass cytometry sees 1,000 of the same tissue.

The two technologies measure different features; optimal transport brings one cloud of cells onto
the other. Which population is which it cannot know. Twenty cells that both have seen tell it.
"""

import argparse

import numpy as np
from matplotlib.figure import Figure
from sklearn.decomposition import PCA

from rsgda import singlecell as sc
from rsgda.data import simulated_cells

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", default="matching_cells.png", help="where the picture goes")
parser.add_argument("--quick", action="store_true", help="a third of the steps")
asked = parser.parse_args()

cells = simulated_cells((1_000, 300))
pairs = cells.pairs[::-1].T[:20]  # the places of twenty cells in both
plane = PCA(2).fit(np.arcsinh(cells.x / 5))
colours = np.array(["#0072B2", "#D55E00", "#009E73", "#CC79A7"])
figure = Figure(figsize=(9, 4.6), layout="constrained")
panels = figure.subplots(1, 2)
for axes, known, name in zip(panels, (None, pairs), ("nothing known", "20 pairs known")):
    matcher = sc.match(
        cells.y,
        cells.x,
        source_steps=[sc.normalize_total(), sc.log1p(), sc.scale()],
        target_steps=[sc.arcsinh(5), sc.scale()],
        pairs=known,
        hidden=(32,),
        steps=2_000 if asked.quick else 6_000,
    )
    labels, _, _ = matcher.transfer(cells.x_types.astype(str))
    right = np.mean(labels == cells.y_types.astype(str))
    print(f"{name}: {right:.0%} of the cells get the label of their own population")
    x, y = (
        plane.transform(np.arcsinh(counts / 5)) for counts in (cells.x, matcher.transform(cells.y))
    )
    axes.scatter(*x.T, s=8, color=colours[cells.x_types], alpha=0.25, linewidths=0)
    axes.scatter(*y.T, s=14, color=colours[cells.y_types], edgecolors="white", linewidths=0.3)
    axes.set(title=f"{name}: {right:.0%} get their own label", xticks=[], yticks=[])
figure.supxlabel("Pale: cytometry. Full: RNA, mapped. Colour: the population a cell is from.")
figure.savefig(asked.out)
