"""Fair classification: the group that a classifier serves worst decides.

Who earns more than 50,000 dollars, by the census of 1994? A classifier that is right on average can
be wrong about half of the women who do. Here a second player weighs four groups of people:
    min over theta, max over weights v of  sum_g v_g loss_g(theta) - 0.05 |v|^2.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import rsgda

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", default="fair_classification.png", help="where the picture goes")
parser.add_argument("--quick", action="store_true", help="a fifth of the steps")
asked = parser.parse_args()
try:
    (X, y, sex, _), (X_test, y_test, sex_test, _), _ = rsgda.data.adult()
except FileNotFoundError:
    print("The Adult data are not on this machine (see docs/data.md): people are simulated.")
    rng = np.random.default_rng(0)
    sex, sex_test = np.split(rng.choice(["Female", "Male", "Male"], 30_000), [20_000])
    y, y_test = (np.int32(rng.random(len(s)) < 0.1 + 0.2 * (s == "Male")) for s in (sex, sex_test))
    X, X_test = (rng.normal(size=(len(high), 4)) + high[:, None] for high in (y, y_test))
scale = StandardScaler().fit(X).transform
X, X_test = np.float32(scale(X)), np.float32(scale(X_test))
g, g_test = 2 * (sex == "Male") + y, 2 * (sex_test == "Male") + y_test
shares = jnp.asarray(np.bincount(g) / len(g), "float32")


def loss(theta, v, batch):
    X, y, g = batch
    each = jnp.logaddexp(0, jnp.where(y == 1, -1, 1) * (X @ theta[1:] + theta[0]))
    return jnp.mean(v[g] / shares[g] * each) - 0.05 * v @ v


theta, simplex = jnp.zeros(1 + X.shape[1], "float32"), rsgda.projections.simplex()
problem = rsgda.Problem(loss, data=(X, y, g), batch_size=256, project_v=simplex)
algorithm = rsgda.RSGDA(p=0.5, alpha=lambda k: 0.1 / (1 + k / 2_000), eta=0.05)
steps = 4_000 if asked.quick else 20_000
fair = rsgda.solve(problem, algorithm, theta, shares, key=jax.random.key(0), steps=steps).theta
plain = LogisticRegression(max_iter=1_000).fit(X, y).predict(X_test) == 1
axes = Figure(figsize=(8, 4), layout="tight").subplots()
answers = {"logistic regression": plain, "RSGDA over groups": X_test @ fair[1:] + fair[0] > 0}
for i, (name, answer) in enumerate(answers.items()):
    wrong = np.asarray(answer != y_test)
    errors = [wrong[g_test == group].mean() for group in range(4)]
    print(label := f"{name}: worst group {max(errors):.0%}, all people {wrong.mean():.0%}")
    axes.bar(np.arange(4) + 0.4 * i, errors, 0.38, color=["0.6", "#0072B2"][i], label=label)
axes.set_xticks(np.arange(4) + 0.2, ["women, low", "women, high", "men, low", "men, high income"])
axes.set(ylim=(0, 0.6), ylabel="share of test people it gets wrong")
axes.legend()
axes.figure.savefig(asked.out)
