"""Sets of cells of which the true pairs are known, and the ways to match them."""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rsgda.data import citeseq_pbmc, scgem, simulated_cells, snareseq
from rsgda.singlecell.preprocessing import Step, arcsinh, log1p, normalize_total, scale

PAIRS = 20  # that are known, where pairs guide the match
CHANCE = 0.5
MEASURES = ("foscttm", "foscttm_source", "foscttm_target", "labels", "W", "gap", "mixing")


class Bar(NamedTuple):
    """The FOSCTTM to compare with, and where it comes from."""

    foscttm: float
    whose: str


BARS = {
    "SNARE-seq, chromatin to RNA": Bar(0.150, "SCOT, tuned on the score"),
    "scGEM, expression to methylation": Bar(0.192, "SCOT, tuned on the score"),
}


class Set(NamedTuple):
    """Cells seen twice.

    Attributes:
        title: in words.
        source: n × features, which are mapped,
        target: to these; row i of both is one cell.
        types: of the cells.
        source_steps: preprocessing of one,
        target_steps: and of the other.
    """

    title: str
    source: np.ndarray
    target: np.ndarray
    types: np.ndarray
    source_steps: list[Step]
    target_steps: list[Step]

    @property
    def sha256(self) -> str:
        """A checksum of all that was measured."""
        total = hashlib.sha256()
        for values in (self.source, self.target):
            total.update(np.ascontiguousarray(values).data)
        return total.hexdigest()


class Method(NamedTuple):
    """A way to match: what is known beforehand, besides the two clouds."""

    name: str
    title: str


METHODS = (
    Method("alone", "unsupervised"),
    Method("labels", "labels of half of the cells"),
    Method("pairs", f"{PAIRS} known pairs"),
)


class Known(NamedTuple):
    """What is known of a set in a run, and what is not and can be scored.

    Attributes:
        arguments: for `match`.
        labels: of the target, to be given to the source; "" where they are not known.
        cells: places whose pairs are scored.
        labelled: places in the source whose labels are scored.
    """

    arguments: dict[str, Any]
    labels: np.ndarray
    cells: np.ndarray
    labelled: np.ndarray


def known(method: Method, given: Set, seed: int) -> Known:
    """Draw what is known; nothing that is known is scored."""
    rng = np.random.default_rng([seed, 1])
    n = len(given.types)
    every = np.arange(n)
    if method.name == "alone":
        return Known({}, given.types, every, every)
    if method.name == "pairs":
        paired = rng.choice(n, min(PAIRS, n // 4), replace=False)
        rest = np.setdiff1d(every, paired)
        return Known({"pairs": np.stack([paired, paired], axis=1)}, given.types, rest, rest)
    hidden = [rng.permutation(n)[: n // 2] for _ in range(2)]
    mine, theirs = given.types.astype(object), given.types.astype(object)
    mine[hidden[0]], theirs[hidden[1]] = "", ""
    return Known({"labels": (mine, theirs)}, theirs.astype(str), every, np.sort(hidden[0]))


def simulated() -> Set:
    """Return simulated cells."""
    cells = simulated_cells((300, 300), features=(20, 40))
    of_x, of_y = cells.pairs
    return Set(
        "simulated", cells.y[of_y].astype(float), cells.x[of_x].astype(float),
        np.array([f"branch {kind}" for kind in cells.y_types[of_y]]),
        [normalize_total(), log1p(), scale()], [arcsinh(), scale()],
    )  # fmt: skip


def citeseq() -> Set:
    """Return blood cells: RNA mapped to surface proteins."""
    cells = citeseq_pbmc()
    return Set(
        "CITE-seq, RNA to proteins", cells.rna.astype(np.float32), cells.protein.astype(np.float32),
        cells.types, [normalize_total(), log1p(), scale()], [log1p(), scale()],
    )  # fmt: skip


def snare() -> Set:
    """Return four cell lines: chromatin mapped to RNA."""
    cells = snareseq()
    return Set(
        "SNARE-seq, chromatin to RNA", cells.first, cells.second, cells.types,
        [normalize_total(1.0), scale()], [],
    )  # fmt: skip


def gem() -> Set:
    """Return cells that are reprogrammed: expression mapped to methylation."""
    cells = scgem()
    return Set(
        "scGEM, expression to methylation", cells.first, cells.second, cells.types,
        [scale()], [scale()],
    )  # fmt: skip


class Scale(NamedTuple):
    """How much is run.

    Attributes:
        sets: what is matched.
        steps: of a match.
        seeds: of each way to match.
    """

    sets: tuple[Callable[[], Set], ...]
    steps: int
    seeds: int


SCALES = {
    "quick": Scale((simulated,), 600, 2),
    "standard": Scale((citeseq, snare, gem), 6_000, 5),
    "paper": Scale((citeseq, snare, gem), 60_000, 5),
}
