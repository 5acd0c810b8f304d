"""Cells of one technology, mapped into the space of another: what a fitted map can do."""

import dataclasses
import functools
import os
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from rsgda.singlecell import matcher_file, tables
from rsgda.singlecell.guidance import Shared
from rsgda.singlecell.preprocessing import Preprocessing
from rsgda.transport.plan import Sinkhorn
from rsgda.transport.potentials import Potentials


class Units(NamedTuple):
    """Where a network computes: about a mean, in units of a spread."""

    mean: np.ndarray
    spread: np.ndarray  # of each feature of the source; one number for the target

    def enter(self, points: np.ndarray) -> np.ndarray:
        """Return points in these units."""
        return ((points - self.mean) / self.spread).astype(np.float32)

    def leave(self, points: np.ndarray) -> np.ndarray:
        """Return points in their own units."""
        return points * self.spread + self.mean


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Matcher:
    r"""A map $f_\theta$ of cells into the space of others, and the plan between the two.

    `match` makes one. Cell i of the source belongs to cell j of the target by

    $$ \pi_{ij} = \mu_i \nu_j \exp\big((u_i + v_j - c(f_\theta(y_i), x_j)) / \varepsilon\big) $$

    Attributes:
        network: $f_\theta$, in units of its own.
        source: the preprocessing of the source,
        target: and of the target.
        inputs: the units of the network's input,
        outputs: and of its output.
        solved: the plan, in the network's units: from all cells of the target to all of the source.
        source_cells: their names,
        target_cells: and those of the target.
        shared: features that both sides measure, if these guide the match,
        weight: and what their squares are multiplied by.
        labels: that guide the match, if any.
        history: of the run: `W` and `gap`, on some cells of the target, and the counts of `solve`.
        settings: all numbers of the call.
        scores: of the match.
        adata: the annotated source, if it is AnnData.
    """

    network: Any
    source: Preprocessing
    target: Preprocessing
    inputs: Units
    outputs: Units
    solved: Sinkhorn
    source_cells: np.ndarray
    target_cells: np.ndarray
    shared: Shared | None
    weight: float
    labels: np.ndarray
    history: dict[str, np.ndarray]
    settings: dict[str, Any]
    scores: dict[str, Any]
    adata: Any = None

    def __repr__(self) -> str:
        """Show what is mapped to what."""
        return (
            f"Matcher({len(self.source_cells):,} cells × {len(self.source.names):,} -> "
            f"{len(self.target_cells):,} × {len(self.target.names):,}, W_eps "
            f"{self.scores['W_eps']:.4g} + {self.scores['W_eps_gap']:.2g})"
        )

    def transform(self, cells: Any, *, layer: str | None = None, obsm: str | None = None) -> Any:
        """Map cells of the source's technology, also new ones, to the target's features and units.

        Args:
            cells: AnnData with the features of the source, in any order and among others, or an
                array with just these.
            layer: of AnnData; by default the one that was matched, or its obsm, or `X`.
            obsm: likewise.

        Returns:
            The mapped cells, cells × `self.target.undone`.
        """
        made = self.mapped(self.points(cells, layer=layer, obsm=obsm))
        return self.target.undo(self.outputs.leave(made))

    def match(
        self, cells: Any = None, *, layer: str | None = None, obsm: str | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return for each cell the place of the target's cell that most of it belongs to.

        Args:
            cells: of the source's technology; those that were matched by default.
            layer: of them, in place of `X`.
            obsm: of them, in place of `X`.

        Returns:
            The places, and how much of the cell belongs there, from 0 to 1.
        """
        return best(self.turned, self._points(cells, layer, obsm))

    def transfer(
        self, labels: Any, cells: Any = None, *, layer: str | None = None, obsm: str | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give cells the labels of the target's cells that they belong to.

        Args:
            labels: one for each cell of the target, "" where there is none.
            cells: of the source's technology; those that were matched by default.
            layer: of them, in place of `X`.
            obsm: of them, in place of `X`.

        Returns:
            The likeliest label of each cell, all labels, and the probability of each of these for
            each cell: cells × labels, of what belongs to labelled cells.
        """
        labels = tables.words(labels)
        if labels.shape != self.target_cells.shape:
            raise ValueError(
                f"`labels` must hold one for each of the {len(self.target_cells):,} cells of the "
                f"target, got the shape {labels.shape}."
            )
        all_of = np.unique(labels[labels != ""])
        if not len(all_of):
            raise ValueError("`labels` must name at least one cell of the target, got none.")
        known = (labels[:, None] == all_of).astype(np.float32)
        shares = self.turned.barycentric(self._points(cells, layer, obsm), known)
        total = shares.sum(axis=1, keepdims=True)
        # A cell that belongs to cells without labels alone may have any.
        shares = np.where(total > 0, shares / np.where(total > 0, total, 1), 1 / len(all_of))
        return all_of[np.argmax(shares, axis=1)], all_of, shares

    def plan(self, source: Any, target: Any) -> np.ndarray:
        """Return a block of the plan, cells of the source × cells of the target.

        Args:
            source: places, or a slice.
            target: places, or a slice.
        """
        return self.solved.plan_block(target, source).T

    @functools.cached_property
    def turned(self) -> Potentials:
        """The plan seen from the source."""
        return self.solved.turned()

    def points(self, cells: Any, *, layer: str | None = None, obsm: str | None = None) -> Any:
        """Return cells as the network takes them: its inputs, shared features, no labels."""
        if layer is None and obsm is None and tables.is_anndata(cells):
            layer, obsm = (self.settings["source"].get(name) for name in ("layer", "obsm"))
        table = tables.read("cells", cells, layer, obsm)
        matrix = table.matrix[:, self._columns(table)]
        parts = [self.inputs.enter(self.source.apply(matrix))]
        if self.shared is not None:
            of_shared = self.shared.of_source(self.source.named(matrix))
            parts.append(np.sqrt(self.weight) * of_shared)
        parts.append(np.zeros((len(table.cells), len(self.labels))))
        return np.concatenate(parts, axis=1).astype(np.float32)

    def _columns(self, table: tables.Table) -> Any:
        """Return where the features of the source are in other cells."""
        names = self.source.names
        if table.data is None or np.array_equal(table.features, names):
            if len(table.features) == len(names):
                return slice(None)
            raise ValueError(
                f"`cells` must have the {len(names):,} features of the source, got "
                f"{len(table.features):,}."
            )
        where = {name: place for place, name in enumerate(table.features)}
        lacking = [name for name in names if name not in where]
        if lacking:
            raise ValueError(
                f"`cells` must have the {len(names):,} features of the source, {len(lacking):,} of "
                f"which are not there: {', '.join(lacking[:5])}{', …' * (len(lacking) > 5)}."
            )
        if len(where) < len(table.features) or len(set(names)) < len(names):
            raise ValueError(
                "`cells` have the features of the source in another order, with names that stand "
                "for several; bring them into the order of the match."
            )
        return np.array([where[name] for name in names])

    def mapped(self, points: np.ndarray) -> np.ndarray:
        """Return what the network makes of its inputs, without what guides the match."""
        made = np.asarray(_map(self.network, points))
        return made[:, : len(self.outputs.mean)]

    def _points(self, cells: Any, layer: str | None, obsm: str | None) -> np.ndarray:
        if cells is None:
            return np.asarray(self.solved.y)
        return np.asarray(_map(self.network, self.points(cells, layer=layer, obsm=obsm)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the matcher into a folder: plain data and arrays, nothing that is executed.

        Args:
            path: a new or empty folder, or one of a saved matcher, which is replaced.
        """
        matcher_file.save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Matcher":
        """Read a saved matcher; a damaged or foreign folder is refused.

        Args:
            path: the folder.
        """
        return matcher_file.load(Matcher, Units, path)


def best(seen: Potentials, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place that most of each point belongs to, and how much."""
    size = max(1, 2**20 // len(seen.y))
    places, shares = [], []
    for start in range(0, len(points), size):
        weights = seen.weights(points[start : start + size])
        places.append(np.argmax(weights, axis=1))
        shares.append(np.max(weights, axis=1))
    return np.concatenate(places), np.concatenate(shares)


@eqx.filter_jit
def _map(network: Any, points: Any) -> Any:
    return jax.vmap(network)(points)
