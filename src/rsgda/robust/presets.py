"""Published settings of robust classification, as keyword arguments of `RobustClassifier`."""

import dataclasses
import functools

import jax.numpy as jnp
import optax

from rsgda.algorithms.esgda import ESGDA
from rsgda.problem import Problem
from rsgda.robust.penalty import penalty

SINHA_EPS = 1.3


@dataclasses.dataclass(frozen=True)
class SinhaSteps:
    r"""Sinha et al.'s ascent steps, $\eta_t = b\, \mathrm{eps} / \sqrt{t + 2}$ at round t.

    They move each sample by $1 / \sqrt{t + 2}$ along the gradient of
    $\mathrm{eps}\, \ell - \|z - x\|^2 / 2$. Ours is on the mean of that, divided by eps, over the b
    samples of a minibatch.
    """

    def of_problem(self, problem: Problem) -> optax.GradientTransformation:
        """Return them as an optimiser, which begins anew with each minibatch."""
        return _sinha_steps(problem.batch_size)


@functools.lru_cache(maxsize=8)
def _sinha_steps(b: int) -> optax.GradientTransformation:
    # The same one for the same b, so that it is compiled once.
    return optax.sgd(lambda t: b * SINHA_EPS / jnp.sqrt(jnp.asarray(t, float) + 2))


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
        "algorithm": ESGDA(m=15, alpha=optax.adam(1e-3), eta=SinhaSteps()),
        "per_batch": True,
        "batch_size": 256,
        "epochs": 25,
    },
}
