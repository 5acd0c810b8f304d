"""The constants that the theory is written in."""

import dataclasses
import math
from typing import Any, ClassVar, Self

import numpy as np

from rsgda._checks import host_number


@dataclasses.dataclass(frozen=True, kw_only=True)
class Regularity:
    r"""What is known of a problem and of its start.

    $$ \kappa = L / \mu, \qquad D_0 = \phi(\theta_0) - \inf \phi, \qquad
       r_0 = \lVert v_0 - v^*(\theta_0) \rVert^2 $$

    Args:
        L: smoothness of F in (theta, v) together.
        mu: strong concavity of F in v.
        sigma: standard deviation of the gradient in theta, at the worst (theta, v).
        sigma_v: standard deviation of the gradient in v at v*(theta), at the worst theta.
        L_max: smoothness in v of the worst sample, each of which must be concave in v. None: not
            above L. Wherever the theory has L, the larger of the two is taken.
        D0: how far phi is above its infimum at the start. None where it is not known: bounds and
            iteration counts are then refused, step sizes are not.
        r0: squared distance of v to the maximiser at the start, or None likewise.

    >>> r = Regularity(L=10.0, mu=0.1, sigma=1.0)
    >>> r.kappa
    100.0

    Source: Section 2.1 of the paper; L_max is what its proof needs beside.
    """

    # What the algorithm's eta is, in units of the theory's; not 1 where v was measured by rows.
    eta_scale: ClassVar[float] = 1.0

    L: float
    mu: float
    sigma: float = 0.0
    sigma_v: float = 0.0
    L_max: float | None = None
    D0: float | None = 1.0
    r0: float | None = 1.0

    def __post_init__(self) -> None:
        """Refuse what no problem can have."""
        self._check()

    def _check(self) -> None:
        _number(self, "L", zero=False)
        _number(self, "mu", zero=False)
        for name in ("sigma", "sigma_v"):
            _number(self, name)
        for name in ("L_max", "D0", "r0"):
            if getattr(self, name) is not None:
                _number(self, name)
        if self.mu > self.smoothness * (1 + 1e-9):
            raise ValueError(
                f"`mu` must be at most L, for F curves at least mu in v and at most L, "
                f"got mu = {self.mu:g} and L = {self.smoothness:g}."
            )

    @classmethod
    def of(cls, case: Any, theta: Any, v: Any) -> Self:
        """Return the constants of a problem in closed form, such as `Toy`, at a start.

        >>> import jax.numpy as jnp
        >>> from rsgda.problems import Toy
        >>> Regularity.of(Toy(kinds="B", kappa=4.0), jnp.zeros(1), jnp.ones(1)).r0
        1.0
        """
        return cls(
            **_stated(case),
            D0=float(case.phi(theta) - case.inf_phi),
            r0=float(np.sum(np.square(np.asarray(v - case.v_star(theta))))),
        )

    @property
    def smoothness(self) -> float:
        """The larger of L and L_max: what the formulas call L."""
        return self.L if self.L_max is None else max(self.L, self.L_max)

    @property
    def kappa(self) -> float:
        """The condition number."""
        return self.smoothness / self.mu

    @property
    def sigma_bar(self) -> float:
        """The larger of the two noises, for the large-batch corollary."""
        return max(self.sigma, self.sigma_v)


def without_start(case: Any) -> Regularity:
    """Return the constants of a problem in closed form, D0 and r0 not known."""
    return Regularity(**_stated(case), D0=None, r0=None)


def known(r: Regularity) -> tuple[float, float]:
    """Return D0 and r0, or say that they are missing."""
    for name in ("D0", "r0"):
        if getattr(r, name) is None:
            raise ValueError(
                f"`{name}` must be known for bounds and iteration counts, got None; give it, for "
                f"example by `dataclasses.replace(r, {name}=...)`."
            )
    return r.D0, r.r0  # pyright: ignore[reportReturnType]


def _stated(case: Any) -> dict[str, float]:
    return {name: float(getattr(case, name)) for name in ("L", "mu", "sigma", "sigma_v", "L_max")}


def _number(r: Regularity, name: str, *, zero: bool = True) -> None:
    value = getattr(r, name)
    number = None if isinstance(value, bool) else host_number(value)
    low = number is not None and (number < 0 or (number == 0 and not zero))
    if number is None or not math.isfinite(number) or low:
        wish = "a finite number, at least 0" if zero else "a positive finite number"
        raise ValueError(f"`{name}` must be {wish}, got {value!r}.")
    object.__setattr__(r, name, number)
