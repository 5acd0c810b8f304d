"""A fitted classifier as plain data and arrays, and back."""

import dataclasses
import math
import os
import re
from typing import Any

import jax
import numpy as np

from rsgda import _model_file
from rsgda._names import short
from rsgda._trees import is_number
from rsgda.algorithms import ESGDA, RSGDA, SGDA, Extragradient, Optimistic, SGDmax, TiAda
from rsgda.robust import classifier_network as made
from rsgda.robust.classifier_door import SETTINGS
from rsgda.robust.penalty import check_range

KINDS = (RSGDA, SGDA, ESGDA, SGDmax, TiAda, Extragradient, Optimistic)
ALGORITHMS = {kind.__name__: kind for kind in KINDS}
FITTED = {"n_features_in_": int, "n_iter_": int, "status_": str, "network_name_": str}
KIND = _model_file.Kind("rsgda.robust.RobustClassifier", "classifier")
HISTORY = "history."
CHECK = "check"  # logits by which a loaded network is known
WIDEST = 40_000  # bytes of a label


def described(classifier: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a fitted classifier as plain data and arrays."""
    names = getattr(classifier, "feature_names_in_", None)
    parameters = {**classifier.get_params(deep=False), **classifier.settings_}
    model = {
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "classes": _classes(classifier.classes_),
        "shape": [int(size) for size in classifier.shape_],
        "feature_names": None if names is None else [str(name) for name in names],
        "fitted": {name: getattr(classifier, name) for name in FITTED},
    }
    arrays = {
        _coef(place): np.array(coef, order="C") for place, coef in enumerate(classifier.coefs_)
    }
    arrays[CHECK] = _checked(classifier)
    arrays |= {f"{HISTORY}{name}": values for name, values in classifier.history_.items()}
    return model, arrays


def restored(kind: Any, path: str | os.PathLike[str], network: Any) -> Any:
    """Return the classifier of a folder."""
    model = _model_file.read_model(path, KIND)
    try:
        parameters = _parameters(kind, model, network)
        classifier = kind(**parameters)
        classifier.classes_ = _labels(model["classes"])
        classifier.shape_ = _shape(model["shape"])
        classifier.settings_ = {name: parameters[name] for name in SETTINGS}
        for name, wanted in FITTED.items():
            setattr(classifier, name, _of(wanted, model["fitted"][name]))
        if model["feature_names"] is not None:
            names = [_of(str, name) for name in _of(list, model["feature_names"])]
            classifier.feature_names_in_ = np.array(names, dtype=object)
        named = classifier.network_name_
        _, maker = made.chosen(network if named == made.CUSTOM else named, classifier.shape_)
        bare = made.skeleton(maker, classifier.shape_, len(classifier.classes_))
    except Exception as error:
        raise ValueError(f"{path} holds no classifier of this version: {error}") from error
    weights = {_coef(place): shape for place, shape in enumerate(made.shapes(bare))}
    shapes = {**weights, CHECK: (len(classifier.classes_),)}
    expected = {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in shapes.items()}
    arrays = _model_file.read_arrays(path, model, expected, HISTORY)
    classifier.coefs_ = [arrays[name] for name in weights]
    if not np.allclose(_checked(classifier), arrays[CHECK], rtol=1e-3, atol=1e-3, equal_nan=True):
        raise ValueError(
            f"the network of {path} does not compute what it did when it was saved: `network` must "
            "be the function that made it, and do what it did."
        )
    classifier.history_ = {
        name.removeprefix(HISTORY): values
        for name, values in arrays.items()
        if name.startswith(HISTORY)
    }
    return classifier


def _coef(place: int) -> str:
    return f"coef.{place}"


def _checked(classifier: Any) -> np.ndarray:
    """Return the logits of a sample that is always the same."""
    size = math.prod(classifier.shape_)
    sample = np.linspace(-1, 1, size, dtype=np.float32).reshape(1, *classifier.shape_)
    return made.logits(classifier.network_, sample)[0]


def _plain(value: Any) -> Any:
    """Return what JSON can hold of a parameter: its value, or else its name."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, (tuple, list)) and all(is_number(item) for item in value):
        return [_plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, tuple(ALGORITHMS.values())):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        if all(number is None or isinstance(number, (int, float)) for number in fields.values()):
            return {"algorithm": type(value).__name__, **fields}
    return getattr(value, "__qualname__", None) or short(value)


def _parameters(kind: Any, model: dict[str, Any], network: Any) -> dict[str, Any]:
    known = kind._get_param_names()
    parameters = {}
    for name, value in _of(dict, model["parameters"]).items():
        if name not in known:
            raise ValueError(f"it has a parameter {name!r:.80}")
        parameters[name] = _value(value)
    if model["fitted"]["network_name_"] == made.CUSTOM:
        if network is None:
            raise ValueError(
                f"its network was made by the function {parameters['network']!r:.80}; give it as "
                "`network`"
            )
        parameters["network"] = network
    elif network is not None:
        raise ValueError("`network` is for a network that a function has made, and its is not one")
    if parameters.get("pixels") is not None:
        check_range("pixels", parameters["pixels"])
    return parameters


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_of(float, float(item)) for item in value)
    if not isinstance(value, dict):
        return value
    if set(value) == {"float"}:
        return float(value["float"])
    fields = dict(value)
    return ALGORITHMS[fields.pop("algorithm")](**fields)


def _classes(classes: np.ndarray) -> dict[str, Any]:
    if classes.dtype.kind == "M":  # as counts of their unit since 1970
        return {"dtype": classes.dtype.str, "values": classes.astype(np.int64).tolist()}
    if classes.dtype.kind not in "biufUO" or not all(
        isinstance(label, (str, bool, int, float)) for label in classes.tolist()
    ):
        raise ValueError(f"labels must be strings, numbers or dates to be saved, got {classes!r}.")
    return {"dtype": classes.dtype.str, "values": classes.tolist()}


def _labels(saved: dict[str, Any]) -> np.ndarray:
    if not re.fullmatch(r"[<>|=](?:[biufUO]\d{0,9}|M8\[[a-zA-Z]{1,2}\])", saved["dtype"]):
        raise ValueError(f"its labels are of type {saved['dtype']!r:.80}")
    dtype = np.dtype(saved["dtype"])
    values = [_of((str, bool, int, float), label) for label in _of(list, saved["values"])]
    if dtype.itemsize > WIDEST or len(values) < 2:
        raise ValueError("its labels are too long or too few")
    counted = np.dtype(np.int64) if dtype.kind == "M" else dtype
    labels = np.array(values, dtype=counted)
    if labels.tolist() != values or len(np.unique(labels)) != len(values):
        raise ValueError(f"its labels are not of the type {dtype} or come twice")
    return labels.astype(dtype, copy=False)


def _shape(saved: Any) -> tuple[int, ...]:
    shape = tuple(_of(int, size) for size in _of(list, saved))
    if len(shape) not in (1, 3) or not all(0 < size < 2**31 for size in shape):
        raise ValueError(f"its samples have the shape {shape!r:.80}")
    return shape


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"it has {value!r:.80} where {getattr(kind, '__name__', kind)} must be")
    return value
