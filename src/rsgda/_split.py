"""Arrays over several devices: rows that are taken from where they are, and put back there."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from rsgda._trees import PyTree


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Split:
    """How rows are shared out among devices: in blocks of one size, in the order of the devices.

    Attributes:
        mesh: the devices. Whatever its axes, rows are split over all of them.
        count: how many rows there are; what fills up the last block does not count.
    """

    mesh: Mesh
    count: int

    @classmethod
    def of(cls, mesh: Mesh, count: int) -> "Split":
        """Split over a mesh, of which the compiler chooses where intermediate values are."""
        kinds = (AxisType.Auto,) * len(mesh.axis_names)
        return cls(Mesh(mesh.devices, mesh.axis_names, axis_types=kinds), count)

    @property
    def devices(self) -> int:
        """The number of devices."""
        return self.mesh.size

    @property
    def whole(self) -> NamedSharding:
        """Every device has all of it."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def by_rows(self) -> NamedSharding:
        """Every device has its block of rows."""
        return NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names))

    def place(self, tree: PyTree) -> PyTree:
        """Give every device all of a tree that each process holds."""
        return jax.tree.map(lambda leaf: _placed(leaf, self.whole), tree)

    def place_rows(self, tree: PyTree) -> PyTree:
        """Give every device its rows of a tree that each process holds, filled up if need be."""
        return jax.tree.map(lambda leaf: _placed(leaf, self.by_rows, self.devices), tree)

    def local(self, tree: PyTree) -> PyTree:
        """Return a tree as it would be without other devices: a copy, free to go anywhere."""
        return jax.tree.map(_local, tree)

    def constrain(self, tree: PyTree, *, rows: bool) -> PyTree:
        """Say in a traced program where a tree is."""
        where = self.by_rows if rows else self.whole
        return jax.tree.map(lambda leaf: lax.with_sharding_constraint(leaf, where), tree)

    def spread(self, tree: PyTree) -> PyTree:
        """Share out the rows of those leaves of a batch that have as many as can be."""
        fits = lambda leaf: leaf.ndim > 0 and leaf.shape[0] % self.devices == 0  # noqa: E731
        return jax.tree.map(
            lambda leaf: self.constrain(leaf, rows=True) if fits(leaf) else leaf, tree
        )

    def take(self, leaf: Array, places: Array) -> Array:
        """Return rows of a split array, split; every device sends those that it has."""

        def taken(block: Array, places: Array) -> Array:
            mine, inside = self._inside(block, places)
            rows = block[jnp.where(inside, mine, 0)]
            shape = (-1, *[1] * (rows.ndim - 1))
            # All but one device send zeros, so that a sum hands rows over as they are.
            rows = jnp.where(inside.reshape(shape), rows, jnp.zeros((), rows.dtype))
            sent = rows.astype(jnp.uint8) if rows.dtype == bool else rows  # truths have no sum
            return lax.psum_scatter(sent, self.mesh.axis_names, tiled=True).astype(rows.dtype)

        return self._mapped(taken, (self.by_rows.spec, PartitionSpec()))(leaf, places)

    def put(self, leaf: Array, places: Array, rows: Array, method: str) -> Array:
        """Write split rows to places of a split array; a place beyond the last is nowhere."""

        def put(block: Array, places: Array, rows: Array) -> Array:
            mine, inside = self._inside(block, places)
            rows = lax.all_gather(rows, self.mesh.axis_names, tiled=True)
            at = block.at[jnp.where(inside, mine, len(block))]
            return getattr(at, method)(rows, mode="drop")

        specs = (self.by_rows.spec, PartitionSpec(), self.by_rows.spec)
        return self._mapped(put, specs)(leaf, places, rows)

    def _inside(self, block: Array, places: Array) -> tuple[Array, Array]:
        """Return places in this device's block, and which of them are."""
        index = lax.axis_index(self.mesh.axis_names).astype(places.dtype)
        mine = places - index * len(block)
        return mine, (mine >= 0) & (mine < len(block))

    def _mapped(self, function: Callable[..., Array], specs: tuple[Any, ...]) -> Any:
        return jax.shard_map(
            function, mesh=self.mesh, in_specs=specs, out_specs=self.by_rows.spec, check_vma=False
        )


@contextlib.contextmanager
def without_mesh() -> Iterator[None]:
    """Leave a `jax.set_mesh`, which is for programs that say themselves where arrays are."""
    if jax.sharding.get_abstract_mesh().empty:
        yield
        return
    with jax.set_mesh(None):
        yield


def free(tree: PyTree) -> PyTree:
    """Return a tree with arrays where they are, but free to go where a program needs them.

    With the Explicit axes that `jax.make_mesh` has, a program must say of its results where they
    are. Arrays of which this process has only a part are refused.
    """
    if not any(_is_spread(leaf) for leaf in jax.tree.leaves(tree)):
        return tree
    return jax.tree.map(lambda leaf: _free(leaf) if _is_spread(leaf) else leaf, tree)


def put_rows(split: Split | None, leaf: Array, places: Array, rows: Array, method: str) -> Array:
    """Write rows to places of an array, wherever it is: "set", or "add" to what is there."""
    if split is not None:
        return split.put(leaf, places, rows, method)
    return getattr(leaf.at[places], method)(rows, mode="drop")


def placed(leaf: Any, sharding: Any) -> Array:
    """Return an array of the host where it belongs, also on devices of several processes."""
    # Copies: programs write into the arrays that they are given, which must be nobody else's.
    parts = [
        jax.device_put(leaf[index], device, may_alias=False)
        for device, index in sharding.addressable_devices_indices_map(leaf.shape).items()
    ]
    return jax.make_array_from_single_device_arrays(leaf.shape, sharding, parts)


def _placed(leaf: Any, sharding: NamedSharding, blocks: int = 1) -> Array:
    if not isinstance(leaf, jax.Array | np.ndarray):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = _placed(jax.random.key_data(leaf), sharding)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    host = np.asarray(leaf)
    if blocks > 1 and len(host) % blocks:
        return placed(_Filled(host, -len(host) % blocks), sharding)
    return placed(host, sharding)


def _is_spread(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and isinstance(leaf.sharding, NamedSharding)


def _free(leaf: Array) -> Array:
    if leaf.is_fully_replicated and not leaf.is_fully_addressable:
        return leaf.addressable_data(0)
    if not leaf.is_fully_addressable:
        raise ValueError(
            "`mesh` shares out arrays that each process holds whole, got one of shape "
            f"{leaf.shape} that is on devices of several; pass NumPy arrays."
        )
    where: Any = leaf.sharding
    return jax.device_put(leaf, NamedSharding(Split.of(where.mesh, 0).mesh, where.spec))


def _local(leaf: Array) -> Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = _local(jax.random.key_data(leaf))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    if leaf.is_fully_replicated:
        leaf = leaf.addressable_data(0)
    elif not leaf.is_fully_addressable:
        from jax.experimental import multihost_utils

        return jnp.array(multihost_utils.process_allgather(leaf, tiled=True))
    return jnp.array(np.asarray(leaf), copy=True)


class _Filled:
    """An array with some of its last row behind it, which is made where it is asked for."""

    def __init__(self, host: np.ndarray, more: int) -> None:
        self._host, self.shape = host, (len(host) + more, *host.shape[1:])

    def __getitem__(self, index: tuple[slice, ...]) -> np.ndarray:
        first, *rest = index
        places = np.arange(self.shape[0])[first]
        return self._host[np.minimum(places, len(self._host) - 1)][(slice(None), *rest)]
