"""Distributionally robust classification: the problem, networks, an estimator, certificates."""

from typing import TYPE_CHECKING, Any

from rsgda.robust.losses import cross_entropy as cross_entropy
from rsgda.robust.losses import double_softmax as double_softmax
from rsgda.robust.penalty import Penalty as Penalty
from rsgda.robust.penalty import penalty as penalty
from rsgda.robust.presets import presets as presets
from rsgda.robust.wrm import wrm as wrm

if TYPE_CHECKING:
    from rsgda.robust.classifier import RobustClassifier as RobustClassifier


def __getattr__(name: str) -> Any:
    # Who builds a problem does not wait for scikit-learn.
    if name == "RobustClassifier":
        from rsgda.robust.classifier import RobustClassifier

        return RobustClassifier
    raise AttributeError(f"module 'rsgda.robust' has no attribute {name!r}")
