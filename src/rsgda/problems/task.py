"""A problem to measure algorithms on: where to start, what counts, and for how long."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jax import Array

from rsgda._trees import PyTree
from rsgda.problem import Problem


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A problem with its start, and what says how good a point is.

    Attributes:
        name: unique among the tasks.
        family: what kind of problem it is, for tables.
        problem: what is being solved.
        theta: where the minimised variable starts.
        v: where the maximised variable starts.
        merit: `merit(theta, v)`, the smaller the better, a callable pytree that can be compiled.
        gradients: how many of them a good run is given; a target is what it then reaches.
        floor: no target is below it, where rounding may be what decides.

    >>> import rsgda
    >>> made = rsgda.problems.task("toy-ABC-5-exact")
    >>> bool(made.merit(made.theta, made.v) > 1), made.gradients
    (True, 600)
    """

    name: str
    family: str
    problem: Problem
    theta: PyTree
    v: PyTree
    merit: Callable[[Any, Any], Array]
    gradients: int
    floor: float = 0.0
