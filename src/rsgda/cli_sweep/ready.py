"""Problems that a grid can name without any code."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from rsgda.moves import State
from rsgda.problem import Problem
from rsgda.problems.toy import Toy


@dataclasses.dataclass(frozen=True)
class OfToy:
    """Records what is known of the toy problem in closed form."""

    toy: Toy

    def __call__(self, problem: Problem, state: State) -> dict[str, Any]:
        """Return phi and the norm of its gradient."""
        slope = jnp.sqrt(jnp.sum(self.toy.grad_phi(state.theta) ** 2))
        return {"phi": self.toy.phi(state.theta), "grad_norm": slope}


def toy(
    kinds: str = "ABC",
    kappa: float = 10.0,
    L: float = 1.0,
    s: float = 0.0,
    t: float = 0.0,
    rho: float = 0.0,
    r: float = 0.1,
    batch_size: int = 1,
) -> tuple[Problem, Any, Any, OfToy]:
    """Return `rsgda.problems.Toy` with its start."""
    made = Toy(kinds=kinds, kappa=kappa, L=L, s=s, t=t, rho=rho, r=r, batch_size=batch_size)
    return made.problem, *made.start(), OfToy(made)


READY: dict[str, Callable[..., tuple[Any, ...]]] = {"toy": toy}
