"""Which rows of a sweep run side by side."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda._trees import freeze_numbers
from rsgda.algorithms.moves import State
from rsgda.problem import Problem

# What a CPU could compute in the time that one round of a compiled loop costs by itself.
OPERATIONS_PER_LOOP = 30_000


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Rows that run side by side: some algorithms of one class by some keys.

    Attributes:
        members: the places of the algorithms in the sweep; None for a filler.
        first: the first algorithm as it was given.
        algorithm: the algorithms' numbers, stacked where they differ.
        places: the places of the keys in the sweep.
        keys: the keys, or the only key where it is shared.
        shared: what all rows have in common, so that their branches stay branches.
    """

    members: tuple[int | None, ...]
    first: Any
    algorithm: Any
    places: tuple[int, ...]
    keys: Array
    shared: tuple[str, ...]


def blocks(problem: Problem, algorithms: tuple[Any, ...], keys: Array, state: State) -> list[Block]:
    """Arrange algorithms x keys in blocks, with one program for all blocks of a class."""
    frozen = [freeze_numbers(algorithm) for algorithm in algorithms]
    classes: dict[Any, list[int]] = {}
    for i, algorithm in enumerate(frozen):
        classes.setdefault(jax.tree.structure(algorithm), []).append(i)
    plan = []
    for members in classes.values():
        shared = getattr(algorithms[members[0]], "branches_on", ())
        groups = _groups(frozen, members, shared)
        apart = len(groups) * (len(keys) if "key" in shared else 1)
        if apart > 1 and together_pays(problem, state, apart, len(members) * len(keys)):
            shared, groups = (), [members]
        size = max(len(group) for group in groups)
        every_key = tuple(range(len(keys)))
        for group in groups:
            for places in [(j,) for j in every_key] if "key" in shared else [every_key]:
                plan.append(_block(algorithms, frozen, keys, group, size, places, shared))
    return plan


def together_pays(problem: Problem, state: State, apart: int, rows: int) -> bool:
    """Say whether rows with different coins had better run side by side.

    Side by side, both gradients are computed for every row, and one of them is thrown away.
    Apart, the loop's own overhead is paid once for each of the `apart` blocks. The more a
    gradient costs, the sooner the second is cheaper; `benchmarks/core.py` measures both.
    """
    wasted = rows * _operations(problem, state)
    return wasted < OPERATIONS_PER_LOOP * (apart - 1)


def _operations(problem: Problem, state: State) -> float:
    """Return how many operations one gradient takes, as the compiler counts them."""

    def gradient(problem: Problem, state: State) -> Any:
        batch = problem.draw(state.key)
        return problem.slope_theta(state.theta, problem.look(state.v, batch), batch)

    cost = jax.jit(gradient).lower(problem, state).cost_analysis() or {}
    return cost.get("flops", 0.0) + 10 * cost.get("transcendentals", 0.0)


def _groups(frozen: list[Any], members: list[int], shared: tuple[str, ...]) -> list[list[int]]:
    """Sort algorithms into groups that agree in the numbers that branches depend on."""
    groups: dict[Any, list[int]] = {}
    for i in members:
        numbers = [np.asarray(getattr(frozen[i], name)).item() for name in shared if name != "key"]
        groups.setdefault(tuple(numbers), []).append(i)
    return list(groups.values())


def _block(
    algorithms: tuple[Any, ...],
    frozen: list[Any],
    keys: Array,
    group: list[int],
    size: int,
    places: tuple[int, ...],
    shared: tuple[str, ...],
) -> Block:
    # Blocks of one size are one program, so smaller ones are filled up.
    filled = [frozen[i] for i in group + [group[0]] * (size - len(group))]
    return Block(
        members=(*group, *[None] * (size - len(group))),
        first=algorithms[group[0]],
        algorithm=jax.tree.map(_stack, *filled),
        places=places,
        keys=keys[places[0]] if "key" in shared else keys[jnp.array(places)],
        shared=shared,
    )


def _stack(*numbers: Array) -> Array:
    """Stack numbers that differ; one that all rows share costs less and keeps branches whole."""
    same = all(np.array_equal(number, numbers[0]) for number in numbers)
    return numbers[0] if same else jnp.stack(numbers)
