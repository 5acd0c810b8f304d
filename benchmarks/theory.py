"""What a certified phi costs, in gradients, against plain ascent.

python benchmarks/theory.py [--quick] [--json FILE]

Both stop at the same certified gap, from the same start. The rival takes steps of 1/L and is
told the true strong-concavity constant for its certificate |grad|^2 / (2 mu); `rsgda.phi` is told
nothing. Of `rsgda.phi` a value of F counts as one gradient and a Hessian-vector product as two.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import suite
import timing
from jax import Array, lax
from suite import Contest

import rsgda

TOL = 1e-6
MOST = 10_000_000  # steps of plain ascent


class Case(NamedTuple):
    """A problem with its constants and its phi."""

    name: str
    problem: rsgda.Problem
    theta: Array
    v: Array
    L: float
    mu: float
    phi: float


def toy(kinds: str, kappa: float) -> Case:
    made = rsgda.problems.Toy(kinds=kinds, kappa=kappa)
    theta, v = made.start()
    name = kinds if len(kinds) < 5 else f"{kinds[:3]}…, d = {len(kinds)}"
    return Case(f"toy {name}", made.problem, theta, v, made.L, made.mu, float(made.phi(theta)))


def dense_loss(theta: dict[str, Array], v: Array) -> Array:
    return theta["b"] @ v - 0.5 * v @ theta["H"] @ v


def dense(d: int, kappa: float) -> Case:
    """A quadratic whose curvatures are spread evenly in the logarithm: many for Lanczos to see."""
    numbers = np.random.default_rng(0)
    axes, _ = np.linalg.qr(numbers.normal(size=(d, d)))
    H, b = (axes * np.geomspace(1 / kappa, 1, d)) @ axes.T, numbers.normal(size=d)
    best = float(0.5 * b @ np.linalg.solve(H, b))
    theta = {"H": jnp.asarray((H + H.T) / 2), "b": jnp.asarray(b)}
    problem = rsgda.Problem(dense_loss)
    return Case(f"quadratic, d = {d}", problem, theta, jnp.zeros(d), 1.0, 1 / kappa, best)  # type: ignore[arg-type]


@functools.partial(jax.jit, static_argnums=0)
def plain(loss: Callable[..., Array], theta: Any, v: Array, L: Array, mu: Array) -> Any:
    """Ascend by steps of 1/L until |grad|^2 / (2 mu) is at most TOL; return v and the count."""
    slope = jax.grad(loss, argnums=1)

    def unfinished(at: tuple[Array, Array, Array]) -> Array:
        _, g, count = at
        return (g @ g > 2 * mu * TOL) & (count < MOST)

    def step(at: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        v, g, count = at
        v = v + g / L
        return v, slope(theta, v), count + 1

    return lax.while_loop(unfinished, step, (v, slope(theta, v), jnp.int32(1)))


def compare(case: Case, kappa: float) -> timing.Line:
    found = rsgda.phi(case.problem, case.theta, case.v, tol=TOL)
    slack = 1e-12 * abs(case.phi)
    if not found.value - slack <= case.phi <= found.value + found.gap + slack:
        raise AssertionError(f"{case.name}: phi is {case.phi}, not as in {found}")
    if not (found.certified and found.gap <= TOL):
        raise AssertionError(f"{case.name}: no certified gap of {TOL}: {found}")
    ours = found.gradients + found.values + 2 * found.products
    v, _, count = plain(case.problem.loss, case.theta, case.v, case.L, case.mu)
    if case.phi - float(case.problem.loss(case.theta, v)) > TOL + slack:
        raise AssertionError(f"{case.name}: plain ascent did not arrive")
    asked = {"most": 0.5} if kappa >= 1000 else {}
    note = (
        f"{ours} ({found.gradients} gradients, {found.values} values, {found.products} products)"
        f" against {int(count)}"
    )
    return timing.line(
        f"phi, {case.name}, κ = {kappa:g}", [ours / int(count)],
        against="plain ascent", note=note, **asked,
    )  # fmt: skip


def phi(kappas: tuple[float, ...]) -> Iterator[timing.Line]:
    """All cases at each condition number."""
    jax.config.update("jax_enable_x64", True)
    for kappa in kappas:
        cases = [toy(kinds, kappa) for kinds in ("A", "AB", "ABC", "ABC" * 100)]
        for case in [*cases, dense(200, kappa)]:
            yield compare(case, kappa)


CONTESTS = {"phi": Contest(phi)}


if __name__ == "__main__":
    sys.exit(suite.main(__doc__, CONTESTS, full=(10.0, 100.0, 1000.0), quick=(10.0,)))
