"""The algorithms of the paper, one file each; `moves` is what they are made of."""

from rsgda.algorithms.auto import Auto
from rsgda.algorithms.esgda import ESGDA
from rsgda.algorithms.rsgda import RSGDA
from rsgda.algorithms.sgda import SGDA
from rsgda.algorithms.sgdmax import SGDmax

__all__ = ["ESGDA", "RSGDA", "SGDA", "SGDmax", "Auto"]
