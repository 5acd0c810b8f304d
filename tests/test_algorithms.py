"""Every algorithm passes the contract, with every kind of step."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import optax
import pytest

import rsgda
from rsgda import moves, testing


def decaying(k):
    """Schedule of step sizes, 0.02 / sqrt(k + 1)."""
    return 0.02 / jnp.sqrt(k.astype(float) + 1)


ALGORITHMS = [
    rsgda.RSGDA(p=0.25, alpha=0.02, eta=0.2),
    rsgda.RSGDA(p=0.7, alpha=decaying, eta=optax.adam(0.1)),
    rsgda.SGDA(alpha=0.02, eta=0.2),
    rsgda.SGDA(alpha=optax.sgd(0.02, momentum=0.5), eta=decaying),
    rsgda.ESGDA(m=3, alpha=0.02, eta=0.2),
    rsgda.ESGDA(m=2, alpha=optax.adam(0.02), eta=0.2),
    rsgda.SGDmax(delta=1e-3, alpha=0.02, eta=0.2, max_ascents=40),
    rsgda.SGDmax(delta=1e-3, alpha=0.02, eta=0.2, max_ascents=40, mu=4.0),
    rsgda.TiAda(alpha=0.05, eta=0.3),
    rsgda.Extragradient(alpha=0.02, eta=0.2),
    rsgda.Extragradient(alpha=optax.adam(0.02), eta=decaying),
    rsgda.Optimistic(alpha=0.02, eta=0.2),
    rsgda.Optimistic(alpha=decaying, eta=optax.adam(0.05)),
]
QUICK = [ALGORITHMS[0], ALGORITHMS[6]]
# What is particular to these: two gradients that move nobody, and what rows of v remember.
ALSO = {
    "TiAda": testing.check_counters,
    "Extragradient": testing.check_counters,
    "Optimistic": testing.check_resume,
}


def is_quick(algorithm, check):
    """Say whether it is in the default run: all of two algorithms, and one check of some."""
    also = ALSO.get(type(algorithm).__name__) is check and isinstance(algorithm.eta, float)
    return algorithm in QUICK or also


@pytest.mark.parametrize(
    ("algorithm", "check"),
    [
        pytest.param(
            one, check,
            id=f"{one!r}-{check.__name__}",
            marks=[] if is_quick(one, check) else pytest.mark.slow,
        )
        for one in ALGORITHMS
        for check in testing.CONTRACT
    ],
)  # fmt: skip
def test_contract(algorithm, check):
    check(algorithm)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Broken(rsgda.RSGDA):
    """RSGDA that breaks the contract in one way, so that the checks are checked."""

    breach: str = dataclasses.field(metadata={"static": True})

    def init(self, problem, theta, v, key):
        state = super().init(problem, theta, v, key)
        return state._replace(memory=v) if self.breach == "both gradients" else state

    def step(self, problem, state):
        new, info = super().step(problem, state)
        if self.breach == "counts twice":
            new = new._replace(gradients=new.gradients + 1)
        if self.breach == "forgets the step":
            new = new._replace(step=state.step)
        if self.breach == "ignores the key":
            new, info = super().step(problem, state._replace(key=jr.key(0)))
            new = new._replace(key=state.key)
        if self.breach == "leaves V":
            new = new._replace(v=new.v + 0.1)
        if self.breach == "moves all rows":
            new = new._replace(v=new.v + 1e-3)
        if self.breach == "both gradients":
            batch = problem.draw(state.key)
            _, gradient = problem.slope_v(new.theta, problem.look(new.v, batch), batch)
            new = new._replace(memory=gradient)
        return new, info


@pytest.mark.parametrize(
    ("breach", "check"),
    [
        ("counts twice", testing.check_counters),
        ("counts twice", testing.check_protocol),
        ("forgets the step", testing.check_protocol),
        ("ignores the key", testing.check_determinism),
        ("leaves V", testing.check_projections),
        ("moves all rows", testing.check_separable),
        ("both gradients", testing.check_counters),
    ],
)
def test_contract_catches(breach, check):
    with pytest.raises(testing.ContractError):
        check(Broken(p=0.4, alpha=0.02, eta=0.2, breach=breach))


def test_moves_are_public():
    assert {"start", "descend", "ascend"} <= set(vars(moves))
    assert all(name in vars(rsgda)["__all__"] for name in ("moves", "State", "Info"))


def test_repr_shows_every_number():
    algorithm = rsgda.RSGDA(p=0.25, alpha=optax.adam(0.125), eta=10.0)
    assert "p=0.25" in repr(algorithm)
    assert "0.125" in repr(algorithm)
    assert "eta=10.0" in repr(algorithm)
    assert " at 0x" not in repr(algorithm)
    assert jnp.isclose(algorithm.p, 0.25)
