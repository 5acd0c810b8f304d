"""Checks at the door: each raises a `ValueError` that names the argument, the wish and what came.

Only host values are looked at. Dataclasses are rebuilt inside compiled programs with traced
values and with placeholders, and those must pass.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def positive(name: str, value: object) -> None:
    """Raise unless `value` is a positive finite number."""
    if is_foreign(value):
        raise ValueError(f"`{name}` must be a positive finite number, got {value!r}.")
    number = host_number(value)
    if number is not None and not (math.isfinite(number) and number > 0):
        raise ValueError(f"`{name}` must be a positive finite number, got {value!r}.")


def probability(name: str, value: object) -> None:
    """Raise unless `value` lies strictly between 0 and 1."""
    if is_foreign(value) or callable(value):
        raise ValueError(f"`{name}` must be a number in (0, 1), got {value!r}.")
    number = host_number(value)
    if number is not None and not 0 < number < 1:
        raise ValueError(f"`{name}` must lie in (0, 1), both ends excluded, got {value!r}.")


def whole(name: str, value: object, least: int) -> None:
    """Raise unless `value` is a whole number of at least `least`."""
    wrong = is_foreign(value) or isinstance(value, float)
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        wrong = not jnp.issubdtype(value.dtype, jnp.integer)
    number = host_number(value)
    if wrong or (number is not None and number < least):
        raise ValueError(f"`{name}` must be a whole number, at least {least}, got {value!r}.")


def counted(name: str, value: object) -> None:
    """Raise unless a whole number fits the 32 bits that compiled loops count in."""
    number = host_number(value)
    if number is not None and number >= 2**31:
        raise ValueError(f"`{name}` must be below 2**31, got {value!r}.")


def step_size(name: str, value: object) -> None:
    """Raise unless `value` is a positive number, a schedule or an optax transformation."""
    if is_foreign(value) and not is_optimiser(value):
        raise ValueError(
            f"`{name}` must be a positive number, a schedule `k -> value` or an optax "
            f"transformation, got {value!r}."
        )
    if not callable(value) and not is_optimiser(value):
        positive(name, value)


def function(name: str, value: object) -> None:
    """Raise unless `value` is a hashable callable, or None."""
    if value is None:
        return
    if not callable(value):
        raise ValueError(f"`{name}` must be a function, got {value!r}.")
    try:
        hash(value)
    except TypeError as error:
        raise ValueError(
            f"`{name}` must be hashable, so that it is compiled only once, got {type(value)}; "
            "write it as a module-level function and pass its arrays through `theta`, `v` or "
            "`data`."
        ) from error


def is_foreign(value: object) -> bool:
    """Say whether `value` is something that no number can be; placeholders are not."""
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        return not jnp.issubdtype(value.dtype, jnp.number) or jnp.issubdtype(
            value.dtype, jnp.complexfloating
        )
    kinds = (bool, complex, str, bytes, tuple, list, dict, set, frozenset)
    return value is None or isinstance(value, kinds)


def is_optimiser(value: object) -> bool:
    """Say whether `value` is an `optax.GradientTransformation`."""
    return hasattr(value, "init") and hasattr(value, "update")


def host_number(value: object) -> float | None:
    """Return `value` as a float, or None where it is traced, stacked or a placeholder."""
    if isinstance(value, Tracer):
        return None
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        number = value.ndim == 0 and jnp.issubdtype(value.dtype, jnp.number)
        return float(value) if number else None  # pyright: ignore
    if isinstance(value, (int, float)):
        return float(value)
    return None
