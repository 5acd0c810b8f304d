"""`rsgda match`: read, match, write, report."""

import contextlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from rsgda import cli_output as output
from rsgda.cli_match import page
from rsgda.cli_match.places import Places, read_cells, read_pairs
from rsgda.drive.folder import CheckpointMismatch
from rsgda.reproduce.runner import write_aside
from rsgda.singlecell import tables
from rsgda.singlecell.match import match
from rsgda.singlecell.matcher import Matcher
from rsgda.singlecell.preprocessing import STEPS, Step

RAW = 30  # whole numbers up to here and beyond are counts that nobody has taken a logarithm of


def run(
    source: Path,
    target: Path,
    *,
    places: Places,
    force: bool,
    lists: dict[str, str],
    known: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Match the cells of two files, and leave an annotated one and a report.

    Args:
        source: the file to map.
        target: the file to map it to.
        places: where to write.
        force: replace what is there.
        lists: settings that are lists, as they were typed.
        known: what guides the match, as it was typed.
        options: all other arguments of `singlecell.match`.
    """
    given: dict[str, Any] = {
        name: _steps(name, lists[name]) for name in ("source_steps", "target_steps")
    }
    given["hidden"] = _layers(lists["hidden"])
    given |= {"shared": _shared(known["shared"]), "labels": _labels(known["labels"])}
    pairs = known["pairs"]
    given["pairs"] = None if pairs is None else read_pairs("pairs", pairs)
    places.check((source, target), force)
    began = time.perf_counter()
    cells, others = read_cells("source", source), read_cells("target", target)
    for path, each in ((source, cells), (target, others)):
        output.say(f"{path}: {each.n_obs:,} cells × {each.n_vars:,} features")
    notes = [
        note
        for which, each in (("source", cells), ("target", others))
        if (note := _raw(which, each, given, options)) is not None
    ]
    for note in notes:
        output.say(f"note: {note}")
    matcher = _matched(cells, others, places, force, given | options)
    output.say("drawing the report")
    text = page.page(
        matcher, others, options["label_key"], names=(source.name, target.name), notes=notes
    )
    if places.matcher is not None:
        matcher.save(places.matcher)
    places.save(matcher.adata)
    write_aside(places.report, text.encode())
    places.forget()
    output.show(("match", ""), page.headline(matcher).items())
    seconds = time.perf_counter() - began
    kept = "" if places.matcher is None else f", {places.matcher}"
    output.say(f"wrote {places.out}, {places.report}{kept} ({seconds:.0f} s)")


def _matched(
    cells: Any, others: Any, places: Places, force: bool, arguments: dict[str, Any]
) -> Matcher:
    """Match, from the checkpoint if there is one; with force another match's is removed."""
    if places.unfinished and not force:
        output.say(f"{places.checkpoint} holds an unfinished match, which continues if it is this")
    try:
        with places.set_aside() if force else contextlib.nullcontext():
            return match(
                cells, others, checkpoint=places.checkpoint, progress=output.is_watched(),
                **arguments,
            )  # fmt: skip
    except CheckpointMismatch as error:
        raise ValueError(
            f"{places.checkpoint} holds an unfinished match of other files or settings; make that "
            f"call again, choose another --checkpoint, or begin anew with --force. ({error})"
        ) from error
    except FloatingPointError as error:
        places.forget()
        raise ValueError(f"nothing was written: {error}") from error


def _steps(name: str, text: str) -> list[Step]:
    """Return steps of preprocessing, such as of "log1p,pca=20"."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        step, _, number = part.partition("=")
        if step not in STEPS:
            raise ValueError(f"`{name}` must be of {', '.join(STEPS)}, got {step!r}.")
        make: Any = STEPS[step]
        try:
            found.append(make(_number(number)) if number else make())
        except (TypeError, ValueError) as error:
            raise ValueError(f"`{name}`: {part!r} is no step: {error}") from error
    return found


def _number(text: str) -> float:
    return int(text) if text.isdigit() else float(text)


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(
            f"`hidden` must be whole numbers with commas between, got {text!r}."
        ) from None


def _shared(text: str | None) -> Any:
    return text if text is None or text == "names" else read_pairs("shared", Path(text))


def _labels(text: str | None) -> Any:
    if text is None or "," not in text:
        return text
    return tuple(part.strip() for part in text.split(","))


def _raw(which: str, cells: Any, given: dict[str, Any], options: dict[str, Any]) -> str | None:
    """Say so if cells look like raw counts and nothing is done to them."""
    if given[f"{which}_steps"] or options[f"{which}_obsm"] is not None:
        return None
    matrix = tables.read(which, cells, options[f"{which}_layer"]).matrix
    values = np.asarray(matrix.data if sp.issparse(matrix) else matrix).ravel()[:100_000]
    if not len(values) or values.min() < 0 or values.max() < RAW:
        return None
    if np.any(values != np.round(values)):
        return None
    return (
        f"the {which} looks like raw counts, which distances are not made for: see "
        f"--{which}-steps, such as normalize_total,log1p,scale for RNA and arcsinh=5,scale for "
        "mass cytometry."
    )
