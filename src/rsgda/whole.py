"""F itself and its derivatives: the loss over all samples, streamed in chunks."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import Array, lax

from rsgda import _checks
from rsgda._trees import PyTree, freeze_values, thaw
from rsgda.problem import Batch, Problem

CHUNK = 1024  # rows at once: enough to keep a core busy, few enough to fit anywhere

Part = Callable[[PyTree, Batch], tuple[PyTree, PyTree]]


def whole(problem: Problem, *, key: Array | None = None, batches: int = 256) -> "Whole":
    r"""Return F of a problem, to be evaluated and differentiated.

    $$ F(\theta, v) = f(\theta, v), \quad \tfrac{1}{n} \sum_j f(\theta, v; z_j)
       \quad\text{or}\quad \tfrac{1}{\mathtt{batches}} \sum_i f(\theta, v; z_i) $$

    for exact gradients, for data and for a sampler. All of it is streamed: memory is that of one
    chunk of rows, or of one batch, besides theta and v. No Hessian is ever formed.

    Args:
        problem: where the loss and its samples come from.
        key: of a problem with a sampler, what draws the batches: batch i by
            `jax.random.fold_in(key, i)`, always the same ones.
        batches: the number of these batches.

    >>> import jax.numpy as jnp
    >>> def loss(theta, v, rows):
    ...     return jnp.mean(theta * rows * v - v**2 / 2)
    >>> F = whole(Problem(loss, data=jnp.arange(5.0), batch_size=2))
    >>> F.value(jnp.asarray(1.0), jnp.asarray(2.0)).item()
    2.0
    >>> value, gradient = F.slope_v(jnp.asarray(1.0), jnp.asarray(0.5))
    >>> gradient.item()
    1.5

    Source: equation (1) of the paper.
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"`problem` must be an rsgda.Problem, got {problem!r}.")
    if problem.restart is not None:
        raise ValueError(
            "`problem` has a v of its own for each minibatch (`restart`), and so no F over all "
            "samples; build it without, as a separable problem (robust.wrm: per_batch=False)."
        )
    _checks.whole("batches", batches, 1)
    _checks.counted("batches", batches)
    if problem.sample is None:
        return Whole(problem, None, 1)
    if key is None:
        raise ValueError(
            "`key` must be given for a problem with `sample`, as F is then a mean over drawn "
            "batches; pass key=jax.random.key(0)."
        )
    if not (hasattr(key, "dtype") and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)) or key.ndim:
        raise ValueError(
            f"`key` must be a single key of the new style, such as jax.random.key(0), got {key!r}."
        )
    return Whole(problem, key, int(batches))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Whole:
    """F of a problem; `whole` builds one.

    Its methods may be compiled and mapped. They take theta and v as a `State` holds them inside
    of a run: leaves that are not arrays are part of the structure.
    """

    problem: Problem
    key: Array | None
    batches: int = dataclasses.field(metadata={"static": True})

    @property
    def chunk(self) -> int:
        """The number of rows at once, a divisor of n if there is one that is not too small."""
        n, most = self.problem.rows, max(CHUNK, self.problem.batch_size or 1)
        if n <= most:
            return n
        divisors = [c for c in range(max(most // 4, 1), most + 1) if n % c == 0]
        return max(divisors, default=most)

    def prepared(self, theta: PyTree) -> PyTree:
        """Return what the loss is given in place of theta."""
        prepare = self.problem.prepare
        return theta if prepare is None else freeze_values(prepare(thaw(theta)))

    def value(self, theta: PyTree, v: PyTree) -> Array:
        """Return F(theta, v)."""
        return self.value_from(self.prepared(theta), v)

    def value_from(self, prepared: PyTree, v: PyTree) -> Array:
        """Return F, from `prepared(theta)`."""

        def part(v: PyTree, batch: Batch) -> tuple[PyTree, PyTree]:
            return self._loss(prepared, v, batch.arguments), ()

        return self._stream(part, v)[0]

    def slope_v(self, theta: PyTree, v: PyTree) -> tuple[Array, PyTree]:
        """Return F and its gradient in v."""
        return self.slope_v_from(self.prepared(theta), v)

    def slope_v_from(self, prepared: PyTree, v: PyTree) -> tuple[Array, PyTree]:
        """Return F and its gradient in v, from `prepared(theta)`."""

        def part(v: PyTree, batch: Batch) -> tuple[PyTree, PyTree]:
            value, gradient = self.problem.slope_v(prepared, v, batch)
            return self._placed(value, gradient)

        (value, *rest), rows = self._stream(part, v)
        return value, rows if self.problem.separable else rest[0]

    def slope_theta(self, theta: PyTree, v: PyTree) -> tuple[Array, PyTree]:
        """Return F and its gradient in theta."""

        def part(v: PyTree, batch: Batch) -> tuple[PyTree, PyTree]:
            return self.problem.slope_theta(theta, v, batch), ()

        return self._stream(part, v)[0]

    def product_v(self, theta: PyTree, v: PyTree, u: PyTree) -> PyTree:
        """Return the Hessian of F in v times u."""
        return self.product_v_from(self.prepared(theta), v, u)

    def product_v_from(self, prepared: PyTree, v: PyTree, u: PyTree) -> PyTree:
        """Return the Hessian of F in v times u, from `prepared(theta)`."""

        def part(both: PyTree, batch: Batch) -> tuple[PyTree, PyTree]:
            v, u = both
            return self._placed(None, self._bend_v(prepared, v, u, batch))

        (_, *rest), rows = self._stream(part, (v, u))
        return rows if self.problem.separable else rest[0]

    def product(
        self, theta: PyTree, v: PyTree, along: tuple[PyTree, PyTree]
    ) -> tuple[PyTree, PyTree]:
        """Return the Hessian of F in (theta, v) times the pair `along`."""
        a, u = along

        def part(both: PyTree, batch: Batch) -> tuple[PyTree, PyTree]:
            v, u = both
            of_both = jax.grad(
                lambda theta, v: self._loss(self.prepared(theta), v, batch.arguments), (0, 1)
            )
            of_theta, of_v = jax.jvp(of_both, (theta, v), (a, u))[1]
            return self._placed(of_theta, of_v)

        (of_theta, *rest), rows = self._stream(part, (v, u))
        return of_theta, rows if self.problem.separable else rest[0]

    def row_value(self, prepared: PyTree, v: PyTree, row: PyTree) -> Array:
        """Return the loss of one row of data at its own row of v, both without a leading axis."""
        v, row = jax.tree.map(lambda leaf: leaf[None], (v, row))
        return self._loss(prepared, v, (row,))

    def row_slope_v(self, prepared: PyTree, v: PyTree, row: PyTree) -> tuple[Array, PyTree]:
        """Return the loss of one row and its gradient in its row of v (for `vmap`)."""
        v, row = jax.tree.map(lambda leaf: leaf[None], (v, row))
        value, gradient = self.problem.slope_v(prepared, v, Batch((row,), None))
        return value, jax.tree.map(lambda leaf: leaf[0], gradient)

    def row_product_v(self, prepared: PyTree, v: PyTree, u: PyTree, row: PyTree) -> PyTree:
        """Return the Hessian of one row's loss in its row of v, times u (for `vmap`)."""
        v, u, row = jax.tree.map(lambda leaf: leaf[None], (v, u, row))
        bent = self._bend_v(prepared, v, u, Batch((row,), None))
        return jax.tree.map(lambda leaf: leaf[0], bent)

    def over_rows(self, function: Callable[[PyTree, PyTree, Array], PyTree], v: PyTree) -> PyTree:
        """Return what `function(v, rows, places)` says of each row of a separable problem.

        It is given a chunk of rows of v and of data with their places, and returns arrays with
        one row for each of them. The last chunk overlaps the one before where n is no multiple:
        a row must not depend on its company.
        """
        n, size = self.problem.rows, self.chunk

        def at(first: Array | int) -> PyTree:
            mine, rows = _rows((v, self.problem.data), first, size)
            return function(mine, rows, first + jnp.arange(size))

        if size == n:
            return at(0)
        blank = jax.tree.map(
            lambda leaf: jnp.zeros((n, *leaf.shape[1:]), leaf.dtype), jax.eval_shape(at, 0)
        )

        def write(i: Array, out: PyTree) -> PyTree:
            first = jnp.minimum(i * size, n - size)
            return _written(out, at(first), first)

        return lax.fori_loop(0, -(-n // size), write, blank)

    def _loss(self, prepared: PyTree, v: PyTree, arguments: tuple[PyTree, ...]) -> Array:
        return self.problem.loss(thaw(prepared), thaw(v), *arguments)

    def _bend_v(self, prepared: PyTree, v: PyTree, u: PyTree, batch: Batch) -> PyTree:
        return jax.jvp(lambda v: self.problem.slope_v(prepared, v, batch)[1], (v,), (u,))[1]

    def _placed(self, mean: PyTree, of_v: PyTree) -> tuple[PyTree, PyTree]:
        """Say what is a mean over samples; of a separable v each row belongs to one of them."""
        return ((mean,), of_v) if self.problem.separable else ((mean, of_v), ())

    def _stream(self, part: Part, v: PyTree) -> tuple[PyTree, PyTree]:
        """Return the mean over all samples of the first, and the rows of the second of `part`.

        Rows are those of the mean over all samples, too: a row's share of it is 1/n.
        """
        problem = self.problem
        if problem.exact:
            return part(v, Batch((), None))
        if problem.sample is not None:
            draw, key = problem.sample, self.key
            if key is None:
                raise ValueError("a problem with `sample` needs a key; build it with `whole`.")
            return self._sum(lambda i: part(v, Batch((draw(jr.fold_in(key, i)),), None)))
        n, size = problem.rows, self.chunk

        def at(first: Array | int, size: int) -> tuple[PyTree, PyTree]:
            mine = _rows(v, first, size) if problem.separable else v
            found = part(mine, Batch((_rows(problem.data, first, size),), None))
            # The mean over a chunk stands for its share of the rows.
            return jax.tree.map(lambda leaf: leaf * (size / n), found)

        if size == n:
            return at(0, n)
        means, rows = jax.eval_shape(lambda: at(0, size))
        means = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), means)
        rows = jax.tree.map(lambda leaf: jnp.zeros((n, *leaf.shape[1:]), leaf.dtype), rows)

        def add(
            first: Array | int, size: int, so_far: tuple[PyTree, PyTree]
        ) -> tuple[PyTree, PyTree]:
            more, new = at(first, size)
            return jax.tree.map(jnp.add, so_far[0], more), _written(so_far[1], new, first)

        full = n // size
        out = lax.fori_loop(0, full, lambda i, out: add(i * size, size, out), (means, rows))
        return add(full * size, n % size, out) if n % size else out

    def _sum(self, of: Callable[[Any], tuple[PyTree, PyTree]]) -> tuple[PyTree, PyTree]:
        """Return the mean over the batches that are drawn."""
        blank = jax.tree.map(
            lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of, jnp.int32(0))
        )
        total = lax.fori_loop(
            0, self.batches, lambda i, total: jax.tree.map(jnp.add, total, of(i)), blank
        )
        return jax.tree.map(lambda leaf: leaf / self.batches, total)


def _rows(tree: PyTree, first: Array | int, size: int) -> PyTree:
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, first, size), tree)


def _written(tree: PyTree, rows: PyTree, first: Array | int) -> PyTree:
    return jax.tree.map(
        lambda leaf, new: lax.dynamic_update_slice_in_dim(leaf, new, first, 0), tree, rows
    )
