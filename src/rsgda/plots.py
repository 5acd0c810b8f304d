"""Figures: of plans what they guarantee against time and what p costs, of networks robustness.

Each function returns a `matplotlib.figure.Figure`, which `figure.savefig("name.png")` writes and a
notebook shows. Nothing global is touched, `pyplot` included.
"""

import io
from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rsgda._trace import columns, draw_trace
from rsgda.theory.cost import BestP
from rsgda.theory.plan import Plan, whole_times
from rsgda.theory.rival import GDA

# Okabe and Ito, apart for all kinds of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
# Later ones lie on top and leave more open, so that of curves that coincide all are seen.
DASHES = ("-", (0, (5, 3)), (0, (3, 5)), (0, (1, 4)))
GREY = "0.35"
LAST = 10**6  # how far curves are drawn if no plan has steps
POINTS = 200
HIGHEST = 300.0  # times the smallest cost

Plans = Iterable[Plan | GDA] | Mapping[str, Plan | GDA]


def bounds(plans: Plans, ks: Any = None) -> Figure:
    r"""Draw the bounds of plans on $\min_{t<k} \mathbb{E} \lVert\nabla\phi(\theta_t)\rVert^2$.

    Both axes are logarithmic. A dot marks the `steps` of a plan, and a line the eps^2 that the
    bound has come down to there. Curves that coincide are seen through each other's dashes.

    Args:
        plans: plans, or plans by the names that they are to have in the figure.
        ks: the iterations to draw at; None: from 1 to well beyond the largest `steps`.

    >>> from rsgda import theory
    >>> r = theory.Regularity(L=1.0, mu=0.1)
    >>> figure = bounds([theory.exact(r, eps=0.1), theory.anytime(r, eps=0.1)])
    >>> figure.axes[0].get_xscale()
    'log'
    """
    figure = Figure(figsize=(8.5, 4.5), layout="constrained")
    draw_bounds(figure.subplots(), _named(plans), ks)
    return figure


def cost(best: BestP) -> Figure:
    r"""Draw the total cost of reaching a precision against p.

    The smallest cost is marked, and the p for which the corollary states its order are shaded:
    for most corollaries $[1/\kappa, 1/2]$.

    Args:
        best: what `theory.best_p` returned.

    >>> from rsgda import theory
    >>> figure = cost(theory.best_p(theory.Regularity(L=1.0, mu=0.1), eps=0.1))
    >>> figure.axes[0].get_xlabel()
    'p, the probability of a descent'
    """
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    draw_cost(figure.subplots(), _best(best))
    return figure


def overview(plans: Plans, best: BestP | None = None, ks: Any = None) -> Figure:
    """Draw `bounds` and, if there is a best p, `cost` side by side.

    Args:
        plans: as in `bounds`.
        best: as in `cost`, or None for the bounds alone.
        ks: as in `bounds`.

    >>> from rsgda import theory
    >>> r = theory.Regularity(L=1.0, mu=0.1)
    >>> figure = overview([theory.exact(r, eps=0.1)], theory.best_p(r, eps=0.1))
    >>> len(figure.axes)
    2
    """
    if best is None:
        return bounds(plans, ks)
    figure = Figure(figsize=(13, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.75, 1))
    draw_bounds(left, _named(plans), ks)
    draw_cost(right, _best(best))
    return figure


def trace(result: Any) -> Figure:
    """Draw the steps that `Auto` found against gradients, with the signals that moved them.

    Args:
        result: a run with `record=rsgda.record.steps()`.

    >>> import jax, rsgda
    >>> toy = rsgda.problems.Toy(kinds="B", kappa=5.0)
    >>> result = rsgda.solve(toy.problem, rsgda.Auto(), *toy.start(), key=jax.random.key(0),
    ...     steps=50, every=5, record=rsgda.record.steps())
    >>> len(trace(result).axes)
    3
    """
    found, figure = columns(result), Figure(figsize=(8.5, 7.5), layout="constrained")
    axes = figure.subplots(3, 1, sharex=True, height_ratios=(2, 1, 1))
    draw_trace(axes, found, COLOURS)
    list(map(tidy, axes))
    return figure


