"""All corollaries side by side, as `rsgda plan` shows them."""

import csv
import io
from collections.abc import Callable
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rsgda import theory
from rsgda.theory.plan import accuracy, door

WIDE = 140  # columns from which on nothing needs to be broken
NARROW = 78  # columns below which a table leaves no room for words
LATE = 10**6  # where the bound of a plan without steps is evaluated

# By the words that call them.
COROLLARIES: dict[str, Callable[..., theory.Plan]] = {
    "exact": theory.exact,
    "exact, main_text": theory.exact,
    "almost_sure": theory.almost_sure,
    "almost_sure, exact": theory.almost_sure,
    "anytime": theory.anytime,
    "precision": theory.precision,
    "large_batch": theory.large_batch,
    "interpolation_almost_sure": theory.interpolation_almost_sure,
    "interpolation_anytime": theory.interpolation_anytime,
    "interpolation_precision": theory.interpolation_precision,
}
RIVAL = "gda, Lin et al. (2020)"
NEEDS_EPS = ("precision", "large_batch", "interpolation_precision")
KEYS = ("alpha", "eta", "steps", "batch", "p range", "bound")
KNOWS_NO_EPS = ("almost_sure", "almost_sure, exact", "interpolation_almost_sure")


class Row(NamedTuple):
    """A corollary: its plan, or why there is none.

    Attributes:
        name: the corollary.
        plan: what it gives.
        k: where its bound is evaluated.
        fails: the condition that does not hold, with both its numbers, where there is no plan.
    """

    name: str
    plan: theory.Plan | theory.GDA | None
    k: int
    fails: str = ""


def rows(r: theory.Regularity, *, p: float, eps: float | None, k: int | None) -> list[Row]:
    """Return a row for each corollary and one for GDA.

    >>> r = theory.Regularity(L=1.0, mu=0.1, sigma=1.0, sigma_v=1.0)
    >>> rows(r, p=0.5, eps=None, k=None)[0].fails
    'needs sigma = 0: 1 <= 0 is false'
    """
    door(r, p)
    if eps is not None:
        accuracy(eps)
    made = [_row(name, lambda n=name: _plan(n, r, p, eps), eps, k) for name in COROLLARIES]
    return [*made, _row(RIVAL, lambda: theory.gda(r, eps=eps), eps, k)]


def _plan(name: str, r: theory.Regularity, p: float, eps: float | None) -> theory.Plan:
    make, _, option = name.partition(", ")
    options = {} if name in KNOWS_NO_EPS else {"eps": eps}
    return COROLLARIES[make](r, p=p, **options, **({option: True} if option else {}))


def _row(
    name: str, make: Callable[[], theory.Plan | theory.GDA], eps: float | None, k: int | None
) -> Row:
    late = LATE if k is None else k
    if eps is None and name in NEEDS_EPS:
        return Row(name, None, late, "needs --eps")
    try:
        plan = make()
    except theory.ConditionError as error:
        c = error.condition
        said = f"needs {c.name}: {c.left:.6g} {c.relation} {c.right:.6g} is false"
        return Row(name, None, late, said)
    except ArithmeticError:
        return Row(name, None, late, "its numbers are beyond floating point")
    except ValueError as error:  # all was checked but whether eps can be reached
        return Row(name, None, late, str(error).replace("`eps`", "--eps"))
    return Row(name, plan, plan.steps or LATE if k is None else k)


def shown(found: list[Row], *, k: int | None, width: int) -> RenderableType:
    """Return the rows as a table, or one below the other where a table does not fit."""
    made = table(found, k=k, width=width)
    if width >= NARROW:
        wide = Console(width=10 * WIDE)
        if Measurement.get(wide, wide.options, made).minimum <= width:
            return made
    return blocks(found)


def blocks(found: list[Row]) -> Group:
    """Return the rows one below the other: a name, and a line for each number that there is."""
    shown: list[RenderableType] = []
    for row in found:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(overflow="fold")
        grid.add_column(overflow="fold")
        if row.plan is None:
            grid.add_row("fails", Text(row.fails, "yellow"))
        else:
            for key, cell in zip(KEYS, _cells(row, row.k), strict=True):
                said = f"{cell} at k={number(row.k)}" if key == "bound" else cell
                if cell != "-":
                    grid.add_row(key, Text(said))
            grid.add_row("order", Text(_order(row.plan)))
        apart = [""] if shown else []
        shown += [*apart, Text(row.name, "bold"), Padding(grid, (0, 0, 0, 2), expand=False)]
    return Group(*shown)


