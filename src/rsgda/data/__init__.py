"""Sets of images, read from files that are there or fetched once; see the page on data."""

from rsgda.data.idx import read_idx
from rsgda.data.images import Images, fashion_mnist, mnist

__all__ = ["Images", "fashion_mnist", "mnist", "read_idx"]
