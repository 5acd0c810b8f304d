"""A model on disk: a folder of plain data and arrays, checked to the last bit when it is read.

`model.json` holds the plain data and names the file of the arrays, with its size and hash. It is
written last and put in place in one move, so that a folder always holds one whole model.
"""

import hashlib
import io
import json
import math
import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

NOTE = "model.json"
WEIGHTS = "weights-*.npz"
MOST = 2**26  # bytes of the note: more than any number of classes needs

Expected = dict[str, jax.ShapeDtypeStruct]


class Kind(NamedTuple):
    """What is saved.

    Attributes:
        name: of its class,
        noun: in a sentence,
        version: and that of the format.
    """

    name: str
    noun: str
    version: int = 1


def write(
    path: str | os.PathLike[str],
    kind: Kind,
    model: dict[str, Any],
    arrays: dict[str, np.ndarray],
) -> None:
    """Write a model into a folder; one that it holds is replaced, anything else is left alone."""
    folder = check_place(path, kind)
    folder.mkdir(parents=True, exist_ok=True)
    content = _packed(arrays)
    digest = hashlib.sha256(content).hexdigest()
    weights = f"weights-{digest[:12]}.npz"
    model = {**model, "weights": {"file": weights, "bytes": len(content), "sha256": digest}}
    note = {"format": kind.name, "version": kind.version, "sha256": _digest(model), "model": model}
    _write_aside(folder / weights, content)
    _write_aside(folder / NOTE, (json.dumps(note, indent=1, allow_nan=False) + "\n").encode())
    for old in folder.glob(WEIGHTS):
        if old.name != weights:
            old.unlink()


def check_place(path: str | os.PathLike[str], kind: Kind) -> Path:
    """Refuse a folder that holds anything but a model of this kind."""
    folder = _place(path)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`path` must be a folder, {folder} is a file.")
    if folder.is_dir() and any(folder.iterdir()):
        try:
            _note(folder, kind)
        except ValueError as error:
            raise ValueError(
                f"`path` must be a new or empty folder or one of a saved {kind.noun}, got "
                f"{folder}: {error}"
            ) from error
    return folder


def read_model(path: str | os.PathLike[str], kind: Kind) -> dict[str, Any]:
    """Return the plain data of a saved model."""
    folder = _place(path)
    note = _note(folder, kind)
    version = note.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"{folder / NOTE} is damaged: its version is {version!r:.80}.")
    if version > kind.version:
        raise ValueError(
            f"{folder} was saved by a newer rsgda (format {version}, this one reads "
            f"{kind.version}); update rsgda."
        )
    model = note.get("model")
    if not isinstance(model, dict) or note.get("sha256") != _digest(model):
        raise ValueError(f"{folder / NOTE} is damaged: its content does not have its SHA-256.")
    return model


def read_arrays(
    path: str | os.PathLike[str], model: dict[str, Any], expected: Expected, others: str
) -> dict[str, np.ndarray]:
    """Return the arrays of a saved model.

    Args:
        path: the folder.
        model: its plain data.
        expected: names, shapes and types of arrays that must be there.
        others: vectors of numbers may be there, too, whose names begin with this.
    """
    folder = _place(path)
    try:
        weights = model["weights"]
        name, size, digest = weights["file"], weights["bytes"], weights["sha256"]
        if not isinstance(size, int) or Path(name).name != name:
            raise TypeError
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder / NOTE} does not say where its weights are.") from error
    file = folder / name
    content = _read(file, size)
    if len(content) != size or hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{file} is damaged: it does not have the size and SHA-256 of {NOTE}.")
    try:
        return _unpacked(content, expected, others)
    except Exception as error:  # a foreign archive can fail in many ways
        raise ValueError(f"{file} does not hold the weights of this model: {error}") from error


def _place(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise ValueError(f"`path` must be the path of a folder, got {path!r}.")
    return Path(path).expanduser()


def _note(folder: Path, kind: Kind) -> dict[str, Any]:
    if not folder.is_dir():
        raise ValueError(f"`path` must be the folder of a saved {kind.noun}, {folder} is none.")
    content = _read(folder / NOTE, MOST)
    if len(content) > MOST:
        raise ValueError(f"{folder / NOTE} is damaged: it is longer than {MOST} bytes.")
    try:
        note = json.loads(content.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{folder / NOTE} is damaged: {error}") from error
    if not isinstance(note, dict) or note.get("format") != kind.name:
        raise ValueError(f"{folder / NOTE} is not that of a saved {kind.noun}.")
    return note


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _read(file: Path, most: int) -> bytes:
    """Return the content of a file, at most one byte more than `most`."""
    try:
        if not file.is_file():
            raise FileNotFoundError(2, "there is no such file")
        with open(file, "rb") as opened:
            return opened.read(max(most, 0) + 1)
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror or error}.") from error


def _digest(model: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest()


def _packed(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
    return file.getvalue()


def _unpacked(content: bytes, expected: Expected, others: str) -> dict[str, np.ndarray]:
    """Read arrays; each is compared with what it must be before memory is taken for it."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for info in packed.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(content):
                raise ValueError(f"{info.filename:.80} is larger than its file")
            name = info.filename.removesuffix(".npy")
            with packed.open(info) as member:
                if np.lib.format.read_magic(member) != (1, 0):
                    raise ValueError(f"{info.filename:.80} is of another version")
                shape, columns, dtype = np.lib.format.read_array_header_1_0(member)
                other = name.startswith(others) and len(shape) == 1 and dtype.kind in "biuf"
                wanted = expected.get(name)
                fits = wanted is not None and (dtype, shape) == (wanted.dtype, wanted.shape)
                if columns or not (other or fits):
                    raise ValueError(f"{name:.80} is {dtype}{list(shape)}")
                size = math.prod(shape) * dtype.itemsize
                data = member.read(size + 1)
                if len(data) != size:
                    raise ValueError(f"{name:.80} is too long or too short")
                found[name] = np.frombuffer(data, dtype).reshape(shape).copy()
    if not found.keys() >= expected.keys():
        raise ValueError(f"{sorted(expected.keys() - found.keys())[0]} is missing")
    return found


def _write_aside(file: Path, content: bytes) -> None:
    """Write a file under another name and rename it, so that it is never seen half written."""
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with open(aside, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)
