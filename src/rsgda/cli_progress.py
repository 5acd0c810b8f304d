"""One bar on the terminal for all that a command does, or a line now and then in a file."""

import contextlib
import logging
import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rsgda.reproduce.outcome import Tell

SECONDS = 60.0  # between two lines of progress where there is no terminal


@contextlib.contextmanager
def progress(names: list[str]) -> Iterator[Any]:
    """Show one bar over all targets, and the library's warnings above it.

    Yields a function that gives each target its `tell`.
    """
    from rich.console import Console
    from rich.logging import RichHandler
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    console = Console(stderr=True)
    handler = RichHandler(console=console, show_time=False, show_path=False)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar as shown, _logged(handler):
        whole = shown.add_task("starting", total=len(names))
        said = -math.inf

        def tell_of(name: str) -> "Tell":
            def tell(done: float, what: str) -> None:
                nonlocal said
                completed = names.index(name) + done
                shown.update(whole, completed=completed, description=f"{name}: {what}")
                # A file has no bar; a line now and then tells that it goes on.
                if not console.is_terminal and time.monotonic() - said > SECONDS:
                    said = time.monotonic()
                    line = f"{name}, {done:.0%}: {what}"
                    console.print(line, soft_wrap=True, highlight=False, markup=False)

            return tell

        yield tell_of


@contextlib.contextmanager
def _logged(handler: logging.Handler) -> Iterator[None]:
    logger = logging.getLogger("rsgda")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
