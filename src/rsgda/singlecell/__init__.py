"""Cells of two technologies: preprocessing, a map from one into the other, and its scores."""

from rsgda.singlecell.match import match as match
from rsgda.singlecell.matcher import Matcher as Matcher
from rsgda.singlecell.preprocessing import arcsinh as arcsinh
from rsgda.singlecell.preprocessing import highly_variable as highly_variable
from rsgda.singlecell.preprocessing import log1p as log1p
from rsgda.singlecell.preprocessing import normalize_total as normalize_total
from rsgda.singlecell.preprocessing import pca as pca
from rsgda.singlecell.preprocessing import scale as scale
from rsgda.singlecell.scores import foscttm as foscttm
from rsgda.singlecell.scores import label_transfer as label_transfer
from rsgda.singlecell.scores import mixing as mixing

__all__ = [
    "Matcher",
    "arcsinh",
    "foscttm",
    "highly_variable",
    "label_transfer",
    "log1p",
    "match",
    "mixing",
    "normalize_total",
    "pca",
    "scale",
]
