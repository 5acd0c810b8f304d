"""What Figures 4 and 5 run: two clouds of cells, methods, and how much of it at which scale."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax.random as jr
import numpy as np
from jax import Array

from rsgda.algorithms.rsgda import RSGDA
from rsgda.data import citeseq_pbmc, cytof_pbmc, simulated_cells
from rsgda.reproduce.match_files import read_points
from rsgda.transport.networks import mlp
from rsgda.transport.sinkhorn_descent import SinkhornDescent

EPSILON = 0.1
BATCH = 128
ETA = 5.0  # the paper's; in units that do not depend on n it is 0.78 times b epsilon / 2
HIDDEN = (128, 96, 64)
SEED = 0
SIMULATED = (3_000, 300)
LYMPHOCYTES = ("B", "CD4 T", "CD8 T")
GATES = {"B-": "B", "CD4-": "CD4 T", "CD4pos": "CD4 T", "CD8-": "CD8 T"}  # what names begin with


class Method(NamedTuple):
    """RSGDA with its p, or learning with Sinkhorn with its iterations."""

    p: float | None = None
    m_sin: int | None = None
    warm: bool = True

    @property
    def name(self) -> str:
        """Return a name that is fit for a file."""
        if self.p is not None:
            return f"rsgda-p{self.p:g}"
        return f"sinkhorn-m{self.m_sin}-{'warm' if self.warm else 'cold'}"

    @property
    def title(self) -> str:
        """Return a name for figures and sentences."""
        if self.p is not None:
            return f"RSGDA(p = {self.p:g})"
        return f"Sinkhorn({self.m_sin}{'' if self.warm else ', cold'})"

    @property
    def descents(self) -> float:
        """The descents of a step, in the mean; ascents cost next to nothing beside them."""
        return 1.0 if self.p is None else self.p


class Cell(NamedTuple):
    """One run of a method."""

    method: Method
    alpha: float
    seed: int
    tuning: bool = False  # then it only has to say which alpha is best

    @property
    def name(self) -> str:
        """Return a name that is fit for a file."""
        end = "tuning" if self.tuning else f"seed{self.seed}"
        return f"match-{self.method.name}-alpha{self.alpha:g}-{end}"

    def algorithm(self) -> RSGDA | SinkhornDescent:
        """Return the algorithm."""
        method = self.method
        if method.m_sin is None:
            return RSGDA(p=method.p or 0.0, alpha=self.alpha, eta=ETA)
        return SinkhornDescent(m_sin=method.m_sin, alpha=self.alpha, warm_start=method.warm)


class Scale(NamedTuple):
    """How much is run.

    Attributes:
        data: "simulated" or "blood".
        steps: minibatches of a run.
        every: steps between two looks.
        rows: of x that curves are evaluated on, always the same ones.
        alphas: the grid that each method is tuned on.
        seeds: runs of each method at its own alpha.
        tol: of the marginals where W is evaluated.
    """

    data: str
    steps: int
    every: int
    rows: int
    alphas: tuple[float, ...]
    seeds: int
    tol: float


class Clouds(NamedTuple):
    """Two clouds: y is mapped onto x.

    Attributes:
        name: in words.
        x: N × d.
        y: n × D.
        x_types: of cells of x, "" where they are not known; none in files of points.
        y_types: of those of y.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    x_types: np.ndarray | None = None
    y_types: np.ndarray | None = None

    @property
    def sha256(self) -> str:
        """A checksum of all points."""
        total = hashlib.sha256()
        for points in (self.x, self.y):
            total.update(np.ascontiguousarray(points).data)
        return total.hexdigest()


def load(data: str, files: tuple[Path, Path] | None) -> Clouds:
    """Return the clouds of a scale, or those of two files, whose columns are standardised."""
    if files is not None:
        x, y = (standardised(read_points(path)) for path in files)
        return Clouds(f"{files[0].name} and {files[1].name}", x, y)
    if data == "blood":
        cytometry, rna = cytof_pbmc(), citeseq_pbmc()
        chosen = np.isin(rna.types, LYMPHOCYTES)
        return Clouds(
            "CyTOF and RNA of blood", of_cytometry(cytometry.counts), of_rna(rna.rna[chosen]),
            coarse(cytometry.types), rna.types[chosen],
        )  # fmt: skip
    cells = simulated_cells(SIMULATED, seed=SEED)
    x_types, y_types = (
        np.array([f"branch {kind}" if kind else "stem" for kind in types])
        for types in (cells.x_types, cells.y_types)
    )
    return Clouds("simulated cells", of_cytometry(cells.x), of_rna(cells.y), x_types, y_types)


def coarse(types: np.ndarray) -> np.ndarray:
    """Return gated types of cytometry under the names that RNA has for them."""
    found = np.where(types == "", "", "other").astype("<U16")
    for start, name in GATES.items():
        found[np.char.startswith(types, start)] = name
    return found


def of_cytometry(counts: np.ndarray) -> np.ndarray:
    """Return asinh(counts / 5), standardised."""
    return standardised(np.arcsinh(counts / 5.0))


def of_rna(counts: np.ndarray) -> np.ndarray:
    """Return log(1 + counts in ten thousand of the cell), standardised."""
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return standardised(np.log1p(1e4 * counts / total))


def standardised(points: np.ndarray) -> np.ndarray:
    """Return columns of mean zero and variance one; a constant column is zero."""
    spread = points.std(axis=0)
    return ((points - points.mean(axis=0)) / np.where(spread > 0, spread, 1)).astype(np.float32)


def network(clouds: Clouds, seed: int) -> eqx.nn.Sequential:
    """Return the paper's network at its start; methods with one seed start alike."""
    sizes = (clouds.y.shape[1], *HIDDEN, clouds.x.shape[1])
    return mlp(sizes, key=jr.fold_in(jr.key(SEED), 2 * seed))


def run_key(seed: int) -> Array:
    """Return the key of a run."""
    return jr.fold_in(jr.key(SEED), 2 * seed + 1)
