"""All tests run in float64 where they do not ask for less, and nothing is promoted silently."""

import itertools
import os
import signal
from pathlib import Path

import jax
import matplotlib
import pytest

MAPS = Path("/proc/self/maps")
MANY = 20_000  # regions of memory, of the 65,530 that Linux gives to a process
SOME = 10  # tests between two looks at them, which take as long as a short test
# Most tests run a program once or twice, on few numbers: compiling it is what takes the time.
FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", "")  # commands leave the user's cache alone
matplotlib.use("Agg")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

LONG_EXAMPLES = (  # docstrings that take most of a minute to compile
    "rsgda.plots.certificate",
    "rsgda.robust.certificate.certificate",
    "rsgda.singlecell.match.match",
    "rsgda.testing.check_algorithm",
)
_COUNT = itertools.count(1)


def pytest_configure(config):
    """Compile without optimisations, unless slow tests are asked for: these compute for long."""
    # A shell starts what runs in its background deaf to Ctrl-C, and programs under test with it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.markexpr == "not slow":
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FAST}".strip()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Count long examples among the slow tests."""
    for item in items:
        if item.name in LONG_EXAMPLES:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _room_for_programs():
    """Forget compiled programs in time: each holds regions, and the compiler dies without one."""
    yield
    if next(_COUNT) % SOME == 0 and MAPS.exists() and MAPS.read_bytes().count(b"\n") > MANY:
        jax.clear_caches()
