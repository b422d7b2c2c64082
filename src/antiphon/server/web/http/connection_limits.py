"""Limits of connections, which apply before a request's API key is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of the number of connections, and of the size and speed of what each sends."""

    connections: int = 1024
    #: Bytes of a request line with its headers; in a body, bytes of everything except content.
    header_bytes: int = 64 << 10
    #: Seconds from the first byte of a request to the end of its headers.
    header_seconds: float = 10.0
    #: Seconds that a connection may be without a request.
    idle_seconds: int = 60
    #: Minimum bytes per second of a body, averaged over some seconds; 0 for any.
    body_rate: float = 100.0


@dataclass(frozen=True)
class SessionLimits:
    """Limits of WebSocket sessions: maximum number at once, seconds of each, and seconds without activity."""

    sessions: int = 64
    seconds: float = 3600.0
    idle_seconds: float = 900.0


class Closable(Protocol):
    def evict(self) -> None: ...


class Connections:
    """Open connections of a server, and those without a request, longest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._num_open = 0
        self._waiting: dict[Closable, None] = {}

    def __len__(self) -> int:
        return self._num_open

    def open(self, connection: Closable) -> bool:
        """Count a new connection. At the limit, close the connection that has been idle the longest.

        Return False if none is idle: the new connection must then be refused.
        """
        has_room = self._num_open < self._limit or self._evict()
        self._num_open += 1
        if has_room:
            self.wait(connection)
        return has_room

    def wait(self, connection: Closable) -> None:
        """Mark the connection as idle: it has no request."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def work(self, connection: Closable) -> None:
        """Mark the connection as serving a request."""
        self._waiting.pop(connection, None)

    def close(self, connection: Closable) -> None:
        """Remove a closed connection."""
        self._num_open -= 1
        self._waiting.pop(connection, None)

    def _evict(self) -> bool:
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        del self._waiting[oldest]
        oldest.evict()
        return True
