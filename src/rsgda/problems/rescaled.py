"""The same problem in other units."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rsgda import _checks
from rsgda._trees import PyTree, freeze_values, is_float_array, thaw
from rsgda.problem import Problem


def rescaled(
    problem: Problem,
    theta: PyTree,
    v: PyTree,
    *,
    scale_theta: float = 1.0,
    scale_v: float = 1.0,
    scale_loss: float = 1.0,
) -> tuple[Problem, PyTree, PyTree]:
    r"""Return a problem with its start in other units of theta, of v and of the loss.

    $$ f'(\theta', v'; z) = c\, f(\theta' / a, v' / b; z), \qquad
       \theta'_0 = a\, \theta_0, \quad v'_0 = b\, v_0, \quad V' = b V $$

    A run with steps alpha and eta on f is, up to rounding, the run with $\alpha a^2 / c$ and
    $\eta b^2 / c$ on f', seen in its units.

    Args:
        problem: what is being solved.
        theta: where the minimised variable starts.
        v: where the maximised variable starts.
        scale_theta: a.
        scale_v: b.
        scale_loss: c.

    >>> import rsgda
    >>> toy = rsgda.problems.Toy(kinds="B", kappa=5.0)
    >>> problem, theta, v = rescaled(toy.problem, *toy.start(), scale_theta=4.0, scale_loss=0.5)
    >>> theta.tolist(), problem.loss(theta, v) == 0.5 * toy.loss(*toy.start())
    ([8.0], Array(True, dtype=bool))
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"`problem` must be an rsgda.Problem, got {problem!r}.")
    for name, scale in (
        ("scale_theta", scale_theta), ("scale_v", scale_v), ("scale_loss", scale_loss)
    ):  # fmt: skip
        _checks.positive(name, scale)
    prepare, restart = problem.prepare, problem.restart
    new = Problem(
        RescaledLoss(
            freeze_values(problem.loss), jnp.asarray(scale_theta, float),
            jnp.asarray(scale_v, float), jnp.asarray(scale_loss, float), prepare is not None,
        ),
        data=problem.data,
        batch_size=problem.batch_size,
        separable=problem.separable,
        sample=problem.sample,
        project_v=_set(problem.project_v, scale_v),
        project_theta=_set(problem.project_theta, scale_theta),
        prepare=None if prepare is None else Rescaled(freeze_values(prepare), scale_theta),
        restart=None if restart is None else RescaledStart(restart, float(scale_v)),
    )  # fmt: skip
    return new, times(theta, scale_theta), times(v, scale_v)


def times(tree: PyTree, scale: float | Array) -> PyTree:
    """Multiply the floating arrays of a tree; all else stays."""
    return jax.tree.map(
        lambda leaf: leaf * jnp.asarray(scale).astype(leaf.dtype) if is_float_array(leaf) else leaf,
        tree,
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class RescaledLoss:
    """The loss in other units; what is prepared of theta has been so from theta in its own."""

    loss: PyTree
    scale_theta: Array
    scale_v: Array
    scale_loss: Array
    prepared: bool = dataclasses.field(metadata={"static": True})

    def __call__(self, theta: PyTree, v: PyTree, *batch: Any) -> Array:
        """Return c f(theta / a, v / b)."""
        theta = theta if self.prepared else times(theta, 1 / self.scale_theta)
        value = thaw(self.loss)(theta, times(v, 1 / self.scale_v), *batch)
        return self.scale_loss.astype(value.dtype) * value


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Rescaled:
    """A function of theta that is given it in other units."""

    function: PyTree
    scale: float | Array

    def __call__(self, theta: PyTree) -> PyTree:
        """Return the function of theta / a."""
        return thaw(self.function)(times(theta, 1 / self.scale))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class RescaledMerit:
    """A merit, in units of its own, of a point in other ones."""

    merit: PyTree
    scale_theta: float | Array
    scale_v: float | Array

    def __call__(self, theta: PyTree, v: PyTree) -> Array:
        """Return the merit of (theta / a, v / b)."""
        return thaw(self.merit)(times(theta, 1 / self.scale_theta), times(v, 1 / self.scale_v))


@dataclasses.dataclass(frozen=True)
class RescaledSet:
    """The projection on a set in other units."""

    project: Callable[[PyTree], PyTree]
    scale: float

    def __call__(self, tree: PyTree) -> PyTree:
        """Project in the units of the set."""
        return times(self.project(times(tree, 1 / self.scale)), self.scale)


@dataclasses.dataclass(frozen=True)
class RescaledStart:
    """Where v starts at a minibatch, in other units."""

    restart: Callable[[PyTree], PyTree]
    scale: float

    def __call__(self, batch: PyTree) -> PyTree:
        """Return the start times b."""
        return times(self.restart(batch), self.scale)


def _set(project: Callable[[PyTree], PyTree] | None, scale: float) -> RescaledSet | None:
    return None if project is None else RescaledSet(project, float(scale))
