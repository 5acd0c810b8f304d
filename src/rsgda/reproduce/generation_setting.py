"""What is run to compare generators: images, a network, methods, and how much at which scale."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jax import Array

from rsgda.reproduce.robust_setting import load as load_images
from rsgda.transport.networks import mlp

EPSILON = {"digits": 0.5, "mnist": 2.0}  # about a twentieth, and a fiftieth, of the mean cost
BATCH = 128
LATENT = 8
HIDDEN = (128, 128)
SEED = 0


class Method(NamedTuple):
    """A way to train, with a number of its own.

    Attributes:
        kind: "rsgda" (the semi-discrete loss by RSGDA; its number is eta over n epsilon),
            "sinkhorn" (the same loss by learning with Sinkhorn; iterations a descent) or
            "minibatch" (W_eps between minibatches; iterations a descent).
        number: of its own.
    """

    kind: str
    number: float

    @property
    def name(self) -> str:
        """Return a name that is fit for a file."""
        return f"{self.kind}-{self.number:g}"

    @property
    def title(self) -> str:
        """Return a name for figures and sentences."""
        return {
            "rsgda": f"RSGDA, eta = {self.number:g} n eps",
            "sinkhorn": f"Sinkhorn({self.number:g}), all targets",
            "minibatch": f"Sinkhorn({self.number:g}), minibatches",
        }[self.kind]

    @property
    def cost(self) -> int:
        """The gradients of a step, an iteration counted as one."""
        return 1 if self.kind == "rsgda" else int(self.number) + 1


class Cell(NamedTuple):
    """One run of a method; `alpha` is Adam's."""

    method: Method
    alpha: float
    seed: int

    @property
    def name(self) -> str:
        """Return a name that is fit for a file."""
        return f"generation-{self.method.name}-alpha{self.alpha:g}-seed{self.seed}"


class Scale(NamedTuple):
    """How much is run.

    Attributes:
        data: "digits" (scikit-learn's) or "mnist".
        targets: images that the loss has, at most.
        gradients: of a run.
        looks: at which the divergence is evaluated.
        rows: generated, and held-out, images of an evaluation, at most.
        alphas: the grid that each method is tuned on,
        numbers: and those of its own number.
        seeds: runs of each method as it was tuned.
    """

    data: str
    targets: int
    gradients: int
    looks: int
    rows: int
    alphas: tuple[float, ...]
    numbers: dict[str, tuple[float, ...]]
    seeds: int

    @property
    def methods(self) -> list[Method]:
        """All methods with all of their numbers."""
        return [Method(kind, each) for kind, all_of in self.numbers.items() for each in all_of]


class Images(NamedTuple):
    """Images as rows of pixels in [0, 1]: those that the loss has, and others."""

    y: np.ndarray
    held_out: np.ndarray
    side: int


def load(scale: Scale) -> Images:
    """Return the images of a scale; those of MNIST are a random part of it."""
    images = load_images(scale.data)
    rng = np.random.default_rng(SEED)

    def rows(X: np.ndarray, most: int) -> np.ndarray:
        chosen = np.sort(rng.choice(len(X), min(most, len(X)), replace=False))
        return X[chosen].reshape(len(chosen), -1)

    y, held_out = rows(images.X, scale.targets), rows(images.X_valid, scale.rows)
    return Images(y, held_out, images.X.shape[1])


def noise(key: Array) -> Array:
    """Draw what a generator is given."""
    return jr.normal(key, (LATENT,), "float32")


def generator(pixels: int, seed: int) -> eqx.nn.Sequential:
    """Return the network at its start; methods with one seed start alike."""
    layers: Any = mlp((LATENT, *HIDDEN, pixels), key=jr.fold_in(jr.key(SEED), 2 * seed)).layers
    return eqx.nn.Sequential([*layers, eqx.nn.Lambda(jax.nn.sigmoid)])


def run_key(seed: int) -> Array:
    """Return the key of a run."""
    return jr.fold_in(jr.key(SEED), 2 * seed + 1)
