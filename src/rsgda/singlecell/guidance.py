"""What is known beforehand, as part of the cost: features that both sides share, and labels."""

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rsgda.singlecell.preprocessing import dense
from rsgda.singlecell.tables import Table
from rsgda.transport.costs import Cost, Quadratic


class Shared(NamedTuple):
    """Features that both sides measure.

    Attributes:
        source: their places among the features of the source,
        target: and of the target.
        mean: of each in the source, and
        spread: its standard deviation.
    """

    source: np.ndarray
    target: np.ndarray
    mean: np.ndarray
    spread: np.ndarray

    def of_source(self, matrix: Any) -> np.ndarray:
        """Return the shared features of cells of the source, standardised as at first."""
        return (dense(matrix[:, self.source]) - self.mean) / self.spread


def shared_features(pairs: Any, source: Table, target: Table, of_source: Any) -> Shared:
    """Find features by their names.

    Args:
        pairs: of names, one of the source and one of the target each; or "names", for all that are
            called alike.
        source: cells.
        target: cells.
        of_source: those of the source after the steps that leave each feature what it is.
    """
    if isinstance(pairs, str):
        if pairs != "names":
            raise ValueError(
                f"`shared` must be pairs of names, or 'names' for features that are called alike, "
                f"got {pairs!r}."
            )
        pairs = [(name, name) for name in source.features if name in set(target.features)]
        if not pairs:
            raise ValueError(
                "`shared` = 'names' wants features that are called alike, and there are none: the "
                f"source has {_some(source.features)}, the target {_some(target.features)}."
            )
    places: list[list[int]] = []
    if not isinstance(pairs, Iterable):
        raise ValueError(f"`shared` must be pairs of names, got {pairs!r}.")
    for pair in pairs:
        if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
            raise ValueError(f"`shared` must be pairs of names, got {pair!r}.")
        places.append(
            [_place(side, table, name) for side, table, name in
             zip(("source", "target"), (source, target), pair, strict=True)]
        )  # fmt: skip
    if not places:
        raise ValueError("`shared` must be one pair of names at least, got none.")
    one, other = np.array(places).T
    values = dense(of_source[:, one]).astype(float)
    return Shared(one, other, values.mean(axis=0), _spread(values))


def of_target(shared: Shared, matrix: Any) -> np.ndarray:
    """Return the shared features of all cells of the target, standardised by themselves."""
    values = dense(matrix[:, shared.target]).astype(float)
    return (values - values.mean(axis=0)) / _spread(values)


def _spread(values: np.ndarray) -> np.ndarray:
    spread = values.std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def _place(side: str, table: Table, name: Any) -> int:
    found = np.flatnonzero(table.features == str(name))
    if len(found) != 1:
        how = "no feature" if not len(found) else f"{len(found)} features"
        raise ValueError(
            f"`shared`: the {side} has {how} called {str(name)!r}; it has {_some(table.features)}."
        )
    return int(found[0])


def _some(names: np.ndarray) -> str:
    few = ", ".join(names[:5])
    return few if len(names) <= 5 else f"{few} and {len(names) - 5:,} more"


def one_hot(labels: np.ndarray, all_of: np.ndarray) -> np.ndarray:
    """Return a column for each label; cells without one have zeros."""
    return (labels[:, None] == all_of[None, :]).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Guided(Cost):
    r"""Squared distances, and a price for labels that differ.

    $$ c(x, y) = \|x - y\|^2 + \lambda\, [\text{both have labels, which differ}] $$

    The last columns of a point are its label, as zeros and a one, or all zeros.

    Attributes:
        labels: how many columns are labels.
        price: $\lambda$.
    """

    labels: int
    price: float

    def targets(self, y: Array) -> Any:
        """Return points about their mean, and labels."""
        return Quadratic().targets(y[:, : -self.labels]), y[:, -self.labels :]

    def some(self, targets: Any, places: Array) -> Any:
        """Return those at these places."""
        points, known = targets
        return Quadratic().some(points, places), known[places]

    def matrix(self, x: Array, targets: Any) -> Array:
        """Return the costs."""
        points, known = targets
        mine = x[:, -self.labels :]
        both = jnp.sum(mine, axis=1)[:, None] * jnp.sum(known, axis=1)
        alike = jnp.matmul(mine, known.T, precision=lax.Precision.HIGHEST)
        return Quadratic().matrix(x[:, : -self.labels], points) + self.price * (both - alike)


class Beside(eqx.Module):
    """A network that maps the first features of a point, and leaves the others as they are."""

    network: Any
    features: int = eqx.field(static=True)

    def __call__(self, point: Array) -> Array:
        """Map a point."""
        return jnp.concatenate([self.network(point[: self.features]), point[self.features :]])
