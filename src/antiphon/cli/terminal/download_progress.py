"""Progress of downloads, on standard error; rich is imported only when a download begins to report."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from antiphon.cli.terminal.durations import clock_text
from antiphon.cli.terminal.sizes import size_text
from antiphon.weights.catalog.fetch import FetchProgress, ProgressCallback

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Seconds that the rate is averaged over, and seconds of measurement before it is known.
RATE_WINDOW_SECONDS = 10.0
RATE_MINIMUM_SECONDS = 1.0
LONGEST_SHOWN_SECONDS = 24 * 3600


@contextmanager
def fetch_progress() -> Iterator[ProgressCallback]:
    """Yield a callback for `resolve`: a bar on a terminal, a line per step elsewhere, nothing without a download."""
    reporter = _Bar() if sys.stderr.isatty() else _Lines()
    try:
        yield reporter
    finally:
        reporter.close()


def time_left_text(seconds: float | None) -> str:
    """Format the remaining time, as in `1:05 left`; empty if the rate is unknown or the time is a day or more."""
    if seconds is None or seconds >= LONGEST_SHOWN_SECONDS:
        return ""
    return f"{clock_text(seconds)} left"


class Rate:
    """Bytes per second over the last few seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._step = ""
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, step: str, done: int) -> None:
        """Record a step's progress.

        A new step restarts the measurement: files found on the disk are not downloaded now.
        """
        now = self._clock()
        if step != self._step:
            self._step = step
            self._seen.clear()
        self._seen.append((now, done))
        while now - self._seen[0][0] > RATE_WINDOW_SECONDS:
            self._seen.popleft()

    def bytes_per_second(self) -> float | None:
        """Return the rate; None until it has been measured for a second, and while nothing arrives."""
        if not self._seen:
            return None
        (start, before), (end, after) = self._seen[0], self._seen[-1]
        if end - start < RATE_MINIMUM_SECONDS or after <= before:
            return None
        return (after - before) / (end - start)


def progress_text(update: FetchProgress, rate: float | None) -> str:
    """Format the progress, as far as known: `45.2 MB of 491.4 MB, 12.3 MB/s, 0:36 left`."""
    left = time_left_text((update.total - update.done) / rate) if rate else ""
    speed = f"{size_text(rate)}/s" if rate else ""
    return ", ".join(filter(None, [f"{size_text(update.done)} of {size_text(update.total)}", speed, left]))


class _Lines:
    """Reporter that prints each step and notice on a line, once."""

    def __init__(self) -> None:
        self._printed: set[str] = set()

    def __call__(self, update: FetchProgress) -> None:
        if update.activity not in self._printed:
            self._printed.add(update.activity)
            share = "" if update.is_notice else f" ({progress_text(update, None)})"
            print(f"{update.model}: {update.activity}{share}", file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class _Bar:
    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._rate = Rate()

    def __call__(self, update: FetchProgress) -> None:
        if self._progress is None or self._task is None:
            self._start(update)
        assert self._progress is not None and self._task is not None
        if update.is_notice:
            self._progress.console.print(f"{update.model}: {update.activity}", markup=False, highlight=False)
            return
        self._rate.add(update.activity, update.done)
        self._progress.update(
            self._task,
            description=f"{update.model}: {update.activity}",
            completed=update.done,
            total=update.total,
            figures=progress_text(update, self._rate.bytes_per_second()),
        )

    def _start(self, update: FetchProgress) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        # The step is truncated on a narrow terminal, so that the bar stays on one line.
        step = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        columns = (
            TextColumn("{task.description}", markup=False, table_column=step),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[figures]}", markup=False, table_column=Column(no_wrap=True)),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True, expand=True)
        self._progress.start()
        self._task = self._progress.add_task(update.model, total=update.total, figures="")

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
