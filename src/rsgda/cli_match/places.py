"""Where a match reads from and writes to; nothing is overwritten unless that is asked for."""

import contextlib
import csv
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rsgda.drive.folder import NOTE

SAVING = ".saving-"


class Places(NamedTuple):
    """What is written, and where.

    Attributes:
        out: the annotated source.
        report: a page of HTML.
        matcher: the folder of the fitted map, if it is kept.
        checkpoint: the folder of a match that is not finished.
    """

    out: Path
    report: Path
    matcher: Path | None
    checkpoint: Path

    @classmethod
    def of(
        cls, out: Path, report: Path | None, matcher: Path | None, checkpoint: Path | None
    ) -> "Places":
        """Fill in what was not given."""
        if out.suffix.lower() != ".h5ad":
            raise ValueError(f"--out must end in .h5ad, got {str(out)!r}.")
        report = report or out.with_suffix(".html")
        if report.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"--report must end in .html, got {str(report)!r}.")
        return cls(out, report, matcher, checkpoint or out.with_suffix(".checkpoint"))

    def check(self, read: Iterable[Path], force: bool) -> None:
        """Refuse places that hold something, or that cannot be written to."""
        mine = {"--out": self.out, "--report": self.report, "--matcher": self.matcher}
        for option, path in mine.items():
            if path is None:
                continue
            _check_folder(option, path)
            if any(path.resolve() == each.resolve() for each in read):
                raise ValueError(f"{option} must not be a file that is read, got {path}.")
            if path.is_dir() and option != "--matcher":
                raise IsADirectoryError(f"{option} must be a file, {path} is a folder.")
            if path.exists() and not force:
                raise FileExistsError(
                    f"{option} {path} is there already; choose another, or replace it with --force."
                )
        if self.matcher is not None:
            _check_matcher(self.matcher)
        placed: dict[Path, str] = {}
        for option, path in (mine | {"--checkpoint": self.checkpoint}).items():
            before = None if path is None else placed.setdefault(path.resolve(), option)
            if before not in (None, option):
                raise ValueError(f"{before} and {option} must be two places, got {path} for both.")
        _check_folder("--checkpoint", self.checkpoint)
        if self.checkpoint.exists() and not self.checkpoint.is_dir():
            raise NotADirectoryError(f"--checkpoint must be a folder, {self.checkpoint} is a file.")
        # It is removed at the end: nobody's own folder may be taken for one.
        if self.checkpoint.is_dir() and any(self.checkpoint.iterdir()) and not self._is_ours():
            raise FileExistsError(
                f"--checkpoint must be a new or empty folder or that of an unfinished match, "
                f"{self.checkpoint} holds something else."
            )

    def forget(self) -> None:
        """Remove what an unfinished match has left."""
        if self._is_ours():
            shutil.rmtree(self.checkpoint, ignore_errors=True)

    @contextlib.contextmanager
    def set_aside(self) -> Iterator[None]:
        """Make room for a new match; an unfinished one is lost once the new one has begun."""
        if not self.unfinished:
            yield
            return
        aside = self.checkpoint.with_name(f"{self.checkpoint.name}.{os.getpid()}")
        self.checkpoint.rename(aside)
        try:
            yield
        except BaseException:
            if not self.checkpoint.exists():
                aside.rename(self.checkpoint)
            raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    @property
    def unfinished(self) -> bool:
        """Whether there is a match to continue."""
        return self._is_ours()

    def _is_ours(self) -> bool:
        return (self.checkpoint / NOTE).is_file()

    def save(self, adata: Any) -> None:
        """Write the annotated source: beside its place first, so that none is ever half there."""
        folder = self.out.absolute().parent
        with tempfile.TemporaryDirectory(prefix=SAVING, dir=folder) as aside:
            new = Path(aside) / self.out.name
            adata.write_h5ad(new)
            os.replace(new, self.out)


def _check_folder(option: str, path: Path) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{option}: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{option}: {folder} cannot be written to.")


def _check_matcher(path: Path) -> None:
    from rsgda import _model_file
    from rsgda.singlecell.matcher_file import KIND

    try:
        _model_file.check_place(path, KIND)
    except ValueError as error:
        raise ValueError(str(error).replace("`path`", "--matcher")) from error


def read_cells(which: str, path: Path) -> Any:
    """Read an h5ad file; what is none is refused in one sentence."""
    if not path.exists():
        raise FileNotFoundError(f"`{which}`: there is no file {path}.")
    if path.is_dir():
        raise IsADirectoryError(f"`{which}` must be an .h5ad file, {path} is a folder.")
    try:
        import anndata
        import h5py  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ValueError('anndata reads these files: pip install "rsgda[singlecell]".') from error
    if not h5py.is_hdf5(path):
        raise ValueError(f"`{which}` must be an .h5ad file, {path} is none, or is cut off.")
    try:
        cells = anndata.read_h5ad(path)
    except Exception as error:  # a damaged file can fail in many ways
        first = " ".join(str(error).split())[:200]
        raise ValueError(
            f"`{which}` must be an .h5ad file, {path} cannot be read: {first or type(error)}."
        ) from error
    if cells.n_obs == 0 or (cells.n_vars == 0 and not len(cells.obsm)):
        raise ValueError(f"`{which}`: {path} has {cells.n_obs} cells × {cells.n_vars} features.")
    return cells


def read_pairs(which: str, path: Path) -> list[tuple[str, str]]:
    """Read pairs of names, one in each line."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"`{which}` must be a .csv file, {path} is none: {error}.") from error
    except OSError as error:
        raise OSError(f"`{which}`: {path} cannot be read: {error.strerror or error}.") from error
    wrong = next((row for row in rows if len(row) != 2), None)
    if wrong is not None or not rows:
        got = "no line" if wrong is None else repr(",".join(wrong)[:80])
        raise ValueError(f"`{which}`: {path} must have two names in each line, got {got}.")
    return [(one.strip(), other.strip()) for one, other in rows]
