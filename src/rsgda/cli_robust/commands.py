"""Options of `rsgda robust` and what they mean; nothing heavy is imported before a command runs."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

PRESETS = ("paper", "authors", "sinha")
NETWORKS = ("auto", "mlp", "cnn", "sinha_cnn", "authors_cnn")
NORMS = ("l2", "linf")

app = typer.Typer(
    no_args_is_help=True,
    help="Train a classifier that withstands moved samples, and see how much it does.",
)

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A .npz file with arrays X and y, a .csv file with a column of labels, or an IDX file "
        "of images.",
        show_default=False,
    ),
]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The folder of a fit.", show_default=False)
]
Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The labels, for IDX.",
        show_default="the file beside it, if named as MNIST's are",
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The column of the labels, for .csv.", show_default="the last"
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what --out holds.")]
Seed = Annotated[int, typer.Option(help="All randomness; equal seeds give equal results.")]


@app.command()
def fit(
    data: Data,
    labels: Labels = None,
    label: Label = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of the model and its report.")
    ] = Path("rsgda-model"),
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Samples to measure the accuracy on.")
    ] = None,
    test_labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Their labels, for IDX.")
    ] = None,
    test_fraction: Annotated[
        float | None,
        typer.Option(
            help="The part of DATA that is kept out for that instead, as test.npz in --out."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(PRESETS),
            help="A published setting, for images; options beside it come first.",
        ),
    ] = None,
    gamma: Annotated[
        float | None,
        typer.Option(
            help="The penalty. Smaller is more robust; inf is plain training.", show_default="1.3"
        ),
    ] = None,
    p: Annotated[
        float | None,
        typer.Option(
            help="Probability of a descent.", show_default="found; 0.25 beside a step size"
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(help="Step size of the network.", show_default="found; else 0.1"),
    ] = None,
    eta: Annotated[
        float | None,
        typer.Option(
            help="Step size of the adversaries.", show_default="found; else batch size/(4 gamma)"
        ),
    ] = None,
    epochs: Annotated[
        float | None,
        typer.Option(
            help="Passes over the data.",
            show_default="20, or more until 3,000 gradients or 500 epochs",
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Samples in a gradient.", show_default="128")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help=f"{', '.join(NETWORKS)}.", show_default="mlp for rows, else cnn"
        ),
    ] = None,
    label_smoothing: Annotated[
        float | None, typer.Option(help="From 0 to 1.", show_default="0")
    ] = None,
    box: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="The range that adversaries are kept in."),
    ] = None,
    standardise: Annotated[
        bool | None,
        typer.Option(
            help="Give each feature mean 0 and variance 1, here and whenever the model is used; "
            "gamma, radii and rho are in these units.",
            show_default="for rows, unless there is a box",
        ),
    ] = None,
    early_stopping: Annotated[
        bool, typer.Option("--early-stopping", help="Keep the weights that validate best.")
    ] = False,
    validation_fraction: Annotated[
        float | None,
        typer.Option(help="The part that validates with it.", show_default="0.1"),
    ] = None,
    seed: Seed = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the model, or the unfinished fit, of --out.")
    ] = False,
) -> None:
    """Train a robust classifier; an interrupted fit goes on when it is called again.

    Example: rsgda robust fit flowers.csv --test-fraction 0.2 --out flowers-model
    """
    _one_of("--preset", preset, (None, *PRESETS))
    _one_of("--network", network, (None, *NETWORKS))
    if test is None and test_labels is not None:
        raise ValueError("--test-labels are those of --test, which is missing.")
    if test is not None and test_fraction is not None:
        raise ValueError("--test and --test-fraction exclude each other.")
    if test_fraction is not None and not 0 < test_fraction < 1:
        raise ValueError(f"--test-fraction must lie in (0, 1), got {test_fraction}.")
    options: dict[str, Any] = {
        "gamma": gamma,
        "p": p,
        "alpha": alpha,
        "eta": eta,
        "epochs": epochs,
        "batch_size": batch_size,
        "network": network,
        "label_smoothing": label_smoothing,
        "box": box,
        "early_stopping": early_stopping or None,
        "validation_fraction": validation_fraction,
    }
    with _named_as_options():
        from rsgda.cli_robust import training
        from rsgda.cli_robust.source import Source

        training.run(
            Source(data, labels, label),
            test=None if test is None else Source(test, test_labels, label),
            test_fraction=test_fraction,
            preset=preset,
            given={name: value for name, value in options.items() if value is not None},
            standardise=standardise,
            seed=seed,
            out=out,
            force=force,
        )


@app.command()
def evaluate(
    model: Model,
    data: Data,
    labels: Labels = None,
    label: Label = None,
    against: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Another model, to stand beside it.")
    ] = None,
    norm: Annotated[
        str, typer.Option(metavar="|".join(NORMS), help="How attacks are measured.")
    ] = "l2",
    radii: Annotated[
        str | None,
        typer.Option(
            metavar="R,R,...",
            help="How far attacks may move a sample.",
            show_default="up to where half the samples could become one of another class",
        ),
    ] = None,
    steps: Annotated[int, typer.Option(help="Gradient steps of an attack.")] = 40,
    restarts: Annotated[int, typer.Option(help="Random starts of an attack.")] = 1,
    samples: Annotated[
        int, typer.Option(help="Samples to attack at most, drawn at random.")
    ] = 1_000,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write.", show_default="MODEL/evaluate"),
    ] = None,
    force: Force = False,
) -> None:
    """Measure the accuracy, and what is left of it when samples are attacked.

    Example: rsgda robust evaluate flowers-model flowers-model/test.npz --radii 0,0.1,0.2,0.5
    """
    _one_of("--norm", norm, NORMS)
    wanted = _numbers("--radii", radii)
    _at_least("--samples", samples, 1)
    with _named_as_options():
        from rsgda.cli_robust import attacked
        from rsgda.cli_robust.source import Source

        attacked.run(
            model,
            Source(data, labels, label),
            against=against,
            attack=attacked.Attack(norm, wanted, steps, restarts, samples, seed),
            out=out or model / "evaluate",
            force=force,
        )


@app.command()
def certify(
    model: Model,
    data: Data,
    labels: Labels = None,
    label: Label = None,
    rho: Annotated[
        str | None,
        typer.Option(
            metavar="RHO,RHO,...",
            help="Mean squared distances that samples may be moved by.",
            show_default="up to twice what the adversaries of the fit do",
        ),
    ] = None,
    gamma: Annotated[
        str | None,
        typer.Option(
            metavar="GAMMA,...",
            help="Penalties, the best of which is taken at each rho.",
            show_default="doubled until all samples are certified",
        ),
    ] = None,
    steps: Annotated[int, typer.Option(help="Gradient steps of the attacks beside it.")] = 40,
    samples: Annotated[int, typer.Option(help="Samples to take at most, drawn at random.")] = 200,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write.", show_default="MODEL/certify"),
    ] = None,
    force: Force = False,
) -> None:
    """Bound the loss whatever way the samples are moved, beside the strongest attack found.

    Example: rsgda robust certify flowers-model flowers-model/test.npz --rho 0,0.05,0.1
    """
    rhos, gammas = _numbers("--rho", rho), _numbers("--gamma", gamma)
    _at_least("--samples", samples, 1)
    with _named_as_options():
        from rsgda.cli_robust import certified
        from rsgda.cli_robust.source import Source

        certified.run(
            model,
            Source(data, labels, label),
            rho=rhos,
            gamma=gammas,
            steps=steps,
            samples=samples,
            seed=seed,
            out=out or model / "certify",
            force=force,
        )


@contextlib.contextmanager
def _named_as_options() -> Iterator[None]:
    """Let messages speak of options where they speak of arguments."""
    same = "gamma|p|alpha|eta|epochs|batch_size|network|label_smoothing|box|validation_fraction"
    same += "|norm|radii|steps|restarts|rho|early_stopping"
    names = {name: f"--{name.replace('_', '-')}" for name in same.split("|")}
    names |= {
        "X": "DATA",
        "y": "the labels",
        "shape": "the shape of a sample",
        "pixels": "--preset",
    }
    names |= {"checkpoint": "--out", "random_state": "--seed"}
    try:
        yield
    except (ValueError, OSError) as error:
        said = re.sub(r"`(\w+)`", lambda found: names.get(found[1], found[0]), str(error))
        raise (ValueError if isinstance(error, ValueError) else OSError)(said) from error


def _one_of(option: str, value: str | None, known: tuple[str | None, ...]) -> None:
    if value not in known:
        names = ", ".join(name for name in known if name)
        raise ValueError(f"{option} must be one of {names}, got {value!r}.")


def _at_least(option: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{option} must be at least {least}, got {value}.")


def _numbers(option: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be numbers with commas between, got {text!r}.") from None
