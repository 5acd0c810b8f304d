"""Which rows of a sweep run side by side."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array

from rsgda._trees import freeze_numbers
from rsgda.moves import State
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
        if not stacks(keys):
            shared = tuple(dict.fromkeys(("key", *shared)))
        groups = _groups(frozen, members, shared)
        apart = len(groups) * (len(keys) if "key" in shared else 1)
        pays = apart > 1 and together_pays(problem, state, apart, len(members) * len(keys))
        if pays and stacks(keys):
            shared, groups = (), [members]
        every = range(len(keys))
        places = [(j,) for j in every] if "key" in shared else [tuple(every)]
        plan += [
            Block(
                members=members,
                first=algorithms[group[0]],
                algorithm=algorithm,
                places=mine,
                keys=keys[mine[0]] if "key" in shared else keys[jnp.array(mine)],
                shared=shared,
            )
            for group, members, algorithm in _stacked(frozen, groups)
            for mine in places
        ]
    return plan


def _stacked(
    frozen: list[Any], groups: list[list[int]]
) -> list[tuple[list[int], tuple[int | None, ...], Any]]:
    """Stack each group's numbers where they differ; groups of one size are one program.

    A number that agrees within every group stays single: it costs less and keeps branches whole.
    """
    size = max(len(group) for group in groups)
    filled = [group + [group[0]] * (size - len(group)) for group in groups]
    columns = [
        list(zip(*[jax.tree.leaves(frozen[i]) for i in group], strict=True)) for group in filled
    ]
    alike = [
        all(np.array_equal(number, column[0]) for column in same for number in column)
        for same in zip(*columns, strict=True)
    ]
    stacked = []
    for group, mine in zip(groups, columns, strict=True):
        numbers = [
            column[0] if single else jnp.stack(column)
            for single, column in zip(alike, mine, strict=True)
        ]
        algorithm = jax.tree.unflatten(jax.tree.structure(frozen[group[0]]), numbers)
        stacked.append((group, (*group, *[None] * (size - len(group))), algorithm))
    return stacked


def stacks(keys: Array) -> bool:
    """Say whether keys draw the same under `vmap` as one by one."""
    return str(jr.key_impl(keys)) == "threefry2x32"


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
    cost = _gradient.lower(problem, state).cost_analysis() or {}
    return cost.get("flops", 0.0) + 10 * cost.get("transcendentals", 0.0)


@jax.jit
def _gradient(problem: Problem, state: State) -> Any:
    batch = problem.draw(state.key)
    return problem.slope_theta(state.theta, problem.look(state.v, batch), batch)


def _groups(frozen: list[Any], members: list[int], shared: tuple[str, ...]) -> list[list[int]]:
    """Sort algorithms into groups that agree in the numbers that branches depend on."""
    groups: dict[Any, list[int]] = {}
    for i in members:
        numbers = [np.asarray(getattr(frozen[i], name)).item() for name in shared if name != "key"]
        groups.setdefault(tuple(numbers), []).append(i)
    return list(groups.values())
