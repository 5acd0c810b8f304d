"""`rsgda robust certify`: what the loss can be at most, and what the strongest attack reaches."""

import warnings
from pathlib import Path

import jax.random as jr
import numpy as np

from rsgda import plots, report
from rsgda.cli_robust import folder, told
from rsgda.cli_robust.source import Source, grid, some
from rsgda.cli_robust.told import at_most, percent
from rsgda.inner import ConcavityWarning
from rsgda.robust.attacks import wrm_attack
from rsgda.robust.budget import TransportAttack, transport_attack
from rsgda.robust.certificate import Certificate

TIMES = (0.5, 1.0, 2.0, 4.0)  # the gammas, in those of the model
GAMMA = 1.3  # for a model that has none

COLUMNS = ("rho", "loss at most", "certified for", "certified for all", "gamma", "attack found")
CSV_COLUMNS = ("rho", "bound", "share", "proof", "gamma", "attack")


def run(
    path: Path,
    source: Source,
    *,
    rho: list[float] | None,
    gamma: list[float] | None,
    steps: int,
    samples: int,
    seed: int,
    out: Path,
) -> None:
    """Certify a model on the samples of a file, and leave a folder with the numbers."""
    model = folder.load(path)
    classifier = model.classifier
    read = model.known.read(source)
    told.say_read(source.path, read)
    X, y = model.known.fitted(read, source.path)
    places = some(len(X), samples, seed)
    n = len(X)
    X, y = X[places], y[places]
    inputs = classifier.inputs(X)
    codes = np.searchsorted(classifier.classes_, y)
    own = classifier.gamma if np.isfinite(classifier.gamma) else GAMMA
    gamma = [own * times for times in TIMES] if gamma is None else gamma
    if rho is None:
        moved = wrm_attack(
            classifier.network_, inputs, codes, gamma=own, key=jr.key(seed), loss=classifier.loss,
            label_smoothing=classifier.label_smoothing, box=classifier.box,
        )  # fmt: skip
        # Twice as far as the adversary goes that the model was trained with.
        rho = grid(2 * float(np.sum(np.square(inputs - np.asarray(moved))) / len(y)))
    rho = sorted(set(rho))
    with warnings.catch_warnings():
        # The share of samples that it is no proof for is shown, and explained in the page.
        warnings.simplefilter("ignore", ConcavityWarning)
        found = classifier.certificate(X, y, rho, gamma=gamma, progress=told.is_watched())
    attack = transport_attack(
        classifier.network_, inputs, codes, rho,
        key=jr.key(seed), steps=steps, loss=classifier.loss,
        label_smoothing=classifier.label_smoothing, box=classifier.box,
        progress=told.is_watched(),
    )  # fmt: skip
    rows = list(
        zip(rho, found.bound, found.share, found.proof, found.gamma, attack.loss, strict=True)
    )
    shown = [
        (f"{r:g}", at_most(bound), percent(share), at_most(proof), f"{g:g}", f"{loss:.4g}")
        for r, bound, share, proof, g, loss in rows
    ]
    told.say(f"the mean loss on {found.n:,} samples, which is {found.clean:.4g}, when they move:")
    told.show(COLUMNS, shown, right=0)
    told.say(found.message)
    figure = plots.certificate(found, attack)
    page = _page(model, source, found, attack, n, told.svg(figure), shown)
    told.write(
        out,
        {
            "certificate.csv": told.as_csv(CSV_COLUMNS, [[float(v) for v in row] for row in rows]),
            "certificate.png": plots.saved(figure, "png"),
            "report.html": page.encode(),
        },
    )


def _page(
    model: folder.Model,
    source: Source,
    found: Certificate,
    attack: TransportAttack,
    n: int,
    svg: bytes,
    shown: list[tuple[str, ...]],
) -> str:
    place = len(found.rho) // 2
    rho = f"{found.rho[place]:g}"
    proved = bool(np.isfinite(found.proof[place]))
    bound, share = (found.proof[place], 1.0) if proved else (found.bound[place], found.share[place])
    numbers = {
        "mean loss, not moved": f"{found.clean:.4g}",
        f"at most, moved by rho {rho}": at_most(bound),
        "of the samples are certified for that": percent(share),
        f"by the strongest attack found at rho {rho}": f"{attack.loss[place]:.4g}",
    }
    first: list[str] = [report.numbers(numbers)]
    if np.any(found.share < 1):
        first.append(
            report.notice(
                "With some of the gammas a part of the samples only is certified. For the others "
                "the bound is an estimate that can be too small, as concavity failed there. A "
                "larger --gamma certifies more."
            )
        )
    says = "rho is the mean squared distance by which samples may be moved. "
    if proved:
        says += (
            "Whatever way they are, the mean loss stays under the solid upper line, as far as "
            "concavity was looked at; the lower line is reached by an attack, so that the worst "
            "case lies between the two. The nearer they are, the more is known."
        )
    else:
        says += (
            "The upper line is an estimate of how high the mean loss can get, and can be too low; "
            "the lower one is reached by an attack, so that the worst case is there or above."
        )
    figure = report.figure(svg, shows="The certified loss and the attack against rho.", says=says)
    words = (
        "“Loss at most” takes the best gamma at each rho; the next column has the part of the "
        "samples that are certified with it. “Certified for all” takes only gammas with which all "
        "samples are. A sample is certified if its objective was concave wherever it was looked at."
    )
    settings = {
        "model": str(model.folder),
        "samples": f"{found.n:,} of {n:,}",
        "gammas": ", ".join(f"{at.gamma:g}" for at in found.inner),
        "certified samples at each": ", ".join(percent(at.share) for at in found.inner),
        **{name: value for name, value in told.settings(model).items() if name != "gamma"},
        "gamma of the fit": f"{model.classifier.gamma:g}",
    }
    sections = [
        report.Section("", first),
        report.Section("The certificate", [figure, found.message]),
        report.Section("Numbers", [report.table(COLUMNS, shown, right=0), words]),
        report.Section("Settings", [report.settings(settings)]),
    ]
    return report.page(
        f"How much {model.folder.absolute().name} can lose on {source.path.name}",
        sections,
        about=f"A bound on its loss on {found.n:,} samples, whatever way they are moved.",
        foot=told.versions(),
    )
