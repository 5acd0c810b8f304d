"""What can be re-run, by name; nothing heavy is imported before it is."""

import importlib
from collections.abc import Callable
from typing import NamedTuple

from rsgda.reproduce.outcome import Outcome, Tell


class Target(NamedTuple):
    """Something to re-run.

    Attributes:
        about: one line for `rsgda reproduce --help`.
        module: the module beside this one whose `run(scale, tell)` does the work.
    """

    about: str
    module: str

    def load(self) -> Callable[[str, Tell], Outcome]:
        """Import the function that runs it."""
        return importlib.import_module(f"{__package__}.{self.module}").run


TARGETS = {
    "toy": Target("RSGDA(p) against ESGDA(m = 1/p - 1) on the toy problem", "toy"),
    "theory": Target("bounds, growth with kappa and the range of p, against runs", "theory"),
}

SCALES = {
    "quick": "about a minute for each target",
    "standard": "minutes",
    "paper": "as many runs as the numbers deserve",
}


def chosen(target: str | None) -> list[str]:
    """Return the targets that a name stands for; none and `all` stand for all there are.

    >>> chosen("toy")
    ['toy']
    """
    if target in (None, "all"):
        return list(TARGETS)
    if target not in TARGETS:
        raise ValueError(f"TARGET must be one of {_listed(TARGETS)} or all, got {target!r}.")
    return [target]


def check_scale(scale: str) -> None:
    """Raise unless there is such a scale."""
    if scale not in SCALES:
        raise ValueError(f"--scale must be one of {_listed(SCALES)}, got {scale!r}.")


def _listed(names: dict[str, Target] | dict[str, str]) -> str:
    return ", ".join(names)
