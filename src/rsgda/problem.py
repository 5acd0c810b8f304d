"""What is being solved: a loss, where its samples come from, and the sets the players live in."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import Array
from jax.sharding import Mesh

from rsgda import _checks
from rsgda._split import Split
from rsgda._trees import PyTree, freeze_values, thaw

WITH_ARRAYS = ("loss", "sample", "prepare")  # functions that may hold arrays
WITHOUT_ARRAYS = ("batch_size", "separable", "project_v", "project_theta", "restart", "split")


class Batch(NamedTuple):
    """One draw of z: what the loss is given, and which rows of a separable `v` it touches."""

    arguments: tuple[PyTree, ...]
    places: Array | None


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    r"""A loss that is itself a maximum, to be minimised.

    $$ \min_\theta \max_{v \in V} F(\theta, v), \quad F(\theta, v) = \mathbb{E}_z f(\theta, v; z) $$

    $f$ may be nonconvex in `theta` and should be strongly concave in `v`. Both are pytrees of any
    structure: arrays, dictionaries, Equinox modules.

    Args:
        loss: `loss(theta, v)` for exact gradients, else `loss(theta, v, batch)`, a mean over the
            batch. A scalar.
        data: arrays with one leading axis of n rows; a batch is `batch_size` of them, drawn
            uniformly with replacement.
        batch_size: rows in a minibatch.
        separable: `v` has one row per row of `data`, and the loss is given the batch's rows of
            both. A step then costs O(batch_size), whatever n is. A row that is drawn twice
            counts twice in the mean, and an optax optimiser is kept for each row by itself.
        sample: `sample(key)` draws a batch, in place of `data`.
        project_v: the projection on V, applied after each ascent. On a separable problem it is
            given the rows of the batch and must treat each of them by itself.
        project_theta: the same for `theta`, after each descent.
        prepare: with it the loss is given `prepare(theta)` in place of `theta`, and consecutive
            ascents, which leave `theta` as it is, compute it only once.
        restart: with it `v` belongs to the minibatch: it starts at `restart(batch)`, the same
            minibatch is kept until a descent happens, and then v starts again at the next one.

    Write functions at module level, so that they are compiled only once. `loss`, `sample` and
    `prepare` may also be callable pytrees, such as Equinox modules: their arrays are then inputs
    of the compiled program, and other arrays do not compile it again.

    >>> import jax.numpy as jnp
    >>> def loss(theta, v):
    ...     return 1 - jnp.cos(theta) + theta * v - v**2 / 2
    >>> Problem(loss)
    Problem(loss)

    Source: equation (1) of the paper; `separable` is its finite sum in Section 4.1.
    """

    loss: Callable[..., Array]
    _: dataclasses.KW_ONLY
    data: PyTree = None
    batch_size: int | None = None
    separable: bool = False
    sample: Callable[[Array], PyTree] | None = None
    project_v: Callable[[PyTree], PyTree] | None = None
    project_theta: Callable[[PyTree], PyTree] | None = None
    prepare: Callable[[PyTree], PyTree] | None = None
    restart: Callable[[PyTree], PyTree] | None = None
    split: Split | None = dataclasses.field(default=None, init=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be a problem."""
        if self.loss is None:
            raise ValueError("`loss` must be a function, got None.")
        for name in ("loss", "sample", "project_v", "project_theta", "prepare", "restart"):
            if name not in WITH_ARRAYS or not _has_arrays(getattr(self, name)):
                _checks.function(name, getattr(self, name))
        if not isinstance(self.separable, bool):
            raise ValueError(f"`separable` must be True or False, got {self.separable!r}.")
        if self.data is not None and self.sample is not None:
            raise ValueError("`data` and `sample` are two sources of batches; give one of them.")
        if self.restart is not None and (self.separable or self.exact):
            raise ValueError(
                "`restart` makes a v for each minibatch: it needs `data` or `sample`, and cannot "
                "be had with `separable`, where every row keeps its own."
            )
        if self.data is None:
            for name in ("batch_size", "separable"):
                if getattr(self, name):
                    raise ValueError(f"`{name}` needs `data`, which is None.")
        else:
            data = jax.tree_util.tree_map_with_path(_as_array, self.data)
            object.__setattr__(self, "data", data)
            # Placeholders, which JAX puts in place of arrays now and then, are let through.
            if all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(self.data)):
                self._check_data()

    def _check_data(self) -> None:
        leaves = jax.tree_util.tree_leaves_with_path(self.data)
        if not leaves:
            raise ValueError(f"`data` must hold arrays with a leading axis, got {self.data!r}.")
        rows = {}
        for path, leaf in leaves:
            if leaf.ndim == 0:
                where = jax.tree_util.keystr(path)
                raise ValueError(f"`data`{where} must have a leading axis of rows, got a scalar.")
            rows[f"data{jax.tree_util.keystr(path)}"] = leaf.shape[0]
        if len(set(rows.values())) > 1:
            raise ValueError(f"`data` must have one number of rows throughout, got {rows}.")
        _checks.whole("batch_size", self.batch_size, 1)
        object.__setattr__(self, "batch_size", int(self.batch_size))  # pyright: ignore
        if self.batch_size is not None and self.batch_size > self.rows:
            raise ValueError(
                f"`batch_size` must be at most the {self.rows} rows of `data`, "
                f"got {self.batch_size}."
            )

    def __repr__(self) -> str:
        """Show functions by name and arrays by shape."""
        parts = [_name(self.loss)]
        for field in dataclasses.fields(self)[1:]:
            value = getattr(self, field.name)
            if field.name == "data" and value is not None:
                shapes = jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", value)
                parts.append(f"data={shapes}")
            elif value is not None and value is not False:
                parts.append(f"{field.name}={_name(value)}")
        return f"Problem({', '.join(parts)})"

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, PyTree]], tuple[Any, ...]]:
        """Return the arrays, with functions as part of the structure, and all the rest."""
        children = [
            (jax.tree_util.GetAttrKey(name), freeze_values(getattr(self, name)))
            for name in WITH_ARRAYS
        ]
        data = (jax.tree_util.GetAttrKey("data"), self.data)
        return [data, *children], tuple(getattr(self, name) for name in WITHOUT_ARRAYS)

    @classmethod
    def tree_unflatten(cls, rest: tuple[Any, ...], children: Iterable[PyTree]) -> "Problem":
        """Put it together again; what is traced or a placeholder is not checked again."""
        data, *functions = children
        problem = object.__new__(cls)
        given = dict(zip(WITHOUT_ARRAYS, rest, strict=True))
        given |= {"data": data} | dict(zip(WITH_ARRAYS, map(thaw, functions), strict=True))
        for name, value in given.items():
            object.__setattr__(problem, name, value)
        return problem

    @property
    def rows(self) -> int:
        """The number n of rows of `data`."""
        if self.split is not None:
            return self.split.count
        return jax.tree.leaves(self.data)[0].shape[0]

    @property
    def exact(self) -> bool:
        """Whether the loss is F itself, so that its gradients carry no noise."""
        return self.data is None and self.sample is None

    def draw(self, key: Array) -> Batch:
        """Draw a fresh z."""
        if self.sample is not None:
            drawn = self.sample(key)
            return Batch((drawn if self.split is None else self.split.spread(drawn),), None)
        if self.data is None:
            return Batch((), None)
        places = jr.randint(key, (self.batch_size or 0,), 0, self.rows)
        rows = self._rows(self.data, places)
        return Batch((rows,), places if self.separable else None)

    def kept(self, key: Array, descents: Array) -> Batch:
        """Draw the z that is kept between one descent and the next, where `restart` is given."""
        return self.draw(jr.fold_in(jr.split(key)[0], descents))

    def look(self, v: PyTree, batch: Batch) -> PyTree:
        """Return the part of `v` that the loss of this batch depends on."""
        return v if batch.places is None else self._rows(v, batch.places)

    def _rows(self, tree: PyTree, places: Array) -> PyTree:
        take = (lambda leaf, places: leaf[places]) if self.split is None else self.split.take
        return jax.tree.map(lambda leaf: take(leaf, places), tree)

    def over(self, mesh: Mesh) -> "Problem":
        """Return the problem with its rows shared out among devices, and all else on each."""
        problem = object.__new__(Problem)
        vars(problem).update(vars(self))
        split = Split.of(mesh, 0 if self.data is None else self.rows)
        functions = {
            name: thaw(split.place(freeze_values(getattr(self, name)))) for name in WITH_ARRAYS
        }
        vars(problem).update(functions, data=split.place_rows(self.data), split=split)
        return problem

    def slope_theta(self, theta: PyTree, v: PyTree, batch: Batch) -> tuple[Array, PyTree]:
        """Return the loss of a batch and its gradient in `theta`, at `v` as `look` returns it."""
        functions = freeze_values((self.loss, self.prepare))
        return _slope_theta(functions, theta, v, batch.arguments)

    def slope_v(
        self, prepared: PyTree, v: PyTree, batch: Batch, *, summed: bool = True
    ) -> tuple[Array, PyTree]:
        """Return the loss of a batch and its gradient in `v`, from `prepare(theta)`.

        The gradient of a row that the batch holds twice is the sum over both, at both places,
        unless `summed` is false.
        """
        value, gradient = _slope_v(freeze_values(self.loss), prepared, v, batch.arguments)
        if batch.places is not None and summed:
            gradient = _sum_over_duplicates(gradient, batch.places)
        return value, gradient

    def value(self, theta: PyTree, v: PyTree, batch: Batch) -> Array:
        """Return the loss of a batch."""
        # The rest of `slope_theta` is dead code to the compiler; the loss is not traced again.
        return self.slope_theta(theta, v, batch)[0]


