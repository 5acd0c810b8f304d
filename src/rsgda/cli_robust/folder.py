"""The folder of a model: the saved classifier, what is done to samples before it, its report.

It is the folder of `RobustClassifier.save` with one file more, which names the model it belongs to.
"""

import hashlib
import json
import math
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rsgda._model_file import NOTE, WEIGHTS
from rsgda.cli_robust.source import Known, Preparation
from rsgda.reproduce.runner import write_aside
from rsgda.robust.classifier import RobustClassifier

FORMAT, VERSION = "rsgda.robust.preparation", 1
PREPARATION = "preparation.json"
CHECKPOINT = "checkpoint"
SAVING = ".saving-"


class Model(NamedTuple):
    """A saved classifier with all that is needed to use it."""

    folder: Path
    classifier: RobustClassifier
    preparation: Preparation

    @property
    def known(self) -> Known:
        """What it knows of samples."""
        fitted = self.classifier
        return Known(str(self.folder), self.preparation, fitted.shape_, fitted.classes_)


def check_room(out: Path, force: bool) -> None:
    """Refuse a folder for a fit that holds anything else, or a model already."""
    check_writable(out)
    if (out / NOTE).exists():
        if not force:
            raise ValueError(
                f"{out} holds a model already; choose another --out, or replace it with --force."
            )
    elif out.is_dir():
        held = (path.name for path in out.iterdir())
        foreign = sorted(n for n in held if n != CHECKPOINT and not n.startswith(SAVING))
        if foreign:
            raise ValueError(
                f"--out must be a new or empty folder or one of a fit, {out} holds {foreign[:3]}."
            )


def check_report(out: Path, files: tuple[str, ...], force: bool) -> None:
    """Refuse a folder for a report that holds one already."""
    check_writable(out)
    held = [name for name in files if (out / name).exists()]
    if held and not force:
        raise ValueError(
            f"{out} holds {', '.join(held)} already; choose another --out, or replace what is "
            "there with --force."
        )


def check_writable(out: Path) -> None:
    """Refuse a place where nothing can be written, before anything is computed."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"--out must be a folder, {out} is a file.")
    above = next(path for path in (out, *out.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=SAVING, dir=above):
            pass
    except OSError as error:
        raise OSError(
            f"--out must be a folder that can be read and written, but {out} cannot: "
            f"{error.strerror or error}."
        ) from error


def save(out: Path, classifier: RobustClassifier, preparation: Preparation) -> None:
    """Put a model into its folder, where there is a checkpoint already and maybe an older model.

    The file that makes it a model comes last, so that the folder never holds half of one.
    """
    with tempfile.TemporaryDirectory(prefix=SAVING, dir=out) as new:
        aside = Path(new) / "model"
        classifier.save(aside)
        (weights,) = aside.glob(WEIGHTS)
        old = [path for path in out.glob(WEIGHTS) if path.name != weights.name]
        os.replace(weights, out / weights.name)
        note = {
            "format": FORMAT,
            "version": VERSION,
            "model": _digest(aside / NOTE),
            "names": preparation.names,
            "label": preparation.label,
            "mean": None if preparation.mean is None else preparation.mean.tolist(),
            "scale": None if preparation.scale is None else preparation.scale.tolist(),
        }
        write_aside(out / PREPARATION, (json.dumps(note, allow_nan=False) + "\n").encode())
        os.replace(aside / NOTE, out / NOTE)
    for path in old:
        path.unlink()


def forget_checkpoint(out: Path) -> None:
    """Remove what an unfinished fit has left."""
    shutil.rmtree(out / CHECKPOINT, ignore_errors=True)


def load(folder: Path) -> Model:
    """Open a model; one that was saved from Python takes samples as they are."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder}; MODEL is what `rsgda robust fit` wrote with --out."
        )
    if (folder / CHECKPOINT).exists() and not (folder / NOTE).exists():
        raise ValueError(
            f"{folder} holds a fit that is not finished; call `rsgda robust fit` as before."
        )
    classifier = RobustClassifier.load(folder)
    file = folder / PREPARATION
    if not file.exists():
        return Model(folder, classifier, Preparation())
    try:
        preparation = _read(file, math.prod(classifier.shape_), _digest(folder / NOTE))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file} is damaged, fit again: {error}.") from error
    return Model(folder, classifier, preparation)


def _read(file: Path, features: int, model: str) -> Preparation:
    note = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(note, dict) or note.get("format") != FORMAT:
        raise ValueError("it is not that of a model")
    if note.get("version") != VERSION:
        raise ValueError(f"its version is {note.get('version')!r:.80}, this rsgda reads {VERSION}")
    if note.get("model") != model:
        raise ValueError(f"it belongs to another {NOTE}")
    names, label = note["names"], note["label"]
    if names is not None:
        names = tuple(_text(name) for name in names)
        if len(names) != features:
            raise ValueError(f"it names {len(names)} features of {features}")
    if note["mean"] is None:
        return Preparation(names, None if label is None else _text(label))
    mean, scale = (np.array(note[name], float) for name in ("mean", "scale"))
    if mean.shape != (features,) or scale.shape != (features,):
        raise ValueError(f"it does not scale {features} features")
    if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(scale)) and np.all(scale > 0)):
        raise ValueError("it scales by numbers that are not positive and finite")
    return Preparation(names, None if label is None else _text(label), mean, scale)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no name")
    return value


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
