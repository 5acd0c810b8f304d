"""What can be re-run, by name; nothing heavy is imported before it is."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rsgda.reproduce.outcome import Finding, Outcome


class Target(NamedTuple):
    """Something to re-run.

    Attributes:
        about: one line for `rsgda reproduce --help`.
        module: the module beside this one whose `run(scale, tell, work)` does the work; it may
            keep runs that are done in the folder `work`, to be found when it is called again. Its
            `judge(tables, settings)` reads off the tables that were written what they say.
        matches: whether it matches cells, and `run` takes `files` of them.
        spreads: whether it has runs that a cluster can do side by side, and `run` takes a `client`.
    """

    about: str
    module: str
    matches: bool = False
    spreads: bool = True

    def load(self) -> Callable[..., Outcome]:
        """Import the function that runs it."""
        return importlib.import_module(f"{__package__}.{self.module}").run

    def judge(self, files: Mapping[str, bytes], settings: dict[str, Any]) -> tuple[Finding, ...]:
        """Say what its files say, those that are tables, by the function that its module has."""
        from rsgda.reproduce.stored import tables

        found = importlib.import_module(f"{__package__}.{self.module}")
        return tuple(found.judge(tables(files), settings))


TARGETS = {
    "toy": Target("RSGDA(p) against ESGDA(m = 1/p - 1) on the toy problem", "toy", spreads=False),
    "theory": Target(
        "bounds, growth with kappa and the range of p, against runs", "theory", spreads=False
    ),
    "fig1": Target("Figure 1: ESGDA(m) and RSGDA(1/(m + 1)), robust classification", "fig1"),
    "fig2": Target("Figure 2: what alpha and p do, robust classification", "fig2"),
    "floor": Target("values that no phi can have, by the authors' acceptance rule", "floor"),
    "fig3": Target("Figure 3: cells along the best run of Figure 4, as t-SNE", "fig3", True),
    "fig4": Target("Figure 4: RSGDA(p) and learning with Sinkhorn, matching cells", "fig4", True),
    "fig5": Target("Figure 5: iterations of Sinkhorn a descent, matching cells", "fig5", True),
    "paired": Target("FOSCTTM and label transfer where true pairs are known", "paired"),
    "generation": Target("generators of digits, against Sinkhorn on minibatches", "generation"),
}

SCALES = {
    "quick": "less than a minute for each target, minutes for all",
    "standard": "minutes for toy, theory and floor, two to three hours for a figure; needs data",
    "paper": "as many runs as the numbers deserve, days for a figure",
}


def chosen(names: list[str]) -> list[str]:
    """Return the targets that names stand for; none and `all` stand for all there are.

    >>> chosen(["theory", "toy"])
    ['toy', 'theory']
    """
    for name in names:
        if name != "all" and name not in TARGETS:
            raise ValueError(f"TARGET must be one of {_listed(TARGETS)} or all, got {name!r}.")
    return [name for name in TARGETS if not names or "all" in names or name in names]


def check_scale(scale: str) -> None:
    """Raise unless there is such a scale."""
    if scale not in SCALES:
        raise ValueError(f"--scale must be one of {_listed(SCALES)}, got {scale!r}.")


def _listed(names: dict[str, Target] | dict[str, str]) -> str:
    return ", ".join(names)
