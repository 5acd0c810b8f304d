"""Wrong input is refused at the door, with a message that names the argument and what came."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import rsgda

KEY = jr.key(0)
THETA, V = jnp.ones(3), jnp.zeros(3)


def loss(theta, v):
    return theta @ v - v @ v + jnp.sum(jnp.cos(theta))


def batch_loss(theta, v, batch):
    return jnp.mean(batch @ theta) - jnp.sum(v**2)


def solve(problem=None, algorithm=None, theta=THETA, v=V, **options):
    options = {"key": KEY, "steps": 10} | options
    algorithm = algorithm or rsgda.RSGDA(p=0.5, alpha=0.1, eta=0.1)
    return rsgda.solve(problem or rsgda.Problem(loss), algorithm, theta, v, **options)


def rsgda_with(**numbers):
    return rsgda.RSGDA(**({"p": 0.5, "alpha": 0.1, "eta": 0.1} | numbers))


def problem_with(**options):
    return rsgda.Problem(batch_loss, **({"data": np.ones((5, 3)), "batch_size": 2} | options))


CASES = {
    "p zero": (lambda: rsgda_with(p=0.0), "`p` must lie in (0, 1)", "0.0"),
    "p one": (lambda: rsgda_with(p=1), "`p` must lie in (0, 1)", "1"),
    "p above": (lambda: rsgda_with(p=1.5), "`p` must lie in (0, 1)", "1.5"),
    "p nan": (lambda: rsgda_with(p=float("nan")), "`p` must lie in (0, 1)", "nan"),
    "p text": (lambda: rsgda_with(p="half"), "`p` must be a number", "'half'"),
    "alpha negative": (lambda: rsgda_with(alpha=-0.1), "`alpha` must be a positive", "-0.1"),
    "alpha zero": (lambda: rsgda_with(alpha=0.0), "`alpha` must be a positive", "0.0"),
    "alpha nan": (lambda: rsgda_with(alpha=float("nan")), "`alpha` must be a positive", "nan"),
    "alpha array": (lambda: rsgda_with(alpha=jnp.asarray(-1.0)), "`alpha` must be a pos", "-1."),
    "alpha missing": (lambda: rsgda_with(alpha=None), "`alpha` must be a positive", "None"),
    "eta negative": (lambda: rsgda.SGDA(alpha=0.1, eta=-1), "`eta` must be a positive", "-1"),
    "eta infinite": (lambda: rsgda_with(eta=float("inf")), "`eta` must be a positive", "inf"),
    "eta text": (lambda: rsgda_with(eta="big"), "`eta` must be a positive number, a", "'big'"),
    "alpha complex": (lambda: rsgda_with(alpha=1j), "`alpha` must be a positive", "1j"),
    "alpha tuple": (lambda: rsgda_with(alpha=(0.1, 0.2)), "`alpha` must be a pos", "(0.1, 0.2)"),
    "alpha vector": (
        lambda: solve(algorithm=rsgda_with(alpha=jnp.array([0.1, 0.2]))),
        "`alpha` must be a single number",
        "[0.1, 0.2]",
    ),
    "delta text": (lambda: rsgda.SGDmax(delta="a", alpha=1, eta=1), "`delta` must be a", "'a'"),
    "m large": (lambda: rsgda.ESGDA(m=2**31, alpha=1, eta=1), "`m` must be below 2**31", "21474"),
    "schedule branches": (
        lambda: solve(algorithm=rsgda_with(alpha=lambda k: 0.1 if k < 3 else 0.01)),
        "`alpha` as a schedule must be a function of the step k",
        "TracerBoolConversionError",
    ),
    "separable text": (lambda: problem_with(separable="no"), "`separable` must be True", "'no'"),
    "loss of one": (
        lambda: solve(rsgda.Problem(lambda theta: jnp.sum(theta))),
        "`loss` must be a function of JAX arrays that is called as loss(theta, v)",
        "positional argument",
    ),
    "loss with aux": (
        lambda: solve(rsgda.Problem(lambda theta, v: (jnp.sum(theta), v))),
        "`loss` must return a floating scalar",
        "(",
    ),
    "a number among arrays": (
        lambda: solve(theta={"w": THETA, "o": 0.0}),
        "`theta`['o'] must be an array to be moved",
        "0.0",
    ),
    "no list": (
        lambda: rsgda.sweep(
            rsgda.Problem(loss), rsgda_with(), THETA, V, keys=jr.split(KEY, 2), steps=1
        ),
        "`algorithms` must be a list",
        "RSGDA(",
    ),
    "m zero": (lambda: rsgda.ESGDA(m=0, alpha=1, eta=1), "`m` must be a whole number", "0"),
    "m half": (lambda: rsgda.ESGDA(m=1.5, alpha=1, eta=1), "`m` must be a whole number", "1.5"),
    "delta": (lambda: rsgda.SGDmax(delta=0, alpha=1, eta=1), "`delta` must be a positive", "0"),
    "mu": (lambda: rsgda.SGDmax(delta=1, alpha=1, eta=1, mu=-1), "`mu` must be a positive", "-1"),
    "max_ascents": (
        lambda: rsgda.SGDmax(delta=1, alpha=1, eta=1, max_ascents=0),
        "`max_ascents` must be a whole number, at least 1",
        "0",
    ),
    "tiada optax": (
        lambda: rsgda.TiAda(alpha=optax_sgd()),
        "`alpha` must be a positive number or a schedule `k -> value`, which TiAda divides",
        "optax(",
    ),
    "tiada powers": (
        lambda: rsgda.TiAda(power_theta=0.3),
        "`power_theta` must be above `power_v`, which is 0.4",
        "0.3",
    ),
    "tiada power": (lambda: rsgda.TiAda(power_v=0), "`power_v` must lie in (0, 1)", "0"),
    "extragradient": (lambda: rsgda.Extragradient(alpha=0, eta=1), "`alpha` must be a pos", "0"),
    "optimistic": (lambda: rsgda.Optimistic(alpha=1, eta=None), "`eta` must be a pos", "None"),
    "schedule shape": (
        lambda: solve(algorithm=rsgda_with(alpha=lambda k: jnp.ones(2))),
        "`alpha` as a schedule must return a finite scalar",
        "[1. 1.]",
    ),
    "schedule nan": (
        lambda: solve(algorithm=rsgda_with(eta=lambda k: jnp.nan)),
        "`eta` as a schedule must return a finite scalar",
        "nan",
    ),
    "leading axes": (
        lambda: problem_with(data=(np.ones((5, 3)), np.ones(4))),
        "`data` must have one number of rows",
        "4",
    ),
    "data scalar": (lambda: problem_with(data=3.0), "`data` must hold arrays", "3.0"),
    "data without rows": (lambda: problem_with(data=np.ones(())), "leading axis", "a scalar"),
    "batch too large": (
        lambda: problem_with(batch_size=6),
        "`batch_size` must be at most the 5 rows",
        "6",
    ),
    "batch not whole": (
        lambda: problem_with(batch_size=2.0),
        "`batch_size` must be a whole number",
        "2.0",
    ),
    "batch zero": (lambda: problem_with(batch_size=0), "`batch_size` must be a whole", "0"),
    "batch missing": (lambda: problem_with(batch_size=None), "`batch_size` must be a", "None"),
    "batch without data": (lambda: rsgda.Problem(loss, batch_size=3), "`batch_size` needs", "None"),
    "separable without data": (
        lambda: rsgda.Problem(loss, separable=True),
        "`separable` needs `data`",
        "None",
    ),
    "two sources": (
        lambda: problem_with(sample=lambda key: key),
        "`data` and `sample` are two sources",
        "one of them",
    ),
    "loss no function": (lambda: rsgda.Problem(3), "`loss` must be a function", "3"),
    "unhashable": (
        lambda: rsgda.Problem(loss, project_v=Unhashable()),
        "`project_v` must be hashable",
        "Unhashable",
    ),
    "separable rows": (
        lambda: solve(problem_with(separable=True)),
        "`v` must have one row for each of the 5 rows",
        "(3,)",
    ),
    "not scalar": (
        lambda: solve(rsgda.Problem(lambda theta, v: theta * v)),
        "`loss` must return a floating scalar",
        "(3,)",
    ),
    "not finite": (
        lambda: solve(rsgda.Problem(lambda theta, v: jnp.log(-jnp.sum(theta)) + jnp.sum(v))),
        "`loss` must be finite at the start",
        "nan",
    ),
    "start not finite": (lambda: solve(theta=jnp.array([1.0, jnp.nan, 1.0])), "`theta`", "NaN"),
    "v outside": (
        lambda: solve(rsgda.Problem(loss, project_v=rsgda.projections.ball(0.5)), v=jnp.ones(3)),
        "`v` must start inside the set of `project_v`",
        "differs by",
    ),
    "theta outside": (
        lambda: solve(rsgda.Problem(loss, project_theta=rsgda.projections.box(-0.5, 0.5))),
        "`theta` must start inside the set of `project_theta`",
        "differs by",
    ),
    "projection mixes rows": (
        lambda: solve(
            problem_with(separable=True, project_v=rsgda.projections.ball(1.0)),
            v=jnp.zeros((5, 3)),
        ),
        "`project_v` must treat each row by itself",
        "rows=True",
    ),
    "projection to nowhere": (
        lambda: solve(
            rsgda.Problem(lambda theta, v: jnp.sum(theta) - v @ v, project_v=to_nowhere),
            v=jnp.zeros(20_000),
        ),
        "`v` must start inside the set of `project_v`",
        "nan",
    ),
    "projection changes shape": (
        lambda: solve(rsgda.Problem(loss, project_v=lambda v: v[:2])),
        "`project_v` must return the structure, shapes and dtypes",
        "(2,)",
    ),
    "integers": (
        lambda: solve(theta=jnp.ones(3, int)),
        "`theta` must be a floating array",
        "int64",
    ),
    "integers within": (
        lambda: solve(v={"a": V, "b": np.ones(2, int)}),
        "`v`['b'] must be a floating array",
        "int64",
    ),
    "no arrays": (lambda: solve(theta=1.0), "`theta` must hold at least one floating array", "1.0"),
    "old key": (lambda: solve(key=jr.PRNGKey(0)), "`key` must be a key of the new style", "uint32"),
    "seed as key": (lambda: solve(key=0), "`key` must be a key of the new style", "int 0"),
    "many keys": (lambda: solve(key=jr.split(KEY, 3)), "`key` must be a single key", "(3,)"),
    "steps": (lambda: solve(steps=-1), "`steps` must be a whole number, at least 0", "-1"),
    "steps not whole": (lambda: solve(steps=1e3), "`steps` must be a whole number", "1000.0"),
    "steps too many": (lambda: solve(steps=2**31), "`steps` must be at most", "2147483648"),
    "every": (lambda: solve(every=0), "`every` must be a whole number, at least 1", "0"),
    "record array": (
        lambda: solve(record=lambda problem, state: {"theta": state.theta}),
        "`record` must return a dict of scalars",
        "(3,)",
    ),
    "record text": (
        lambda: solve(record=lambda problem, state: {"a": "b"}),
        "`record` must return a dict of scalars",
        "'a'",
    ),
    "record no dict": (
        lambda: solve(record=lambda problem, state: 3.0),
        "`record` must return a dict of scalars",
        "float",
    ),
    "record name": (
        lambda: solve(record=lambda problem, state: {"step": 1}),
        "`record` must name its values by strings other than",
        "'step'",
    ),
    "record no function": (lambda: solve(record=3), "`record` must be a function", "3"),
    "no problem": (lambda: solve(problem=loss), "`problem` must be an rsgda.Problem", "loss"),
    "class for algorithm": (
        lambda: solve(algorithm=rsgda.RSGDA),
        "`algorithm` must be an object with `init` and `step`",
        "RSGDA",
    ),
    "sweep without algorithms": (
        lambda: rsgda.sweep(rsgda.Problem(loss), [], THETA, V, keys=jr.split(KEY, 2), steps=1),
        "`algorithms` must hold at least one",
        "none",
    ),
    "sweep one key": (
        lambda: rsgda.sweep(rsgda.Problem(loss), [rsgda_with()], THETA, V, keys=KEY, steps=1),
        "`keys` must be a non-empty vector of keys",
        "()",
    ),
    "sgdmax optax projected": (
        lambda: solve(
            rsgda.Problem(loss, project_v=rsgda.projections.ball(1.0)),
            rsgda.SGDmax(delta=0.1, alpha=0.1, eta=optax_sgd()),
        ),
        "`eta` must be a number or a schedule",
        "optax",
    ),
}


def to_nowhere(v):
    return v.at[7].set(jnp.nan)


class Unhashable:
    __hash__ = None  # type: ignore

    def __call__(self, v):
        return v


def optax_sgd():
    import optax

    return optax.sgd(0.1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused(case, monkeypatch):
    """The message has the argument, the wish and what came; nothing has run by then."""
    from rsgda.drive import solve as driver

    def never(*_):
        raise RuntimeError("a step was compiled for input that should have been refused")

    monkeypatch.setattr(driver, "_advance", never)
    call, wish, came = CASES[case]
    with pytest.raises(ValueError, match=r"must|are two|needs") as caught:
        call()
    assert wish in str(caught.value)
    assert came in str(caught.value)


def test_nothing_is_written_for_a_refused_call(tmp_path):
    for bad in ({"every": 0}, {"record": lambda problem, state: 1}, {"key": 3}):
        with pytest.raises(ValueError, match="must"):
            solve(checkpoint=tmp_path / "run", **bad)
    with pytest.raises(ValueError, match="finite"):
        solve(rsgda.Problem(lambda t, v: jnp.sum(t + v) / 0.0), checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
