"""What measured numbers say of the paper's own words, and the file that holds them."""

from collections.abc import Iterable, Sequence

from rsgda.report import as_csv
from rsgda.reproduce.outcome import FAILS, HOLDS, Finding
from rsgda.reproduce.stored import Row, grouped
from rsgda.reproduce.theory_claims import Measured

GREW = 1e3  # times its start: a gradient of phi that has grown so much is on its way to infinity
SAME_ORDER = 2.0
SAME_STEPS = 3.0  # 1 - p is in alpha, and is 2 times as large at one end of the range


def printed_csv(measured: Iterable[Measured]) -> bytes:
    """One row for each number."""
    rows = [[m.claim, m.of, name, value] for m in measured for name, value in m.values.items()]
    return as_csv(["claim", "of", "name", "value"], rows)


def measured_of(rows: Sequence[Row]) -> list[Measured]:
    """Return the claims with the numbers that a file holds."""
    return [
        Measured(claim, of, {row["name"]: float(row["value"]) for row in some})
        for (claim, of), some in grouped(rows, ("claim", "of")).items()
    ]


def judged(measured: Measured) -> Finding:
    """Say what the numbers of a claim say."""
    return JUDGES[measured.claim](measured)


def _constant_steps(found: Measured) -> Finding:
    x = found.values
    numbers = (
        f"alpha = {x['alpha']:g}/L = {x['of_alpha_max']:.3g} alpha_max, eta = {x['eta']:g}/L: "
        f"|grad phi| comes to {x['high']:.2g} times its start in {x['steps']:g} iterations"
    )
    about = "remark: any constant steps converge with exact gradients"
    return Finding(about, numbers, _grew(x))


def _interpolation_step(found: Measured) -> Finding:
    x = found.values
    return Finding(
        "appendix: interpolation converges with alpha_k = eta/(4 sqrt(k+1) S)",
        f"kappa = {x['kappa']:g}, p = 1/kappa: alpha_0 is {x['of_alpha_max']:.3g} alpha_max; "
        f"|grad phi| comes to {x['high']:.2g} times its start ({x['lost']:g} of {x['seeds']:g} "
        f"runs overflow), the smallest so far is still {x['low']:.2g} of it after "
        f"{x['steps']:,.0f} iterations",
        _grew(x),
    )


def _grew(x: dict[str, float]) -> str:
    # A mean that is not a number has grown beyond all.
    return FAILS if x["lost"] or not x["high"] <= GREW else HOLDS


def _one_step(found: Measured) -> Finding:
    x = found.values
    return Finding(
        "Proposition 1 as printed, without alpha <= 1/(4 kappa L)",
        f"kappa = {x['kappa']:g}, p = {x['p']:g}: alpha is {x['of_clip']:.3g}/(4 kappa L), worst "
        f"slack {x['slack']:.2g} of the right side at {x['states']:,.0f} states "
        f"({x['slack_clipped']:.2g} with the condition)",
        HOLDS if x["slack"] >= 0 else FAILS,
    )


def _corrected(found: Measured) -> Finding:
    x = found.values
    return Finding(
        "Proposition 1 with alpha <= 1/(4 kappa L), the condition that its proof uses",
        f"worst slack {x['slack_clipped']:.2g} of the right side at {x['states']:,.0f} states",
        HOLDS if x["slack_clipped"] >= 0 else FAILS,
    )


def _constants(found: Measured) -> Finding:
    low, high = found.values["low"], found.values["high"]
    return Finding(
        "p = 1/2 has the rate of GDA (Lin et al.) with better constants",
        f"their bound is {low:.3g} to {high:.3g} times as large at equal iterations, "
        f"{2 * low:.3g} to {2 * high:.3g} at equal gradients",
        HOLDS if low > 1 else FAILS,
    )


def _steps(found: Measured) -> Finding:
    low, high = found.values["low"], found.values["high"]
    return Finding(
        "alpha is of the order of eta/(p kappa^2) for all p in [1/kappa, 1/2]",
        f"alpha p kappa^2/eta {low:.3g} to {high:.3g} for kappa 4 to 1024, by its formula",
        HOLDS if high / low <= SAME_STEPS else FAILS,
    )


def _range(found: Measured) -> Finding:
    x = found.values
    return Finding(
        f"{found.of} for all p in its range, by its formulas",
        f"cost/order {x['low']:.3g} to {x['high']:.3g} for kappa 4 to 1024, eps 0.3 to 0.003; over "
        f"p it varies by up to {x['spread']:.3g}",
        HOLDS if x["growth"] <= SAME_ORDER else FAILS,
    )


JUDGES = {
    "constant steps": _constant_steps,
    "interpolation step": _interpolation_step,
    "one step": _one_step,
    "one step, corrected": _corrected,
    "constants": _constants,
    "steps": _steps,
    "range": _range,
}
