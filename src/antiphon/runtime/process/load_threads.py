"""`LoadThreads`: loads of models, each in its own thread, so that a stuck load does not block others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from antiphon.errors import InvalidRequestError, OverloadedError

#: Maximum threads that load, including cancelled loads that are blocked in the operating system.
MAX_THREADS = 64


@dataclass(eq=False)
class Load:
    """Load under way. A cancelled load's thread runs to its end, then discards the result."""

    name: str
    is_cancelled: bool = False


class LoadThreads:
    """Loading threads, started and cancelled from any thread. They are daemons: the process does not wait for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loads: dict[str, Load] = {}
        self._num_threads = 0

    def start(self, name: str, work: Callable[[Load], None]) -> None:
        """Run `work` in a new thread. Raises `InvalidRequestError` if a load of that name is under way."""
        with self._lock:
            if name in self._loads:
                raise InvalidRequestError(f"model {name!r} is being loaded already")
            if self._num_threads >= MAX_THREADS:
                raise OverloadedError(f"{self._num_threads} loads are under way or stuck; restart the server")
            load = self._loads[name] = Load(name)
            self._num_threads += 1

        def run() -> None:
            try:
                work(load)
            finally:
                with self._lock:
                    self._num_threads -= 1

        threading.Thread(target=run, name="antiphon-load", daemon=True).start()

    def cancel(self, name: str) -> None:
        """Cancel the load of that name, if there is one; the name can be loaded again at once."""
        with self._lock:
            load = self._loads.pop(name, None)
            if load is not None:
                load.is_cancelled = True

    def end(self, load: Load) -> bool:
        """Record that a load has ended; return whether its result is wanted, which a cancelled load's is not."""
        with self._lock:
            if not load.is_cancelled:
                del self._loads[load.name]
            return not load.is_cancelled
