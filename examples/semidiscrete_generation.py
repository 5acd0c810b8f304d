"""Images out of noise: a generator learns the 1,797 digits that come with scikit-learn.

Each digit has a potential v_j: how much the generator's images are drawn to it. Where all of them
are served alike, the images lie as the digits do. Only noise is sampled, and each image is compared
with all digits: the distance is that of optimal transport (Section 5.2 of the paper).
"""

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import rsgda

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", default="semidiscrete_generation.png", help="where the picture goes")
parser.add_argument("--quick", action="store_true", help="a twentieth of the steps")
asked = parser.parse_args()


def noise(key):
    return jax.random.normal(key, (10,), "float32")


class Generator(eqx.Module):
    network: eqx.nn.MLP

    def __call__(self, z):
        return jax.nn.sigmoid(self.network(z))  # grey values lie between 0 and 1


digits = (load_digits().data / 16).astype("float32")
network = eqx.nn.MLP(10, 64, 256, 3, jax.nn.gelu, dtype=jnp.float32, key=jax.random.key(0))
problem, theta, v = rsgda.transport.generation(noise, digits, Generator(network), epsilon=0.5)
steps = 500 if asked.quick else 10_000
alpha = optax.adam(optax.cosine_decay_schedule(1e-3, steps // 2))
algorithm = rsgda.RSGDA(p=0.5, alpha=alpha, eta=rsgda.transport.relative())
result = rsgda.solve(problem, algorithm, theta, v, key=jax.random.key(1), steps=steps)

z = jax.vmap(noise)(jax.random.split(jax.random.key(2), 1_000))
before, after = (np.asarray(jax.vmap(generator)(z)) for generator in (theta, result.theta))
sheets = {"before": before, f"{steps:,} steps": after, "1,000 of the digits": digits[:1_000]}
panels = Figure(figsize=(9, 3.7), layout="constrained").subplots(1, 3)
for axes, (name, images) in zip(panels, sheets.items()):
    far = rsgda.transport.divergence(images, digits, epsilon=0.5, tol=0.1).value
    print(f"{name}: {far:.2f} from the digits")
    apart = np.pad(images[:64].reshape(8, 8, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)))
    axes.imshow(apart.transpose(0, 2, 1, 3).reshape(80, 80), cmap="gray_r", vmin=0, vmax=1)
    axes.set(title=f"{name}:\n{far:.2f} from the digits", xticks=[], yticks=[])
panels[0].figure.savefig(asked.out)
