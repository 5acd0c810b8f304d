"""What makes a run the same run: a description of it that can be written down and compared."""

from typing import Any

import jax
import jax.random as jr

from rsgda._names import fingerprint, qualified
from rsgda._trees import PyTree, thaw
from rsgda.drive.folder import START
from rsgda.moves import State
from rsgda.problem import Problem

FORMAT = 2


def identity(problem: Problem, algorithm: Any, state: State) -> dict[str, Any]:
    """Return names of functions, shapes, the algorithm's numbers, the key and the data's hash.

    The start is described too, but does not make another run: who calls again to continue may
    have drawn it anew.
    """
    functions = ("loss", "sample", "project_v", "project_theta", "prepare", "restart")
    return {
        "format": FORMAT,
        "floats": jax.dtypes.canonicalize_dtype(float).name,  # random numbers differ with it
        "algorithm": qualified(algorithm),
        **{name: qualified(getattr(problem, name)) for name in functions},
        "batch_size": None if problem.batch_size is None else int(problem.batch_size),
        "separable": bool(problem.separable),
        "data": _leaves(problem.data, fingerprint),
        "key": f"{jr.key_impl(state.key)} {jr.key_data(state.key).tolist()}",
        "theta": _described(state.theta),
        "v": _described(state.v),
        "state": _leaves(state, _shape),
        START: [fingerprint(leaf) for leaf in jax.tree.leaves((state.theta, state.v))],
    }


def _described(player: PyTree) -> str:
    """Name a player by its shapes and by all in it that is not an array."""
    return qualified(thaw(jax.tree.map(_shape, player)))


def _leaves(tree: PyTree, describe: Any) -> list[str]:
    return [
        f"{jax.tree_util.keystr(path)} {describe(leaf)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def _shape(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"
