"""What Figures 1 and 2 run: two objectives, cells of a grid, and how much of it at which scale."""

import math
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np
from jax import Array

from rsgda.algorithms.esgda import ESGDA
from rsgda.algorithms.rsgda import RSGDA
from rsgda.data import mnist
from rsgda.robust.networks import authors_cnn, cnn, mlp, sinha_cnn

BATCH = 128  # the paper does not say; this is the authors' code's
GAMMA = 1.3
ETA = 10.0
KEPT = 0.98  # "we only considered the models which resulted in higher than 98 % accuracy"
SEED = 0
DENSE = (256, 256)


class Objective(NamedTuple):
    """A loss in its units.

    Attributes:
        name: for file names and tables.
        title: for figures.
        loss: its name in `rsgda.robust`.
        pixels: the range of the inputs.
        floor: what no value of phi can be below.
    """

    name: str
    title: str
    loss: str
    pixels: tuple[float, float]
    floor: float


OBJECTIVES = {
    "logits": Objective(
        "logits", "cross-entropy of the logits, pixels in [0, 1]", "cross_entropy", (0.0, 1.0), 0.0
    ),
    "authors": Objective(
        "authors",
        "the authors' double softmax, pixels in [-1, 1]",
        "double_softmax",
        (-1.0, 1.0),
        math.log(1 + 9 / math.e),
    ),
}


class Cell(NamedTuple):
    """One run: an objective, an algorithm with its numbers, a seed."""

    objective: str
    p: float  # of RSGDA, or 1/(m + 1) of ESGDA
    alpha: float
    eta: float = ETA
    m: int | None = None  # None is RSGDA
    seed: int = 0

    @property
    def name(self) -> str:
        """Return a name that is fit for a file."""
        who = f"rsgda-p{self.p:g}" if self.m is None else f"esgda-m{self.m}"
        return f"{self.objective}-{who}-alpha{self.alpha:g}-eta{self.eta:g}-seed{self.seed}"

    @property
    def cost(self) -> int:
        """Return the gradients that a step of the algorithm's loop costs."""
        return 1 if self.m is None else self.m + 1

    def algorithm(self) -> RSGDA | ESGDA:
        """Return the algorithm."""
        if self.m is None:
            return RSGDA(p=self.p, alpha=self.alpha, eta=self.eta)
        return ESGDA(m=self.m, alpha=self.alpha, eta=self.eta)


class Budget(NamedTuple):
    """How much is run of one objective.

    Attributes:
        gradients: of a run.
        every: gradients between two looks: a divisor of them, and a multiple of all m + 1.
        seeds: runs of each cell.
    """

    gradients: int
    every: int
    seeds: int


class Scale(NamedTuple):
    """How much is run.

    Attributes:
        data: "digits" (scikit-learn's) or "mnist".
        rows: training samples that phi is evaluated on, always the same ones.
        budgets: by objective.
        authors_network: for the authors' objective, in place of that of Sinha et al.
        dense: dense layers in place of convolutions, whose epochs are cheap.
    """

    data: str
    rows: int
    budgets: dict[str, Budget]
    authors_network: bool = False
    dense: bool = False


class Images(NamedTuple):
    """Images with pixels in [0, 1] and their labels, for training and for validation."""

    X: np.ndarray
    y: np.ndarray
    X_valid: np.ndarray
    y_valid: np.ndarray


def load(data: str) -> Images:
    """Return the images of a scale."""
    if data == "mnist":
        images = mnist()
        return Images(images.X_train, images.y_train, images.X_test, images.y_test)
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    X = (rows.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    order = np.random.default_rng(SEED).permutation(len(X))
    X, y, cut = X[order], np.asarray(labels, np.int32)[order], len(X) * 4 // 5
    return Images(X[:cut], y[:cut], X[cut:], y[cut:])


def network(scale: Scale, key: Array, *, objective: str) -> Any:
    """Return the network of a scale at its start."""
    side = 8 if scale.data == "digits" else 28
    if scale.dense:
        return mlp((side * side, *DENSE, 10), key=key)
    if scale.data == "digits":
        return cnn((side, side, 1), 10, key=key)
    if scale.authors_network and objective == "authors":
        return authors_cnn(key=key)
    return sinha_cnn(key=key)


def start_key(cell: Cell) -> Array:
    """Return the key of a cell's network; seeds differ, cells of one seed start alike."""
    return jr.fold_in(jr.key(SEED), 2 * cell.seed)


def run_key(cell: Cell) -> Array:
    """Return the key of a cell's run."""
    return jr.fold_in(jr.key(SEED), 2 * cell.seed + 1)


def seeded(cells: list[Cell], scale: Scale) -> list[Cell]:
    """Return each cell with all seeds that its objective has at a scale."""
    return [
        cell._replace(seed=seed)
        for cell in cells
        for seed in range(scale.budgets[cell.objective].seeds)
    ]
