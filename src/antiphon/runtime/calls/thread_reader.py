"""`ThreadInbox`: a reader of a call's events that blocks its thread."""

from __future__ import annotations

from queue import Empty, SimpleQueue

from antiphon.errors import AntiphonError
from antiphon.runtime.calls.events import Event


class ThreadInbox:
    """Events in the order in which they were emitted."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Event] = SimpleQueue()

    def put(self, event: Event) -> None:
        self._queue.put(event)

    def get(self, timeout: float | None = None) -> Event:
        """The next event; raises one that is an error, and `queue.Empty` after `timeout` seconds without any."""
        event = self._queue.get(timeout=timeout)
        if isinstance(event, AntiphonError):
            raise event
        return event

    def get_all(self) -> list[Event]:
        """All events that are there; waits for the first."""
        events = [self._queue.get()]
        while True:
            try:
                events.append(self._queue.get_nowait())
            except Empty:
                return events
