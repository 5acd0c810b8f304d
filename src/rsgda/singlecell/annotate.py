"""Write what a match has found into AnnData, and score it."""

import dataclasses
from typing import Any

import numpy as np

from rsgda.singlecell import scores, tables
from rsgda.singlecell.matcher import Matcher

KEY = "rsgda"


def annotated(
    matcher: Matcher,
    source: tables.Table,
    *,
    x_target: np.ndarray,
    to_give: np.ndarray | None,
    label_key: Any,
    paired: bool,
    copy: bool,
) -> Matcher:
    """Return the matcher with its scores, and its source annotated.

    Args:
        matcher: without scores but that of the plan.
        source: the cells that were matched.
        x_target: those of the target, after preprocessing.
        to_give: labels of the target, if any.
        label_key: where they come from; a name may be that of the source's own labels, too.
        paired: whether row i of both sides is one cell.
        copy: whether to annotate a copy.
    """
    width = x_target.shape[1]
    made = matcher.outputs.leave(np.asarray(matcher.solved.y)[:, :width])
    found = dict(matcher.scores)
    found["mixing"] = scores.mixing(made, x_target, neighbours=_neighbours(made, x_target)).mean
    if paired:
        for name, value in scores.foscttm(made, x_target)._asdict().items():
            found[f"foscttm_{name}"] = value
    given = None
    if to_give is not None:
        given = matcher.transfer(to_give)
        true = _own(source, label_key)
        known = None if true is None else true != ""
        if true is not None and known is not None and known.any():
            compared = scores.label_transfer(true[known], given[0][known])
            found["label_accuracy"] = compared.accuracy
            found["confusion"] = {"labels": compared.labels, "matrix": compared.matrix}
    matcher = dataclasses.replace(matcher, scores=found)
    if source.data is None:
        return matcher
    data = source.data
    if copy:
        data = data.to_memory() if data.isbacked else data.copy()
    place, confidence = matcher.match()
    # What an earlier match has left, and this one does not write again, would be read as its own.
    for held in (data.obs, data.obsm):
        for name in [name for name in held if str(name).startswith(f"{KEY}_")]:
            del held[name]
    data.obsm[f"X_{KEY}"] = matcher.target.undo(made)
    data.obs[f"{KEY}_match"] = matcher.target_cells[place]
    data.obs[f"{KEY}_confidence"] = confidence
    if given is not None:
        label, _, shares = given
        data.obs[f"{KEY}_label"] = label
        data.obs[f"{KEY}_label_confidence"] = shares.max(axis=1)
        data.obsm[f"{KEY}_label_probabilities"] = shares.astype(np.float32)
    data.uns[KEY] = tables.plain(
        {
            "settings": matcher.settings,
            "history": matcher.history,
            "scores": found,
            "features": matcher.target.undone,
            "labels": None if given is None else given[1],
        }
    )
    return dataclasses.replace(matcher, adata=data)


def _own(source: tables.Table, key: Any) -> np.ndarray | None:
    """Return the source's own labels, if it has the column that the target's come from."""
    if source.data is None or not isinstance(key, str) or key not in source.data.obs:
        return None
    return source.column("label_key", key)


def _neighbours(one: np.ndarray, other: np.ndarray) -> int:
    return max(1, min(30, len(one) // 2, len(other) // 2))
