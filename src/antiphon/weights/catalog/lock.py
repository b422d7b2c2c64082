"""A lock between processes: advisory, on a file, released by the kernel when its holder dies."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO


class FileLock:
    """Held inside a `with` block. `on_wait` is called once if another process holds it; then entering blocks.

    The lock's file stays where it is: removing it would let two processes lock two different files.
    """

    def __init__(self, path: Path, on_wait: Callable[[], None] | None = None) -> None:
        self.path = path
        self._on_wait = on_wait
        self._stream: IO[bytes] | None = None

    def __enter__(self) -> FileLock:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        stream = self.path.open("ab")
        try:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._on_wait is not None:
                    self._on_wait()
                fcntl.flock(stream, fcntl.LOCK_EX)
        except BaseException:
            stream.close()
            raise
        self._stream = stream
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stream is not None
        self._stream.close()
        self._stream = None
