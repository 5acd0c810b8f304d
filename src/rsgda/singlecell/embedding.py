"""Pictures of cells: one embedding in the plane for points of all sides."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

WIDE = 50  # dimensions that are kept before neighbours are looked for, as is usual
PERPLEXITY = 30.0


def tsne(clouds: Sequence[Any], *, seed: int = 0) -> list[np.ndarray]:
    """Return places in the plane for the points of several clouds, embedded together.

    Args:
        clouds: points, each cloud n_k × d.
        seed: of the embedding.

    Source: scikit-learn's t-SNE, started from principal components.
    """
    points = np.concatenate([np.asarray(cloud, np.float64) for cloud in clouds])
    if points.shape[1] > WIDE and len(points) > WIDE:
        points = PCA(WIDE, random_state=seed).fit_transform(points)
    if len(points) < 4 or points.shape[1] < 2:
        # Too few to embed: they are drawn as they are.
        flat = np.zeros((len(points), 2))
        flat[:, : min(2, points.shape[1])] = points[:, :2]
        placed = flat
    else:
        perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
        # Its start wants two components, which all the same points do not have.
        start = "pca" if np.ptp(points, axis=0).max() > 0 else "random"
        placed = TSNE(perplexity=perplexity, init=start, random_state=seed).fit_transform(points)
    return np.split(placed, np.cumsum([len(cloud) for cloud in clouds])[:-1])


def some(count: int, most: int, *, seed: int = 0) -> np.ndarray:
    """Return the places of at most so many of the cells, drawn at random, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
