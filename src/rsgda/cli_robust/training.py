"""`rsgda robust fit`: read, train, save, report."""

import io
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from rsgda import cli_output as output
from rsgda import plots, report
from rsgda.cli_robust import folder, told
from rsgda.cli_robust.source import Known, Preparation, Source
from rsgda.data.samples import Samples
from rsgda.drive.folder import CheckpointMismatch
from rsgda.robust.classifier import RobustClassifier
from rsgda.robust.presets import presets

Labelled = tuple[np.ndarray, np.ndarray]


def run(
    source: Source,
    *,
    test: Source | None,
    test_fraction: float | None,
    preset: str | None,
    given: dict[str, Any],
    standardise: bool | None,
    seed: int,
    out: Path,
    force: bool,
) -> None:
    """Fit a classifier to the samples of a file, and leave a folder with it and its report."""
    parameters = _parameters(preset, given)
    folder.check_room(out, force)
    samples = source.read()
    _check_classes(samples, source.path)
    told.say_read(source.path, samples)
    told.say_single(source.path, samples.y)
    held = None
    if test_fraction is not None:
        samples, held = _split(samples, test_fraction, seed)
        output.say(f"kept out for testing: {len(held.X):,} samples")
    X, y = samples.X, samples.y
    preparation = _preparation(samples, standardise, parameters)
    known = Known("the fit", preparation, _shape(X), np.unique(y))
    if test is not None:
        held = known.read(test)
        told.say_read(test.path, held)
    held_out = None if held is None else known.fitted(held, (test or source).path)
    began = time.perf_counter()
    classifier = RobustClassifier(
        **parameters, random_state=seed, progress=output.is_watched(), checkpoint=None
    )
    X = preparation.apply(X)
    _fit(classifier, X, y, out, force)
    seconds = time.perf_counter() - began
    classifier.set_params(checkpoint=None, progress=False)
    folder.save(out, classifier, preparation)
    folder.forget_checkpoint(out)
    model = folder.Model(out, classifier, preparation)
    numbers, rows = _measured(model, (X, y), held_out)
    files = {"report.html": _page(model, source, numbers, rows, X, y).encode()}
    if test_fraction is not None and held is not None:
        files["test.npz"] = _npz(held)
    output.show(("fit", ""), numbers.items())
    output.say(f"{out}: {folder.NOTE}, weights and {folder.PREPARATION} ({seconds:.0f} s)")
    output.write(out, files)


def _parameters(preset: str | None, given: dict[str, Any]) -> dict[str, Any]:
    base = presets[preset] if preset else {}
    unused = [name for name in ("p", "alpha", "eta") if name in given and "algorithm" in base]
    if unused:
        raise ValueError(f"--{unused[0]} has no part in --preset {preset}, which has its own.")
    if "validation_fraction" in given and "early_stopping" not in given:
        raise ValueError("--validation-fraction is for --early-stopping; give both or none.")
    return {**base, **given}


def _check_classes(samples: Samples, path: Path) -> None:
    n, classes = len(samples.y), len(np.unique(samples.y))
    if classes < 2:
        raise ValueError(f"{path} must hold at least two classes, all labels are {samples.y[0]}.")
    if n >= 10 and classes > n / 2:
        of = "" if samples.label is None else f", column {samples.label!r},"
        raise ValueError(
            f"{path}: the labels{of} take {classes:,} different values in {n:,} samples, which are "
            "no classes; name the column of the labels (--label)."
        )


def _split(samples: Samples, fraction: float, seed: int) -> tuple[Samples, Samples]:
    parts = train_test_split(
        np.arange(len(samples.y)), test_size=fraction, stratify=samples.y, random_state=seed
    )
    kept, held = (np.sort(part) for part in parts)
    X, y = samples.X, samples.y
    return samples._replace(X=X[kept], y=y[kept]), samples._replace(X=X[held], y=y[held])


def _npz(samples: Samples) -> bytes:
    file = io.BytesIO()
    np.savez(file, X=samples.X, y=samples.y)
    return file.getvalue()


def _preparation(samples: Samples, wanted: bool | None, parameters: dict[str, Any]) -> Preparation:
    rows = samples.X.ndim == 2
    fixed = [name for name in ("box", "pixels") if parameters.get(name) is not None]
    if wanted and (fixed or not rows):
        why = "for rows of features, not for images" if not rows else f"not with {fixed[0]}"
        raise ValueError(f"--standardise is {why}, as ranges are in the units of the data.")
    if not (rows and not fixed if wanted is None else wanted):
        return Preparation(samples.names, samples.label)
    scaler = StandardScaler().fit(samples.X.astype(np.float64, copy=False))
    mean, scale = np.asarray(scaler.mean_), np.asarray(scaler.scale_)
    return Preparation(samples.names, samples.label, mean, scale)


