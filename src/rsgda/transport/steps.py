"""Step sizes of the potentials in units that mean something."""

import dataclasses
from typing import Any

import jax

from rsgda import _checks
from rsgda.problem import Problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Relative:
    """A step size in units of n times epsilon; `relative` makes one."""

    value: Any

    def of_problem(self, problem: Problem) -> Any:
        """Return the step size that this is on a problem."""
        unit = getattr(problem.loss, "unit", None)
        if unit is None:
            raise ValueError(
                "`eta` is relative to n epsilon, which this problem does not have: "
                "rsgda.transport.relative is for problems of rsgda.transport; give a number."
            )
        if self.value is None:
            n, b = problem.loss.nu.shape[0], problem.loss.batch_size  # pyright: ignore
            return float(unit) * min(1.0, b / (2 * n))
        return float(unit) * self.value

    def __repr__(self) -> str:
        return f"relative({'' if self.value is None else self.value})"


def relative(value: float | None = None) -> Relative:
    r"""Return a step size of the potentials v in units of $n \varepsilon$.

    $$ \eta = r\, n\, \varepsilon $$

    An ascent over all of x with $r = 1$ is, near the optimum, a Sinkhorn iteration. A minibatch of
    b samples hits few of the n targets, whose potentials then move by up to $r n \varepsilon / b$:
    r = b / (2n), the default, moves them by half an $\varepsilon$.

    Args:
        value: r. None is b / (2n), and at most 1.

    >>> relative(0.5)
    relative(0.5)

    Source: ours. The paper has eta = 5 at epsilon = 0.1, b = 128 and n = 4683 (Section 5.2), which
    is r = 0.78 b / (2n).
    """
    if value is not None:
        _checks.positive("value", value)
    return Relative(value)
