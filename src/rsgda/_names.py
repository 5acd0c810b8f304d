"""Names for values that have none of their own: functions with the numbers they close over."""

import contextlib
import dataclasses
import functools
import hashlib
import types
from typing import Any

import jax
import numpy as np


def short(value: Any) -> str:
    """Show a step size in one line, with every number in it.

    >>> import optax
    >>> short(0.1), short(optax.sgd(0.1))
    ('0.1', 'optax(step_size=-0.1)')
    """
    if hasattr(value, "init") and hasattr(value, "update"):
        return f"optax({', '.join(dict.fromkeys(_numbers((value.update,), ())))})"
    if isinstance(value, types.FunctionType):
        return f"{value.__name__}({', '.join(dict.fromkeys(_numbers(value, ())))})"
    return repr(value)


def _numbers(value: Any, within: tuple[int, ...]) -> list[str]:
    """List the numbers that a function closes over, and those its functions close over."""
    if id(value) in within:
        return []
    within, found = (*within, id(value)), []
    if isinstance(value, (tuple, list)):
        return [number for item in value for number in _numbers(item, within)]
    pairs: Any = ()
    if isinstance(value, types.FunctionType):
        pairs = _closed_over(value)
    elif isinstance(value, dict):
        pairs = value.items()
    for name, content in pairs:
        if name.startswith("#") and len(within) > 1:
            continue  # what is written inside of a library's functions is not the user's number
        if isinstance(content, (int, float)) and not isinstance(content, bool):
            found.append(repr(content) if name.startswith("#") else f"{name}={content!r}")
        else:
            found += _numbers(content, within)
    return found


def _closed_over(function: types.FunctionType) -> list[tuple[str, Any]]:
    """List what a function closes over and its arguments' defaults, which serve the same end.

    A variable that was never given a value is left out.
    """
    code, defaults = function.__code__, function.__defaults__ or ()
    found = []
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            found.append((name, cell.cell_contents))
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    found += [*zip(names, defaults, strict=True), *(function.__kwdefaults__ or {}).items()]
    return found + [(f"#{place}", number) for place, number in enumerate(_written(code))]


def _written(code: types.CodeType) -> list[int | float]:
    """List the numbers that are written in a function's body."""
    found: list[int | float] = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _written(constant)
        elif isinstance(constant, (int, float)) and not isinstance(constant, bool):
            found.append(constant)
    return found


def qualified(value: Any) -> str:
    """Name a value by what it does: functions by qualified name and the numbers they close over.

    >>> import optax
    >>> qualified(0.1)
    '0.1'
    >>> qualified(optax.sgd(0.1)) == qualified(optax.sgd(0.2))
    False
    """
    return _qualified(value, ())


def _qualified(value: Any, within: tuple[int, ...]) -> str:
    if id(value) in within:  # a function that closes over itself
        return "..."
    within = (*within, id(value))
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        return repr(value.item()) if value.ndim == 0 and not _is_key(value) else fingerprint(value)
    if isinstance(value, functools.partial):
        parts = (value.func, *value.args, *sorted(value.keywords.items()))
        return f"partial({', '.join(_qualified(part, within) for part in parts)})"
    if isinstance(value, types.MethodType):
        return f"{_qualified(value.__self__, within)}.{value.__func__.__name__}"
    if isinstance(value, types.FunctionType):
        inside = [_qualified(content, within) for _, content in _closed_over(value)]
        name = f"{value.__module__}.{value.__qualname__}"
        return f"{name}[{', '.join(inside)}]" if inside else name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [
            f"{f.name}={_qualified(getattr(value, f.name), within)}"
            for f in dataclasses.fields(value)
        ]
        return f"{type(value).__module__}.{type(value).__qualname__}({', '.join(fields)})"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(_qualified(item, within) for item in value)})"
    if isinstance(value, dict):
        items = sorted((str(name), _qualified(item, within)) for name, item in value.items())
        return f"{{{', '.join(f'{name}: {item}' for name, item in items)}}}"
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    wrapped = getattr(value, "__wrapped__", None)
    if wrapped is not None:  # by `jax.jit`, for one
        return _qualified(wrapped, within)
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return f"{getattr(value, '__module__', type(value).__module__)}.{name}"


def fingerprint(array: Any) -> str:
    """Return dtype, shape and a hash of an array."""
    if _is_key(array):
        array = jax.random.key_data(array)
    array = np.ascontiguousarray(array)
    digest = hashlib.blake2b(array.view(np.uint8).data, digest_size=16).hexdigest()
    return f"{array.dtype}{list(array.shape)} {digest}"


def _is_key(array: Any) -> bool:
    return jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key)
