"""What a classifier accepts: parameters, samples and labels."""

import math
import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, check_random_state, check_X_y
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from rsgda import _checks
from rsgda.robust.penalty import Range, check_range

FLOAT: Any = np.float32
# Parameters that a fitted classifier goes on using, whatever is set afterwards.
SETTINGS = ("network", "gamma", "loss", "label_smoothing", "pixels", "box")
FLAGS = ("per_batch", "early_stopping", "progress")
NUMBERS = ("p", "alpha", "eta")
# Beyond this root mean square the default gamma means nothing, and training hardly moves.
LARGEST = 30.0
MOST = 1e15  # whose square float32 still has
# Samples that were moved may leave [0, 1] by this; those in 0, ..., 255 leave it by more.
BEYOND = 1.0


def check_parameters(classifier: Any) -> None:
    """Refuse parameters that no fit could have; what `wrm` and algorithms check is left to them."""
    if _checks.host_number(classifier.gamma) != math.inf:
        _checks.positive("gamma", classifier.gamma)
        if classifier.gamma > MOST:
            raise ValueError(
                f"`gamma` must be at most {MOST:g}, or infinity for plain training, got "
                f"{classifier.gamma!r}."
            )
    for name in NUMBERS:
        if _checks.host_number(value := getattr(classifier, name)) is not None:
            (_checks.probability if name == "p" else _checks.positive)(name, value)
    _checks.whole("batch_size", classifier.batch_size, 1)
    _checks.whole("n_iter_no_change", classifier.n_iter_no_change, 1)
    try:
        check_random_state(classifier.random_state)
    except ValueError as error:
        raise ValueError(
            "`random_state` must be a whole number from 0, a numpy.random.RandomState or None, got "
            f"{classifier.random_state!r:.80}."
        ) from error
    _checks.probability("validation_fraction", classifier.validation_fraction)
    for name in FLAGS:
        if not isinstance(value := getattr(classifier, name), (bool, np.bool_)):
            raise ValueError(f"`{name}` must be True or False, got {value!r}.")
    if classifier.pixels is not None:
        check_range("pixels", classifier.pixels)
    if isinstance(classifier.algorithm, str):
        raise ValueError(
            f"`algorithm` must be an rsgda algorithm or None, got {classifier.algorithm!r}."
        )
    if classifier.checkpoint is not None and _checks.host_number(classifier.random_state) is None:
        raise ValueError(
            "`random_state` must be a number where `checkpoint` is given, so that a fit that is "
            f"called again is the same fit, got {classifier.random_state!r:.80}."
        )


def training_samples(classifier: Any, X: Any, y: Any) -> tuple[np.ndarray, Any]:
    """Return samples as the network is given them and labels; note what they are like."""
    if _axes(X) > 2:
        X, y = _images(classifier, X, y)
        classifier.n_features_in_ = math.prod(X.shape[1:])
    else:
        X, y = validate_data(classifier, X, y, dtype=FLOAT)  # pyright: ignore
    try:
        check_classification_targets(y)
        np.unique(y)
    except TypeError as error:
        raise ValueError(
            f"`y` must hold labels that can be put in order, such as strings only: {error}."
        ) from error
    if classifier.pixels is None:
        _check_scale(X)
    return _mapped(X, classifier.pixels, 0.0), y


def set_aside(codes: np.ndarray, fraction: float, random: Any) -> list[Any]:
    """Return the places to train on and those to validate on, by class."""
    try:
        return train_test_split(
            np.arange(len(codes)), test_size=fraction, stratify=codes, random_state=random
        )
    except ValueError as error:
        raise ValueError(
            "`early_stopping` must have samples of each class to train on and to set aside, got "
            f"{np.bincount(codes).tolist()} by class and `validation_fraction` {fraction:g}: "
            f"{error}"
        ) from error


def seen_samples(
    classifier: Any, X: Any, y: Any, shape: tuple[int, ...], pixels: Range | None
) -> tuple[np.ndarray, Any]:
    """Return samples like those that it was trained on, and labels if there are any."""
    if len(shape) > 1:
        X, y = _images(classifier, X, y)
        if X.shape[1:] != shape:
            raise ValueError(f"`X` must hold images of {shape}, got {X.shape[1:]}.")
    elif y is None:
        X = validate_data(classifier, X, dtype=FLOAT, reset=False)
    else:
        X, y = validate_data(classifier, X, y, dtype=FLOAT, reset=False)  # pyright: ignore
    return _mapped(X, pixels, BEYOND), y


def _images(classifier: Any, X: Any, y: Any) -> tuple[np.ndarray, Any]:
    if _axes(X) < 3:
        raise ValueError(
            "`X` must be n × height × width (× channels), as the classifier was fitted on images, "
            f"got {np.shape(X)}."
        )
    if np.asarray(X).dtype.kind in "iub":
        raise ValueError(
            f"`X` must be floating where it holds images, got {np.asarray(X).dtype}; scale it "
            "first, as gamma is in its units (pixels: X / 255)."
        )
    if y is None:
        X = check_array(X, dtype=FLOAT, allow_nd=True, estimator=classifier, input_name="X")
    else:
        X, y = check_X_y(X, y, dtype=FLOAT, allow_nd=True, estimator=classifier)
    X = X[..., None] if X.ndim == 3 else X
    if X.ndim != 4:
        raise ValueError(
            f"`X` must be n × features or n × height × width (× channels), got {X.shape}."
        )
    first = X.shape[1] in (1, 3) and X.shape[2] == X.shape[3] > 4
    # A network of one's own may want them first.
    if first and isinstance(classifier.network, str):
        raise ValueError(
            f"`X` must have the channels of images last, got {X.shape}; give numpy.moveaxis(X, 1, "
            "-1)."
        )
    return X, y


def _mapped(X: np.ndarray, pixels: Range | None, beyond: float) -> np.ndarray:
    """Map [0, 1] to the range of the pixels."""
    if pixels is None:
        return X
    if X.min() < -beyond or X.max() > 1 + beyond:
        raise ValueError(
            f"`X` must lie in [0, 1] where `pixels` is given, got values from {X.min():g} to "
            f"{X.max():g}."
        )
    low, high = pixels
    return X * np.float32(high - low) + np.float32(low)


def _check_scale(X: np.ndarray) -> None:
    size = math.sqrt(np.mean(np.square(X, dtype=np.float64)))
    if size > MOST:
        raise ValueError(f"`X` must have a root mean square of at most {MOST:g}, got {size:.3g}.")
    if size > LARGEST or 0 < size < 1 / LARGEST:
        warnings.warn(
            f"`X` has a root mean square of {size:.3g}, and gamma and the step sizes are made for "
            "about one: put a StandardScaler before the classifier, or divide pixels by 255.",
            stacklevel=5,
        )


def _axes(X: Any) -> int:
    """Return how many axes samples have; refuse those that differ in shape."""
    try:
        return X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
    except ValueError as error:
        raise ValueError(f"`X` must hold samples of equal shape: {error}") from error