def table(found: list[Row], *, k: int | None, width: int) -> Table:
    """Return the rows as a table that breaks lines rather than leaving anything out."""
    if not any(row.plan and row.plan.steps for row in found):
        k = LATE if k is None else k
    where = "bound at steps" if k is None else f"bound at k={number(k)}"
    # Long names are broken where they have a joint, and what is left is for words.
    wide = width >= WIDE
    joint = "_" if wide else "_\n"
    shown = Table(
        box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", expand=not wide
    )
    shown.add_column("corollary", width=None if wide else 14, overflow="fold")
    for name in KEYS[:4]:
        shown.add_column(name, justify="right", no_wrap=True)
    narrow = None if width >= 100 else 8
    shown.add_column("p range", width=narrow, overflow="fold")
    shown.add_column(where, justify="right", width=None if wide else narrow or 9, overflow="fold")
    shown.add_column("order, or what fails", ratio=None if wide else 1, overflow="fold")
    for row in found:
        name = Text(row.name.replace("interpolation_", f"interpolation{joint}"))
        if row.plan is None:
            shown.add_row(name, *["-"] * 6, Text(row.fails, "yellow"))
        else:
            order = Text(_order(row.plan))
            shown.add_row(name, *(Text(cell) for cell in _cells(row, k)), order)
    return shown


def _cells(row: Row, k: int | None) -> list[str]:
    plan = row.plan
    if plan is None:
        return []
    alpha, eta = first_steps(plan)
    size = plan.batch_size if isinstance(plan, theory.Plan) else None
    bound = number(plan.bound(float(row.k)))
    if k is None and plan.steps is None:
        bound += f" (k={number(row.k)})"
    return [
        number(alpha),
        number(eta),
        "-" if plan.steps is None else number(plan.steps),
        "-" if size is None else number(size),
        _range(plan),
        bound,
    ]


def first_steps(plan: theory.Plan | theory.GDA) -> tuple[float, float]:
    """Return the descent and the ascent step size at k = 0."""
    source = plan if isinstance(plan, theory.GDA) else plan.algorithm
    alpha, eta = (step(0) if callable(step) else step for step in (source.alpha, source.eta))
    return float(alpha), float(eta)  # pyright: ignore[reportArgumentType]


def _range(plan: theory.Plan | theory.GDA) -> str:
    if isinstance(plan, theory.GDA):
        return "-"
    return "empty" if plan.p_range is None else "{:.2g} to {:.2g}".format(*plan.p_range)


def _order(plan: theory.Plan | theory.GDA) -> str:
    return "kappa^2 eps^-2, two gradients a step" if isinstance(plan, theory.GDA) else plan.order


def number(value: float) -> str:
    """Return a number as short as a table wants it.

    >>> [number(n) for n in (12345, 12345678, 0.0005, 0.123456)]
    ['12,345', '1.23e7', '5e-4', '0.123']
    """
    if isinstance(value, int) and value < 10**6:
        return f"{value:,}"
    mantissa, e, exponent = f"{value:.3g}".partition("e")
    if not e and 0 < abs(value) < 1e-3:
        mantissa, e, exponent = f"{value:.2e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def constants(r: theory.Regularity, *, p: float, eps: float | None) -> str:
    """Return in words what the table is for, what was not given included."""
    values = {
        "L": r.L,
        "L_max": r.smoothness if r.L_max is None else r.L_max,
        "mu": r.mu,
        "kappa": r.kappa,
        "sigma": r.sigma,
        "sigma_v": r.sigma_v,
        "D0": r.D0,
        "r0": r.r0,
        "p": p,
    }
    said = ", ".join(f"{name}={value:g}" for name, value in values.items())
    return said + (", no eps" if eps is None else f", eps={eps:g}")


def advice(r: theory.Regularity, best: theory.BestP) -> str:
    """Return which p is cheapest, and how much cheaper than p = 1/2."""
    half = COROLLARIES[best.plan.corollary](r, p=0.5, eps=best.plan.eps)
    each = (best.descent_cost + best.ascent_cost) / 2
    total = (half.steps or 0) * (half.batch_size or 1) * each
    low, high = best.range
    end = " (the smallest that was looked at)" if best.p <= best.curve[0][0] * (1 + 1e-9) else ""
    return (
        f"cheapest p by {best.plan.corollary}, descent {best.descent_cost:g} and ascent "
        f"{best.ascent_cost:g}: p={best.p:.3g}{end}, {best.cost / total:.3g} of the cost at p=1/2; "
        f"at most twice the smallest cost for p from {low:.2g} to {high:.2g}"
    )


def as_csv(found: list[Row]) -> bytes:
    """Return the rows with all digits."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    head = "corollary,alpha,eta,steps,batch,p_low,p_high,k,bound,order,fails"
    writer.writerow(head.split(","))
    for row in found:
        plan = row.plan
        if plan is None:
            writer.writerow([row.name, *[""] * 9, row.fails])
            continue
        span = plan.p_range if isinstance(plan, theory.Plan) else None
        size = plan.batch_size if isinstance(plan, theory.Plan) else None
        cells = [*first_steps(plan), plan.steps, size, *(span or (None, None))]
        writer.writerow([row.name, *cells, row.k, plan.bound(float(row.k)), _order(plan), ""])
    return buffer.getvalue().encode()
