"""Robust regression: a curve through samples of which some are grossly wrong.

Huber's loss, squared up to c and linear beyond, is a maximum:

    huber(e) = max over |v| <= c of  v e - v^2 / 2.

So each sample has a v, which says how hard it pulls the curve, and none pulls harder than c.
"""

import argparse

import jax
import jax.numpy as jnp
from matplotlib.figure import Figure

import rsgda

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", default="robust_regression.png", help="where the picture goes")
parser.add_argument("--quick", action="store_true", help="a fifth of the steps")
asked = parser.parse_args()


def features(x):
    return jnp.stack([jnp.ones_like(x), x, jnp.sin(2 * x), jnp.cos(2 * x), jnp.sin(4 * x)], axis=1)


def loss(theta, v, batch):
    x, y = batch
    return jnp.mean(v * (y - features(x) @ theta) - v**2 / 2)


of_x, of_noise, of_wrong, of_run = jax.random.split(jax.random.key(0), 4)
x = jax.random.uniform(of_x, (300,), minval=-3, maxval=3)
wrong = jax.random.bernoulli(of_wrong, 0.25, (300,)) & (x > 0)  # the sensor fails now and then
truth = features(x) @ jnp.array([0.0, 0.5, 1.5, 0.0, 0.0])
y = jnp.where(wrong, 8.0, truth) + 0.3 * jax.random.normal(of_noise, (300,))

box = rsgda.projections.box(-0.5, 0.5)
problem = rsgda.Problem(loss, data=(x, y), batch_size=32, separable=True, project_v=box)
# A row of a mean over 32 has the curvature 1/32 in v: eta = 32 goes to the maximum at once.
algorithm = rsgda.RSGDA(p=0.5, alpha=lambda k: 0.5 / (1 + k / 1_000), eta=32.0)
steps = 4_000 if asked.quick else 20_000
result = rsgda.solve(problem, algorithm, jnp.zeros(5), jnp.zeros(300), key=of_run, steps=steps)

order = jnp.argsort(x)
squares = features(x) @ jnp.linalg.lstsq(features(x), y)[0]
axes = Figure(figsize=(8, 4.5), layout="constrained").subplots()
axes.plot(x, y, ".", color="0.6", label=f"samples, {wrong.sum()} of {len(x)} wrong")
axes.plot(x[order], truth[order], "--", color="black", label="the truth")
for name, curve in {"least squares": squares, "RSGDA": features(x) @ result.theta}.items():
    label = f"{name}: {jnp.sqrt(jnp.mean((curve - truth) ** 2)):.2f} from the truth"
    axes.plot(
        x[order], curve[order], color="#0072B2" if name == "RSGDA" else "#D55E00", label=label
    )
    print(label)
axes.legend(loc="upper left", frameon=False)
axes.figure.savefig(asked.out)