def certificate(certificate: Any, attack: Any = None) -> Figure:
    r"""Draw a certified loss against the transport budget.

    The bound is a solid line if all samples are certified, and dashed if it is an estimate. At
    $\rho = 0$, where nothing moves, it falls to the loss of the samples themselves. A dot marks,
    for each gamma that has a part in it, the mean squared distance $\hat\rho$ of the maximisers, at
    which the loss is attained.

    Args:
        certificate: what `robust.certificate` returned.
        attack: what `robust.transport_attack` found on the same network and samples, or None.

    >>> import jax, rsgda
    >>> X, y = jax.random.normal(jax.random.key(0), (20, 3), "float32"), [0, 1] * 10
    >>> network = rsgda.robust.mlp((3, 8, 2), key=jax.random.key(1))
    >>> figure = certificate(rsgda.robust.certificate(network, X, y, 0.1, gamma=[1.0, 2.0]))
    >>> figure.axes[0].get_ylabel()
    'mean loss'
    """
    _with("certificate", certificate, "robust.certificate", ("rho", "inner", "share", "curvature"))
    if attack is not None:
        _with("attack", attack, "robust.transport_attack", ("cost", "reached"))
    figure = Figure(figsize=(8.5, 4.5), layout="constrained")
    draw_certificate(figure.subplots(), certificate, attack)
    return figure


def robustness(curves: Any) -> Figure:
    """Draw the accuracy of networks under attacks of growing radius side by side.

    Args:
        curves: what `robust.robustness` returned, or several by their names.

    >>> import jax, rsgda
    >>> X, y = jax.random.normal(jax.random.key(0), (20, 3), "float32"), [0, 1] * 10
    >>> network = rsgda.robust.mlp((3, 8, 2), key=jax.random.key(1))
    >>> found = rsgda.robust.robustness(network, X, y, [0.0, 0.5], key=jax.random.key(2))
    >>> robustness({"a network": found}).axes[0].get_xlabel()
    'radius of the attack, L2'
    """
    curves = curves if isinstance(curves, Mapping) else {"accuracy": curves}
    for name, curve in curves.items():
        where = f"curves[{name!r}]"
        _with(where, curve, "robust.robustness", ("radii", "accuracy", "norm", "n"))
    norms = {curve.norm for curve in curves.values()}
    if len(norms) != 1:
        found = f"of the norms {sorted(norms)}" if norms else "none"
        raise ValueError(f"`curves` must hold curves of one norm, got {found}.")
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    draw_robustness(figure.subplots(), curves)
    return figure


