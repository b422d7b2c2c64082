"""`Inbox`: messages of a WebSocket that were read ahead of what is being done about them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self

#: What one message takes beside its characters.
OVERHEAD_BYTES = 128


class Inbox:
    """Messages in order, for one writer and one reader, who iterates over it. With more than `max_bytes`, `put` waits.

    A WebSocket whose messages wait is not read, nor are its pings and its end; so they wait here while one is slow.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._messages: deque[str | bytes] = deque()
        self._num_bytes = 0
        self._is_taken = False  # the first message is being dealt with
        self._changed = asyncio.Event()

    @property
    def is_empty(self) -> bool:
        """No message waits, and none is being dealt with."""
        return not self._messages

    async def put(self, message: str | bytes) -> None:
        self._messages.append(message)
        self._num_bytes += _size(message)
        self._changed.set()
        while self._num_bytes > self._max_bytes:
            self._changed.clear()
            await self._changed.wait()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str | bytes:
        """The next message. The one before it has been dealt with."""
        if self._is_taken:
            self._num_bytes -= _size(self._messages.popleft())
            self._is_taken = False
            self._changed.set()
        while not self._messages:
            self._changed.clear()
            await self._changed.wait()
        self._is_taken = True
        return self._messages[0]


def _size(message: str | bytes) -> int:
    return len(message) + OVERHEAD_BYTES
