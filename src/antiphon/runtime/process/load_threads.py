"""`LoadThreads`: loads of models, each in a thread of its own, so that a stuck one keeps no other from loading."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from antiphon.errors import InvalidRequestError, OverloadedError

#: Threads that load, including those whose load was cancelled but blocks in the operating system.
MAX_THREADS = 64


@dataclass(eq=False)
class Load:
    """A load that is under way. A thread cannot be ended: that of a cancelled load drops what it has loaded."""

    name: str
    is_cancelled: bool = False


class LoadThreads:
    """Safe to use from any thread. The threads are daemons: the process ends without waiting for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loads: dict[str, Load] = {}
        self._num_threads = 0

    def start(self, name: str, work: Callable[[Load], None]) -> None:
        """Run the work in a new thread. `InvalidRequestError` if a load of that name is under way."""
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
        """Note that a load has ended. Returns whether it is wanted: it was not cancelled."""
        with self._lock:
            if not load.is_cancelled:
                del self._loads[load.name]
            return not load.is_cancelled
