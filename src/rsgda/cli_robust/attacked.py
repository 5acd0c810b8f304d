"""`rsgda robust evaluate`: accuracy, and accuracy under attack."""

from pathlib import Path
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np

from rsgda import cli_output as output
from rsgda import plots, report
from rsgda.cli_robust import folder, told
from rsgda.cli_robust.source import Source, apart, grid, some
from rsgda.robust.curves import Robustness, robustness

FILES = ("robustness.csv", "robustness.png", "report.html")
WORDS = {"l2": "L2", "linf": "L∞"}


class Attack(NamedTuple):
    """What is tried on the samples."""

    norm: str
    radii: list[float] | None
    steps: int
    restarts: int
    samples: int
    seed: int


class Seen(NamedTuple):
    """What one model did."""

    model: folder.Model
    right: np.ndarray  # which of all samples
    curve: Robustness


def run(
    path: Path, source: Source, *, against: Path | None, attack: Attack, out: Path, force: bool
) -> None:
    """Measure one or two models on the samples of a file, and leave a folder with the numbers."""
    if against is not None and against.absolute() == path.absolute():
        raise ValueError(f"--against must be another model than {path}.")
    models = {_name(path, against): folder.load(path)}
    if against is not None:
        models[_name(against, path)] = folder.load(against)
        _check_alike(*models.values())
    folder.check_report(out, FILES, force)
    first = next(iter(models.values()))
    samples = first.known.read(source)
    told.say_read(source.path, samples)
    X, y = first.known.fitted(samples, source.path)
    places = some(len(X), attack.samples, attack.seed)
    if attack.radii is None:
        inputs = first.classifier.inputs(X)
        attack = attack._replace(radii=grid(apart(inputs, y, attack.norm)))
    attack = attack._replace(radii=sorted({0.0, *(attack.radii or ())}))
    seen = {}
    for name, model in models.items():
        X, y = model.known.fitted(samples, source.path)
        right = model.classifier.predict(X) == y
        seen[name] = Seen(model, right, _curve(model, X[places], y[places], attack))
    columns, rows = _table(seen)
    output.say(f"clean accuracy on {len(y):,} samples: {_clean(seen)}")
    output.say(f"under attacks by projected gradients on {len(places):,} samples:")
    shown = [(f"{radius:g}", *(output.percent(part) for part in parts)) for radius, *parts in rows]
    output.show((f"radius, {WORDS[attack.norm]}", *columns[1:]), shown, right=0)
    figure = plots.robustness({name: one.curve for name, one in seen.items()})
    page = _page(seen, source, y, attack, output.svg(figure), shown)
    output.write(
        out,
        {
            "robustness.csv": report.as_csv(columns, rows),
            "robustness.png": plots.saved(figure, "png"),
            "report.html": page.encode(),
        },
    )


def _name(path: Path, other: Path | None) -> str:
    """Return a short name that tells a model from the other one."""
    name = path.absolute().name
    return str(path) if other is not None and other.absolute().name == name else name


def _check_alike(one: folder.Model, other: folder.Model) -> None:
    """Refuse two models for which a radius is not the same."""
    pixels = one.classifier.pixels or (0.0, 1.0), other.classifier.pixels or (0.0, 1.0)
    if not one.preparation.same_units(other.preparation) or pixels[0] != pixels[1]:
        raise ValueError(
            f"{one.folder} and {other.folder} must see samples in the same units, but they are "
            "scaled differently; fit both to the same samples with the same --standardise."
        )


def _curve(model: folder.Model, X: np.ndarray, y: np.ndarray, attack: Attack) -> Robustness:
    classifier = model.classifier
    inputs = classifier.inputs(X)
    return robustness(
        classifier.network_,
        inputs,
        np.searchsorted(classifier.classes_, y),
        attack.radii,
        key=jr.key(attack.seed),
        norm=attack.norm,
        steps=attack.steps,
        restarts=attack.restarts,
        box=classifier.box,
        progress=output.is_watched(),
    )


def _table(seen: dict[str, Seen]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    curves = [one.curve for one in seen.values()]
    rows = zip(curves[0].radii.tolist(), *(c.accuracy.tolist() for c in curves), strict=True)
    return ("radius", *seen), list(rows)


def _clean(seen: dict[str, Seen]) -> str:
    each = {name: output.percent(np.mean(one.right)) for name, one in seen.items()}
    if len(each) == 1:
        return next(iter(each.values()))
    return ", ".join(f"{name} {part}" for name, part in each.items())


def _page(
    seen: dict[str, Seen],
    source: Source,
    y: np.ndarray,
    attack: Attack,
    svg: bytes,
    shown: list[tuple[str, ...]],
) -> str:
    first = next(iter(seen.values()))
    curve, names = first.curve, list(seen)
    middle = len(curve.radii) // 2
    radius = f"{curve.radii[middle]:g}"
    numbers = {}
    for name, one in seen.items():
        of = "" if len(seen) == 1 else f", {name}"
        numbers[f"right as they are{of}"] = output.percent(np.mean(one.right))
        numbers[f"right under attacks of radius {radius}{of}"] = output.percent(
            one.curve.accuracy[middle]
        )
    error = 100 / np.sqrt(curve.n)
    says = (
        f"{_falls(seen)} The curves are upper bounds: another attack may do better. With "
        f"{curve.n:,} samples chance may have moved them by {error:.1f} points (two standard "
        "errors at most)."
    )
    figure = report.figure(svg, shows="Accuracy against the radius of attacks.", says=says)
    table = report.table((f"radius, {WORDS[attack.norm]}", *names), shown, right=0)
    sections = [
        report.Section("", [report.numbers(numbers)]),
        report.Section("Under attack", [figure, table]),
    ]
    rows = told.by_class(y, first.right, first.model.classifier.classes_)
    if rows:
        of = "" if len(seen) == 1 else f", {names[0]}"
        each = report.table(("class", "samples", f"right as they are{of}"), rows)
        sections.append(report.Section("Class by class", [each]))
    settings = {
        "attack": f"projected gradients, {attack.steps} steps from each random start, on the loss "
        f"and on the margin; starts: {attack.restarts}, seed: {attack.seed}",
        "norm": WORDS[attack.norm],
        "samples attacked": f"{curve.n:,} of {len(y):,}",
    }
    sections.append(report.Section("Attacks", [report.settings(settings)]))
    for name, one in seen.items():
        shown_settings = report.settings(told.settings(one.model))
        sections.append(report.Section(f"Settings of {name}", [shown_settings]))
    title = f"{' and '.join(names)} on {source.path.name}"
    about = f"Accuracy on {len(y):,} samples, as they are and attacked."
    return report.page(title, sections, about=about, foot=output.versions())


def _falls(seen: dict[str, Seen]) -> str:
    """Say from which radius on fewer than half of the samples are right."""
    words = []
    for name, one in seen.items():
        low = one.curve.radii[one.curve.accuracy < 0.5]
        words.append(
            f"From radius {low[0]:g} on, {name} gets fewer than half of the samples right."
            if len(low)
            else f"At all radii, {name} gets at least half of the samples right."
        )
    return " ".join(words)
