"""`RecordingProgress`: how far each recording has been transcribed, on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from antiphon.cli.terminal.durations import clock_text
from antiphon.errors import AntiphonError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class RecordingProgress:
    """Bars of recordings on standard error, from the start; nothing unless it is a terminal.

    Text for the terminal is printed inside `paused`, so that it is neither cut by a bar nor taken for one.
    """

    def __init__(self, names: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._names = names
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()  # recordings report from threads of their own
        self._bars: Progress | None = None
        self._tasks: list[TaskID] = []

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn
            from rich.table import Column

            name = Column(ratio=1, no_wrap=True, overflow="ellipsis")
            figures = Column(no_wrap=True)
            self._bars = Progress(
                TextColumn("{task.description}", markup=False, table_column=name),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[figures]}", markup=False, table_column=figures),
                console=Console(stderr=True),
                transient=True,
                expand=True,
                redirect_stdout=False,  # a redirected stream would go to the terminal instead of its file
                redirect_stderr=False,
            )
            self._tasks = [self._bars.add_task(name, total=None, figures="") for name in self._names]
            self._bars.start()
        return self

    @property
    def is_shown(self) -> bool:
        return self._bars is not None

    def sent(self, index: int, share: float) -> None:
        """Show the share of a recording that has been sent to a server."""
        with self._lock:
            if self._bars is not None:
                self._bars.update(self._tasks[index], figures=f"{share:.0%} sent")

    def update(self, index: int, done: float, total: float | None) -> None:
        """Show the seconds of a recording that have been transcribed, of `total`. Safe to call from any thread."""
        with self._lock:
            if self._bars is not None:
                figures = figures_text(done, total, self._clock() - self._started)
                # Without a transcribed second, the bar moves instead of staying empty.
                self._bars.update(self._tasks[index], completed=done, total=total if done else None, figures=figures)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Remove the bars while the block prints."""
        if self._bars is not None:
            self._bars.stop()
        try:
            yield
        finally:
            if self._bars is not None:
                self._bars.start()

    def end(self) -> None:
        """Remove the bars for good."""
        with self._lock:
            bars, self._bars = self._bars, None
        if bars is not None:
            bars.stop()

    def __exit__(self, *_: object) -> None:
        self.end()


def figures_text(done: float, total: float | None, seconds: float) -> str:
    """Format the transcribed seconds of a recording after `seconds` of work, as in `1:30 of 5:31, 0:12 left`."""
    if total is None:
        return clock_text(done)
    left = f", {clock_text(seconds * (total - done) / done)} left" if 0 < done < total else ""
    return f"{clock_text(done)} of {clock_text(total)}{left}"


def sound_seconds(path: Path) -> float | None:
    """Return the length of a recording as its file states it, or None."""
    from antiphon.audio.decode import decode_stream

    try:
        with decode_stream(path) as stream:
            return stream.source.seconds
    except (AntiphonError, OSError):
        return None
