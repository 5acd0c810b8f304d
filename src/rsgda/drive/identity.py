"""What makes a run the same run: a description of it that can be written down and compared."""

import dataclasses
import functools
import hashlib
import types
from typing import Any

import jax
import numpy as np

from rsgda._trees import PyTree, Static
from rsgda.algorithms.moves import State
from rsgda.problem import Problem

FORMAT = 1


def identity(problem: Problem, algorithm: Any, state: State) -> dict[str, Any]:
    """Return names of functions, shapes, the algorithm's numbers, the key and the data's hash."""
    functions = ("loss", "sample", "project_v", "project_theta", "prepare")
    return {
        "format": FORMAT,
        "algorithm": describe(algorithm),
        **{name: describe(getattr(problem, name)) for name in functions},
        "batch_size": problem.batch_size,
        "separable": problem.separable,
        "data": [_hash(leaf) for leaf in jax.tree.leaves(problem.data)],
        "key": f"{jax.random.key_impl(state.key)} {jax.random.key_data(state.key).tolist()}",
        "theta": _shapes(state.theta),
        "v": _shapes(state.v),
        "state": _shapes(state),
    }


def describe(value: Any) -> str:
    """Name a value by what it does: functions by qualified name and the numbers they close over.

    >>> import optax
    >>> describe(0.1)
    '0.1'
    >>> describe(optax.sgd(0.1)) == describe(optax.sgd(0.2))
    False
    """
    return _describe(value, ())


def _describe(value: Any, within: tuple[int, ...]) -> str:
    if id(value) in within:  # a function that closes over itself
        return "..."
    within = (*within, id(value))
    if isinstance(value, Static):
        return _describe(value.value, within)
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        return repr(value.item()) if value.ndim == 0 else _hash(value)
    if isinstance(value, functools.partial):
        parts = (value.func, *value.args, *sorted(value.keywords.items()))
        return f"partial({', '.join(_describe(part, within) for part in parts)})"
    if isinstance(value, types.MethodType):
        return f"{_describe(value.__self__, within)}.{value.__func__.__name__}"
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        inside = [_describe(content, within) for content in cells]
        name = f"{value.__module__}.{value.__qualname__}"
        return f"{name}[{', '.join(inside)}]" if inside else name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f"{f.name}={_describe(getattr(value, f.name), within)}" for f in dataclasses.fields(value)]
        return f"{type(value).__module__}.{type(value).__qualname__}({', '.join(fields)})"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(_describe(item, within) for item in value)})"
    if isinstance(value, dict):
        items = sorted((str(name), _describe(item, within)) for name, item in value.items())
        return f"{{{', '.join(f'{name}: {item}' for name, item in items)}}}"
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return f"{getattr(value, '__module__', type(value).__module__)}.{name}"


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _hash(array: Any) -> str:
    array = np.ascontiguousarray(array)
    digest = hashlib.blake2b(array.view(np.uint8).data, digest_size=16).hexdigest()
    return f"{array.dtype}{list(array.shape)} {digest}"


def _shapes(tree: PyTree) -> list[str]:
    return [
        f"{jax.tree_util.keystr(path)} {leaf.dtype}{list(leaf.shape)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]
