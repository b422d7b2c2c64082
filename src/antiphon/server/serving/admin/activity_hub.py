"""`ActivityHub`: the engine's activity reports, sent to every listener as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import deque
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from antiphon.counted import counted
from antiphon.errors import EngineError
from antiphon.runtime.process.supervisor import EngineState
from antiphon.server.web.http.errors import unavailable
from antiphon.server.web.http.events import named_event

if TYPE_CHECKING:
    from antiphon.runtime.process.client import EngineClient
    from antiphon.runtime.process.messages import Activity

MAX_LISTENERS = 16
#: Maximum reports buffered per listener, about five seconds of them.
MAX_WAITING = 50
#: Seconds without an event before a comment is sent, so that proxies keep the connection.
QUIET_SECONDS = 10.0
COMMENT = b": quiet\n\n"


class ActivityListener:
    """Event buffer of one listener. On overflow all buffered events are discarded, and a new snapshot is needed."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.is_closed = False
        self._waiting: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._needs_snapshot = True
        self._num_lost = 0

    def put_report(self, report: bytes) -> None:
        """Buffer a report, unless the listener has no snapshot to apply it to. On overflow, discard the buffer."""
        if self._needs_snapshot:
            return
        if len(self._waiting) < MAX_WAITING:
            self._put(report)
            return
        self._num_lost += len(self._waiting) + 1
        self._waiting.clear()
        self._needs_snapshot = True
        self._changed.set()

    def put_snapshot(self, snapshot: bytes) -> None:
        self._needs_snapshot = False
        self._put(snapshot)

    def put_state(self, state: bytes) -> None:
        """Buffer the engine's state after its process ended or started; later reports need a new snapshot."""
        self._needs_snapshot = True
        self._put(state)

    def _put(self, event: bytes) -> None:
        self._waiting.append(event)
        self._changed.set()

    def close(self) -> None:
        """End the stream after the buffered events."""
        self.is_closed = True
        self._changed.set()

    def take_lost(self) -> int:
        """Return the number of reports lost since the last call."""
        lost, self._num_lost = self._num_lost, 0
        return lost

    async def take(self) -> list[bytes]:
        """Return the buffered events, waiting for the first if necessary. Empty after a timeout or lost reports."""
        if not self._waiting and not self._num_lost and not self.is_closed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), QUIET_SECONDS)
        self._changed.clear()
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


class ActivityHub:
    """Listeners to the engine's activity, on the server's event loop. The engine reports only while there are any."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        client.on_activity = self._take
        self._listeners: dict[str, ActivityListener] = {}
        self._following: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._listeners)

    def add(self) -> ActivityListener:
        """Add a listener, which the caller must `remove`. Raise 503 if there are too many."""
        if len(self) >= MAX_LISTENERS:
            message = f"{counted(len(self), 'listener')} of events are connected; at most {MAX_LISTENERS} may be"
            raise unavailable(message, "too_many_listeners", 10)
        listener = ActivityListener()
        self._listeners[listener.id] = listener
        listener.put_state(self._state())
        self._ask(listener)
        if self._following is None:
            self._following = asyncio.create_task(self._follow((self._client.state, self._client.restarts)))
        return listener

    def remove(self, listener: ActivityListener) -> None:
        """Remove a listener; after the last one, the engine stops its reports."""
        if self._listeners.pop(listener.id, None) is None or self._listeners:
            return
        self._client.unwatch_activity()
        if self._following is not None:
            self._following.cancel()
            self._following = None

    async def stream(self, listener: ActivityListener) -> AsyncGenerator[bytes]:
        """Yield a listener's events: `engine`, `snapshot`, `activity`; and `lost`, after which a snapshot follows."""
        while not listener.is_closed:
            events = await listener.take()
            lost = listener.take_lost()
            if lost:
                self._ask(listener)
                events.append(named_event("lost", {"reports": lost}))
            yield b"".join(events) or COMMENT

    def _ask(self, listener: ActivityListener) -> None:
        """Request a snapshot for the listener. If the engine is not ready, `_follow` requests it later."""
        with contextlib.suppress(EngineError):
            self._client.watch_activity(listener.id)

    def _take(self, message: Activity) -> None:
        if not message.id:
            report = _event(b"activity", message.content)
            for listener in self._listeners.values():
                listener.put_report(report)
        elif message.id in self._listeners:
            self._listeners[message.id].put_snapshot(_event(b"snapshot", message.content))

    def _state(self) -> bytes:
        return named_event("engine", {"state": str(self._client.state), "restarts": self._client.restarts})

    async def _follow(self, seen: tuple[EngineState, int]) -> None:
        """Announce each end and start of the engine process, and request new snapshots. `seen` is announced already."""
        client = self._client
        while True:
            while (client.state, client.restarts) == seen:
                await client.wait_for_change()
            seen = client.state, client.restarts
            for listener in self._listeners.values():
                listener.put_state(self._state())
                if client.state is EngineState.READY:
                    self._ask(listener)


def _event(name: bytes, content: bytes) -> bytes:
    return b"event: " + name + b"\ndata: " + content + b"\n\n"