# Compiled on their own, so that wherever the same loss meets the same shapes it is traced once.
@functools.partial(jax.jit, inline=True)
def _slope_theta(functions: PyTree, theta: PyTree, v: PyTree, arguments: tuple) -> Any:
    loss, prepare = thaw(functions)

    def of_theta(theta: PyTree) -> Array:
        prepared = thaw(theta) if prepare is None else prepare(thaw(theta))
        return _scalar(loss(prepared, thaw(v), *arguments))

    return jax.value_and_grad(of_theta)(theta)


@functools.partial(jax.jit, inline=True)
def _slope_v(loss: PyTree, prepared: PyTree, v: PyTree, arguments: tuple) -> Any:
    def of_v(v: PyTree) -> Array:
        return _scalar(thaw(loss)(thaw(prepared), thaw(v), *arguments))

    return jax.value_and_grad(of_v)(v)


def _scalar(value: Any) -> Array:
    if value is None or isinstance(value, (tuple, list, dict, str)):
        raise ValueError(f"`loss` must return a floating scalar, got {value!r}.")
    shape = jnp.shape(value)
    if shape != () or not jnp.issubdtype(jnp.result_type(value), jnp.floating):
        raise ValueError(
            f"`loss` must return a floating scalar, the mean over the batch, got shape {shape} "
            f"of {jnp.result_type(value)}."
        )
    return value


