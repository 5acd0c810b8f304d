"""What a fit runs: its algorithm, how long, what is recorded, and when to stop early."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rsgda import _checks
from rsgda._trees import PyTree, thaw
from rsgda.algorithms import ESGDA, RSGDA, SGDA, Auto, Extragradient, Optimistic, TiAda
from rsgda.algorithms.auto import EARLY, SHARE, START
from rsgda.moves import Algorithm, Info, State, Step, descent, spent, start
from rsgda.problem import Problem
from rsgda.robust.classifier_network import losses, pieces
from rsgda.robust.losses import Loss

LOOKS = 50  # records of a run whose epochs are shorter than a fiftieth of it
SHOWN = 4096  # samples that the recorded objective is the mean of
LEAST_EPOCHS = 20
# Small sets have as many epochs as this takes, and the smallest as many as they can be seen
# before training at the default gamma begins to cost accuracy.
LEAST_GRADIENTS, MOST_EPOCHS = 3_000, 500


class Length(NamedTuple):
    """How long a run is, in steps of its algorithm."""

    steps: int
    every: int  # between two records


def length(
    algorithm: Any, epochs: float | None, n: int, batch_size: int, per_batch: bool
) -> Length:
    """Return the length of a run of so many epochs."""
    if epochs is None:
        epochs = max(LEAST_EPOCHS, min(MOST_EPOCHS, LEAST_GRADIENTS * batch_size / n))
    _checks.positive("epochs", epochs)
    each = _minibatches(algorithm) if per_batch else _gradients(algorithm, epochs * n / batch_size)
    epoch = each * batch_size / n
    every = max(1, round(max(1, epochs / LOOKS) / epoch))
    # The last record is at the last step, so that a validation is not missed.
    return Length(every * max(1, round(epochs / epoch / every)), every)


def _gradients(algorithm: Any, total: float) -> float:
    """Return how many gradients a step takes, on average over a run of so many."""
    if isinstance(algorithm, ESGDA):
        return int(algorithm.m) + 1
    if isinstance(algorithm, Extragradient):
        return 4
    if isinstance(algorithm, Auto):
        around = START + EARLY + SHARE * total  # to look around
        return total / max(total - around, total / 2)
    # What SGDmax will spend is not known.
    return 2 if isinstance(algorithm, SGDA | TiAda | Optimistic) else 1


def _minibatches(algorithm: Any) -> float:
    return float(algorithm.p) if isinstance(algorithm, RSGDA | Plain) else 1


def scaled(eta: Step, by: float) -> Step:
    """Return the step that is made of gradients that are larger by a factor.

    An optimiser is given these gradients, so that one that does not look at their size is the same.
    """
    if by == 1 or hasattr(eta, "of_problem"):
        return eta
    if _checks.is_optimiser(eta):
        import optax

        return optax.chain(optax.scale(by), eta)
    return (lambda k: by * eta(k)) if callable(eta) else by * eta  # pyright: ignore


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Plain(Algorithm):
    """Training without an adversary: the descents of RSGDA alone, at the same steps.

    Args:
        p: the share of steps with a descent; nothing is computed at the others.
        alpha: theta's step size.
    """

    p: float | Array
    alpha: Step

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step."""
        return start(problem, theta, v, key, self.alpha, 1.0)

    def toss(self, key: Array, k: Array) -> tuple[Array, Array]:
        """Toss RSGDA's coin."""
        return RSGDA.toss(self, key, k)  # pyright: ignore[reportArgumentType]

    def step(
        self, problem: Problem, state: State, tossed: tuple[Array, Array] | None = None
    ) -> tuple[State, Info]:
        """Descend or rest."""
        descended, key_batch = tossed or self.toss(state.key, state.step)

        def descend() -> tuple[PyTree, ...]:
            change = descent(problem, state, key_batch, self.alpha)
            return change.theta, change.descent_state, change.descents, change.refused

        def rest() -> tuple[PyTree, ...]:
            return state.theta, state.descent_state, jnp.zeros((), jnp.int32), state.refused

        theta, descent_state, done, refused = lax.cond(descended, descend, rest)
        new = state._replace(
            theta=theta,
            descent_state=descent_state,
            step=state.step + 1,
            descents=state.descents + done,
            gradients=state.gradients + done,
            refused=refused,
        )
        return new, spent(state, new)

    @classmethod
    def like(cls, algorithm: Any) -> "Plain":
        """Return plain training with as many descents and the same step size."""
        return cls(p=algorithm.p if isinstance(algorithm, RSGDA) else 1.0, alpha=algorithm.alpha)


