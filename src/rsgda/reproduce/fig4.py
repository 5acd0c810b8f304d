"""Figure 4: RSGDA(p) and learning with Sinkhorn, matching cells of two technologies."""

from pathlib import Path
from typing import Any

from rsgda.reproduce.match_numbers import Group, all_hold, below, curves_of, groups, less
from rsgda.reproduce.match_setting import Method
from rsgda.reproduce.match_target import SCALES as SCALES
from rsgda.reproduce.match_target import outcome
from rsgda.reproduce.outcome import Finding, Outcome, Tell
from rsgda.reproduce.stored import Tables

PS = (0.25, 0.5, 0.9, 0.95, 0.99)
METHODS = [*(Method(p=p) for p in PS), Method(m_sin=1)]


def run(
    scale: str,
    tell: Tell,
    work: Path | None = None,
    files: tuple[Path, Path] | None = None,
    client: Any = None,
) -> Outcome:
    """Tune, run and draw at a named scale, on files of one's own if they are given."""
    title = "Figure 4: a coin, or Sinkhorn on minibatches"
    return outcome("fig4", title, scale, METHODS, tell=tell, work=work, files=files, client=client)


def judge(tables: Tables, settings: dict[str, Any]) -> list[Finding]:
    """Say what the curves of a file say."""
    del settings  # the file has all there is to say
    return findings(groups(curves_of(tables, "fig4.csv")))


def findings(runs: list[Group]) -> list[Finding]:
    """Judge what the paper says about Figure 4."""
    coins = {group.method.p: group for group in runs if group.method.p is not None}
    (sinkhorn,) = (group for group in runs if group.method.m_sin is not None)
    best = min(coins.values(), key=lambda group: group.end().mean)
    ends = {p: group.end() for p, group in coins.items()}
    rival = min((p for p in ends if p != 0.9), key=lambda p: ends[p].rank)
    every = ", ".join(f"{p:g}: {end.told()} (α {coins[p].alpha:g})" for p, end in ends.items())
    # A step of either takes one minibatch; that of Sinkhorn costs two gradients.
    count = float(best.of("gradients")[0, -1])
    equal = best.at_gradients(count), sinkhorn.at_gradients(count)
    return [
        Finding(
            "RSGDA ends below Sinkhorn, at equal epochs",
            f"{best.name}: {best.end().told()}; {sinkhorn.name}: {sinkhorn.end().told()}",
            below(best.end(), sinkhorn.end()),
            less(best.end(), sinkhorn.end(), "W_ε, RSGDA less Sinkhorn"),
        ),
        Finding(
            "RSGDA ends below Sinkhorn, at equal gradients",
            f"{best.name}: {equal[0].told()}; {sinkhorn.name}: {equal[1].told()}, on the subset",
            below(*equal),
            less(*equal, "W_ε on the subset, RSGDA less Sinkhorn"),
        ),
        Finding(
            "p = 0.9 is best",
            every,
            all_hold([below(ends[0.9], end) for p, end in ends.items() if p != 0.9]),
            less(ends[0.9], ends[rival], f"W_ε, p = 0.9 less p = {rival:g}, the best other"),
        ),
        Finding(
            "p = 0.9 and p = 0.95 are faster than p = 0.5",
            ", ".join(f"{p:g}: {ends[p].told()}" for p in (0.5, 0.9, 0.95)),
            all_hold([below(ends[0.9], ends[0.5]), below(ends[0.95], ends[0.5])]),
            less(ends[0.95], ends[0.5], "W_ε, p = 0.95 less p = 0.5"),
        ),
        Finding(
            "p > 0.95 is slower than p = 0.5",
            f"0.99: {ends[0.99].told()}; 0.5: {ends[0.5].told()}",
            below(ends[0.5], ends[0.99]),
            less(ends[0.99], ends[0.5], "W_ε, p = 0.99 less p = 0.5"),
        ),
        Finding(
            "p < 0.5 brings nothing, even with a larger alpha",
            f"0.25 with α = {coins[0.25].alpha:g}: {ends[0.25].told()}; 0.5 with "
            f"α = {coins[0.5].alpha:g}: {ends[0.5].told()}",
            below(ends[0.5], ends[0.25]),
            less(ends[0.25], ends[0.5], "W_ε, p = 0.25 less p = 0.5"),
        ),
    ]
