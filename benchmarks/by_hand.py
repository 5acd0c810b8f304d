"""The rivals: RSGDA as one would write it by hand for one problem, in JAX and in PyTorch."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array, lax

import rsgda

TOY = rsgda.problems.Toy(kinds="ABCABCABCA", s=0.1, t=0.1)
P, ALPHA, ETA = 0.25, 0.02, 0.2
ALGORITHM = rsgda.RSGDA(p=P, alpha=ALPHA, eta=ETA)
KEY = jr.key(0)


@functools.partial(jax.jit, static_argnames="steps")
def toy_by_hand(theta: Array, v: Array, key: Array, p: Any, alpha: Any, eta: Any, *, steps: int):
    """RSGDA as one would write it for this problem alone, with the library's coins and samples."""

    def step(carry: tuple[Array, Array, Array], _: None):
        theta, v, k = carry
        key_coin, key_batch = jr.split(jr.fold_in(key, k))

        def descend():
            slope = jax.grad(TOY.sample_loss)(theta, v, TOY.sample(key_batch))
            return theta - alpha * slope, v

        def ascend():
            slope = jax.grad(TOY.sample_loss, argnums=1)(theta, v, TOY.sample(key_batch))
            return theta, v + eta * slope

        return (*lax.cond(jr.bernoulli(key_coin, p), descend, ascend), k + 1), None

    return lax.scan(step, (theta, v, jnp.int32(0)), length=steps)[0][:2]


def toy_by_torch(steps: int) -> Callable[[], Any]:
    """RSGDA as one would write it in PyTorch."""
    import torch

    torch.set_num_threads(1)
    slope = torch_slope(torch)
    theta0, v0 = (torch.tensor(np.asarray(start)) for start in TOY.start("float32"))

    def sign(generator: Any) -> Any:
        return 2.0 * torch.randint(0, 2, (TOY.d,), generator=generator) - 1.0

    def run() -> Any:
        generator = torch.Generator().manual_seed(0)
        theta = theta0.clone().requires_grad_()
        v = v0.clone().requires_grad_()
        for _ in range(steps):
            xi, zeta = sign(generator), sign(generator)
            if torch.rand((), generator=generator) < P:
                (gradient,) = slope(theta, v, xi, zeta, theta)
                with torch.no_grad():
                    theta.sub_(gradient, alpha=ALPHA)
            else:
                (gradient,) = slope(theta, v, xi, zeta, v)
                with torch.no_grad():
                    v.add_(gradient, alpha=ETA)
        return theta

    return run


def torch_slope(torch: Any) -> Callable[..., Any]:
    """The gradient of the toy's sample loss for one player, by autograd; checked against JAX."""
    table = TOY._table
    b, m, wave = (torch.tensor(c, dtype=torch.float32) for c in (table.b, table.m, table.wave))

    def slope(theta: Any, v: Any, xi: Any, zeta: Any, player: Any) -> Any:
        value = (wave * (1 - torch.cos(theta)) + b * theta * v - 0.5 * m * v * v).sum()
        loss = value + TOY.s * (xi @ theta) + TOY.t * (zeta @ v)
        return torch.autograd.grad(loss, player)

    batch = TOY.sample(KEY)
    theta, v = np.linspace(-2, 2, TOY.d, dtype="f"), np.linspace(1, 3, TOY.d, dtype="f")
    signs = [torch.tensor(np.asarray(part[0], "f")) for part in batch[:2]]
    players = [torch.tensor(player, requires_grad=True) for player in (theta, v)]
    for i, player in enumerate(players):
        ours = jax.grad(TOY.sample_loss, argnums=i)(jnp.asarray(theta), jnp.asarray(v), batch)
        close("gradient of PyTorch and of JAX", slope(*players, *signs, player)[0], ours)
    return slope


GAMMA, BATCH, COLUMNS, CLASSES = 1.3, 128, 784, 10
ROBUST = rsgda.RSGDA(p=0.25, alpha=0.01, eta=0.1)


def robust_loss(theta: dict[str, Array], v: Array, batch: tuple[Array, Array]) -> Array:
    """Cross-entropy of a linear model, minus what moving a row costs."""
    x, label = batch
    logits = v @ theta["weight"] + theta["bias"]
    entropy = jax.nn.logsumexp(logits, axis=1) - jnp.take_along_axis(
        logits, label[:, None], axis=1
    ).squeeze(1)
    return jnp.mean(entropy - GAMMA * jnp.sum(jnp.square(v - x), axis=1))


def robust_data(rows: int) -> tuple[Array, Array]:
    numbers = np.random.default_rng(0)
    x = numbers.random((rows, COLUMNS), dtype=np.float32)
    return jnp.asarray(x), jnp.asarray(numbers.integers(0, CLASSES, rows, dtype=np.int32))


def robust_start() -> dict[str, Array]:
    return {"weight": jnp.zeros((COLUMNS, CLASSES)), "bias": jnp.zeros(CLASSES)}


@functools.partial(jax.jit, static_argnames="steps", donate_argnames="v")
def robust_by_hand(
    data: tuple[Array, Array], theta: Any, v: Array, key: Array, p: Any, alpha: Any, eta: Any, *,
    steps: int,
):  # fmt: skip
    """RSGDA in place: the branches return rows, which are added outside of them."""
    n = v.shape[0]

    def step(carry: Any, _: None):
        theta, v, k = carry
        key_coin, key_batch = jr.split(jr.fold_in(key, k))

        def draw():
            places = jr.randint(key_batch, (BATCH,), 0, n)
            return places, v[places], (data[0][places], data[1][places])

        def descend():
            _, rows, batch = draw()
            slope = jax.grad(robust_loss)(theta, rows, batch)
            moved = jax.tree.map(lambda leaf, g: leaf - alpha * g, theta, slope)
            return moved, jnp.zeros_like(rows), jnp.full((BATCH,), n)

        def ascend():
            places, rows, batch = draw()
            return theta, eta * jax.grad(robust_loss, argnums=1)(theta, rows, batch), places

        theta, moves, places = lax.cond(jr.bernoulli(key_coin, p), descend, ascend)
        return (theta, v.at[places].add(moves, mode="drop"), k + 1), None

    return lax.scan(step, (theta, v, jnp.int32(0)), length=steps)[0][:2]


def same(what: str, left: Any, right: Any) -> None:
    """Stop if two contestants did not do the same work."""
    if not np.array_equal(left, right):
        raise SystemExit(f"{what} differ: {left} and {right}")


def close(what: str, left: Any, right: Any) -> None:
    """Stop if two contestants did not do the same work, up to rounding."""
    if not np.allclose(left, right, rtol=1e-3, atol=1e-4):
        raise SystemExit(f"{what} differ by {np.max(np.abs(np.asarray(left) - np.asarray(right)))}")
