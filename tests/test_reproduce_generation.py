"""Generated digits: the rival's loss, what is run, judged and drawn."""

import json

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import ot
import pytest

import rsgda
from rsgda.reproduce import generation
from rsgda.reproduce.generation_cells import Cells, Curve, best_of, plan
from rsgda.reproduce.generation_setting import Cell, Method, Scale, generator, load
from rsgda.reproduce.minibatch_sinkhorn import Descents, Loss, Pairs
from rsgda.reproduce.outcome import FAILS, HOLDS, OPEN

NUMBERS = {"rsgda": (0.5, 1.0), "sinkhorn": (1,), "minibatch": (3,)}
TINY = Scale("digits", 40, 12, 3, 20, (1e-3, 1e-2), NUMBERS, 2)
METHODS = [Method("rsgda", 1.0), Method("sinkhorn", 1), Method("minibatch", 5)]


def quiet(done, what):
    del done, what


def curve(method, ends, *, seed=0, width=1e-3, alpha=1e-3):
    """A run that goes straight from 10 to its end in 100 steps."""
    steps = np.linspace(0, 100, 6)
    low = 10 + (ends - 10) * steps / 100 + 1e-3 * seed
    looks = {"steps": steps, "gradients": method.cost * steps, "low": low, "high": low + width}
    return Curve(Cell(method, alpha, seed), "FINISHED", looks, 1.0)


@pytest.mark.slow
def test_the_rivals_loss_is_transport_between_minibatches():
    rng = np.random.default_rng(0)
    y, z = rng.random((9, 6)), rng.normal(size=(9, 8))
    net = jax.tree.map(
        lambda leaf: leaf.astype(float) if isinstance(leaf, jax.Array) else leaf, generator(6, 0)
    )
    made = np.asarray(jax.vmap(net)(jnp.asarray(z)))
    costs = ((made[:, None] - y[None]) ** 2).sum(2)
    loss = Loss(jnp.asarray(0.2), 500)
    value = loss(net, jnp.zeros(1), (jnp.asarray(z), jnp.asarray(y)))
    a = np.full(9, 1 / 9)
    plan_ = ot.sinkhorn(a, a, costs, 0.2, method="sinkhorn_log", numItermax=10_000, stopThr=1e-12)
    exact = np.sum(plan_ * costs) + 0.2 * np.sum(plan_ * np.log(plan_ * 81))
    assert value == pytest.approx(exact, rel=1e-8)
    # The gradient in what is made: each point is drawn to where the plan sends it.
    slope = jax.grad(lambda made: loss(lambda row: row, jnp.zeros(1), (made, jnp.asarray(y))))(
        jnp.asarray(made)
    )
    np.testing.assert_allclose(slope, 2 * (made / 9 - plan_ @ y), atol=1e-6)


def test_pairs_are_drawn_from_all_images():
    images = jnp.arange(7.0)[:, None]
    drawn = [Pairs(images, 50)(jr.key(k)) for k in range(4)]
    assert drawn[0][0].shape == (50, 8)
    assert {float(v) for _, y in drawn for v in y[:, 0]} == set(range(7))


def test_descents_descend_only():
    problem = rsgda.Problem(lambda theta, v: theta**2 + 0 * v)
    result = rsgda.solve(
        problem, Descents(alpha=0.25), jnp.ones(()), jnp.zeros(()), key=jr.key(0), steps=3
    )
    assert float(result.theta) == 0.125
    assert (result.history["descents"][-1], result.history["ascents"][-1]) == (3, 0)


@pytest.mark.parametrize(
    ("ends", "verdicts"),
    [
        ((2.0, 3.0, 4.0), (HOLDS, HOLDS, HOLDS, HOLDS)),
        # The rival has six gradients a step: at equal gradients it has hardly begun.
        ((3.0, 2.0, 2.0), (HOLDS, FAILS, HOLDS, FAILS)),
        ((3.0, 3.0, 3.0), (HOLDS, OPEN, HOLDS, OPEN)),
        ((11.0, 12.0, 9.0), (FAILS, HOLDS, FAILS, FAILS)),
    ],
)
def test_claims(ends, verdicts):
    curves = [
        curve(method, end, seed=seed)
        for method, end in zip(METHODS, ends, strict=True)
        for seed in range(3)
    ]
    # Learning with Sinkhorn stops at as many gradients; here it has 100 steps of two.
    for each in curves:
        if each.cell.method.kind == "sinkhorn":
            each.looks["gradients"] = each.looks["steps"]
    found = generation.findings(curves, 100)
    assert tuple(finding.verdict for finding in found) == verdicts


def test_what_is_run():
    for scale in generation.SCALES.values():
        for method in scale.methods:
            steps, every = plan(scale, Cell(method, 1e-3, 0))
            assert steps % every == 0
            assert steps // every >= scale.looks
            if method.kind == "minibatch":
                # A look where it has spent what RSGDA spends.
                assert (scale.gradients // method.cost) % every == 0
                assert steps == scale.gradients
            else:
                assert steps * method.cost == scale.gradients
    assert (
        best_of([curve(METHODS[0], 3.0, alpha=0.1), curve(METHODS[0], 2.0)], "rsgda").alpha == 1e-3
    )


@pytest.mark.slow
def test_cells_are_run_once_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setitem(generation.SCALES, "quick", TINY)
    first = generation.run("quick", quiet, tmp_path)
    assert len(list(tmp_path.iterdir())) == 4 * 2 + 3 * 2
    monkeypatch.setattr(
        "rsgda.reproduce.generation_cells.solve", lambda *_, **__: pytest.fail("it ran")
    )
    again = generation.run("quick", quiet, tmp_path)
    assert first.files == again.files
    assert first.files["generation.png"].startswith(b"\x89PNG")
    json.dumps(first.settings)
    # What is evaluated is how far held-out images are from what the network makes.
    images = load(TINY)
    cells = Cells(TINY, images, None)
    net = generator(64, 0)
    found = cells.evaluated(net)
    made = np.asarray(jax.vmap(net)(cells.noise), float)

    def w(x, y):
        costs = ((x[:, None] - y[None]) ** 2).sum(2)
        a, b = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
        p = ot.sinkhorn(a, b, costs, 0.5, method="sinkhorn_log", numItermax=100_000, stopThr=1e-8)
        return np.sum(p * costs) + 0.5 * np.sum(p * np.log(np.maximum(p, 1e-300) * len(x) * len(y)))

    held = images.held_out.astype(float)
    exact = w(made, held) - w(made, made) / 2 - w(held, held) / 2
    assert found["low"] - 1e-4 <= exact <= found["high"] + 1e-4
