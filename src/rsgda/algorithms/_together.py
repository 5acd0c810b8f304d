"""What algorithms that move both players at once have in common."""

from rsgda._update import Slope, Step, keep
from rsgda.moves import State, apply, ascent_along, descent_along
from rsgda.problem import Batch, Problem


def move_both(
    problem: Problem,
    state: State,
    slope_theta: Slope,
    batch: Batch,
    slope_v: Slope,
    steps: tuple[Step, Step],
) -> State:
    """Return the state after a descent and an ascent along gradients that are known.

    `batch` is that of the gradient in v. If one of the moves is refused, neither is made.
    """
    down = descent_along(problem, state, slope_theta, steps[0])
    # What is written to v so depends on theta's gradient, too: the rows of a separable v that this
    # was taken at are read before, and the compiler need not copy v.
    up = ascent_along(problem, state._replace(refused=down.refused), batch, slope_v, steps[1])
    sound = up.refused == 0
    theta, descent_state = keep(
        sound, (down.theta, down.descent_state), (state.theta, state.descent_state)
    )
    both = up._replace(theta=theta, descent_state=descent_state, descents=up.ascents)
    if problem.restart is not None:  # after a descent v starts again
        v, ascent_state = keep(sound, (down.v, down.ascent_state), (state.v, state.ascent_state))
        both = both._replace(v=v, ascent_state=ascent_state)
    return apply(state, both)


def refuse_restart(problem: Problem, name: str) -> None:
    """Refuse a v that lives for one minibatch, which theta would only see where it starts."""
    if problem.restart is not None:
        raise ValueError(
            f"`problem` must be without `restart`, got {problem!r}: {name} moves both players at "
            "once, and v starts again after each descent, so that theta would never meet a v that "
            "has moved. Take RSGDA, SGDA, ESGDA, SGDmax or Extragradient."
        )
