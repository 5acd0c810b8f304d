"""What makes a run the same run: a description of it that can be written down and compared."""

from typing import Any

import jax

from rsgda._names import fingerprint, qualified
from rsgda._trees import PyTree
from rsgda.algorithms.moves import State
from rsgda.problem import Problem

FORMAT = 1


def identity(problem: Problem, algorithm: Any, state: State) -> dict[str, Any]:
    """Return names of functions, shapes, the algorithm's numbers, the key and the data's hash."""
    functions = ("loss", "sample", "project_v", "project_theta", "prepare")
    return {
        "format": FORMAT,
        "algorithm": qualified(algorithm),
        **{name: qualified(getattr(problem, name)) for name in functions},
        "batch_size": problem.batch_size,
        "separable": problem.separable,
        "data": [fingerprint(leaf) for leaf in jax.tree.leaves(problem.data)],
        "key": f"{jax.random.key_impl(state.key)} {jax.random.key_data(state.key).tolist()}",
        "theta": _shapes(state.theta),
        "v": _shapes(state.v),
        "state": _shapes(state),
    }


def _shapes(tree: PyTree) -> list[str]:
    return [
        f"{jax.tree_util.keystr(path)} {leaf.dtype}{list(leaf.shape)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]
