"""Robust accuracy: how many samples are still classified rightly when they are attacked."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rsgda._trees import PyTree, thaw
from rsgda.drive.progress import bar
from rsgda.robust.attacks import Rows, check_norm, chunks, door, numbers_of, run_pgd
from rsgda.robust.losses import cross_entropy
from rsgda.robust.penalty import Range


@dataclasses.dataclass(frozen=True, eq=False)
class Robustness:
    """Accuracy under attack; `robustness` makes one.

    Attributes:
        radii: of the balls that samples were moved in.
        accuracy: the part of samples that no attack within the radius broke, like `radii`.
        broken: for each sample the smallest of the radii that broke it; 0 for one that is wrong as
            it is, infinity for one that none broke.
        clean: the part that is right without an attack.
        norm: of the balls, "l2" or "linf".
        n: the number of samples.
    """

    radii: np.ndarray
    accuracy: np.ndarray
    broken: np.ndarray = dataclasses.field(repr=False)
    clean: float
    norm: str
    n: int


def robustness(
    network: PyTree,
    X: Any,
    y: Any,
    radii: Any,
    *,
    key: Array,
    norm: str = "l2",
    steps: int = 40,
    restarts: int = 1,
    box: Range | None = None,
    progress: bool = False,
) -> Robustness:
    r"""Measure the accuracy under attacks of growing radius.

    $$ \mathrm{accuracy}(r) = \frac{1}{n}\, \#\{j : f(z) \text{ has its largest logit at } y_j
       \text{ for all } z \text{ tried with } \|z - x_j\| \le r\} $$

    `pgd` is run on the cross-entropy and on the margin, the largest other logit less the label's;
    whichever succeeds breaks the sample. A sample that is broken at a radius is so at all larger
    ones, so that the curve does not rise. It is an upper bound: another attack may do better.

    Args:
        network: maps one sample to its logits.
        X: samples, one along the first axis.
        y: labels.
        radii: of the balls; 0 is the clean accuracy.
        key: draws the starts.
        norm: "l2" or "linf".
        steps: gradient steps of each attack.
        restarts: starts of each attack.
        box: (low, high), the range that samples are kept in.
        progress: show it.

    >>> import jax, rsgda
    >>> X = jax.random.normal(jax.random.key(0), (20, 3), "float32")
    >>> network = rsgda.robust.mlp((3, 8, 2), key=jax.random.key(1))
    >>> y = jnp.argmax(jax.vmap(network)(X), axis=1)
    >>> found = robustness(network, X, y, [0.0, 0.1, 9.0], key=jax.random.key(2))
    >>> found.accuracy[0], bool(found.accuracy[2] < 1)
    (np.float64(1.0), True)
    """
    rows = door(network, X, y, key, "cross_entropy", 0.0, box)
    check_norm(norm)
    given = radii
    try:
        radii = np.asarray(given, float)
    except (TypeError, ValueError):
        radii = np.array([np.nan])
    if radii.ndim != 1 or not np.all(np.isfinite(radii) & (radii >= 0)) or not radii.size:
        raise ValueError(
            f"`radii` must be a list of finite numbers, none of them negative, got {given!r}."
        )
    n = len(rows.X)
    clean = _wrong(rows, rows.X, np.arange(n))
    broken = np.where(clean, 0.0, np.inf)
    attacked = np.unique(radii[radii > 0])
    with bar(progress, "robust accuracy", 0, n * len(attacked)) as shown:
        for i, radius in enumerate(attacked):
            ball = numbers_of("radii", radius, rows, steps, None, restarts, ball=True)
            for loss in (margin, cross_entropy):
                standing = np.flatnonzero(np.isinf(broken))
                for places, take in chunks(standing, n):
                    moved = run_pgd(rows._replace(loss=loss), ball, norm, places)
                    fell = _wrong(rows, moved, places)[:take]
                    broken[places[:take][fell]] = radius
            shown.update((i + 1) * n, {})
    accuracy = np.mean(broken > radii[:, None], axis=1)
    return Robustness(radii, accuracy, broken, float(np.mean(~clean)), norm, n)


def margin(logits: Array, label: Array, label_smoothing: Any = 0.0) -> Array:
    """Return the largest other logit less that of the label: positive where it is wrong."""
    del label_smoothing
    at_label = jax.nn.one_hot(label, logits.shape[-1], dtype=bool)
    others = jnp.max(jnp.where(at_label, -jnp.inf, logits))
    return others - jnp.sum(jnp.where(at_label, logits, 0))


def _wrong(rows: Rows, z: np.ndarray, places: np.ndarray) -> np.ndarray:
    out = np.empty(len(z), bool)
    for part, take in chunks(np.arange(len(z)), len(rows.X)):
        found = np.asarray(_predicted(rows.network, z[part]))[:take]
        out[part[:take]] = found != rows.y[places[part[:take]]]
    return out


@jax.jit
def _predicted(network: PyTree, z: Array) -> Array:
    return jnp.argmax(jax.vmap(thaw(network))(z), axis=-1)
