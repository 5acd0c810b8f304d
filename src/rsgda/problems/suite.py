"""The tasks by name, from the cheapest to the dearest."""

import importlib
from types import ModuleType

from rsgda.problems.task import Task

# Imported when asked for: a toy problem needs neither networks nor data.
FAMILIES = ("toys", "groups", "robust", "transport")


def names() -> list[str]:
    """Return the names of all tasks.

    >>> names()[:2]
    ['toy-ABC-5-exact', 'toy-D-5-exact']
    """
    return [name for family in FAMILIES for name in _module(family).names()]


def task(name: str) -> Task:
    """Return a task by its name.

    >>> made = task("toy-D-30-noisy")
    >>> made.family, made.gradients
    ('toy', 2000)
    """
    for family in FAMILIES:
        module = _module(family)
        if name in module.names():
            return module.task(name)
    raise ValueError(f"`name` must be one of rsgda.problems.names(), got {name!r}.")


def _module(family: str) -> ModuleType:
    return importlib.import_module(f"rsgda.problems.{family}")
