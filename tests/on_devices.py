"""The same runs on one device and on several: a program, as devices are chosen at the start.

    python on_devices.py DEVICES [NAME ...]
    python on_devices.py DEVICES --program

It prints one line of JSON: by how much each case differs, relative to its size; or, of the program
of a large problem, what its devices hold and what they send to each other.
"""

import dataclasses
import functools
import importlib
import json
import math
import os
import re
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec

import rsgda
from rsgda import projections, robust, transport
from rsgda._trees import freeze_numbers
from rsgda.moves import over

solve_module = importlib.import_module("rsgda.drive.solve")

KEY, STEPS = jr.key(3), 200
RATES = {"alpha": 0.05, "eta": 0.05}
ALGORITHMS = {
    "rsgda": rsgda.RSGDA(p=0.3, **RATES),
    "rsgda-often": rsgda.RSGDA(p=0.8, alpha=optax.adam(0.01), eta=optax.sgd(0.05, momentum=0.5)),
    "sgda": rsgda.SGDA(alpha=lambda k: 0.05 / jnp.sqrt(1.0 + k), eta=optax.adam(0.01)),
    "esgda": rsgda.ESGDA(m=3, **RATES),
    # mu so small that every step takes all of its ascents.
    "sgdmax": rsgda.SGDmax(delta=1e-9, max_ascents=4, mu=1e-6, **RATES),
    "tiada": rsgda.TiAda(alpha=0.2, eta=0.2),
    "extragradient": rsgda.Extragradient(**RATES),
    "optimistic": rsgda.Optimistic(**RATES),
}
AT_ONCE = ("tiada", "optimistic")  # which refuse a v that starts again


def shared_loss(theta, v, batch):
    """One v for all rows."""
    x, y = batch
    errors = jnp.tanh((x + v["shift"]) @ theta["w"]) + theta["b"] - y
    return jnp.mean(errors**2) - 2 * jnp.sum(v["shift"] ** 2)


def rows_loss(theta, v, batch):
    """One row of v for each row of data."""
    x, y = batch
    errors = jnp.tanh(v["z"] @ theta["w"]) + theta["b"] - y
    return jnp.mean(errors**2 - 1.5 * jnp.sum((v["z"] - x) ** 2, axis=1))


def masked_loss(theta, v, batch):
    """Rows with a truth each."""
    x, y, counts = batch
    return jnp.where(counts, 1.0, 0.5).mean() * rows_loss(theta, v, (x, y))


def drawn(key):
    """A sampler's batch."""
    x = jr.normal(key, (16, 3))
    return x, jnp.sin(x[:, 0])


def exact_loss(theta, v):
    """Nothing to share out."""
    return jnp.sum(1 - jnp.cos(theta["w"])) + theta["b"] ** 2 + theta["w"] @ v - v @ v


def squared(theta):
    """A value that ascents need not compute again."""
    return jax.tree.map(lambda leaf: leaf * jnp.abs(leaf), theta)


def beginning(batch):
    """Where v starts at each minibatch."""
    return {"shift": jnp.mean(batch[0], axis=0)}


def problems():
    """Return problems with their starts; rows that 8 does not divide, too."""
    x, y = drawn(jr.key(1))
    x = jr.normal(jr.key(2), (61, 3))
    y = jnp.sin(x[:, 0]) + 0.3
    theta = {"w": jnp.array([0.4, -0.2, 0.3]), "b": jnp.zeros(())}
    v, rows = {"shift": jnp.zeros(3)}, {"z": x[:56] / 2}
    data = {"data": (x, y), "batch_size": 16}
    by_rows = {"data": (x[:56], y[:56]), "batch_size": 16, "separable": True}
    ball, balls = projections.ball(0.2), projections.ball(0.9, rows=True)
    outside = projections.ball(0.5)
    return {
        "shared": (rsgda.Problem(shared_loss, **data), theta, v),
        "rows": (rsgda.Problem(rows_loss, **by_rows), theta, rows),
        "rows-masked": (
            rsgda.Problem(masked_loss, **by_rows | {"data": (x[:56], y[:56], x[:56, 1] > 0)}),
            theta, rows,
        ),
        "rows-projected": (
            rsgda.Problem(rows_loss, **by_rows, project_v=balls), theta, balls(rows),
        ),
        "projected": (
            rsgda.Problem(shared_loss, **data, project_v=ball, project_theta=outside),
            outside(theta), v,
        ),
        "sampled": (rsgda.Problem(shared_loss, sample=drawn), theta, v),
        "prepared": (rsgda.Problem(shared_loss, **data, prepare=squared), theta, v),
        "restarted": (rsgda.Problem(shared_loss, **data, restart=beginning), theta, v),
        "exact": (rsgda.Problem(exact_loss), theta, jnp.zeros(3)),
    }  # fmt: skip


def placed(problem, theta, v):
    """Return a problem with rows that a user has shared out already."""
    mesh = jax.make_mesh((jax.device_count(),), ("rows",))
    by_rows, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (["rows"], []))
    problem = dataclasses.replace(problem, data=jax.device_put(problem.data, by_rows))
    return problem, jax.device_put(theta, whole), jax.device_put(v, by_rows)


def matched(**options):
    """Return matching with a network, which ascents evaluate once."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(53, 3)), rng.normal(size=(21, 5))
    weights = rng.uniform(0.5, 1.5, size=21)
    network = in_float64(transport.mlp((5, 7, 3), key=jr.key(0)))
    weights = weights / weights.sum()
    return transport.matching(x, y, network, epsilon=0.5, batch_size=16, b=weights, **options)


def adversarial():
    """Return WRM with a network on images' worth of rows."""
    rng = np.random.default_rng(0)
    images, labels = rng.uniform(size=(48, 9)), rng.integers(0, 3, size=48)
    network = in_float64(robust.mlp((9, 6, 3), key=jr.key(0)))
    return robust.wrm(network, images, labels, gamma=1.3, batch_size=16)


