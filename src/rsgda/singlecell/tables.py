"""Cells in AnnData or in arrays: what is read of them, and what is written."""

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclasses.dataclass(frozen=True)
class Table:
    """Cells as a matrix.

    Attributes:
        matrix: cells × features, an array or a sparse matrix in rows.
        cells: their names,
        features: and those of the columns.
        data: the AnnData that it comes from, if any.
    """

    matrix: Any
    cells: np.ndarray
    features: np.ndarray
    data: Any = None

    def column(self, which: str, key: Any) -> np.ndarray:
        """Return a label for each cell as a string, "" where there is none: obs[key], or given."""
        if isinstance(key, str):
            if self.data is None:
                raise ValueError(
                    f"`{which}` names a column of obs, which arrays do not have; give a label for "
                    "each cell."
                )
            if key not in self.data.obs:
                raise ValueError(
                    f"`{which}` must be a column of obs, {list(self.data.obs.columns)}, got "
                    f"{key!r}."
                )
            key = self.data.obs[key].to_numpy()
        values = words(key)
        if values.shape != (len(self.cells),):
            raise ValueError(
                f"`{which}` must hold a label for each of {len(self.cells):,} cells, got the shape "
                f"{values.shape}."
            )
        return values


def words(labels: Any) -> np.ndarray:
    """Return labels as strings, "" where there is none; a number is one word, 1 or 1.0."""
    values = np.asarray(labels, object)
    found = ["" if _is_none(value) else _word(value) for value in values.ravel()]
    return np.array(found, str).reshape(values.shape)


def _is_none(label: Any) -> bool:
    """Say whether a label is None, NaN, or one of those of pandas, which need not be installed."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def _word(label: Any) -> str:
    whole = isinstance(label, float | np.floating) and label == np.floor(label)
    return str(int(label)) if whole else str(label)


def is_anndata(data: Any) -> bool:
    """Say whether something is AnnData, without importing it."""
    return all(hasattr(data, name) for name in ("obs_names", "var_names", "obsm", "uns"))


def read(which: str, data: Any, layer: str | None = None, obsm: str | None = None) -> Table:
    """Return cells as a matrix.

    Args:
        which: the name of the argument that they are.
        data: AnnData, in memory or backed by a file, or an array, or a sparse matrix.
        layer: of it, in place of `X`.
        obsm: of it, in place of `X`.
    """
    if layer is not None and obsm is not None:
        raise ValueError(
            f"`{which}_layer` and `{which}_obsm` exclude each other, got {layer!r} and {obsm!r}."
        )
    if not is_anndata(data):
        if layer is not None or obsm is not None:
            raise ValueError(f"`{which}` must be AnnData to have layers or obsm, got an array.")
        matrix = _matrix(which, data)
        names = [np.arange(size).astype(str) for size in matrix.shape]
        return Table(matrix, *names)
    if obsm is not None:
        held = _chosen(which, "obsm", data.obsm, obsm)
        columns = getattr(held, "columns", None)
        matrix = _matrix(f"{which}_obsm", held)
        features = (
            np.array([f"{obsm}{i + 1}" for i in range(matrix.shape[1])])
            if columns is None
            else np.asarray(columns, str)
        )
    else:
        held = data.X if layer is None else _chosen(which, "layers", data.layers, layer)
        if held is None:
            raise ValueError(f"`{which}` has no X; name a layer or an obsm of it.")
        matrix = _matrix(which, held)
        features = np.asarray(data.var_names, str)
    return Table(matrix, np.asarray(data.obs_names, str), features, data)


def _chosen(which: str, kind: str, held: Any, name: str) -> Any:
    if name not in held:
        one = "layer" if kind == "layers" else "obsm"
        argument = one if which == "cells" else f"{which}_{one}"
        raise ValueError(f"`{argument}` must be one of {list(held)}, got {name!r}.")
    return held[name]


def _matrix(which: str, held: Any) -> Any:
    """Return an array or a sparse matrix of finite numbers, in memory."""
    if hasattr(held, "to_memory"):  # sparse, and backed by a file
        held = held.to_memory()
    if sp.issparse(held):
        held = sp.csr_matrix(held)
        values = held.data
    else:
        try:
            made = np.asarray(held)
            values = made = made if made.dtype.kind == "f" else made.astype(float)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"`{which}` must be AnnData or an array of numbers, cells × features, got "
                f"{held!r:.80}; a file is read first, by anndata.read_h5ad(...)."
            ) from error
        held = made
    if held.ndim != 2 or 0 in held.shape:
        raise ValueError(
            f"`{which}` must have cells and features, got the shape {tuple(held.shape)}."
        )
    wrong = int(np.sum(~np.isfinite(values)))
    if wrong:
        raise ValueError(f"`{which}` must be finite, got NaN or infinity in {wrong:,} places.")
    return held


def different(table: Table) -> np.ndarray:
    """Return names of cells of which no two are alike, as AnnData's obs_names_make_unique does."""
    if table.data is None or table.data.obs_names.is_unique:
        return table.cells
    from anndata.utils import make_index_unique

    return np.asarray(make_index_unique(table.data.obs_names), str)


def plain(value: Any) -> Any:
    """Return what an h5ad file and JSON can hold of a setting: no None, no tuple, no object."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, np.ndarray | str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        numbers = bool(value) and all(isinstance(each, int | float | np.number) for each in value)
        return np.asarray(value) if numbers else np.array([str(each) for each in value], str)
    return str(value)
