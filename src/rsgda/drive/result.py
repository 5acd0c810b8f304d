"""What a run returns: status, history, the last state."""

import dataclasses
import enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rsgda._trees import PyTree, thaw
from rsgda.drive import causes
from rsgda.moves import ASCENT_REFUSED, State
from rsgda.problem import Problem

COUNTERS = ("step", "descents", "ascents", "gradients")


class Status(enum.Enum):
    """How a run ended; the value says it in words."""

    FINISHED = "all steps were done"
    DIVERGED = "an update was not finite and was refused; the last finite state is returned"
    STOPPED = "the record function asked to stop"


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """The end of a run.

    Attributes:
        theta: the minimised variable, in the structure it was given in.
        v: the maximised variable, likewise.
        status: `FINISHED`, `DIVERGED` or `STOPPED`.
        message: the status in words, with the step and, if it diverged, what to change.
        history: one NumPy array per name, with an entry at each multiple of `every` and at the
            last step: `step`, `descents`, `ascents`, `gradients`, and what `record` returned.
        state: everything needed to continue, as `record` is given it.
    """

    theta: PyTree
    v: PyTree
    status: Status
    message: str
    history: dict[str, np.ndarray]
    state: State

    def __repr__(self) -> str:
        """Show how it ended and the last recorded values."""
        last = {name: column[-1].item() for name, column in self.history.items() if len(column)}
        shown = ", ".join(f"{name}={_short(value)}" for name, value in last.items())
        return f"Result({self.status.name}: {self.message}; {shown})"


def shown(state: State) -> State:
    """Return a state as users see it, with leaves that are not arrays in their places."""
    return state._replace(theta=thaw(state.theta), v=thaw(state.v))


def own(state: State) -> State:
    """Copy a state, so that its arrays may be given away and none stands for two fields."""
    return jax.tree.map(
        lambda leaf: (
            jnp.copy(leaf)
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            else jnp.array(leaf, dtype=jax.dtypes.canonicalize_dtype(leaf.dtype), copy=True)
        ),
        state,
    )


def to_keep(problem: Problem, state: State) -> State:
    """Return a state for `record`, which may keep it: the next chunk takes the arrays it is given.

    Only a separable v, which may fill the memory, is not copied. What several devices have is
    brought together.
    """
    if problem.split is not None:
        return shown(problem.split.local(state))
    rows = {"v": state.v, "ascent_state": state.ascent_state} if problem.separable else {}
    return shown(own(state._replace(**dict.fromkeys(rows)))._replace(**rows))


def columns(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Turn a list of records into one array per name; what a record lacks is NaN."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {
        name: np.array([row.get(name, np.nan) for row in rows])
        for name in (names or list(COUNTERS))
    }


def message(status: Status, step: int, refused: int, seen: str = "") -> str:
    """Say how a run ended, and what may be wrong if it diverged; `seen` is what was measured."""
    if status is not Status.DIVERGED:
        return f"{status.value} (step {step})"
    player = "v" if refused == ASCENT_REFUSED else "theta"
    return (
        f"diverged at step {step}: the update of {player} was not finite and was refused; the "
        f"last finite state is returned. {seen}{causes.words(refused)}"
    )


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
