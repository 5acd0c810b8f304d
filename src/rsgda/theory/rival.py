"""What is known of plain GDA, to set beside the plan for exact gradients at p = 1/2."""

import dataclasses
from typing import Any

from rsgda.theory.exact_gradients import without_noise
from rsgda.theory.inverse import ceiling
from rsgda.theory.plan import Condition, accuracy, door, require, whole_times
from rsgda.theory.regularity import Regularity, known


@dataclasses.dataclass(frozen=True, kw_only=True)
class GDA:
    """The guarantee of simultaneous gradient descent ascent.

    Attributes:
        regularity: the constants that it is for.
        alpha: the descent step size.
        eta: the ascent step size.
        eps: the wanted accuracy, if one was given.
        steps: iterations for it, if one was given.
        gradients: the same in gradients, two for each iteration.
        conditions: what was checked, each with its two sides.
    """

    regularity: Regularity
    alpha: float
    eta: float
    eps: float | None
    steps: int | None
    conditions: tuple[Condition, ...]

    @property
    def gradients(self) -> int | None:
        """Gradients for the wanted accuracy, if one was given."""
        return None if self.steps is None else 2 * self.steps

    def bound(self, k: Any) -> Any:
        """Return the bound on the smallest squared gradient of phi after k iterations."""
        times = whole_times(k)
        found = _constant(self.regularity, self.alpha) / times
        return float(found) if times.ndim == 0 else found


def gda(r: Regularity, *, eps: float | None = None) -> GDA:
    r"""Return what Lin, Jin and Jordan (2020) prove for GDA with exact gradients.

    $$ \eta = \frac1L, \quad \alpha = \frac{1}{16 (\kappa+1)^2 L}, \qquad \mathtt{bound}(k) =
       \frac1k \Bigl[ \frac{256\, D_0}{103\, \alpha} + \frac{576\, \kappa L^2 r_0}{103} \Bigr] $$

    Their $D^2$, the squared diameter of V, enters the proof through $r_0 \le D^2$ alone, which is
    taken in its place. An iteration costs two gradients, one of RGDA costs one.

    >>> from rsgda.theory import exact
    >>> r = Regularity(L=1.0, mu=0.01)
    >>> ratio = gda(r, eps=0.1).gradients / exact(r, p=0.5, eps=0.1).steps
    >>> round(ratio, 1)
    3.6

    Source: Lin, Jin, Jordan (ICML 2020), Theorem 4.4 and its proof; the paper recovers it at
    p = 1/2 "with better constants".
    """
    door(r, 0.5)
    eps = None if eps is None else accuracy(eps)
    checked = require("gda", without_noise(r))
    kappa, L = r.kappa, r.smoothness
    alpha = 1 / (16 * (kappa + 1) ** 2 * L)
    steps = None if eps is None else ceiling(_constant(r, alpha) / eps**2)
    return GDA(regularity=r, alpha=alpha, eta=1 / L, eps=eps, steps=steps, conditions=checked)


def _constant(r: Regularity, alpha: float) -> float:
    D0, r0 = known(r)
    return (256 * D0 / alpha + 576 * r.kappa * r.smoothness**2 * r0) / 103
