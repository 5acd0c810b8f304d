"""Points from files of one's own, for Figures 4 and 5."""

from pathlib import Path
from typing import Any

import numpy as np


def read_points(path: Path) -> np.ndarray:
    """Return the points that a file holds, n × d.

    Args:
        path: `.npy`, `.csv` (numbers, and names in the first line at most) or `.h5ad`, of which X
            is taken and which needs `pip install "rsgda[singlecell]"`.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; give a .npy, .csv or .h5ad file.")
    readers = {".npy": _npy, ".csv": _csv, ".h5ad": _h5ad}
    if path.suffix not in readers:
        raise ValueError(f"{path} must be a .npy, .csv or .h5ad file.")
    try:
        points = np.asarray(readers[path.suffix](path), float)
    except ImportError:
        raise
    except Exception as error:  # a foreign file can fail in many ways
        raise ValueError(f"{path} must hold points, n × d: {error}.") from error
    if points.ndim != 2 or 0 in points.shape or not np.all(np.isfinite(points)):
        raise ValueError(f"{path} must hold finite points, n × d, got the shape {points.shape}.")
    return points


def _npy(path: Path) -> np.ndarray:
    return np.load(path, allow_pickle=False)


def _csv(path: Path) -> np.ndarray:
    with open(path, encoding="utf-8-sig") as file:
        first = file.readline().split(",")
    try:
        [float(cell) for cell in first]
        names = 0
    except ValueError:
        names = 1
    return np.loadtxt(path, delimiter=",", skiprows=names, ndmin=2)


def _h5ad(path: Path) -> Any:
    try:
        import anndata  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError('.h5ad files need anndata: pip install "rsgda[singlecell]".') from error
    values: Any = anndata.read_h5ad(path).X
    return values.toarray() if hasattr(values, "toarray") else values
