"""`WebSocketInbox`: messages of a WebSocket, read before they can be handled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Self

Callback = Callable[[], None]
#: Estimated bytes of one message besides its characters.
OVERHEAD_BYTES = 128


class WebSocketInbox:
    """Messages in order, for one writer and one reader, which iterates over them. Above `max_bytes`, `put` waits.

    A WebSocket with messages in its own queue is not read, and its pings and its end go unnoticed. So messages
    wait here while one is handled slowly.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._messages: deque[tuple[str | bytes, Callback | None, Callback | None]] = deque()
        self._num_bytes = 0
        self._num_taken = 0  # bytes of the message in progress
        self._release: Callback | None = None
        self._on_handled: Callback | None = None
        self._changed = asyncio.Event()

    @property
    def is_empty(self) -> bool:
        """Whether no message waits or is being handled."""
        return not self._messages and not self._num_taken

    async def put(
        self, message: str | bytes, release: Callback | None = None, on_handled: Callback | None = None
    ) -> None:
        """Add a message. `on_handled` is called once it has been handled, `release` by the method of that name."""
        self._messages.append((message, release, on_handled))
        self._num_bytes += _size(message)
        del message
        self._changed.set()
        while self._num_bytes > self._max_bytes:
            self._changed.clear()
            await self._changed.wait()

    def release(self) -> None:
        """Release the memory of the message in progress, whose text is no longer needed."""
        if self._release is not None:
            self._release()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str | bytes:
        """Return the next message. This marks the previous one as handled."""
        if self._num_taken:
            self._num_bytes -= self._num_taken
            self._num_taken = 0
            self._changed.set()
            if self._on_handled is not None:
                self._on_handled()
        while not self._messages:
            self._changed.clear()
            await self._changed.wait()
        message, self._release, self._on_handled = self._messages.popleft()
        self._num_taken = _size(message)
        return message


def _size(message: str | bytes) -> int:
    return len(message) + OVERHEAD_BYTES
