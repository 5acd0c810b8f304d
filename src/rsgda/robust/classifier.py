"""A robust classifier in scikit-learn's terms."""

import dataclasses
import math
import os
import warnings
from typing import Any

import jax.random as jr
import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rsgda import _model_file
from rsgda._trees import PyTree
from rsgda.algorithms import RSGDA, Auto
from rsgda.drive.result import Result, Status
from rsgda.drive.solve import solve
from rsgda.moves import Step
from rsgda.robust import classifier_network as made
from rsgda.robust import classifier_saved
from rsgda.robust.certificate import Certificate, certificate
from rsgda.robust.classifier_door import (
    SETTINGS,
    check_parameters,
    seen_samples,
    set_aside,
    training_samples,
)
from rsgda.robust.classifier_fit import Plain, Record, Validated, Validation, length, scaled
from rsgda.robust.losses import Loss, named
from rsgda.robust.penalty import Range
from rsgda.robust.wrm import check_labels, wrm

P, ALPHA = 0.25, 0.1
SEEN = ("n_features_in_", "feature_names_in_")  # what scikit-learn's checks set, before all is done


class RobustClassifier(ClassifierMixin, BaseEstimator):
    r"""A network that classifies well also where its samples have been moved.

    $$ \min_\theta \frac{1}{n} \sum_j \max_{v_j}
       \ell(f_\theta(v_j), y_j) - \gamma \|v_j - x_j\|^2 $$

    solved by RSGDA (see `rsgda.RSGDA` and `wrm`). It computes in float32, and inputs are taken as
    they are: gamma is in their units, so put a `StandardScaler` before it where these differ.

    Args:
        network: "mlp", "cnn", "sinha_cnn", "authors_cnn", "auto" (an MLP for rows, a CNN for
            images: n × height × width, or × channels), or a function
            `(shape of a sample, number of classes, key) -> Equinox module`.
        gamma: the penalty, in the paper's form. Smaller is more robust; infinity is plain
            training: RSGDA's descents and no adversary.
        p: the probability of a descent. None is 0.25 where a step is given; where neither p nor a
            step is, `rsgda.Auto` finds them, but for `per_batch` and for plain training.
        alpha: theta's step size: a number, a schedule, or an optax transformation. None beside a
            p or an eta is 0.1, divided by the mean square of the inputs where that is above one.
        eta: the adversaries' step size, likewise. None beside a p or an alpha is b / (4 gamma) for
            minibatches of b: each moves by 1 / (4 gamma) times its gradient, which is stable
            wherever the problem is concave in it. It shrinks with a `batch_size` that is clipped,
            so that each moves as far as it would have.
        algorithm: another algorithm, such as `rsgda.ESGDA(...)`, in place of p, alpha and eta. Its
            `eta` shrinks likewise.
        loss: "cross_entropy", "double_softmax" or a function, see `wrm`.
        label_smoothing: from 0 to 1.
        pixels: (low, high): inputs, given in [0, 1], are first mapped there. gamma, `box` and the
            rho of a certificate are in the units after that.
        box: (low, high), the range that adversaries are kept in.
        per_batch: the adversaries belong to the minibatch, see `wrm`.
        batch_size: samples in a minibatch, clipped to the number of samples.
        epochs: of n/b gradients each, with `per_batch` of n/b minibatches. None is 20, and so
            many more that a small set has 3,000 gradients, but at most 500.
        early_stopping: set samples aside, stratified by class; keep the weights that have most
            of them right, with the lowest cross-entropy among equals, and stop when there have
            been no better ones at `n_iter_no_change` records.
        validation_fraction: the share that is set aside.
        n_iter_no_change: the patience. There is a record each epoch, at most 50 in a run.
        checkpoint: a folder. A fit that was killed continues from it when called again, and ends
            as if it had not been; this needs a `random_state` that is a number. It is for one fit:
            those of a cross-validation would have to have one each.
        progress: show a progress bar.
        random_state: a number, for fits that agree bit for bit.

    Attributes:
        classes_: the labels, sorted.
        coefs_: the network's weights, a list of arrays; `network_` is the network itself.
        history_: one array per name, an entry for each record: `step`, `descents`, `ascents`,
            `gradients`, `epoch`, `objective` (what is minimised, at the current adversaries, on at
            most 4,096 training samples; with `per_batch`, at the samples themselves) and with
            early stopping `validation_accuracy` and `validation_loss`, a cross-entropy.
        n_iter_: steps of the algorithm.
        status_: "FINISHED", "STOPPED" (early) or "DIVERGED".

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> X = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> RobustClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
    True

    Source: Section 5.1 of the paper; the objective is that of Sinha, Namkoong and Duchi (2018).
    """

    def __init__(
        self,
        *,
        network: Any = "auto",
        gamma: float = 1.3,
        p: float | None = None,
        alpha: Step | None = None,
        eta: Step | None = None,
        algorithm: Any = None,
        loss: str | Loss = "cross_entropy",
        label_smoothing: float = 0.0,
        pixels: Range | None = None,
        box: Range | None = None,
        per_batch: bool = False,
        batch_size: int = 128,
        epochs: float | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.network = network
        self.gamma = gamma
        self.p = p
        self.alpha = alpha
        self.eta = eta
        self.algorithm = algorithm
        self.loss = loss
        self.label_smoothing = label_smoothing
        self.pixels = pixels
        self.box = box
        self.per_batch = per_batch
        self.batch_size = batch_size
        self.epochs = epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "RobustClassifier":
        """Train the network.

        Args:
            X: rows, n × features, or images, n × height × width (× channels).
            y: labels of any kind.
        """
        check_parameters(self)
        before = {name: getattr(self, name) for name in SEEN if hasattr(self, name)}
        try:
            return self._fit(X, y)
        except BaseException:
            # A fit that fails leaves the last one as it was.
            for name in SEEN:
                vars(self).pop(name, None)
            vars(self).update(before)
            raise

    def _fit(self, X: Any, y: Any) -> "RobustClassifier":
        X, labels = training_samples(self, X, y)
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"`y` must hold at least two classes for a classifier, got one class: {classes}."
            )
        random = check_random_state(self.random_state)
        key_start, key_run = jr.split(jr.key(random.randint(2**31 - 1)))
        held = None
        if self.early_stopping:
            kept, aside = set_aside(codes, self.validation_fraction, random)
            held = Validation.of(X[aside], codes[aside])
            X, codes = X[kept], codes[kept]
        name, maker = made.chosen(self.network, X.shape[1:])
        network = made.build(maker, X.shape[1:], len(classes), key_start)
        if (logits := check_labels(network, X, codes)) != len(classes):
            raise ValueError(
                f"`network` must make one logit for each of the {len(classes)} classes, got "
                f"{logits}."
            )
        result, epochs = self._solve(network, X, codes, held, key_run)
        self.classes_, self.shape_, self.network_name_ = classes, X.shape[1:], name
        self.settings_ = {name: getattr(self, name) for name in SETTINGS}
        self._keep(result.theta if held is None else result.state.memory.theta, result, epochs)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each sample."""
        best = np.argmax(self._logits(X), axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, in the order of `classes_`, for each sample."""
        return softmax(self._logits(X), axis=1)

    def certificate(
        self,
        X: Any,
        y: Any,
        rho: Any,
        *,
        gamma: Any = None,
        curvature: float | None = None,
        tol: float = 1e-4,
        max_gradients: int = 1_000,
        progress: bool = False,
    ) -> Certificate:
        """Bound the loss under every distribution near that of the samples.

        Args:
            X: samples.
            y: labels.
            rho: transport budgets, one or an array: mean squared distances, see `certificate`.
            gamma: the penalty, or several; None looks for some that certify all samples.
            curvature: what the curvature of the loss in its inputs never exceeds, if known.
            tol: the gap to reach for each sample.
            max_gradients: most gradients for each sample.
            progress: show it.
        """
        check_is_fitted(self)
        if y is None:
            raise ValueError("`y` must hold one label for each sample of a certificate, got None.")
        X, labels = self._seen(X, y)
        codes = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        if np.any(self.classes_[codes] != labels):
            raise ValueError(f"`y` must hold labels of {self.classes_}, got {np.unique(labels)}.")
        return certificate(
            self.network_, X, codes, rho, gamma=gamma, curvature=curvature,
            loss=self.settings_["loss"], label_smoothing=self.settings_["label_smoothing"],
            box=self.settings_["box"], tol=tol, max_gradients=max_gradients, progress=progress,
        )  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fitted classifier as a folder.

        Parameters that are no plain data, such as optax transformations, are saved by name only:
        the loaded classifier predicts, and refuses to fit until they are set again.

        Args:
            path: a folder, made if need be; a model that it holds is replaced in one move.
        """
        check_is_fitted(self)
        _model_file.write(path, classifier_saved.KIND, *classifier_saved.described(self))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, network: made.Maker | None = None
    ) -> "RobustClassifier":
        """Load a saved classifier; nothing is unpickled or executed.

        Args:
            path: the folder.
            network: the function that made the network, where it was a function.

        Raises:
            ValueError: the folder holds no classifier, one that is damaged, or one of a newer
                version.
        """
        return classifier_saved.restored(cls, path, network)

    @property
    def network_(self) -> PyTree:
        """The fitted network, an Equinox module that maps one sample to its logits."""
        check_is_fitted(self)
        custom = self.network_name_ == made.CUSTOM
        maker = self.settings_["network"] if custom else self.network_name_
        _, maker = made.chosen(maker, self.shape_)
        return made.rebuilt(maker, self.shape_, len(self.classes_), self.coefs_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coefs_")

    def _logits(self, X: Any) -> np.ndarray:
        return made.logits(self.network_, self.inputs(X)).astype(np.float64)

    def inputs(self, X: Any) -> np.ndarray:
        """Return samples as the network is given them: in float32, in the range of `pixels`."""
        check_is_fitted(self)
        return self._seen(X)[0]

    def _seen(self, X: Any, y: Any = None) -> tuple[np.ndarray, Any]:
        return seen_samples(self, X, y, self.shape_, self.settings_["pixels"])

    @property
    def finds_steps(self) -> bool:
        """Whether a fit finds its own steps: nothing is said of them."""
        said = [self.algorithm, self.p, self.alpha, self.eta]
        return all(each is None for each in said) and not (self.per_batch or self.gamma == math.inf)

    def _solve(
        self, network: PyTree, X: np.ndarray, codes: np.ndarray, held: Validation | None, key: Any
    ) -> tuple[Result, np.ndarray]:
        """Return the run, and the epochs that were done at each record."""
        batch_size, plain = min(int(self.batch_size), len(X)), self.gamma == math.inf
        # Each adversary moves as far as it would have in a minibatch that was not clipped.
        ratio = batch_size / int(self.batch_size)
        algorithm = self.algorithm
        if self.finds_steps:
            algorithm = Auto()
        elif algorithm is None:
            p = P if self.p is None else self.p
            alpha = _safe_alpha(X) if self.alpha is None else self.alpha
            automatic = 1.0 if plain else batch_size / (4 * self.gamma)
            eta = automatic if self.eta is None else scaled(self.eta, ratio)
            algorithm = RSGDA(p=p, alpha=alpha, eta=eta)
        elif hasattr(algorithm, "eta") and dataclasses.is_dataclass(algorithm):
            algorithm = dataclasses.replace(algorithm, eta=scaled(algorithm.eta, ratio))  # pyright: ignore
        if plain:
            algorithm = Plain.like(algorithm)
        per_batch = False if plain else self.per_batch
        size = length(algorithm, self.epochs, len(X), batch_size, per_batch)
        # Without adversaries nothing is moved, and there is nothing to be penalised.
        gamma = 1.0 if plain else self.gamma
        record = Record(named(self.loss), gamma, self.label_smoothing)
        if held is not None:
            patience = int(self.n_iter_no_change)
            algorithm = Validated(
                algorithm=algorithm, every=size.every, patience=patience, validation=held
            )
            record = dataclasses.replace(record, patience=patience, held=held.size)
        problem, theta, v = wrm(
            network, X, codes, gamma=gamma, batch_size=batch_size, loss=self.loss, box=self.box,
            label_smoothing=self.label_smoothing, per_batch=per_batch,
        )  # fmt: skip
        result = solve(
            problem, algorithm, theta, v, key=key, steps=size.steps, every=size.every,
            record=record, checkpoint=self.checkpoint, progress=self.progress,
        )  # fmt: skip
        done = result.history["descents" if per_batch else "gradients"]
        return result, done * batch_size / len(X)

    def _keep(self, network: PyTree, result: Result, epochs: np.ndarray) -> None:
        """Keep what a fit has found, as arrays and plain data."""
        self.coefs_ = made.weights(network)
        history = {name: values for name, values in result.history.items() if name != "stop"}
        self.history_ = {**history, "epoch": epochs}
        self.n_iter_ = int(history["step"][-1])
        self.status_ = result.status.name
        if result.status is Status.DIVERGED:
            warnings.warn(
                f"The fit diverged at step {self.n_iter_:,}; the weights are the last finite ones. "
                "Give a smaller `alpha`, or a larger `gamma`.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _safe_alpha(X: np.ndarray) -> float:
    """Return a step size for inputs of any scale: the loss is as curved as they are large."""
    return ALPHA / max(1.0, float(np.mean(np.square(X), dtype=np.float64)))
