"""A progress bar between chunks: rate, remaining time, the latest recorded values."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from rsgda.drive.result import COUNTERS

HIDDEN = (*COUNTERS, "stop")


class Bar(Protocol):
    """What a run tells of itself."""

    def update(self, step: int, latest: dict[str, Any]) -> None:
        """Show how far the run has come."""


class _Silent:
    def update(self, step: int, latest: dict[str, Any]) -> None:
        """Show nothing."""


class _Rich:
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    def update(self, step: int, latest: dict[str, Any]) -> None:
        """Move the bar and show the newest values."""
        values = [f"{name} {value:.5g}" for name, value in latest.items() if name not in HIDDEN]
        self._progress.update(self._task, completed=step, values="  ".join(values))


def bar(wanted: bool, label: str, first: int, steps: int) -> AbstractContextManager[Bar]:
    """Return a context that shows the steps from `first` to `steps`, or nothing."""
    return _rich_bar(label, first, steps) if wanted else nullcontext(_Silent())


@contextmanager
def _rich_bar(label: str, first: int, steps: int) -> Iterator[Bar]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Rate(ProgressColumn):
        """Steps per second."""

        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.{0 if speed >= 10 else 2}f} steps/s")

    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        Rate(),
        TimeRemainingColumn(),
        # The names are the user's: what looks like markup in them is none. If a line is too short
        # for all, it is the values that are cut.
        TextColumn("{task.fields[values]}", markup=False, table_column=rest),
        # What a program prints as its result stays free of it.
        console=Console(stderr=True),
        expand=True,
    ) as progress:
        task = progress.add_task(label, total=steps, completed=first, values="")
        yield _Rich(progress, task)
