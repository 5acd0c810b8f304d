"""A matcher as plain data and arrays, and back."""

import dataclasses
import os
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from rsgda import _model_file
from rsgda.singlecell.guidance import Beside, Guided, Shared
from rsgda.singlecell.preprocessing import STEPS, Preprocessing
from rsgda.transport.costs import Quadratic
from rsgda.transport.networks import mlp
from rsgda.transport.plan import Sinkhorn

KIND = _model_file.Kind("rsgda.singlecell.Matcher", "matcher")
HISTORY = "history."
PLAN = ("v", "epsilon", "y", "b", "x", "a", "u", "marginal")
FOUND = ("value", "error", "converged", "iterations")


def save(matcher: Any, path: str | os.PathLike[str]) -> None:
    """Write a matcher into a folder."""
    solved = matcher.solved
    arrays = {f"plan.{name}": np.asarray(getattr(solved, name)) for name in PLAN}
    weights = jax.tree.leaves(eqx.filter(matcher.network, eqx.is_array))
    arrays |= {f"network.{i}": np.asarray(leaf) for i, leaf in enumerate(weights)}
    for side in ("source", "target"):
        for i, learnt in enumerate(getattr(matcher, side).learnt):
            arrays |= {f"{side}.{i}.{name}": values for name, values in learnt.items()}
    for side in ("inputs", "outputs"):
        arrays |= {f"{side}.{k}": v for k, v in getattr(matcher, side)._asdict().items()}
    if matcher.shared is not None:
        arrays |= {f"shared.{name}": v for name, v in matcher.shared._asdict().items()}
    arrays = {name: np.array(values, order="C") for name, values in arrays.items()}
    model = {
        "arrays": {name: [each.dtype.str, list(each.shape)] for name, each in arrays.items()},
        "steps": {
            side: [
                {"step": step.name, **_plain(dataclasses.asdict(step))}
                for step in getattr(matcher, side).steps
            ]
            for side in ("source", "target")
        },
        "names": {side: getattr(matcher, side).names.tolist() for side in ("source", "target")},
        "after": {side: getattr(matcher, side).after.tolist() for side in ("source", "target")},
        "cells": {"source": matcher.source_cells.tolist(), "target": matcher.target_cells.tolist()},
        "hidden": _plain(matcher.settings["hidden"]),
        "features": matcher.network.features,
        "cost": _plain(dataclasses.asdict(solved.cost)),
        "plan": {name: getattr(solved, name) for name in FOUND},
        "weight": matcher.weight,
        "labels": matcher.labels.tolist(),
        "settings": _plain(matcher.settings),
        "scores": _plain(matcher.scores),
    }
    history = {f"{HISTORY}{name}": values for name, values in matcher.history.items()}
    _model_file.write(path, KIND, model, arrays | history)


def load(kind: Any, units: Any, path: str | os.PathLike[str]) -> Any:
    """Return the matcher of a folder; `kind` and `units` are the classes that it is made of."""
    model = _model_file.read_model(path, KIND)
    try:
        expected = {
            str(name): jax.ShapeDtypeStruct(tuple(map(int, shape)), _dtype(dtype))
            for name, (dtype, shape) in model["arrays"].items()
        }
    except Exception as error:
        raise ValueError(f"{path} holds no matcher of this version: {error}") from error
    arrays = _model_file.read_arrays(path, model, expected, HISTORY)
    try:
        return _matcher(kind, units, model, arrays)
    except Exception as error:
        raise ValueError(f"{path} holds no matcher of this version: {error}") from error


def _matcher(kind: Any, units: Any, model: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    sizes = (model["features"], *model["hidden"], len(arrays["outputs.mean"]))
    skeleton = Beside(mlp(sizes, key=jr.key(0)), int(model["features"]))
    bare, rest = eqx.partition(skeleton, eqx.is_array)
    leaves, tree = jax.tree.flatten(bare)
    weights = [jnp.asarray(arrays[f"network.{i}"]) for i in range(len(leaves))]
    if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in weights]:
        raise ValueError("its network has other weights")
    cost = Guided(**model["cost"]) if model["cost"] else Quadratic()
    plan = {name: jnp.asarray(arrays[f"plan.{name}"]) for name in PLAN}
    return kind(
        network=eqx.combine(jax.tree.unflatten(tree, weights), rest),
        source=_preprocessing("source", model, arrays),
        target=_preprocessing("target", model, arrays),
        inputs=units(arrays["inputs.mean"], arrays["inputs.spread"]),
        outputs=units(arrays["outputs.mean"], arrays["outputs.spread"]),
        solved=Sinkhorn(**plan, cost=cost, **{name: model["plan"][name] for name in FOUND}),
        source_cells=np.array(model["cells"]["source"], str),
        target_cells=np.array(model["cells"]["target"], str),
        shared=Shared(*(arrays[f"shared.{name}"] for name in Shared._fields))
        if "shared.source" in arrays
        else None,
        weight=float(model["weight"]),
        labels=np.array(model["labels"], str),
        history={
            name.removeprefix(HISTORY): values
            for name, values in arrays.items()
            if name.startswith(HISTORY)
        },
        settings=dict(model["settings"]),
        scores=dict(model["scores"]),
    )


def _preprocessing(
    side: str, model: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Preprocessing:
    steps, learnt = [], []
    for i, given in enumerate(model["steps"][side]):
        options = dict(given)
        steps.append(STEPS[options.pop("step")](**options))
        start = f"{side}.{i}."
        learnt.append({k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)})
    names, after = (np.array(model[which][side], str) for which in ("names", "after"))
    return Preprocessing(tuple(steps), tuple(learnt), names, after)


def _dtype(name: Any) -> np.dtype:
    dtype = np.dtype(str(name))
    if dtype.kind not in "biuf":
        raise ValueError(f"an array of it is of type {name!r:.80}")
    return dtype


def _plain(value: Any) -> Any:
    """Return what JSON can hold."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value
