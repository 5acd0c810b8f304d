"""What a target hands back."""

import dataclasses
from collections.abc import Callable
from typing import Any

# A target tells how much of it is done, from 0 to 1, and in words what comes next.
Tell = Callable[[float, str], None]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the summary.

    Attributes:
        about: what was compared or measured.
        numbers: the headline numbers, in words.
        verdict: what they say, such as "holds".
    """

    about: str
    numbers: str
    verdict: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The results of a target, before anything is written.

    Attributes:
        files: what each file is to hold.
        settings: all that the numbers depend on, the seed included, as JSON can hold it.
        findings: the headline numbers.
    """

    files: dict[str, bytes]
    settings: dict[str, Any]
    findings: tuple[Finding, ...]
