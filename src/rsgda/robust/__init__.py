"""Distributionally robust classification: the problem, networks, an estimator, certificates."""

from typing import TYPE_CHECKING, Any

from rsgda.robust.attacks import pgd as pgd
from rsgda.robust.attacks import wrm_attack as wrm_attack
from rsgda.robust.budget import TransportAttack as TransportAttack
from rsgda.robust.budget import transport_attack as transport_attack
from rsgda.robust.certificate import Certificate as Certificate
from rsgda.robust.certificate import certificate as certificate
from rsgda.robust.curves import Robustness as Robustness
from rsgda.robust.curves import robustness as robustness
from rsgda.robust.losses import cross_entropy as cross_entropy
from rsgda.robust.losses import double_softmax as double_softmax
from rsgda.robust.networks import authors_cnn as authors_cnn
from rsgda.robust.networks import cnn as cnn
from rsgda.robust.networks import mlp as mlp
from rsgda.robust.networks import sinha_cnn as sinha_cnn
from rsgda.robust.penalty import Penalty as Penalty
from rsgda.robust.penalty import penalty as penalty
from rsgda.robust.presets import presets as presets
from rsgda.robust.wrm import wrm as wrm

if TYPE_CHECKING:
    from rsgda.robust.classifier import RobustClassifier as RobustClassifier


__all__ = [
    "Certificate",
    "Penalty",
    "RobustClassifier",
    "Robustness",
    "TransportAttack",
    "authors_cnn",
    "certificate",
    "cnn",
    "cross_entropy",
    "double_softmax",
    "mlp",
    "penalty",
    "pgd",
    "presets",
    "robustness",
    "sinha_cnn",
    "transport_attack",
    "wrm",
    "wrm_attack",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    # Who builds a problem does not wait for scikit-learn.
    if name == "RobustClassifier":
        from rsgda.robust.classifier import RobustClassifier

        return RobustClassifier
    raise AttributeError(f"module 'rsgda.robust' has no attribute {name!r}")
