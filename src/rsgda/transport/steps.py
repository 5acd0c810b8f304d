"""Step sizes in units that mean something, and an algorithm that has them."""

import dataclasses
import functools
import math
from typing import Any

import jax
import optax

from rsgda import _checks
from rsgda.algorithms.rsgda import RSGDA
from rsgda.problem import Problem

SHARE = 3e-3  # of the size of each array of the network, that the first descents change


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
        return float(unit) * self.value

    def __repr__(self) -> str:
        return f"relative({self.value})"


def relative(value: float = 1.0) -> Relative:
    r"""Return a step size of the potentials v in units of $n \varepsilon$.

    $$ \eta = r\, n\, \varepsilon $$

    An ascent over all of x with $r = 1$ is, near the optimum, a Sinkhorn iteration. A minibatch of
    b samples hits few of n targets, if n is large: the potentials of those fall by up to
    $r n \varepsilon / b$, those of the others rise by $r \varepsilon$. A smaller r has less
    noise, a larger one follows the network sooner; it minds the noise less than the delay.

    Args:
        value: r.

    >>> relative(0.5)
    relative(0.5)

    Source: ours. The paper has eta = 5 at epsilon = 0.1, b = 128 and n = 4683 (Section 5.2), which
    is r = 0.011.
    """
    if callable(value):
        raise ValueError(f"`value` must be a number, got {value!r:.80}.")
    _checks.positive("value", value)
    return Relative(value)


def algorithm(steps: int, *, p: float = 0.1) -> RSGDA:
    r"""Return RSGDA for a run of so many steps on a problem of transport, with nothing to tune.

    $$ \eta = n \varepsilon, \qquad
       \frac{\|\theta_\ell^{i+1} - \theta_\ell^i\|}{\|\theta_\ell^i\|} = \alpha_i
       = 0.003 \cdot \tfrac12 \Big( 1 + \cos \frac{\pi i}{p\, k} \Big) $$

    for the i-th descent of a run of k steps and each array $\theta_\ell$ of the network, in the
    direction of Adam (`optax.lamb`): no layer outruns the potentials, however many features there
    are and whatever their scale. The steps fall to zero at the end of the run, so that a run with
    other `steps` is another run.

    Args:
        steps: of the run.
        p: the probability of a descent. In `matching` an ascent costs less than a tenth of a
            descent; for `generation`, where both cost about the same, take 0.5.

    >>> algorithm(6_000).p, algorithm(6_000).eta
    (0.1, relative(1.0))

    Source: ours; You et al. (2020), Large batch optimization for deep learning, for LAMB.
    """
    _checks.whole("steps", steps, 1)
    _checks.probability("p", p)
    return RSGDA(p=p, alpha=_falling(math.ceil(p * steps)), eta=relative())


# What is made anew is compiled anew.
@functools.lru_cache
def _falling(descents: int) -> optax.GradientTransformation:
    return optax.lamb(optax.cosine_decay_schedule(SHARE, descents))
