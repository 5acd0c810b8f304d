"""Toy problems as tasks, in random units."""

import dataclasses
import zlib

import jax
import numpy as np
from jax import Array

from rsgda.problems.rescaled import RescaledMerit, rescaled
from rsgda.problems.task import Task
from rsgda.problems.toy import Toy

KINDS = ("ABC", "D")
# Gradients of a good run: longer, the worse the condition.
GRADIENTS = {5: 600, 30: 2_000, 300: 8_000}
NOISES = ("exact", "noisy", "interpolating")
DECADES = 2.0  # units are 10^-2 to 10^2 times the usual ones
DEEP = 1e-24  # times the merit at the start: no run is asked for more


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ToyMerit:
    r"""How far both players are off: $\varphi(\theta) + (\varphi(\theta) - F(\theta, v))$.

    phi alone would praise a theta that has run away from v where phi falls for ever.
    """

    toy: Toy = dataclasses.field(metadata={"static": True})

    def __call__(self, theta: Array, v: Array) -> Array:
        """Return the merit."""
        return self.toy.phi(theta) + self.toy.gap(theta, v)


def toy_of(kinds: str, kappa: int, noise: str) -> Toy:
    """Return the toy problem of a task, in its usual units."""
    mu = 1.0 / kappa
    noises = {"exact": {}, "noisy": {"s": 0.3, "t": 0.3}, "interpolating": {"rho": 0.5 * mu}}
    return Toy(kinds=kinds, kappa=float(kappa), **noises[noise])


def names() -> list[str]:
    """Return the names of all tasks, the shortest runs first."""
    return [
        f"toy-{kinds}-{kappa}-{noise}" for kappa in GRADIENTS for noise in NOISES for kinds in KINDS
    ]


def task(name: str) -> Task:
    """Return a task by its name."""
    _, kinds, kappa, noise = name.split("-")
    toy = toy_of(kinds, int(kappa), noise)
    a, b, c = units(name)
    # At v = 0, which is the best v in the end, a player that never moves would come out first.
    theta, _ = toy.start("float32")
    v = 0.5 * toy.v_star(theta)
    merit = ToyMerit(toy)
    problem, theta_, v_ = rescaled(
        toy.problem, theta, v, scale_theta=a, scale_v=b, scale_loss=c
    )  # fmt: skip
    return Task(
        name=name,
        family="toy",
        problem=problem,
        theta=theta_,
        v=v_,
        merit=RescaledMerit(merit, a, b),
        gradients=GRADIENTS[int(kappa)],
        floor=DEEP * float(merit(theta, v)),
    )


def units(name: str) -> tuple[float, float, float]:
    """Return the units of theta, v and the loss, the same for a name at all times."""
    powers = np.random.default_rng(zlib.crc32(name.encode())).uniform(-DECADES, DECADES, 3)
    a, b, c = (float(10.0**power) for power in powers)
    return a, b, c