def draw_bounds(axes: Axes, plans: dict[str, Plan | GDA], ks: Any = None) -> None:
    """Draw bounds into axes that are there already."""
    steps = [plan.steps for plan in plans.values() if plan.steps is not None]
    if ks is None:
        last = 10.0 * max(steps, default=LAST // 10)
        ks = np.unique(np.geomspace(1, last, POINTS).round())
    else:
        ks = np.sort(np.ravel(whole_times(ks)))
    # In the order of their ends, so that the legend reads as the lines lie.
    curves = {name: np.asarray(plan.bound(ks)) for name, plan in plans.items()}
    taken: set[tuple[str, int]] = set()
    dash = -1
    for name in sorted(curves, key=lambda name: -curves[name][-1]):
        plan, colour = plans[name], COLOURS[list(plans).index(name) % len(COLOURS)]
        # Neighbours, which may coincide, are dashed in different ways, and so are equal colours.
        turns = [(dash + turn) % len(DASHES) for turn in range(1, len(DASHES) + 1)]
        dash = next((turn for turn in turns if (colour, turn) not in taken), turns[0])
        taken.add((colour, dash))
        axes.plot(
            ks,
            curves[name],
            color=colour,
            linestyle=DASHES[dash],
            linewidth=2,
            label=name,
            zorder=2 + 0.1 * dash,
        )
        if plan.steps is not None and ks[0] <= plan.steps <= ks[-1]:
            at = float(plan.steps)
            axes.plot(at, plan.bound(at), "o", color=colour, markersize=6, zorder=4)
    for eps in sorted({plan.eps for plan in plans.values() if plan.eps is not None}):
        axes.axhline(eps**2, color=GREY, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
        axes.annotate(
            f"ε² = {eps**2:.3g}, dots: the steps for it",
            (0.02, eps**2),
            xycoords=("axes fraction", "data"),
            xytext=(0, -4),
            textcoords="offset points",
            va="top",
            color=GREY,
            fontsize="small",
        )
    axes.set(xscale="log", yscale="log", xlim=(float(ks[0]), float(ks[-1]) * 1.001))
    wanted = [plan.eps**2 for plan in plans.values() if plan.eps is not None]
    if wanted:  # what comes far below it is of no interest
        axes.set_ylim(bottom=max(axes.get_ylim()[0], min(wanted) / 100))
    axes.set_xlabel("k, iterations")
    axes.set_ylabel("bound on the smallest E‖∇φ‖²")
    axes.set_title("What is guaranteed after k iterations", loc="left", fontsize="medium")
    tidy(axes)
    axes.legend(
        frameon=False,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        fontsize="small",
        handlelength=3,  # of which a dash is the smaller part
    )


def draw_cost(axes: Axes, best: BestP) -> None:
    """Draw a cost curve into axes that are there already."""
    p, total = best.curve
    low, high = best.cost / 3, best.cost * HIGHEST
    shown = total <= high
    axes.plot(p, total, color=COLOURS[0], zorder=3)
    if best.plan.p_range is not None:
        start, end = best.plan.p_range
        axes.axvspan(start, end, color=COLOURS[2], alpha=0.13, linewidth=0, zorder=0)
        axes.annotate(
            f"order {best.plan.order}\nfor p from {start:.2g} to {end:.2g}",
            ((start * end) ** 0.5, 0.97),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="top",
            color=COLOURS[2],
            fontsize="small",
        )
    left, right = float(p[shown].min()), 1.0
    # The words stay inside where the smallest cost lies at an end.
    at = np.log(best.p / left) / np.log(right / left)
    axes.plot(best.p, best.cost, "o", color=COLOURS[1], markersize=7, zorder=4)
    axes.annotate(
        f"p = {best.p:.3g}: {best.cost:.3g}",
        (best.p, best.cost),
        xytext=(0, -10),
        textcoords="offset points",
        ha="left" if at < 0.25 else "right" if at > 0.75 else "center",
        va="top",
        color=COLOURS[1],
    )
    axes.set(xscale="log", yscale="log", ylim=(low, high))
    axes.set_xlim(left, right)
    axes.set_xlabel("p, the probability of a descent")
    axes.set_ylabel(f"total cost (descent {best.descent_cost:.3g}, ascent {best.ascent_cost:.3g})")
    title = f"What ‖∇φ‖ ≤ {best.plan.eps:g} costs by `{best.plan.corollary}`"
    axes.set_title(title, loc="left", fontsize="medium")
    tidy(axes)


def draw_certificate(axes: Axes, certificate: Any, attack: Any = None) -> None:
    """Draw a certificate into axes that are there already."""
    inner = [at for at in certificate.inner if at.share == certificate.share]
    end = float(np.max(certificate.rho)) or max(at.rho_hat for at in inner) or 1.0
    seen = [at for at in inner if at.rho_hat <= end]
    rho = np.unique([*np.linspace(0, end, POINTS), *(at.rho_hat for at in seen)])
    bound = np.min([at.gamma * rho + at.phi + at.gap for at in inner], axis=0)
    reached = None if attack is None else np.interp(rho, attack.cost, attack.reached)
    of = "" if len(inner) == 1 else f"\n(the best of {len(inner)} γ)"
    n = certificate.n
    # Upright, not slanted to the next point: for no rho but 0 it is less than the gammas give.
    axes.plot([0, 0], [certificate.clean, bound[0]], color=COLOURS[0], linewidth=2, clip_on=False)
    if certificate.share < 1:
        label = f"estimate, can be too small:\n{round(certificate.share * n):,} of {n:,} certified"
        axes.plot(rho, bound, color=COLOURS[0], linestyle=DASHES[1], linewidth=2, label=label)
    else:
        sure, words = "certified", "the worst case, as far as\nconcavity was looked at"
        if certificate.curvature is not None:
            sure, words = "proved", "the worst case is in between"
        axes.plot(rho, bound, color=COLOURS[0], linewidth=2, label=f"{sure}: at most this{of}")
        if reached is not None:
            axes.fill_between(rho, reached, bound, color=COLOURS[4], alpha=0.15, lw=0, label=words)
    if reached is not None:
        label = "strongest attack found"
        axes.plot(rho, reached, color=COLOURS[1], linewidth=2, label=label)
    axes.axhline(certificate.clean, color=GREY, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    axes.annotate(
        f"not moved: {certificate.clean:.3g}",
        (0.99, certificate.clean),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        color=GREY,
        fontsize="small",
    )
    if seen:
        axes.plot(
            [at.rho_hat for at in seen],
            [at.attained for at in seen],
            "o",
            color=COLOURS[6],
            markersize=6,
            zorder=4,
            label="attained: all samples at their\nmaximisers (ρ̂), one γ a dot",
        )
    axes.set_xlim(0, end)
    top = max(np.max(bound), -np.inf if reached is None else np.max(reached))
    room = 0.08 * (top - certificate.clean)
    axes.set_ylim(certificate.clean - room, top + room)
    axes.set_xlabel("ρ, mean squared distance that the samples may be moved")
    axes.set_ylabel("mean loss")
    title = f"What the loss on {n:,} samples can be when they are moved"
    axes.set_title(title, loc="left", fontsize="medium")
    tidy(axes)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")


def draw_robustness(axes: Axes, curves: Mapping[str, Any]) -> None:
    """Draw robust accuracies into axes that are there already."""
    for i, (name, curve) in enumerate(curves.items()):
        order = np.argsort(curve.radii)
        axes.plot(
            np.asarray(curve.radii)[order],
            100 * np.asarray(curve.accuracy)[order],
            color=COLOURS[i % len(COLOURS)],
            linestyle=DASHES[i // len(COLOURS) % len(DASHES)],
            marker="o",
            markersize=4,
            label=name,
        )
    first = next(iter(curves.values()))
    axes.set(ylim=(0, 102), xlim=(0, None))
    norm = {"l2": "L2", "linf": "L∞"}.get(first.norm, first.norm)
    axes.set_xlabel(f"radius of the attack, {norm}")
    axes.set_ylabel("still classified rightly, %")
    title = f"Accuracy on {first.n:,} samples under attack"
    axes.set_title(title, loc="left", fontsize="medium")
    tidy(axes)
    if len(curves) > 1:
        axes.legend(frameon=False)


def saved(figure: Figure, kind: str) -> bytes:
    """Return a figure as a file, with no date inside: equal numbers give equal files."""
    buffer = io.BytesIO()
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with matplotlib.rc_context({"svg.hashsalt": "rsgda"}):
        figure.savefig(buffer, format=kind, dpi=200, metadata=dates.get(kind))
    return buffer.getvalue()


def tidy(axes: Axes) -> None:
    """Leave of frame and grid what helps to read the curves."""
    axes.grid(which="major", color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _named(plans: Any) -> dict[str, Plan | GDA]:
    if isinstance(plans, (Plan, GDA)):
        plans = [plans]
    if not isinstance(plans, Mapping):
        found: dict[str, Plan | GDA] = {}
        for i, plan in enumerate(_sequence(plans)):
            name = "GDA (Lin et al.)" if isinstance(plan, GDA) else getattr(plan, "corollary", i)
            found[f"{name} ({i + 1})" if name in found else str(name)] = plan
        plans = found
    for name, plan in plans.items():
        if not isinstance(plan, (Plan, GDA)):
            raise ValueError(f"`plans` must hold plans of rsgda.theory, got {plan!r} at {name!r}.")
    if not plans:
        raise ValueError("`plans` must hold at least one plan, got none.")
    return dict(plans)


def _sequence(plans: Any) -> list[Any]:
    try:
        return list(plans)
    except TypeError:
        raise ValueError(f"`plans` must be a list of plans, got {plans!r}.") from None


def _best(best: Any) -> BestP:
    if not isinstance(best, BestP):
        raise ValueError(f"`best` must be what theory.best_p returned, got {best!r}.")
    return best


def _with(name: str, value: Any, maker: str, attributes: tuple[str, ...]) -> None:
    """Refuse what has not the attributes that are drawn."""
    if not all(hasattr(value, attribute) for attribute in attributes):
        raise ValueError(f"`{name}` must be what {maker} returned, got {value!r}.")
