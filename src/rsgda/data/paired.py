"""Cells of which both views are known: small sets on which an alignment can be scored."""

from typing import NamedTuple

import numpy as np

from rsgda.data.download import File, Source, locate

SNARESEQ = Source(
    title="SNARE-seq of four cell lines",
    folder="snareseq",
    mirrors=(),
    files=(
        File(
            "SNAREseq_atac_feat.npy",
            159_272,
            "80d685b6517c100a7fd612846ad38209b64ed9caf095d1630af5a1d7797bd79c",
        ),
        File(
            "SNAREseq_rna_feat.npy",
            83_888,
            "a8a2c2bbfc036dea5b350d01dd2180b93bb3b1c0008bed49493080348da96a9b",
        ),
        File(
            "SNAREseq_rna_types.txt",
            3_139,
            "3697fe94aee8b0ed2fad49c10c3226b757cedd8046a5cc0b10d0a845ad540a1d",
        ),
    ),
    origin="the data of SCOT (github.com/rsinghlab/SCOT), after Chen et al. (2019)",
)
SCGEM = Source(
    title="scGEM of cells that are reprogrammed",
    folder="scgem",
    mirrors=(),
    files=(
        File(
            "unioncom_GeneExpression.txt",
            150_450,
            "8d22bb887a125484c99910675329492e43179cffcde73b5a7e78c07dffa4ee61",
        ),
        File(
            "unioncom_DNAmethylation.txt",
            119_475,
            "9f539a051665c89cc1a5e007a0a03a1e914f7421b44cdfb55d3dcbe9a69f8258",
        ),
        File(
            "unioncom_type1.txt",
            4_425,
            "8291a3fd5e3e3df389111b0f74c27eab8b12e24810f8e1fdb2cd706abe3ae071",
        ),
    ),
    origin="the data of UnionCom (github.com/caokai1073/UnionCom), after Cheow et al. (2016)",
)
LINES = {1: "H1", 2: "GM", 3: "BJ", 4: "K562"}


class TwoViews(NamedTuple):
    """Cells seen twice, row i of one the same cell as row i of the other.

    Attributes:
        first: n × features of one kind.
        second: n × features of another.
        types: of the cells.
    """

    first: np.ndarray
    second: np.ndarray
    types: np.ndarray


def snareseq() -> TwoViews:
    """Return cells of four human cell lines by SNARE-seq.

    `first` is chromatin (1,047 × 19, topics), `second` RNA (1,047 × 10, principal components). The
    files lie in the folder `snareseq` of the folder that the environment variable `RSGDA_DATA`
    names, or of the cache. They are not fetched.

    Raises:
        FileNotFoundError: If they are in neither: it says where to put them.
        ValueError: If a file is not what it should be.

    Source: Chen, Lake and Zhang (2019), as prepared for SCOT (Demetci et al., 2022).
    """
    paths = locate(SNARESEQ)
    try:
        first, second = (np.load(path, allow_pickle=False) for path in paths[:2])
        types = np.array([LINES[int(number)] for number in np.loadtxt(paths[2])])
        return _checked(first, second, types)
    except Exception as error:  # a foreign file can fail in many ways
        raise ValueError(f"{paths[0].parent} must hold the files of SNARE-seq: {error}.") from error


def scgem() -> TwoViews:
    """Return human cells on their way from fibroblasts to stem cells, by scGEM.

    `first` is gene expression (177 × 34), `second` DNA methylation (177 × 27), `types` the stage.
    The files lie in the folder `scgem` of the folder that the environment variable `RSGDA_DATA`
    names, or of the cache. They are not fetched.

    Raises:
        FileNotFoundError: If they are in neither: it says where to put them.
        ValueError: If a file is not what it should be.

    Source: Cheow et al. (2016), as prepared for UnionCom (Cao et al., 2020).
    """
    paths = locate(SCGEM)
    try:
        first, second, stages = (np.loadtxt(path) for path in paths)
        return _checked(first, second, np.array([f"stage {int(number)}" for number in stages]))
    except Exception as error:  # a foreign file can fail in many ways
        raise ValueError(f"{paths[0].parent} must hold the files of scGEM: {error}.") from error


def _checked(first: np.ndarray, second: np.ndarray, types: np.ndarray) -> TwoViews:
    if not first.ndim == second.ndim == 2 or not len(first) == len(second) == len(types):
        raise ValueError("both views and the types must have one row for each cell")
    return TwoViews(first, second, types)
