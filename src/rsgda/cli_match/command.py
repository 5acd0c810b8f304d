"""Options of `rsgda match` and what they mean; nothing heavy is imported before it runs."""

import contextlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

STEPS = "normalize_total, log1p, arcsinh, highly_variable, scale, pca"


def match(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="The .h5ad file to map.", show_default=False),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET", help="The .h5ad file whose space it is mapped to.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="The annotated source, an .h5ad file."),
    ] = Path("aligned.h5ad"),
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The report.", show_default="--out, as .html"),
    ] = None,
    matcher: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the fitted map there, for new cells in Python."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where an unfinished match is kept; called again, it goes on.",
            show_default="--out, as .checkpoint",
        ),
    ] = None,
    source_layer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the source, in place of X.")
    ] = None,
    target_layer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the target, in place of X.")
    ] = None,
    source_obsm: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the source, in place of X.")
    ] = None,
    target_obsm: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the target, in place of X.")
    ] = None,
    source_steps: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help=f"What is done to the source first, of {STEPS}; a number with =. For counts of "
            "RNA: normalize_total,log1p,highly_variable=2000,scale",
            show_default="nothing",
        ),
    ] = "",
    target_steps: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Likewise to the target. For mass cytometry: arcsinh=5,scale",
            show_default="nothing",
        ),
    ] = "",
    shared: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|names",
            help="Features that both measure: a .csv file, a pair of names (source, target) in "
            "each line; or 'names' for all that are called alike.",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Labels known on both sides, which guide the match: a column of obs, or two as "
            "SOURCE,TARGET.",
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Cells known to be the same: a .csv file, a pair of names (source, target) in "
            "each line.",
        ),
    ] = None,
    guide: Annotated[
        float,
        typer.Option(help="How much --shared, --labels and --pairs weigh; 1 is as distances do."),
    ] = 1.0,
    label_key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Labels of the target to give to the source; scored if the source has them, too.",
        ),
    ] = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Row i of both is one cell; only the score uses it.")
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="The regularisation, in squared units of the target.",
            show_default="a hundredth of its mean squared distance",
        ),
    ] = None,
    hidden: Annotated[
        str, typer.Option(metavar="LIST", help="Layers of the network.")
    ] = "128,96,64",
    batch_size: Annotated[int, typer.Option(help="Cells of the target in a gradient.")] = 128,
    steps: Annotated[int, typer.Option(help="Steps of RSGDA.")] = 6_000,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal results.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what is there, and begin anew.")
    ] = False,
) -> None:
    """Map the cells of one technology into the space of another, and report on it.

    Example: rsgda match rna.h5ad cytof.h5ad -o aligned.h5ad --label-key type
    --source-steps normalize_total,log1p,scale --target-steps arcsinh=5,scale
    """
    with _named_as_options():
        from rsgda.cli_match import run
        from rsgda.cli_match.places import Places

        run.run(
            source,
            target,
            places=Places.of(out, report, matcher, checkpoint),
            force=force,
            lists={"source_steps": source_steps, "target_steps": target_steps, "hidden": hidden},
            known={"shared": shared, "labels": labels, "pairs": pairs},
            options={
                "source_layer": source_layer, "target_layer": target_layer,
                "source_obsm": source_obsm, "target_obsm": target_obsm,
                "guide": guide, "label_key": label_key, "paired": paired, "epsilon": epsilon,
                "batch_size": batch_size, "steps": steps, "seed": seed,
            },
        )  # fmt: skip


@contextlib.contextmanager
def _named_as_options() -> Iterator[None]:
    """Let messages speak of options where they speak of arguments."""

    def option(found: re.Match[str]) -> str:
        name = found[1]
        if name in ("source", "target"):
            return name.upper()
        if name not in inspect.signature(match).parameters:
            return found[0]
        return f"--{name.replace('_', '-')}{found[2] or ''}"

    try:
        yield
    except (ValueError, OSError) as error:
        said = re.sub(r"`(\w+?)(\[\d+\])?`", option, str(error))
        raise (ValueError if isinstance(error, ValueError) else OSError)(said) from error
