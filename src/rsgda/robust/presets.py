"""Published settings of robust classification, as keyword arguments of `RobustClassifier`."""

import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from rsgda.algorithms.esgda import ESGDA
from rsgda.robust.penalty import penalty

SINHA_BATCH = 256
SINHA_EPS = 1.3


def sinha_steps(t: ArrayLike) -> Array:
    r"""Return Sinha et al.'s ascent step at round t of a minibatch.

    They move each sample by $1 / \sqrt{t + 2}$ along the gradient of
    $\mathrm{eps}\, \ell - \|z - x\|^2 / 2$. Ours is on the mean over b samples of that divided by
    eps: $\eta_t = b\, \mathrm{eps} / \sqrt{t + 2}$.
    """
    return SINHA_BATCH * SINHA_EPS / jnp.sqrt(jnp.asarray(t, float) + 2)


presets: dict[str, dict] = {
    # As Section 5.1 prints it, where it says so; the batch size is the authors' code's.
    "paper": {
        "network": "sinha_cnn",
        "loss": "cross_entropy",
        "pixels": (0.0, 1.0),
        "gamma": 1.3,
        "p": 0.25,
        "alpha": 0.3,
        "eta": 10.0,
        "batch_size": 128,
        "epochs": 200,
    },
    # What the authors' code computes: another loss, another network, other units.
    "authors": {
        "network": "authors_cnn",
        "loss": "double_softmax",
        "pixels": (-1.0, 1.0),
        "gamma": 1.3,
        "p": 0.25,
        "alpha": 0.3,
        "eta": 10.0,
        "batch_size": 128,
        "epochs": 200,
    },
    # What the code of Sinha et al. computes, but for one unit step before the 15.
    "sinha": {
        "network": "sinha_cnn",
        "loss": "cross_entropy",
        "label_smoothing": 1 / 9,  # 0.9 for the label, 0.1/9 for each of the others
        "pixels": (0.0, 1.0),
        "gamma": penalty(eps=SINHA_EPS).gamma,
        "algorithm": ESGDA(m=15, alpha=optax.adam(1e-3), eta=optax.sgd(sinha_steps)),
        "per_batch": True,
        "batch_size": SINHA_BATCH,
        "epochs": 25,
    },
}