def in_float64(tree):
    """Return a network that computes in float64."""
    return jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_array(leaf) else leaf, tree)


def cases():
    """Return what to run, by name, with the tolerance that it has to meet."""
    found = {}
    for name, problem in problems().items():
        for title, algorithm in ALGORITHMS.items():
            if name == "restarted" and title in AT_ONCE:
                continue
            found[f"{name} {title}"] = functools.partial(lambda given: given, problem), algorithm
    found["rows-placed rsgda"] = (
        functools.partial(placed, *problems()["rows-masked"]), ALGORITHMS["rsgda"],
    )  # fmt: skip
    eta = transport.relative(0.5)
    found["matching rsgda"] = matched, rsgda.RSGDA(p=0.4, alpha=optax.adam(0.01), eta=eta)
    found["matching-beta esgda"] = (
        functools.partial(matched, beta=5.0), rsgda.ESGDA(m=2, alpha=0.01, eta=eta),
    )  # fmt: skip
    sinkhorn = transport.SinkhornDescent(m_sin=2, alpha=0.01, warm_start=True)
    found["matching sinkhorn"] = matched, sinkhorn
    found["wrm rsgda"] = adversarial, rsgda.RSGDA(p=0.5, alpha=0.1, eta=2.0)
    found["wrm sgda"] = adversarial, rsgda.SGDA(alpha=optax.adam(0.01), eta=2.0)
    return found


def difference(make, algorithm, mesh):
    """Return how far two runs are apart, in units of their size."""
    problem, theta, v = make()
    ends = [
        rsgda.solve(problem, algorithm, theta, v, key=KEY, steps=STEPS, record=norm, every=50,
                    mesh=each)
        for each in (None, mesh)
    ]  # fmt: skip
    one, other = ((end.theta, end.v, end.history) for end in ends)
    arrays = [jax.tree.leaves(eqx.filter(tree, eqx.is_array)) for tree in (one, other)]
    moved = jax.tree.leaves(eqx.filter((theta, v), eqx.is_array))
    assert any(not np.array_equal(a, b) for a, b in zip(moved, arrays[0], strict=False))
    return max(
        float(np.max(np.abs(np.asarray(a) - np.asarray(b))) / np.max(np.abs(a), initial=1e-300))
        for a, b in zip(*arrays, strict=True)
        if a.size
    )


COLLECTIVE = re.compile(r"= (\(?[^=]*?) (all-[a-z]+|reduce-scatter|collective-[a-z]+)(?:-start)?\(")
SHAPE = re.compile(r"[a-z]+\d*\[([\d,]*)\]")
LARGE, WIDE, BATCH = 4_096, 24, 32


def program(mesh):
    """Return numbers of elements: of what is sent, and of the largest array of a device."""
    x = jr.normal(jr.key(0), (LARGE, WIDE))
    problem = rsgda.Problem(rows_loss, data=(x, x[:, 0]), batch_size=BATCH, separable=True)
    algorithm = rsgda.RSGDA(p=0.3, alpha=0.1, eta=optax.adam(0.1))
    theta, v = {"w": jnp.ones(WIDE), "b": jnp.zeros(())}, {"z": x}
    state = algorithm.init(problem, theta, v, KEY)
    problem = problem.over(mesh)
    frozen = problem.split.place(freeze_numbers(algorithm))
    lowered = solve_module._advance.lower(problem, frozen, over(problem, state), np.int32(9))
    text = lowered.compile().as_text()
    sent = [
        (kind, max(map(size, SHAPE.findall(shapes)))) for shapes, kind in COLLECTIVE.findall(text)
    ]
    calls = set(re.findall(r'custom_call_target="([^"]*)"', text))
    host = [word for word in ("infeed", "outfeed", "send(", "recv(") if word in text]
    return {
        "sent": sent,
        "largest": max(map(size, SHAPE.findall(text))),
        "host": host + [call for call in calls if "callback" in call],
        "batch": f"f64[{BATCH // mesh.size},{WIDE}]" in text,
    }


def size(shape):
    """Return how many elements an array of a shape has."""
    return math.prod(int(number) for number in shape.split(",") if number)


def norm(problem, state):
    """A record that looks at the problem's own data and at both players."""
    leaves = jax.tree.leaves(eqx.filter((state.theta, state.v), eqx.is_array))
    total = sum(jnp.sum(leaf**2) for leaf in leaves)
    rows = problem.data if problem.data is not None else ()
    floats = [leaf for leaf in jax.tree.leaves(rows) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return {"size": total, "data": sum((jnp.mean(leaf) for leaf in floats), jnp.zeros(()))}


def main():
    count, names = int(sys.argv[1]), sys.argv[2:]
    devices = jax.devices()
    assert len(devices) == count, devices
    # Two axes, if there can be: rows are shared out among all devices all the same.
    shape = (2, count // 2) if count > 2 else (count,)
    mesh = jax.make_mesh(shape, ("hosts", "rows")[: len(shape)])
    if names == ["--program"]:
        print(json.dumps(program(mesh)))
        return
    chosen = {name: case for name, case in cases().items() if not names or name in names}
    print(json.dumps({name: difference(*case, mesh) for name, case in chosen.items()}))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", "")
    main()
