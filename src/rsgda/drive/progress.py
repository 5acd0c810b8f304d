"""A progress bar between chunks: rate, remaining time, the latest recorded values."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from rsgda.drive.result import COUNTERS


class Bar(Protocol):
    """What a run tells of itself."""

    def update(self, step: int, latest: dict[str, Any]) -> None:
        """Show how far the run has come."""


class _Silent:
    def update(self, step: int, latest: dict[str, Any]) -> None:
        """Show nothing."""


class _Rich:
    def __init__(self, progress: Any, task: Any, first: int) -> None:
        self._progress, self._task, self._first = progress, task, first

    def update(self, step: int, latest: dict[str, Any]) -> None:
        """Move the bar and show the newest values."""
        values = [f"{name} {value:.5g}" for name, value in latest.items() if name not in COUNTERS]
        self._progress.update(self._task, completed=step, values="  ".join(values))


def bar(wanted: bool, label: str, first: int, steps: int) -> AbstractContextManager[Bar]:
    """Return a context that shows the steps from `first` to `steps`, or nothing."""
    return _rich_bar(label, first, steps) if wanted else nullcontext(_Silent())


def _rich_bar(label: str, first: int, steps: int) -> AbstractContextManager[Bar]:
    from contextlib import contextmanager

    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """Steps per second."""

        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f} steps/s")

    @contextmanager
    def shown() -> Any:
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            Rate(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[values]}"),
        ) as progress:
            task = progress.add_task(label, total=steps, completed=first, values="")
            yield _Rich(progress, task, first)

    return shown()