@dataclasses.dataclass(frozen=True, eq=False)
class Validation:
    """Samples that are set aside, in pieces; labels of -1 fill up the last piece.

    They are read when a run starts, and then are part of its state. So equal shapes make equal
    programs.
    """

    X: np.ndarray
    y: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> "Validation":
        """Cut samples into pieces."""
        # One more than the label, so that what fills up becomes -1.
        cut = [piece for _, piece in pieces(X, y + 1)]
        return cls(
            np.stack([X for X, _ in cut]), np.stack([y for _, y in cut]).astype(np.int32) - 1
        )

    @property
    def size(self) -> int:
        """The number of samples."""
        return int(np.sum(self.y >= 0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Validation) and self.X.shape == other.X.shape

    def __hash__(self) -> int:
        return hash(self.X.shape)


class Kept(NamedTuple):
    """What early stopping remembers."""

    inner: PyTree  # the algorithm's own memory
    X: Array
    y: Array
    theta: PyTree  # the best so far
    best: Array  # samples that it has right
    loss: Array  # and the mean cross-entropy
    last: Array  # samples that were right at the last look,
    last_loss: Array  # and the mean cross-entropy then
    since: Array  # looks since the best


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Validated(Algorithm):
    """An algorithm that remembers the theta that was best on samples set aside.

    It is all in the state, so that a run that is continued from a checkpoint knows it too.
    """

    algorithm: Any
    every: int | Array
    patience: int | Array  # it ends the run, so that with another one it is another run
    validation: Validation = dataclasses.field(metadata={"static": True})

    def init(self, problem: Problem, theta: PyTree, v: PyTree, key: Array) -> State:
        """Return the state before the first step."""
        state = self.algorithm.init(problem, theta, v, key)
        zero = jnp.zeros((), jnp.int32)
        X, y = jnp.asarray(self.validation.X), jnp.asarray(self.validation.y)
        worst = jnp.full((), jnp.inf, X.dtype)
        memory = Kept(state.memory, X, y, state.theta, zero - 1, worst, zero, worst, zero)
        return state._replace(memory=memory)

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        """Take a step, and now and then a look."""
        kept = state.memory
        new, info = self.algorithm.step(problem, state._replace(memory=kept.inner))
        kept = kept._replace(inner=new.memory)
        kept = lax.cond(
            new.step % self.every == 0, _look, lambda kept, theta: kept, kept, new.theta
        )
        return new._replace(memory=kept), info


def _look(kept: Kept, theta: PyTree) -> Kept:
    def judged(piece: tuple[Array, Array]) -> tuple[Array, Array]:
        X, y = piece
        logits = jax.vmap(thaw(theta))(X)
        right = jnp.argmax(logits, axis=1).astype(y.dtype) == y
        chances = jax.nn.log_softmax(logits)
        of_label = jnp.take_along_axis(chances, jnp.maximum(y, 0)[:, None], axis=1)[:, 0]
        lost = -jnp.sum(jnp.where(y >= 0, of_label, 0))
        return jnp.sum(right, dtype=jnp.int32), lost.astype(kept.loss.dtype)

    right, loss = (jnp.sum(part) for part in lax.map(judged, (kept.X, kept.y)))
    right, loss = right.astype(jnp.int32), loss / jnp.sum(kept.y >= 0).astype(loss.dtype)
    # Of few samples many weights have equally many right.
    better = (right > kept.best) | ((right == kept.best) & (loss < kept.loss))
    return kept._replace(
        theta=jax.tree.map(lambda new, old: jnp.where(better, new, old), theta, kept.theta),
        best=jnp.maximum(right, kept.best),
        loss=jnp.where(better, loss, kept.loss),
        last=right,
        last_loss=loss,
        since=jnp.where(better, 0, kept.since + 1).astype(jnp.int32),
    )


@dataclasses.dataclass(frozen=True)
class Record:
    """What a fit writes down now and then.

    Attributes:
        loss: of one sample.
        gamma: the penalty.
        smoothing: of the labels.
        patience: looks without a better validation before the run is ended; None without one.
        held: number of samples set aside.
    """

    loss: Loss
    gamma: float
    smoothing: float
    patience: int | None = None
    held: int = 0

    def __call__(self, problem: Problem, state: State) -> dict[str, Any]:
        """Return the objective on the training samples, and the accuracy on those set aside."""
        values: dict[str, Any] = {"objective": self._objective(problem, state)}
        if self.patience is not None:
            kept = state.memory
            values["validation_accuracy"] = int(kept.last) / self.held
            values["validation_loss"] = float(kept.last_loss)
            values["stop"] = int(kept.since) >= self.patience
        return values

    def _objective(self, problem: Problem, state: State) -> float:
        n = problem.rows
        pick = lambda leaf: np.asarray(leaf if n <= SHOWN else leaf[np.arange(SHOWN) * n // SHOWN])  # noqa: E731
        x, y = pick(problem.data["x"]), pick(problem.data["y"])
        # Adversaries of a minibatch do not outlive it.
        v = pick(state.v) if problem.separable else x
        values = losses(state.theta, self.loss, v, y, self.smoothing)
        moved = np.sum(np.square(v - x).reshape(len(x), -1), axis=1)
        return float(np.mean(values - self.gamma * moved, dtype=np.float64))
