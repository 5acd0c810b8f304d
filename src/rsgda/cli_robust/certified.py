"""`rsgda robust certify`: what the loss can be at most, and what the strongest attack reaches."""

import warnings
from pathlib import Path

import jax.random as jr
import numpy as np

from rsgda import cli_output as output
from rsgda import plots, report
from rsgda.cli_robust import folder, told
from rsgda.cli_robust.source import Source, grid, some
from rsgda.cli_robust.told import at_most
from rsgda.inner import ConcavityWarning
from rsgda.robust.attacks import wrm_attack
from rsgda.robust.budget import TransportAttack, transport_attack
from rsgda.robust.certificate import Certificate

GAMMA = 1.3  # of the attack that finds rhos, for a model that has none
CSV_COLUMNS = ("rho", "bound", "share", "gamma", "attack")
FILES = ("certificate.csv", "certificate.png", "report.html")


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
    force: bool,
) -> None:
    """Certify a model on the samples of a file, and leave a folder with the numbers."""
    model = folder.load(path)
    folder.check_report(out, FILES, force)
    classifier = model.classifier
    read = model.known.read(source)
    told.say_read(source.path, read)
    X, y = model.known.fitted(read, source.path)
    places = some(len(X), samples, seed)
    n = len(X)
    X, y = X[places], y[places]
    inputs = classifier.inputs(X)
    codes = np.searchsorted(classifier.classes_, y)
    if rho is None:
        own = classifier.gamma if np.isfinite(classifier.gamma) else GAMMA
        moved = wrm_attack(
            classifier.network_, inputs, codes, gamma=own, key=jr.key(seed), loss=classifier.loss,
            label_smoothing=classifier.label_smoothing, box=classifier.box,
        )  # fmt: skip
        # Twice as far as the adversary goes that the model was trained with.
        rho = grid(2 * float(np.sum(np.square(inputs - np.asarray(moved))) / len(y)))
    rho = sorted(set(rho))
    with warnings.catch_warnings():
        # The message is shown, and says how many samples are certified.
        warnings.simplefilter("ignore", ConcavityWarning)
        found = classifier.certificate(X, y, rho, gamma=gamma, progress=output.is_watched())
    attack = transport_attack(
        classifier.network_, inputs, codes, rho,
        key=jr.key(seed), steps=steps, loss=classifier.loss,
        label_smoothing=classifier.label_smoothing, box=classifier.box,
        progress=output.is_watched(),
    )  # fmt: skip
    first, found = found, found.against(attack)
    against = _against(first, found, attack)
    rows = list(zip(rho, found.bound, found.gamma, attack.loss, strict=True))
    shown = [
        (f"{r:g}", at_most(bound), f"{g:g}" if np.isfinite(g) else "–", f"{loss:#.4g}")
        for r, bound, g, loss in rows
    ]
    output.say(found.message)
    if against:
        output.say(against)
    output.say(
        f"the mean loss on {found.n:,} samples, which is {found.clean:#.4g}, when they move:"
    )
    output.show(_columns(found), shown, right=0)
    figure = plots.certificate(found, attack)
    page = _page(model, source, found, attack, against, n, output.svg(figure), shown)
    output.write(
        out,
        {
            "certificate.csv": report.as_csv(
                CSV_COLUMNS,
                [(r, float(b), found.share, float(g), float(loss)) for r, b, g, loss in rows],
            ),
            "certificate.png": plots.saved(figure, "png"),
            "report.html": page.encode(),
        },
    )


def _columns(found: Certificate) -> tuple[str, ...]:
    most = "loss at most" if found.share == 1 else "loss at most, an estimate"
    return ("rho", most, "gamma", "attack found")


def _against(first: Certificate, found: Certificate, attack: TransportAttack) -> str:
    """Say what the attack contradicts, of the certificate as it was first and as it is now."""
    words = []
    if found is not first:
        last = max(
            old.gamma
            for old, new in zip(first.inner, found.inner, strict=True)
            if old.share > new.share
        )
        words.append(
            "The attack reached more than had been certified: gammas up to "
            f"{last:g} are taken as certifying nothing."
        )
    low = [f"{r:g}" for r, b, a in zip(found.rho, found.bound, attack.loss, strict=True) if a > b]
    if found.share < 1 and low:
        words.append(f"At rho {', '.join(low)} the estimate is too small: the attack found more.")
    return " ".join(words)


def _certified(found: Certificate) -> int:
    return round(found.share * found.n)


def _page(
    model: folder.Model,
    source: Source,
    found: Certificate,
    attack: TransportAttack,
    against: str,
    n: int,
    svg: bytes,
    shown: list[tuple[str, ...]],
) -> str:
    place = len(found.rho) // 2
    rho = f"{found.rho[place]:g}"
    sure = found.share == 1
    most = "at most" if sure else "estimated to be at most"
    numbers = {
        "mean loss, not moved": f"{found.clean:#.4g}",
        f"{most}, moved by rho {rho}": at_most(found.bound[place]),
        "samples are certified": f"{_certified(found):,} of {found.n:,}",
        f"by the strongest attack found at rho {rho}": f"{attack.loss[place]:#.4g}",
    }
    first: list[str] = [report.numbers(numbers)]
    if not sure:
        first.append(
            report.notice(
                "Not all samples are certified, so that the bound is an estimate that can be too "
                "small. A larger --gamma certifies more."
            )
        )
    if against:
        first.append(report.notice(against))
    says = "rho is the mean squared distance by which samples may be moved. "
    if sure:
        says += (
            "As far as concavity was looked at, the mean loss stays under the upper line, whatever "
            "way they are moved. The lower line is reached by an attack. The worst case is then "
            "between the two, and the nearer they are, the more is known of it."
        )
    else:
        says += (
            "The upper line is an estimate of how high the mean loss can get, and can be too low; "
            "the lower one is reached by an attack, so that the worst case is there or above."
        )
    figure = report.figure(svg, shows="The bound and the attack against rho.", says=says)
    words = (
        "At each rho the best gamma is taken, of those that certify most samples. A sample is "
        "certified if its objective was strongly concave wherever it was looked at. At rho 0 "
        "nothing moves."
    )
    settings = {
        "model": str(model.folder),
        "samples": f"{found.n:,} of {n:,}",
        "gammas": ", ".join(f"{at.gamma:g}" for at in found.inner),
        "certified samples at each": ", ".join(f"{np.sum(at.certified):,}" for at in found.inner),
        **{name: value for name, value in told.settings(model).items() if name != "gamma"},
        "gamma of the fit": f"{model.classifier.gamma:g}",
    }
    sections = [
        report.Section("", first),
        report.Section("The certificate", [figure, found.message]),
        report.Section("Numbers", [report.table(_columns(found), shown, right=0), words]),
        report.Section("Settings", [report.settings(settings)]),
    ]
    return report.page(
        f"How much {model.folder.absolute().name} can lose on {source.path.name}",
        sections,
        about=f"{'A bound on' if sure else 'An estimate of'} its loss on {found.n:,} samples when "
        "they are moved, and what an attack reaches.",
        foot=output.versions(),
    )
