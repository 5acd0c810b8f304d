"""Figure 5: how many iterations of Sinkhorn a descent is worth, from a warm or a cold start."""

from pathlib import Path
from typing import Any

from rsgda.reproduce.match_numbers import Ends, Group, all_hold, below, curves_of, groups, less
from rsgda.reproduce.match_setting import Method
from rsgda.reproduce.match_target import SCALES as SCALES
from rsgda.reproduce.match_target import outcome
from rsgda.reproduce.outcome import Effect, Finding, Outcome, Tell
from rsgda.reproduce.stored import Tables

ITERATIONS = (1, 5, 10)
METHODS = [Method(m_sin=m, warm=warm) for warm in (True, False) for m in ITERATIONS]


def run(
    scale: str,
    tell: Tell,
    work: Path | None = None,
    files: tuple[Path, Path] | None = None,
    client: Any = None,
) -> Outcome:
    """Tune, run and draw at a named scale, on files of one's own if they are given."""
    title = "Figure 5: iterations of Sinkhorn a descent, warm and cold"
    return outcome("fig5", title, scale, METHODS, tell=tell, work=work, files=files, client=client)


def judge(tables: Tables, settings: dict[str, Any]) -> list[Finding]:
    """Say what the curves of a file say."""
    del settings  # the file has all there is to say
    return findings(groups(curves_of(tables, "fig5.csv")))


def findings(runs: list[Group]) -> list[Finding]:
    """Judge what the paper says about Figure 5."""
    warm = {group.method.m_sin: group for group in runs if group.method.warm}
    cold = {group.method.m_sin: group for group in runs if not group.method.warm}
    count = float(warm[1].of("gradients")[0, -1])
    ends = {m: group.end() for m, group in warm.items()}
    equal = {m: group.at_gradients(count) for m, group in warm.items()}
    warmest = min(ends.values(), key=lambda end: end.mean)
    best = min(cold.values(), key=lambda group: group.end().mean)
    return [
        Finding(
            "m_sin = 1 is the best of 1, 5, 10, at equal epochs",
            _told(ends),
            all_hold([below(ends[1], end) for m, end in ends.items() if m != 1]),
            _less_the_best_other(ends, "W_ε"),
        ),
        Finding(
            "m_sin = 1 is the best of 1, 5, 10, at equal gradients",
            f"{_told(equal)}, on the subset",
            all_hold([below(equal[1], end) for m, end in equal.items() if m != 1]),
            _less_the_best_other(equal, "W_ε on the subset"),
        ),
        Finding(
            "a cold start is not competitive",
            f"cold {_told({m: group.end() for m, group in cold.items()})}; warm {_told(ends)}",
            below(warmest, best.end()),
            less(best.end(), warmest, "W_ε, the best cold start less the best warm one"),
        ),
    ]


def _less_the_best_other(ends: dict[int | None, Ends], what: str) -> Effect | None:
    rival = min((m for m in ends if m != 1), key=lambda m: ends[m].rank)
    return less(ends[1], ends[rival], f"{what}, 1 less {rival}, the best other")


def _told(ends: dict[int | None, Ends]) -> str:
    return ", ".join(f"{m}: {end.told()}" for m, end in ends.items())
