"""Images, and cells, read from files, fetched once or simulated; see the page on data."""

from rsgda.data.blood import Cytometry, Paired, citeseq_pbmc, cytof_pbmc
from rsgda.data.idx import read_idx
from rsgda.data.images import Images, fashion_mnist, mnist
from rsgda.data.simulated import SimulatedCells, simulated_cells

__all__ = [
    "Cytometry",
    "Images",
    "Paired",
    "SimulatedCells",
    "citeseq_pbmc",
    "cytof_pbmc",
    "fashion_mnist",
    "mnist",
    "read_idx",
    "simulated_cells",
]
