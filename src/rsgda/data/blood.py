"""Blood cells seen by two technologies: mass cytometry, and RNA with surface proteins."""

import zipfile
from typing import Any, NamedTuple

import numpy as np

from rsgda.data.download import File, Source, locate

CYTOF = Source(
    title="CyTOF of blood cells",
    folder="cytof-pbmc",
    mirrors=(),
    files=(
        File(
            "cytof_z2yr_counts.npz",
            4_688_137,
            "1af2de95c4d103e235573fe3c404e3e53eda7831ea422c34f3188be8fb120061",
        ),
    ),
    origin="FlowRepository FR-FCM-Z2YR, with the cell types of the R package cyDefine: arrays "
    "reference and query of counts, cells × channels, markers and celltype",
)
CITESEQ = Source(
    title="CITE-seq of blood cells",
    folder="citeseq-pbmc",
    mirrors=(),
    files=(
        File(
            "10XPBMC_filtered_1000G.H5",
            2_175_067,
            "44eba814cf417e3154790c6867405e73825aec986ca7191fdb96ef90a0165bf7",
        ),
    ),
    origin="the data of scMDC (github.com/xianglin226/scMDC), after 10x Genomics' "
    "pbmc_10k_protein_v3",
)
BARCODE = "CD45BC"  # channels that tell samples apart, not cells
PROTEINS = (
    "CD3", "CD4", "CD8a", "CD14", "CD15", "CD16", "CD56",
    "CD19", "CD25", "CD45RA", "CD45RO", "PD-1", "TIGIT", "CD127",
)  # fmt: skip
TYPES = {1: "B", 2: "CD14 monocyte", 3: "CD16 monocyte", 4: "CD4 T", 5: "CD8 T", 6: "DC", 7: "NK"}


class Cytometry(NamedTuple):
    """Cells by mass cytometry.

    Attributes:
        counts: 159,594 × 37; for distances take asinh(counts / 5).
        markers: the names of the channels, without those of barcodes.
        types: of the first 80,415 cells, which were gated; "" for the others.
    """

    counts: np.ndarray
    markers: tuple[str, ...]
    types: np.ndarray


class Paired(NamedTuple):
    """Cells by RNA and by surface proteins, row i of one the same cell as row i of the other.

    Attributes:
        rna: counts of 1,000 genes, 6,661 × 1,000.
        protein: counts of 14 antibodies, 6,661 × 14.
        proteins: the names of these.
        types: of the cells.
    """

    rna: np.ndarray
    protein: np.ndarray
    proteins: tuple[str, ...]
    types: np.ndarray


def cytof_pbmc() -> Cytometry:
    """Return human blood cells by mass cytometry (CyTOF).

    The file lies in the folder `cytof-pbmc` of the folder that the environment variable
    `RSGDA_DATA` names, or of the cache. It is not fetched.

    Raises:
        FileNotFoundError: If it is in neither: it says where to put it.
        ValueError: If the file is not what it should be.

    Source: FlowRepository FR-FCM-Z2YR. It stands in for the paper's CyTOF data.
    """
    (path,) = locate(CYTOF)
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no archive of arrays")
        with np.load(path, allow_pickle=False) as held:
            counts = np.concatenate([held["reference"], held["query"]])
            markers, gated = held["markers"], held["celltype"]
            if markers.shape != counts.shape[1:] or gated.shape != held["reference"].shape[:1]:
                raise ValueError("a marker for each column and a type for each row of reference")
            if (
                markers.dtype.kind != "U"
                or gated.dtype.kind != "U"
                or counts.dtype.kind not in "iuf"
            ):
                raise ValueError("counts must be numbers, markers and types words")
    except Exception as error:  # a foreign archive can fail in many ways
        raise ValueError(
            f"{path} must hold reference, query, markers and celltype: {error}."
        ) from error
    keep = [i for i, name in enumerate(markers) if not name.startswith(BARCODE)]
    types = np.concatenate([gated, np.full(len(counts) - len(gated), "", gated.dtype)])
    return Cytometry(counts[:, keep], tuple(str(markers[i]) for i in keep), types)


def citeseq_pbmc() -> Paired:
    """Return human blood cells by RNA and surface proteins (CITE-seq).

    The file lies in the folder `citeseq-pbmc` of the folder that the environment variable
    `RSGDA_DATA` names, or of the cache. It is not fetched. To read it takes `h5py`, which comes
    with `pip install "rsgda[singlecell]"`.

    Raises:
        FileNotFoundError: If it is in neither: it says where to put it.
        ValueError: If the file is not what it should be.

    Source: 10x Genomics, pbmc_10k_protein_v3, as filtered and clustered for scMDC (Lin et al.,
    2022). Its RNA stands in for the paper's scRNA data.
    """
    (path,) = locate(CITESEQ)
    try:
        import h5py  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError('h5py reads this file: pip install "rsgda[singlecell]".') from error
    try:
        with h5py.File(path, "r") as file:
            held: Any = file
            rna, protein, clusters = (held[name][()] for name in ("X1", "X2", "Y"))
        types = np.array([TYPES[int(cluster)] for cluster in clusters])
        if not rna.ndim == protein.ndim == 2 or not len(rna) == len(protein) == len(types):
            raise ValueError("one row of X1 and of X2 for each cell of Y")
        if protein.shape[1] != len(PROTEINS):
            raise ValueError(f"{len(PROTEINS)} columns in X2")
    except Exception as error:  # a foreign file can fail in many ways
        raise ValueError(f"{path} must hold X1, X2 and Y: {error}.") from error
    return Paired(rna, protein, PROTEINS, types)