def _sum_over_duplicates(gradient: PyTree, places: Array) -> PyTree:
    """Give each row of `gradient` the sum over all rows with the same place."""
    ordered = jnp.sort(places)
    repeated = jnp.any(ordered[1:] == ordered[:-1])

    def add(_: Any, gradient: PyTree) -> PyTree:
        first = jnp.searchsorted(ordered, places)  # the same for equal places
        return jax.tree.map(lambda leaf: jnp.zeros_like(leaf).at[first].add(leaf)[first], gradient)

    # A loop of no or one round, not `cond`: where nothing is repeated, nothing is copied.
    return jax.lax.fori_loop(0, repeated.astype(jnp.int32), add, gradient)


def _has_arrays(function: Any) -> bool:
    return callable(function) and any(
        isinstance(leaf, (jax.Array, np.ndarray)) for leaf in jax.tree.leaves(function)
    )


def _as_array(path: Any, leaf: Any) -> Any:
    where = f"`data`{jax.tree_util.keystr(path)}"
    if isinstance(leaf, (int, float, complex, str)) and not isinstance(leaf, bool):
        raise ValueError(f"{where} must hold arrays with a leading axis of rows, got {leaf!r}.")
    if isinstance(leaf, np.ndarray):
        if leaf.dtype.kind in "OSUMm":
            raise ValueError(
                f"{where} must hold numbers, got an array of {leaf.dtype}; convert it by "
                'np.asarray(..., "float32"), and words by an encoder.'
            )
        return jnp.asarray(leaf)
    if hasattr(leaf, "__array__") and not isinstance(leaf, jax.Array):
        raise ValueError(
            f"{where} must be an array of NumPy or JAX, got a {type(leaf).__name__}; convert it by "
            'np.asarray(..., "float32").'
        )
    return leaf


def _name(value: Any) -> str:
    if not hasattr(value, "__name__") and _has_arrays(value):
        return type(value).__name__
    return getattr(value, "__name__", repr(value))