def _shape(X: np.ndarray) -> tuple[int, ...]:
    return (*X.shape[1:], 1) if X.ndim == 3 else X.shape[1:]


def _fit(
    classifier: RobustClassifier, X: np.ndarray, y: np.ndarray, out: Path, force: bool
) -> None:
    """Fit, from the checkpoint if there is one; with force another fit's is removed."""
    checkpoint = out / folder.CHECKPOINT
    if checkpoint.exists():
        output.say(f"{checkpoint} holds an unfinished fit, which continues")
    classifier.set_params(checkpoint=checkpoint)
    with warnings.catch_warnings(record=True, category=UserWarning, action="always") as noted:
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            classifier.fit(X, y)
        except ValueError as error:
            further = str(error).startswith("`steps` must be at least the")
            if not (further or isinstance(error, CheckpointMismatch)):
                raise
            if not force:
                other = "that has gone further than --epochs" if further else "of another call"
                raise ValueError(
                    f"{out} holds an unfinished fit {other}; make that call again, choose another "
                    "--out, or begin anew with --force." + ("" if further else f" ({error})")
                ) from error
            output.say("it is another fit's and is removed")
            folder.forget_checkpoint(out)
            classifier.fit(X, y)
    for note in noted:
        output.say(f"note: {str(note.message).replace('`X`', 'DATA')}")
    if classifier.status_ == "DIVERGED":
        folder.forget_checkpoint(out)
        raise ValueError(
            f"the fit diverged at step {classifier.n_iter_:,} and nothing was saved; give a "
            "smaller --alpha, or a larger --gamma."
        )


def _measured(
    model: folder.Model, trained: Labelled, held_out: Labelled | None
) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """Return headline numbers, and those of each class on samples that were not trained on."""
    classifier, numbers, rows = model.classifier, {}, []
    if held_out is not None:
        X, y = held_out
        right = classifier.predict(X) == y
        numbers[f"right of {len(y):,} test samples"] = output.percent(np.mean(right))
        rows = told.by_class(y, right, classifier.classes_)
    history = classifier.history_
    if "validation_accuracy" in history:
        best = np.max(history["validation_accuracy"])
        numbers["right in validation, at best"] = output.percent(best)
    numbers["right on training samples"] = output.percent(classifier.score(*trained))
    numbers["epochs"] = output.number(history["epoch"][-1])
    numbers["gradients"] = f"{history['gradients'][-1]:,}"
    return numbers, rows


def _page(
    model: folder.Model,
    source: Source,
    numbers: dict[str, str],
    rows: list[tuple[str, str, str]],
    X: np.ndarray,
    y: np.ndarray,
) -> str:
    classifier, history = model.classifier, model.classifier.history_
    plain = classifier.gamma == np.inf
    first: list[str] = [report.numbers(numbers)]
    if not any("test samples" in name for name in numbers):
        first.append(
            report.notice(
                "No samples were kept out for testing, so these numbers do not say how it will do "
                "on new ones: give --test or --test-fraction."
            )
        )
    start, end = history["objective"][0], history["objective"][-1]
    says = (
        f"The objective, which training minimises, went from {start:.3g} to {end:.3g}. "
        + ("It is the mean loss." if plain else "It is the mean loss less the penalty, with ")
        + ("" if plain else "samples where their adversaries have moved them. ")
        + "A curve that still falls at its end asks for more epochs (--epochs), one that leaps for "
        "a smaller step (--alpha)."
    )
    curve = report.figure(output.svg(_curve(history)), shows="The objective by epoch.", says=says)
    sections = [report.Section("", first), report.Section("Training", [curve])]
    if rows:
        table = report.table(("class", "test samples", "right"), rows)
        sections.append(report.Section("Class by class", [table]))
    sections.append(report.Section("Settings", [report.settings(told.settings(model))]))
    return report.page(
        f"A classifier of {source.path.name}",
        sections,
        about=f"Trained on {told.size(X, y)}, "
        + ("without adversaries." if plain else f"robustly: gamma {classifier.gamma:g}."),
        foot=output.versions(),
    )


def _curve(history: dict[str, np.ndarray]) -> Figure:
    validated = "validation_accuracy" in history
    figure = Figure(figsize=(8.5, 3.6), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, 1 + validated))
    axes[0].plot(history["epoch"], history["objective"], color=plots.COLOURS[0], linewidth=2)
    axes[0].set(xlabel="epoch", ylabel="objective")
    if validated:
        share = 100 * np.asarray(history["validation_accuracy"])
        axes[1].plot(history["epoch"], share, color=plots.COLOURS[1], linewidth=2)
        axes[1].set(xlabel="epoch", ylabel="right in validation, %", ylim=(None, 101))
    for each in axes:
        plots.tidy(each)
    return figure
