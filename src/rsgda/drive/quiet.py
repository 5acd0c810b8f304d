"""What Orbax has to say goes to this package's log, and leaves the user's logging as it was."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager

LOUD = ("absl", "asyncio")

logger = logging.getLogger(__name__)


@contextmanager
def quiet() -> Iterator[None]:
    """Turn what Orbax logs, some fifty lines a save, into debug messages of this package.

    It logs through absl, which sets up the root logger if nobody has: the user's own
    `logging.basicConfig` would then come too late. A handler that does nothing prevents that.
    """
    # Of its own for each use, as there may be several at a time in several threads.
    divert, nothing = _Divert(), logging.NullHandler()
    for name in LOUD:
        logging.getLogger(name).addFilter(divert)
    logging.root.addHandler(nothing)
    try:
        yield
    finally:
        logging.root.removeHandler(nothing)
        for name in LOUD:
            logging.getLogger(name).removeFilter(divert)


def let_go(error: BaseException) -> None:
    """Forget where an error of Orbax came from, and with that its tasks, which would complain."""
    logger.debug("Orbax failed", exc_info=error)
    part: BaseException | None = error
    while part is not None:
        part.__traceback__ = None
        part = part.__cause__ or part.__context__
    with quiet():
        gc.collect()


class _Divert(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Let nothing pass, but keep it."""
        logger.debug("%s", record.getMessage())
        return False
