"""`ThreadInbox`: a reader of a call's events that blocks its thread."""

from __future__ import annotations

import contextlib
import threading
from queue import Empty, SimpleQueue

from antiphon.errors import AntiphonError
from antiphon.runtime.calls.events import FINAL_EVENTS, Event


class ThreadInbox:
    """A call's events in the order in which they were emitted."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Event] = SimpleQueue()
        self._has_ended = threading.Event()
        #: The last event; None until it has arrived.
        self.final: Event | None = None

    def put(self, event: Event) -> None:
        if isinstance(event, FINAL_EVENTS):
            self.final = event
            self._has_ended.set()
        self._queue.put(event)

    def wait_for_end(self) -> None:
        """Return when the last event has arrived. The thread is woken once, not for every event."""
        self._has_ended.wait()

    def get(self, timeout: float | None = None) -> Event:
        """Return the next event, or raise it if it is an error. Raise `queue.Empty` after `timeout` seconds."""
        event = self._queue.get(timeout=timeout)
        if isinstance(event, AntiphonError):
            raise event
        return event

    def get_all(self) -> list[Event]:
        """Return all events that have arrived; wait for the first, unless the last has arrived."""
        events = [self._queue.get()] if self.final is None else []
        with contextlib.suppress(Empty):
            while True:
                events.append(self._queue.get_nowait())
        if self.final is not None:
            self._queue.put(self.final)  # for a reader in another thread
        return events
