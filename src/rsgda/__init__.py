"""Min-max optimisation by randomized stochastic gradient descent ascent (RSGDA)."""

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rsgda import data as data
    from rsgda import moves as moves
    from rsgda import plots as plots
    from rsgda import problems as problems
    from rsgda import projections as projections
    from rsgda import record as record
    from rsgda import robust as robust
    from rsgda import singlecell as singlecell
    from rsgda import testing as testing
    from rsgda import theory as theory
    from rsgda import transport as transport
    from rsgda.algorithms.auto import Auto as Auto
    from rsgda.algorithms.esgda import ESGDA as ESGDA
    from rsgda.algorithms.extragradient import Extragradient as Extragradient
    from rsgda.algorithms.optimistic import Optimistic as Optimistic
    from rsgda.algorithms.rsgda import RSGDA as RSGDA
    from rsgda.algorithms.sgda import SGDA as SGDA
    from rsgda.algorithms.sgdmax import SGDmax as SGDmax
    from rsgda.algorithms.tiada import TiAda as TiAda
    from rsgda.drive.folder import CheckpointError as CheckpointError
    from rsgda.drive.folder import CheckpointMismatch as CheckpointMismatch
    from rsgda.drive.result import Result as Result
    from rsgda.drive.result import Status as Status
    from rsgda.drive.solve import solve as solve
    from rsgda.drive.sweep import Table as Table
    from rsgda.drive.sweep import sweep as sweep
    from rsgda.inner import ConcavityWarning as ConcavityWarning
    from rsgda.inner import Phi as Phi
    from rsgda.inner import phi as phi
    from rsgda.moves import Info as Info
    from rsgda.moves import State as State
    from rsgda.problem import Problem as Problem

# Where each public name lives. They are imported when first used, so that the command line can
# answer `--help` without waiting for JAX.
_HOMES = {
    "Auto": "algorithms.auto",
    "CheckpointError": "drive.folder",
    "CheckpointMismatch": "drive.folder",
    "ConcavityWarning": "inner",
    "ESGDA": "algorithms.esgda",
    "Extragradient": "algorithms.extragradient",
    "Info": "moves",
    "Optimistic": "algorithms.optimistic",
    "Phi": "inner",
    "Problem": "problem",
    "RSGDA": "algorithms.rsgda",
    "Result": "drive.result",
    "SGDA": "algorithms.sgda",
    "SGDmax": "algorithms.sgdmax",
    "State": "moves",
    "Status": "drive.result",
    "Table": "drive.sweep",
    "TiAda": "algorithms.tiada",
    "phi": "inner",
    "solve": "drive.solve",
    "sweep": "drive.sweep",
}
_MODULES = (
    "data",
    "moves",
    "plots",
    "problems",
    "projections",
    "record",
    "robust",
    "singlecell",
    "testing",
    "theory",
    "transport",
)

# A library prints nothing by itself; whoever wants its messages adds a handler.
logging.getLogger("rsgda").addHandler(logging.NullHandler())

__all__ = [*_HOMES, *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"rsgda.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'rsgda' has no attribute {name!r}")
    return getattr(importlib.import_module(f"rsgda.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
