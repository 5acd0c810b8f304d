"""The algorithms of the paper and three rivals, one file each; `moves` is what they are made of."""

from rsgda.algorithms.auto import Auto
from rsgda.algorithms.esgda import ESGDA
from rsgda.algorithms.extragradient import Extragradient
from rsgda.algorithms.optimistic import Optimistic
from rsgda.algorithms.rsgda import RSGDA
from rsgda.algorithms.sgda import SGDA
from rsgda.algorithms.sgdmax import SGDmax
from rsgda.algorithms.tiada import TiAda

__all__ = [
    "ESGDA", "RSGDA", "SGDA", "Auto", "Extragradient", "Optimistic", "SGDmax", "TiAda",
]  # fmt: skip
