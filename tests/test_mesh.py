"""A run over several devices: the same as on one, and each device has its part only."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import on_devices
import pytest
from jax.sharding import Mesh

import rsgda
from rsgda.drive import door
from rsgda.testing import trees_equal

FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
FEW = (
    "shared rsgda", "shared sgdmax", "rows rsgda-often", "rows-placed rsgda",
    "rows-projected esgda", "sampled sgda", "prepared rsgda", "restarted rsgda",
    "matching sinkhorn", "wrm rsgda",
)  # fmt: skip
KEY = jr.key(0)


@functools.cache
def told(count, *names):
    flags = f"--xla_force_host_platform_device_count={count} {FAST}"
    script = Path(on_devices.__file__)
    done = subprocess.run(
        [sys.executable, str(script), str(count), *names], capture_output=True, text=True,
        check=False, timeout=900, env={**os.environ, "XLA_FLAGS": flags},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(differences):
    for name, difference in differences.items():
        network = name.startswith(("matching", "wrm"))
        assert difference <= (1e-9 if network else 1e-12), name


def test_four_devices_find_what_one_finds():
    found = told(4, *FEW)
    assert set(found) == set(FEW)
    check(found)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4, 8])
def test_all_algorithms_on_all_problems(count):
    found = told(count)
    assert len(found) == len(on_devices.cases())
    check(found)


@pytest.mark.parametrize("count", [2, 8])
def test_devices_send_a_minibatch_at_most(count):
    """No device sees all rows, nothing goes through the host, nothing grows with n."""
    found = told(count, "--program")
    assert found["host"] == []
    assert found["batch"]  # each computes the gradient of its part of the minibatch
    assert found["largest"] <= on_devices.LARGE // count * on_devices.WIDE
    kinds = {kind for kind, _ in found["sent"]}
    assert kinds >= {"all-reduce"}
    assert max(size for _, size in found["sent"]) <= on_devices.BATCH * on_devices.WIDE


def test_one_device_is_a_mesh_too():
    mesh = jax.make_mesh((1,), ("rows",))
    problem, theta, v = on_devices.problems()["rows"]
    algorithm = on_devices.ALGORITHMS["rsgda"]
    one, other = (
        rsgda.solve(problem, algorithm, theta, v, key=KEY, steps=20, mesh=each)
        for each in (None, mesh)
    )
    assert trees_equal(one.state, other.state)


def test_within_a_mesh_that_is_set():
    """The arrays of the start are typed by it, and those of the end are free."""
    mesh = jax.make_mesh((1,), ("rows",))
    algorithm = on_devices.ALGORITHMS["rsgda"]
    problem, theta, v = on_devices.problems()["rows"]
    one = rsgda.solve(problem, algorithm, theta, v, key=KEY, steps=20)
    with jax.set_mesh(mesh):
        problem, theta, v = on_devices.problems()["rows"]
        assert jax.typeof(v["z"]).sharding.mesh == mesh.abstract_mesh
        for each in (None, mesh):
            other = rsgda.solve(problem, algorithm, theta, v, key=KEY, steps=20, mesh=each)
            assert trees_equal(one.state, other.state)
        assert jax.sharding.get_mesh() == mesh


@pytest.mark.parametrize("mesh", [3, "rows", [0, 1], KEY])
def test_what_is_no_mesh(mesh):
    problem, theta, v = on_devices.problems()["rows"]
    with pytest.raises(ValueError, match=r"`mesh` must be a jax\.sharding\.Mesh"):
        rsgda.solve(problem, on_devices.ALGORITHMS["rsgda"], theta, v, key=KEY, steps=1, mesh=mesh)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"batch_size": 6}, "`batch_size` must be a multiple of the 4 devices"),
        ({"batch_size": 8, "separable": True}, "number of rows of a separable problem must be a"),
    ],
)
def test_rows_that_cannot_be_shared_out(options, wrong):
    # The same device four times: no program could run on it, and none is made.
    mesh = Mesh(np.array(jax.devices()[:1] * 4), ("rows",))
    x = jnp.ones((10, 3))
    problem = rsgda.Problem(on_devices.rows_loss, data=(x, x[:, 0]), **options)
    with pytest.raises(ValueError, match=wrong):
        door.check_mesh(mesh, problem, None)
