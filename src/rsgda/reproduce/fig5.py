"""Figure 5: how many iterations of Sinkhorn a descent is worth, from a warm or a cold start."""

from pathlib import Path
from typing import Any

from rsgda.reproduce.match_numbers import Group, all_hold, below
from rsgda.reproduce.match_setting import Method
from rsgda.reproduce.match_target import SCALES as SCALES
from rsgda.reproduce.match_target import outcome
from rsgda.reproduce.outcome import Finding, Outcome, Tell

ITERATIONS = (1, 5, 10)
METHODS = [Method(m_sin=m, warm=warm) for warm in (True, False) for m in ITERATIONS]


def run(
    scale: str,
    tell: Tell,
    work: Path | None = None,
    files: tuple[Path, Path] | None = None,
    client: Any = None,
) -> Outcome:
    """Tune, run, judge and draw at a named scale, on files of one's own if they are given."""
    title = "Figure 5: iterations of Sinkhorn a descent, warm and cold"
    return outcome(
        "fig5", title, scale, METHODS, findings, tell=tell, work=work, files=files, client=client
    )


def findings(runs: list[Group]) -> list[Finding]:
    """Judge what the paper says about Figure 5."""
    warm = {group.method.m_sin: group for group in runs if group.method.warm}
    cold = {group.method.m_sin: group for group in runs if not group.method.warm}
    count = float(warm[1].of("gradients")[0, -1])
    ends = {m: group.end() for m, group in warm.items()}
    equal = {m: group.at_gradients(count) for m, group in warm.items()}
    best = min(cold.values(), key=lambda group: group.end().mean)
    return [
        Finding(
            "m_sin = 1 is the best of 1, 5, 10, at equal epochs",
            _told(ends),
            all_hold([below(ends[1], end) for m, end in ends.items() if m != 1]),
        ),
        Finding(
            "m_sin = 1 is the best of 1, 5, 10, at equal gradients",
            f"{_told(equal)}, on the subset",
            all_hold([below(equal[1], end) for m, end in equal.items() if m != 1]),
        ),
        Finding(
            "a cold start is not competitive",
            f"cold {_told({m: group.end() for m, group in cold.items()})}; warm {_told(ends)}",
            below(min(ends.values(), key=lambda end: end.mean), best.end()),
        ),
    ]


def _told(ends: dict) -> str:
    return ", ".join(f"{m}: {end.told()}" for m, end in ends.items())
