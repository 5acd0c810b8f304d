"""A GAN on the plane: two small networks, a generator and a critic, learn a ring of eight heaps.

The critic v is high where the data are and low where the generator's points are, at a price on its
slope, without which it would have no best answer. The generator theta moves its points uphill:

    min over theta, max over v of  E v(x) - E v(theta(z)) - 0.3 E |grad v|^2.
"""

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from matplotlib.figure import Figure

import rsgda

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", default="gan_toy.png", help="where the picture goes")
parser.add_argument("--quick", action="store_true", help="a twentieth of the steps")
asked = parser.parse_args()
angles = 2 * jnp.pi * jnp.arange(8) / 8
heaps = 2 * jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)


def sample(key):
    which, around, noise = jax.random.split(key, 3)
    x = heaps[jax.random.randint(which, (256,), 0, 8)] + 0.1 * jax.random.normal(around, (256, 2))
    return x, jax.random.normal(noise, (256, 2))


def loss(theta, v, batch):
    x, made = batch[0], jax.vmap(theta)(batch[1])
    slopes = jax.vmap(jax.grad(v))(jnp.concatenate([x, made]))
    price = 0.3 * jnp.mean(jnp.sum(slopes**2, axis=1))
    return jnp.mean(jax.vmap(v)(x)) - jnp.mean(jax.vmap(v)(made)) - price


of_theta, of_v, of_run, of_test = jax.random.split(jax.random.key(0), 4)
theta = eqx.nn.MLP(2, 2, 64, 2, activation=jax.nn.elu, key=of_theta)
v = eqx.nn.MLP(2, "scalar", 128, 2, activation=jax.nn.elu, key=of_v)
steps = 1_000 if asked.quick else 20_000
alpha = optax.adam(optax.cosine_decay_schedule(2e-3, steps // 2, 0.1), b1=0.5)
eta = optax.adam(optax.cosine_decay_schedule(4e-3, steps // 2, 0.1), b1=0.5)
problem, algorithm = rsgda.Problem(loss, sample=sample), rsgda.RSGDA(p=0.5, alpha=alpha, eta=eta)
result = rsgda.solve(problem, algorithm, theta, v, key=of_run, steps=steps)

x, z = sample(of_test)
panels = Figure(figsize=(8, 4.2), layout="constrained").subplots(1, 2)
for axes, generator, when in zip(panels, (theta, result.theta), ("before", f"{steps:,} steps")):
    made = jax.vmap(generator)(z)
    far = jnp.linalg.norm(made[:, None] - heaps, axis=2)
    print(f"{when}: {jnp.mean(far.min(axis=1) < 0.4):.0%} of the points on a heap")
    axes.plot(*x.T, ".", color="0.7", label="data")
    axes.plot(*made.T, ".", color="#0072B2", label="generated")
    axes.set(title=when, xlim=(-2.8, 2.8), ylim=(-2.8, 2.8), aspect="equal")
panels[0].legend()
panels[0].figure.savefig(asked.out)
