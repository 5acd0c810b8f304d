"""Match the cells of two technologies: from two tables of cells to a fitted map between them."""

import contextlib
import dataclasses
import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np

from rsgda import _checks
from rsgda._trees import thaw
from rsgda.drive.result import Result, Status
from rsgda.drive.solve import solve
from rsgda.moves import State
from rsgda.problem import Problem
from rsgda.singlecell import annotate, guidance, preprocessing, tables
from rsgda.singlecell.guidance import Beside, Guided, Shared
from rsgda.singlecell.matcher import Matcher, Units
from rsgda.transport.costs import Cost, Quadratic
from rsgda.transport.matching import matching
from rsgda.transport.networks import mlp
from rsgda.transport.plan import Sinkhorn
from rsgda.transport.sinkhorn import sinkhorn
from rsgda.transport.steps import algorithm

SHARE = 0.01  # of the mean squared distance of two target cells: epsilon, unless given
SOME = 2_000  # cells of the target that the loss is followed on
LOOKS = 10
ROUGH = 0.05  # error of the marginals that a look along the run is content with
PASSES = 100
FEW = 10_000  # cells of the target on which the plan is solved before all are taken


class Sides(NamedTuple):
    """Both sides as the network and the cost take them.

    Attributes:
        x: cells of the target, with what guides the match beside them.
        y: cells of the source, likewise.
        features: of y that the network maps.
        cost: between x and what is made of y.
        shared: features that guide the match, if any.
        weight: of these.
        labels: that guide it, if any.
    """

    x: np.ndarray
    y: np.ndarray
    features: int
    cost: Cost
    shared: Shared | None
    weight: float
    labels: np.ndarray


