"""What a target hands back, and what its numbers say."""

import dataclasses
from collections.abc import Callable
from typing import Any

# A target tells how much of it is done, from 0 to 1, and in words what comes next.
Tell = Callable[[float, str], None]

# Verdicts on what the paper says. A finding may also say in words of its own what was seen.
HOLDS, PARTLY, FAILS, OPEN = "holds", "holds in part", "does not hold", "not decided"


@dataclasses.dataclass(frozen=True)
class Effect:
    """How large a difference is, with its 95 % confidence interval over seeds.

    Attributes:
        what: what is measured, with its unit.
        value: the mean over seeds.
        low: the lower end of the interval.
        high: its upper end.
        seeds: how many there were.
        paired: whether differences were taken seed by seed, as both sides shared them.
        against: what it would be if there were no effect; none where likeness is claimed.
    """

    what: str
    value: float
    low: float
    high: float
    seeds: int
    paired: bool = False
    against: float | None = None

    def told(self) -> str:
        """Say it in words.

        >>> Effect("apart, %", 2.0, 1.0, 3.0, 5, paired=True).told()
        'apart, %: 2 [1, 3], 5 seeds, paired'
        """
        of = f"{self.seeds} seeds{', paired' if self.paired else ''}"
        return f"{self.what}: {self.value:.3g} [{self.low:.3g}, {self.high:.3g}], {of}"

    @property
    def unsure(self) -> bool:
        """Whether the interval has in it what would be no effect."""
        return self.against is not None and self.low <= self.against <= self.high


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the summary.

    Attributes:
        about: what was compared or measured.
        numbers: the headline numbers, in words.
        verdict: what they say, such as "holds".
        effect: how large it is, where there are seeds to tell.
    """

    about: str
    numbers: str
    verdict: str
    effect: Effect | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The results of a target, before anything is written.

    What they say is not among them: it is read off the tables by the target's `judge`, when they
    are written as when they are checked.

    Attributes:
        files: what each file is to hold.
        settings: all that the numbers depend on, the seed included, as JSON can hold it.
    """

    files: dict[str, bytes]
    settings: dict[str, Any]
