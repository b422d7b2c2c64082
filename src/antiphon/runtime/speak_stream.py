"""`SpeakStream`: what comes back from the engine process for one synthesis."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from antiphon.errors import AntiphonError
from antiphon.runtime.messages import AppendText, EndText, SpeechPart, Spoken, TakePart


class SpeakStream:
    """An asynchronous iterator of parts whose last item is what it cost; failures are raised by it.

    The engine sends a few parts ahead and waits when they are not read. Whoever leaves early calls `close`, or uses the
    stream as a context manager.
    """

    def __init__(
        self, call_id: str, send: Callable[[msgspec.Struct], None], abort: Callable[[SpeakStream], None]
    ) -> None:
        self.id = call_id
        self._send, self._abort = send, abort
        self._items: deque[SpeechPart | Spoken] = deque()
        self._error: AntiphonError | None = None
        self._is_done = False
        self._loop = asyncio.get_running_loop()
        self._taken: asyncio.Future[None] = self._loop.create_future()
        self._waiter: asyncio.Future[None] | None = None

    # -- for the reader -----------------------------------------------------------------------------------------

    async def accepted(self) -> None:
        """Return when it was taken; raise what refused it."""
        await asyncio.wait([self._taken])
        if self._error is not None and not self._items:
            raise type(self._error)(*self._error.args)

    def append(self, text: str) -> None:
        """More text, of a synthesis that is open."""
        if not self._is_done:
            self._send(AppendText(self.id, text))

    def end_text(self) -> None:
        """No more text will come."""
        if not self._is_done:
            self._send(EndText(self.id))

    def __aiter__(self) -> SpeakStream:
        return self

    async def __anext__(self) -> SpeechPart | Spoken:
        while True:
            if self._items:
                item = self._items.popleft()
                if isinstance(item, SpeechPart) and not self._is_done:
                    self._send(TakePart(self.id))
                return item
            if self._error is not None:
                raise type(self._error)(*self._error.args)
            if self._is_done:
                raise StopAsyncIteration
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def close(self) -> None:
        """The reader has gone: end what still runs. May be called twice."""
        if not self._is_done:
            self._is_done = True
            self._abort(self)
            self._wake()

    async def __aenter__(self) -> SpeakStream:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    # -- for the client -----------------------------------------------------------------------------------------

    def _wake(self) -> None:
        for future in (self._taken, self._waiter):
            if future is not None and not future.done():
                future.set_result(None)

    def accept(self) -> None:
        if not self._taken.done():
            self._taken.set_result(None)

    def put(self, told: SpeechPart | Spoken) -> None:
        if not self._is_done:
            self._items.append(told)
            self._is_done = isinstance(told, Spoken)
            self._wake()

    def fail(self, error: AntiphonError) -> None:
        if not self._is_done:
            self._error, self._is_done = error, True
            self._wake()
