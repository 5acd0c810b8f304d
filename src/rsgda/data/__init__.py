"""Images, cells and people, read from files, fetched once or simulated; see the page on data."""

from rsgda.data.blood import Cytometry, Paired, citeseq_pbmc, cytof_pbmc
from rsgda.data.census import Adult, People, adult
from rsgda.data.idx import read_idx
from rsgda.data.images import Images, fashion_mnist, mnist
from rsgda.data.paired import TwoViews, scgem, snareseq
from rsgda.data.simulated import SimulatedCells, simulated_cells

__all__ = [
    "Adult",
    "Cytometry",
    "Images",
    "Paired",
    "People",
    "SimulatedCells",
    "TwoViews",
    "adult",
    "citeseq_pbmc",
    "cytof_pbmc",
    "fashion_mnist",
    "mnist",
    "read_idx",
    "scgem",
    "simulated_cells",
    "snareseq",
]
