"""A progress bar for long runs, for people only."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_SILENT_SECONDS = 1.0
_SECONDS_BETWEEN = 0.1


class Bar:
    """A bar on stderr that appears when the work takes over a second and stderr is a terminal.

    It draws only when told of progress: no thread, since workers are forked meanwhile.
    """

    def __init__(self) -> None:
        self._wanted = sys.stderr is not None and sys.stderr.isatty()
        self._started = time.monotonic()
        self._drawn = 0.0
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, done: int, total: int) -> None:
        """Note that ``done`` bytes of ``total`` are checked."""
        now = time.monotonic()
        if not self._wanted or now - self._started < _SILENT_SECONDS or now - self._drawn < _SECONDS_BETWEEN:
            return
        self._drawn = now
        if self._progress is None:
            self._begin()
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)
            self._progress.refresh()

    def _begin(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("checking"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
        )
        self._task = self._progress.add_task("check", total=None)
        self._progress.start()