def match(
    source: Any,
    target: Any,
    *,
    source_layer: str | None = None,
    target_layer: str | None = None,
    source_obsm: str | None = None,
    target_obsm: str | None = None,
    source_steps: Any = (),
    target_steps: Any = (),
    shared: Any = None,
    labels: Any = None,
    pairs: Any = None,
    guide: float = 1.0,
    label_key: Any = None,
    paired: bool = False,
    epsilon: float | None = None,
    hidden: tuple[int, ...] = (128, 96, 64),
    batch_size: int = 128,
    steps: int = 6_000,
    seed: int = 0,
    copy: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Matcher:
    r"""Map the cells of a source into the space of a target, so that both lie alike.

    $$ \min_\theta W_\varepsilon\big( \mu, \tfrac1n \textstyle\sum_j \delta_{f_\theta(y_j)} \big) $$

    for cells $y_j$ of the source, the distribution $\mu$ of the target's cells and a network
    $f_\theta$, by RSGDA with `transport.algorithm`. Nothing is preprocessed unless asked for.
    Distributions alone do not tell cells apart where their shape is symmetric: see `shared`,
    `labels` and `pairs`.

    AnnData is annotated: `obsm["X_rsgda"]` (mapped cells in the target's features and units),
    `obs["rsgda_match"]` and `obs["rsgda_confidence"]` (the target's cell that most of a cell
    belongs to, and how much; names as `obs_names_make_unique` makes them), with `label_key` also
    `obs["rsgda_label"]`, `obs["rsgda_label_confidence"]` and `obsm["rsgda_label_probabilities"]`,
    and `uns["rsgda"]`.

    Args:
        source: AnnData, in memory or backed, or an array, cells × features.
        target: likewise.
        source_layer: of the source, in place of `X`.
        target_layer: of the target, likewise.
        source_obsm: of the source, in place of `X`.
        target_obsm: of the target, likewise.
        source_steps: preprocessing of the source, such as `[normalize_total(), log1p(), scale()]`.
        target_steps: of the target, such as `[arcsinh(5), scale()]`.
        shared: features that both measure, as pairs of names (source, target), or "names" for all
            that are called alike: cells that differ in them cost more. They are taken after the
            steps that leave each feature what it is, and standardised.
        labels: known on both sides: the name of a column of obs, or two of them, or two arrays with
            "" for cells without. Cells whose labels differ cost more.
        pairs: known pairs of cells, k × 2 names or places (source, target).
        guide: how much `shared`, `labels` and `pairs` weigh against the distances; 1 is as much.
        label_key: labels of the target to give to the source: a column of obs, or an array. If the
            source has the column, too, the score compares them.
        paired: say that row i of both is one cell, for the score only.
        epsilon: the regularisation, in squared units of the target after its steps. None is a
            hundredth of the mean squared distance of two of its cells.
        hidden: layers of the network.
        batch_size: cells of the target in a minibatch.
        steps: of RSGDA.
        seed: of all that is random.
        copy: annotate a copy of the source, `matcher.adata`.
        checkpoint: a folder; a run that was killed continues from it.
        progress: show it.

    >>> from rsgda.data import simulated_cells
    >>> from rsgda.singlecell import arcsinh
    >>> cells = simulated_cells((60, 30), features=(5, 8))
    >>> matcher = match(cells.y, cells.x, target_steps=[arcsinh(5)], hidden=(8,), steps=20)
    >>> matcher.transform(cells.y).shape, matcher.plan([0, 1], slice(0, 4)).shape
    ((30, 5), (2, 4))

    Source: Section 5.2 of the paper, whose source is RNA and whose target is mass cytometry.
    """
    _checks.whole("steps", steps, 1)
    _checks.whole("seed", seed, 0)
    _checks.positive("guide", guide)
    if not isinstance(hidden, tuple | list):
        raise ValueError(f"`hidden` must be whole numbers, one for each layer, got {hidden!r}.")
    for i, size in enumerate(hidden):
        _checks.whole(f"hidden[{i}]", size, 1)
    # Numbers of NumPy are none of JSON, nor of the structure of a network.
    hidden, steps, seed = tuple(map(int, hidden)), int(steps), int(seed)
    of_source = tables.read("source", source, source_layer, source_obsm)
    of_target = tables.read("target", target, target_layer, target_obsm)
    if paired and len(of_source.cells) != len(of_target.cells):
        raise ValueError(
            f"`paired` wants as many cells on both sides, got {len(of_source.cells):,} and "
            f"{len(of_target.cells):,}."
        )
    if paired and len(of_source.cells) < 2:
        raise ValueError("`paired` wants two cells at least, got one.")
    if tables.is_anndata(source) and source.is_view and source.isbacked and not copy:
        raise ValueError(
            "`source` is a part of cells in a file, which cannot be annotated in place; pass "
            "`copy=True`."
        )
    before, y = preprocessing.fit("source_steps", source_steps, of_source)
    after, x = preprocessing.fit("target_steps", target_steps, of_target)
    given = _labels(labels, of_source, of_target)
    to_give = None if label_key is None else of_target.column("label_key", label_key)
    if to_give is not None and not np.any(to_give != ""):
        raise ValueError(
            "`label_key` must name labels of the target, and none of its cells has one."
        )
    known = None if pairs is None else _places(pairs, of_source, of_target)
    inputs = Units(y.mean(axis=0), _spread(y))
    spread = float(np.sqrt(np.mean(x.astype(float).var(axis=0)))) or 1.0
    outputs = Units(x.mean(axis=0), np.asarray(spread, np.float32))
    # In the network's units two cells of the target are at a squared distance of 2 d, in the mean.
    mean_cost = 2.0 * x.shape[1]
    regular = SHARE * mean_cost * spread**2 if epsilon is None else epsilon
    _checks.positive("epsilon", regular)
    inside = regular / spread**2
    sides = _sides(
        inputs.enter(y), outputs.enter(x), of_source, of_target, (before, after), shared, given,
        guide * mean_cost,
    )  # fmt: skip
    network = Beside(mlp((y.shape[1], *hidden, x.shape[1]), key=jr.key(seed)), sides.features)
    problem, theta, v = matching(
        sides.x, sides.y, network, epsilon=inside, batch_size=batch_size,
        cost=sides.cost, pairs=None if known is None else known[:, ::-1], pull=guide,
    )  # fmt: skip
    looked = Looks(sides, inside, seed)
    result = solve(
        problem, algorithm(steps), theta, v, key=jr.key(seed + 1), steps=steps, record=looked,
        every=max(1, -(-steps // LOOKS)), checkpoint=checkpoint, progress=progress,
    )  # fmt: skip
    if result.status is not Status.FINISHED:
        raise FloatingPointError(
            f"the run ended after {int(result.state.step):,} steps with numbers that are not "
            "finite; scale the features of both sides (`source_steps`, `target_steps`)."
        )
    solved = _plan(sides, result, inside, seed, progress=progress)
    if not np.isfinite(solved.gap):
        raise FloatingPointError(
            f"`epsilon` must be larger: at {regular:.3g} the costs over it are beyond what "
            f"{y.dtype} can hold. The default would be {SHARE * mean_cost * spread**2:.3g}."
        )
    settings = {
        "source": {"layer": source_layer, "obsm": source_obsm, "steps": _told(before)},
        "target": {"layer": target_layer, "obsm": target_obsm, "steps": _told(after)},
        "guide": guide, "shared": 0 if sides.shared is None else len(sides.shared.source),
        "labels": list(sides.labels), "pairs": 0 if known is None else len(known),
        "label_key": label_key if isinstance(label_key, str) else None, "paired": bool(paired),
        "epsilon": float(regular), "hidden": list(hidden), "batch_size": batch_size,
        "steps": steps, "seed": seed,
    }  # fmt: skip
    history = {name: np.asarray(values) for name, values in result.history.items()}
    for name in ("W", "gap"):
        history[name] = np.asarray(history[name], float) * spread**2
    matcher = Matcher(
        network=result.theta, source=before, target=after, inputs=inputs, outputs=outputs,
        solved=solved, source_cells=of_source.cells, target_cells=tables.different(of_target),
        shared=sides.shared, weight=sides.weight, labels=sides.labels, history=history,
        settings=settings | {"versions": versions()},
        scores={"W_eps": solved.value * spread**2, "W_eps_gap": solved.gap * spread**2},
    )  # fmt: skip
    return annotate.annotated(
        matcher, of_source, x_target=x, to_give=to_give, label_key=label_key, paired=paired,
        copy=copy,
    )  # fmt: skip


@dataclasses.dataclass(eq=False)
class Looks:
    """W_eps along a run, with its gap, on some cells of the target that are always the same."""

    sides: Sides
    epsilon: float
    seed: int

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        count = min(SOME, len(self.sides.x))
        self.some = self.sides.x[np.sort(rng.choice(len(self.sides.x), count, replace=False))]

    def __call__(self, problem: Problem, state: State) -> dict[str, float]:
        """Look at a state."""
        made = np.asarray(jax.vmap(thaw(state.theta))(self.sides.y))
        if not (np.all(np.isfinite(made)) and np.all(np.isfinite(np.asarray(state.v)))):
            return {"W": float("nan"), "gap": float("nan")}
        found = sinkhorn(
            self.some, made, epsilon=self.epsilon, v=state.v, cost=self.sides.cost, tol=ROUGH,
            max_iterations=PASSES,
        )  # fmt: skip
        return {"W": found.value, "gap": found.gap}


def _plan(sides: Sides, result: Result, epsilon: float, seed: int, *, progress: bool) -> Sinkhorn:
    """Solve for the plan of the mapped cells: on some cells of the target first, then on all."""
    made = np.asarray(jax.vmap(result.theta)(sides.y))
    options = {"epsilon": epsilon, "cost": sides.cost, "progress": progress}
    start, x = result.v, sides.x
    if len(x) > FEW:
        rng = np.random.default_rng(seed)
        few = x[np.sort(rng.choice(len(x), FEW, replace=False))]
        start = sinkhorn(few, made, v=start, tol=1e-2, max_iterations=500, **options).v
        return sinkhorn(x, made, v=start, tol=2e-2, max_iterations=50, **options)
    return sinkhorn(x, made, v=start, tol=1e-2, max_iterations=1_000, **options)


def _sides(
    y: np.ndarray,
    x: np.ndarray,
    source: tables.Table,
    target: tables.Table,
    fitted: tuple[preprocessing.Preprocessing, preprocessing.Preprocessing],
    shared: Any,
    labels: tuple[np.ndarray, np.ndarray] | None,
    price: float,
) -> Sides:
    """Put what guides the match beside the features; `price` is what it weighs in all."""
    of_x, of_y, cost, weight, found, all_of = [x], [y], Quadratic(), 0.0, None, np.array([], str)
    if shared is not None:
        named = fitted[0].named(source.matrix)
        found = guidance.shared_features(shared, source, target, named)
        weight = price / (2.0 * len(found.source))  # standardised: squares of 2 each, in the mean
        of_y.append(np.sqrt(weight) * found.of_source(named))
        of_x.append(np.sqrt(weight) * guidance.of_target(found, fitted[1].named(target.matrix)))
    if labels is not None:
        one, other = (each[each != ""] for each in labels)
        all_of = np.intersect1d(one, other)
        if not len(all_of):
            raise ValueError("`labels` must have one label at least that both sides know.")
        of_y.append(guidance.one_hot(labels[0], all_of))
        of_x.append(guidance.one_hot(labels[1], all_of))
        cost = Guided(len(all_of), price)
    beside = [np.concatenate(parts, axis=1).astype(np.float32) for parts in (of_x, of_y)]
    return Sides(beside[0], beside[1], y.shape[1], cost, found, weight, all_of)


def _labels(
    labels: Any, source: tables.Table, target: tables.Table
) -> tuple[np.ndarray, np.ndarray] | None:
    if labels is None:
        return None
    one, other = (labels, labels) if isinstance(labels, str) else _two("labels", labels)
    return source.column("labels", one), target.column("labels", other)


def _two(name: str, value: Any) -> tuple[Any, Any]:
    try:
        one, other = value
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be two, one for the source and one for the target, got {value!r:.80}."
        ) from error
    return one, other


def _places(pairs: Any, source: tables.Table, target: tables.Table) -> np.ndarray:
    """Return pairs of names as pairs of places."""
    given = np.asarray(pairs)
    if given.ndim != 2 or given.shape[1] != 2 or not len(given):
        raise ValueError(
            f"`pairs` must be k × 2 cells, one of the source and one of the target each, got the "
            f"shape {given.shape}."
        )
    sides = (("source", source), ("target", target))
    if given.dtype.kind in "iu":
        for column, (side, table) in enumerate(sides):
            wrong = given[(given[:, column] < 0) | (given[:, column] >= len(table.cells)), column]
            if len(wrong):
                raise ValueError(
                    f"`pairs`: places in the {side} must be from 0 to {len(table.cells) - 1}, got "
                    f"{wrong[0]}."
                )
        return given
    places = np.empty(given.shape, np.int64)
    for column, (side, table) in enumerate(sides):
        where = {name: place for place, name in enumerate(table.cells)}
        names, counts = np.unique(table.cells, return_counts=True)
        several = set(names[counts > 1].tolist())
        for row, name in enumerate(given[:, column].astype(str).tolist()):
            if name not in where:
                raise ValueError(f"`pairs`: the {side} has no cell called {name!r}.")
            if name in several:
                raise ValueError(f"`pairs`: the {side} has several cells called {name!r}.")
            places[row, column] = where[name]
    return places


def versions() -> dict[str, str]:
    """Return the versions of what computed this."""
    found = {name: version(name) for name in ("rsgda", "jax", "numpy", "scikit-learn")}
    with contextlib.suppress(PackageNotFoundError):  # arrays can be matched without it
        found["anndata"] = version("anndata")
    return found


def _told(fitted: preprocessing.Preprocessing) -> list[str]:
    return [repr(step) for step in fitted.steps]


def _spread(y: np.ndarray) -> np.ndarray:
    """Return standard deviations, 1 of what is constant but for rounding."""
    exactly = y.astype(float)
    varies = exactly.std(axis=0) > 1e-6 * np.abs(exactly.mean(axis=0))
    return np.where(varies, y.std(axis=0), 1)
