"""A progress bar for fetches, on standard error; rich is imported only when a fetch begins to report."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from antiphon.weights.fetch import FetchProgress, ProgressCallback

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextmanager
def fetch_progress() -> Iterator[ProgressCallback]:
    """A callback for `resolve`: a bar on a terminal, one line per activity elsewhere, nothing if nothing is fetched."""
    reporter = _Bar() if sys.stderr.isatty() else _Lines()
    try:
        yield reporter
    finally:
        reporter.close()


class _Lines:
    def __init__(self) -> None:
        self._last = ""

    def __call__(self, update: FetchProgress) -> None:
        if update.activity != self._last:
            self._last = update.activity
            share = f"{update.done / 1e6:,.0f} of {update.total / 1e6:,.0f} MB"
            print(f"{update.model}: {update.activity} ({share})", file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class _Bar:
    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, update: FetchProgress) -> None:
        if self._progress is None or self._task is None:
            self._start(update)
        assert self._progress is not None and self._task is not None
        description = f"{update.model}: {update.activity}"
        self._progress.update(self._task, description=description, completed=update.done, total=update.total)

    def _start(self, update: FetchProgress) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.start()
        self._task = self._progress.add_task(update.model, total=update.total)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
