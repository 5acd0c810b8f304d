"""Samples and their labels from files: NumPy's `.npz`, tables in `.csv`, images in IDX."""

import csv
import os
import zipfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from rsgda.data.idx import read_idx

MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-"}  # in place of a number
NO_LABEL = MISSING - {"none", "-"}  # which are classes, beside "some" and "+"
SEPARATORS = ",;\t"
IMAGES, LABELS = "images-idx3", "labels-idx1"  # in the names of MNIST's files


class NoNames(ValueError):
    """A column was named, and the table has no names."""


class Samples(NamedTuple):
    """Samples with one label each.

    Attributes:
        X: n × features, or n × height × width (× channels); finite floating numbers.
        y: n labels: whole numbers where all are, else as they are.
        names: the names of the features, where the file has them.
        label: the name of the label's column, likewise.
        note: what was done or assumed in reading, in words.
    """

    X: np.ndarray
    y: np.ndarray
    names: tuple[str, ...] | None = None
    label: str | None = None
    note: str = ""


def read_samples(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    label: str | None = None,
) -> Samples:
    r"""Read samples and labels.

    - `.npz`: the arrays `X` and `y`; arrays of objects are refused.
    - `.csv`: rows of numbers and a label, which is the last column or the one that `label` names.
      The first line may hold names. Cells are parted by commas, semicolons or tabs.
    - anything else is read as IDX, gzipped or not: images here and their labels in another file.

    Numbers of type uint8 are taken for pixels and divided by 255.

    Args:
        path: the file.
        labels: the file of the labels, for IDX; None: that of MNIST's names beside it.
        label: the name of the label's column, for `.csv`.

    Raises:
        ValueError: if the file does not hold such samples: it names the place and what to do.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.csv"
    >>> _ = file.write_text("length,width,kind\n1.5,2,oak\n3,4,elm\n")
    >>> samples = read_samples(file)
    >>> samples.X.tolist(), samples.y.tolist(), samples.names
    ([[1.5, 2.0], [3.0, 4.0]], ['oak', 'elm'], ('length', 'width'))
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}; give a .npz, .csv or IDX file.")
    if not path.is_file():
        raise ValueError(f"{path} must be a .npz, .csv or IDX file, it is no regular file.")
    if labels is not None and suffix in (".npz", ".csv"):
        raise ValueError(f"{path} must hold its labels itself; a file of labels is for IDX.")
    if label is not None and suffix != ".csv":
        raise ValueError(f"{path} has no columns with names; {label!r} can be one of a .csv file.")
    if suffix == ".npz":
        return _npz(path)
    if suffix == ".csv":
        return _csv(path, label)
    return _idx(path, labels)


def _npz(path: Path) -> Samples:
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no archive; save it with numpy.savez(file, X=X, y=y)")
        with np.load(path, allow_pickle=False) as held:
            missing = [name for name in ("X", "y") if name not in held]
            if missing:
                raise ValueError(
                    f"it has no array {missing[0]!r} but {sorted(held)}; save it with "
                    "numpy.savez(file, X=X, y=y)"
                )
            X, y = held["X"], held["y"]
    except Exception as error:  # a foreign archive can fail in many ways
        said = str(error).rstrip(".") or type(error).__name__
        if "allow_pickle" in said:
            said = "X or y is an array of objects; save numbers and strings as arrays of them"
        raise ValueError(f"{path} must hold arrays X and y, but {said}.") from error
    return _samples(X, y, path)


def _idx(path: Path, labels: str | os.PathLike[str] | None) -> Samples:
    note = ""
    if labels is None and IMAGES in path.name:
        beside = path.with_name(path.name.replace(IMAGES, LABELS))
        if beside.is_file():
            labels, note = beside, f"labels from {beside.name}"
    try:
        X = read_idx(path)
    except ValueError as error:
        raise ValueError(f"{error} A file must be .npz, .csv or IDX.") from error
    if labels is None:
        raise ValueError(
            f"{path} holds images without labels; give the file of the labels with it (--labels)."
        )
    if not Path(labels).exists():
        raise FileNotFoundError(f"there is no file of labels {labels}.")
    y = read_idx(labels)
    if X.ndim < 2 <= y.ndim:
        raise ValueError(f"{path} holds labels and {labels} images; exchange the two.")
    samples = _samples(X, y, path, labels)
    return samples._replace(note="; ".join(filter(None, (note, samples.note))))


def _samples(X: np.ndarray, y: np.ndarray, path: Path, labels: Any = None) -> Samples:
    """Return arrays as samples; refuse those that are none. Labels may have their own file."""
    of_X, of_y = (f"{path}: X", f"{path}: y") if labels is None else (str(path), str(labels))
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{of_X} must hold numbers, got {X.dtype}.")
    if X.ndim not in (2, 3, 4) or 0 in X.shape:
        raise ValueError(
            f"{of_X} must be n × features or n × height × width (× channels), got {X.shape}."
        )
    if X.ndim == 4 and X.shape[1] in (1, 3) and X.shape[2] == X.shape[3] > 4:
        raise ValueError(
            f"{of_X} must have the channels of images last, n × height × width × channels, got "
            f"{X.shape}; save numpy.moveaxis(X, 1, -1)."
        )
    if y.ndim != 1 or y.dtype.kind not in "biufUS":
        raise ValueError(
            f"{of_y} must hold one label a sample, got shape {y.shape} of type {y.dtype}."
        )
    if len(X) != len(y):
        of_y = "y" if labels is None else of_y
        raise ValueError(f"{of_X} has {len(X):,} samples, and {of_y} has {len(y):,} labels.")
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    if y.dtype.kind == "U":
        gaps = np.isin(np.char.lower(np.char.strip(y)), list(NO_LABEL))
        if np.any(gaps):
            raise ValueError(f"{of_y}, sample {np.argmax(gaps) + 1}: {_no_label(y[gaps][0])}")
    if y.dtype.kind == "f" and not np.all(np.isfinite(y)):
        raise ValueError(f"{of_y} must hold a label for each sample, got NaN or infinity.")
    y = y.astype(np.int64) if y.dtype.kind in "iu" else y
    if X.dtype == np.uint8:
        pixels = X.astype(np.float32) / np.float32(255)
        return Samples(pixels, y, note="pixels of type uint8 divided by 255")
    if X.ndim > 2 and X.dtype.kind != "f":
        raise ValueError(
            f"{of_X} must hold pixels of type uint8 or, in [0, 1], floating, got {X.dtype}."
        )
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    if not np.all(np.isfinite(X)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(X))[0])
        raise ValueError(
            f"{of_X} must hold finite numbers, got {X[where]} at {list(where)}; leave such samples "
            "out or fill the gaps."
        )
    return Samples(X, y)


def _csv(path: Path, label: str | None) -> Samples:
    try:
        # A byte-order mark, as spreadsheets write it, is no part of the first name.
        with open(path, encoding="utf-8-sig", newline="") as file:
            return _table(path, file, label)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8: {error}.") from error
    except csv.Error as error:
        raise ValueError(f"{path} must be a table of comma-separated cells: {error}.") from error


def _table(path: Path, file: TextIO, label: str | None) -> Samples:
    start = file.readline()
    file.seek(0)
    separator = max(SEPARATORS, key=start.count)
    rows = _rows(csv.reader(file, delimiter=separator, skipinitialspace=True))
    top, first = next(rows, (0, []))
    if not first:
        raise ValueError(f"{path} is empty; give rows of numbers with a label each.")
    names = _header(path, first, label)
    place = len(first) - 1 if label is None or names is None else names.index(label)
    if len(first) < 2:
        raise ValueError(f"{path} must have at least two columns, a number and a label.")
    values, labels, lines = array("d"), [], array("q")
    for line, cells in rows:
        if len(cells) != len(first):
            raise ValueError(
                f"{path}, line {line}: must have {len(first)} cells like the first line, got "
                f"{len(cells)}."
            )
        _take(path, line, cells, place, names, values, labels, lines)
    note = ""
    if names is None and _is_above(first, labels):
        names, note = _named(path, first), "the first line taken for names"
    if names is None:
        own = array("d"), [], array("q")
        _take(path, top, first, place, None, *own)
        values, labels, lines = own[0] + values, own[1] + labels, own[2] + lines
    if not labels:
        raise ValueError(f"{path} holds names and no rows; give rows of numbers with a label each.")
    X = np.frombuffer(values, np.float64).reshape(len(labels), -1)
    if not np.all(np.isfinite(X)):
        row, column = (int(i) for i in np.argwhere(~np.isfinite(X))[0])
        cell, column = str(X[row, column]), column + (column >= place)
        raise ValueError(_not_a_number(path, lines[row], column, names, cell))
    if names is None:
        return Samples(X, _labels(labels))
    others = tuple(name for i, name in enumerate(names) if i != place)
    return Samples(X, _labels(labels), others, names[place], note)


def _rows(reader: Any) -> Iterator[tuple[int, list[str]]]:
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield reader.line_num, [cell.strip() for cell in cells]


def _header(path: Path, first: list[str], label: str | None) -> list[str] | None:
    """Return the names of the columns, or None if the first line is one of numbers."""
    words = [cell for cell in first[:-1] if cell.lower() not in MISSING and not _is_number(cell)]
    if not words and label not in first:
        if label is None:
            return None
        raise NoNames(
            f"{path} must have a column {label!r}, but its first line has no names; write them "
            "there, or make the label the last column."
        )
    if label is not None and label not in first:
        raise ValueError(f"{path} must have a column {label!r}, got {_some(first)}.")
    return _named(path, first)


def _is_above(first: list[str], labels: list[str]) -> bool:
    """Say whether a line of numbers with text at its end holds names, and no sample.

    It does where no label below is text, or where its numbers count the columns, as pandas' do,
    and no sample has such a label.
    """
    *numbers, name = first
    if name.lower() in MISSING or _is_number(name) or name in labels or len({*first}) < len(first):
        return False
    counts = [cell for cell in numbers if cell]  # a column without a name is that of the rows
    counted = len(counts) > 2 and counts == [str(i) for i in range(len(counts))]
    return bool(labels) and (counted or all(_is_number(label) for label in labels))


def _named(path: Path, first: list[str]) -> list[str]:
    """Return names of columns, or refuse what can be none."""
    if "" in first:
        raise ValueError(
            f"{path}: column {first.index('') + 1} has no name in the first line; name it, or "
            "leave it out if it only counts the rows."
        )
    for name in first:
        if first.count(name) > 1:
            raise ValueError(f"{path}: must have columns of different names, got {name!r} twice.")
    return first


def _take(
    path: Path,
    line: int,
    cells: list[str],
    place: int,
    names: list[str] | None,
    values: array,
    labels: list[str],
    lines: array,
) -> None:
    """Append a row."""
    name = cells[place]
    if name.lower() in NO_LABEL:
        raise ValueError(f"{path}, line {line}: {_no_label(name)}")
    try:
        values.extend([float(cell) for i, cell in enumerate(cells) if i != place])
    except ValueError:
        wrong = next(i for i, cell in enumerate(cells) if i != place and not _is_number(cell))
        raise ValueError(_not_a_number(path, line, wrong, names, cells[wrong])) from None
    labels.append(name)
    lines.append(line)


def _no_label(name: str) -> str:
    if not name.strip():
        return "has no label; leave such samples out."
    return f"has no label but {str(name)!r}; leave such samples out, or give that class a name."


def _not_a_number(path: Path, line: int, column: int, names: list[str] | None, cell: str) -> str:
    where = f"column {column + 1}" if names is None else f"column {names[column]!r}"
    if cell.lower() in MISSING:
        return (
            f"{path}, line {line}, {where}: a number is missing; leave such rows out or fill the "
            "gaps."
        )
    advice = "write categories as numbers, or name the label's column if this is it (--label)"
    return f"{path}, line {line}, {where}: must be a finite number, got {cell[:40]!r}; {advice}."


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _labels(labels: list[str]) -> np.ndarray:
    """Return labels as whole numbers if all are, in the one way to write them; else as text."""
    try:
        numbers = [int(label) for label in labels]
        if [str(number) for number in numbers] == labels:
            return np.array(numbers, dtype=np.int64)
    except (ValueError, OverflowError):
        pass
    return np.array(labels)


def _some(names: list[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
