"""Limits of connections, which hold before a request's API key is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ConnectionLimits:
    """What one connection may send and how slowly, and how many there may be."""

    connections: int = 1024
    #: Bytes of a request line and its headers together; in a body, of everything that is not content.
    header_bytes: int = 64 << 10
    #: From the first byte of a request to the end of its headers.
    header_seconds: float = 10.0
    #: Without a request.
    idle_seconds: int = 60
    #: Bytes per second of a body, on average over some seconds; 0 for any.
    body_rate: float = 100.0


@dataclass(frozen=True)
class SessionLimits:
    """Of WebSocket sessions: how many at once, and the seconds of one, in total and without anything happening."""

    sessions: int = 64
    seconds: float = 3600.0
    idle_seconds: float = 900.0


class Closable(Protocol):
    def evict(self) -> None: ...


class Connections:
    """The open connections of a server, and which of them are without a request, longest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._num_open = 0
        self._waiting: dict[Closable, None] = {}

    def __len__(self) -> int:
        return self._num_open

    def open(self, connection: Closable) -> bool:
        """Count a new connection. At the limit, the one that has waited longest is closed for it.

        False if none waits, so that the new one must be refused.
        """
        has_room = self._num_open < self._limit or self._evict()
        self._num_open += 1
        if has_room:
            self.wait(connection)
        return has_room

    def wait(self, connection: Closable) -> None:
        """It is without a request from now on."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def work(self, connection: Closable) -> None:
        """It has a request."""
        self._waiting.pop(connection, None)

    def close(self, connection: Closable) -> None:
        """It is gone."""
        self._num_open -= 1
        self._waiting.pop(connection, None)

    def _evict(self) -> bool:
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        del self._waiting[oldest]
        oldest.evict()
        return True
