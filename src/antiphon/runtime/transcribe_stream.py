"""`TranscribeStream`: what comes back from the engine process for one transcription or live session."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.transcript import LiveUpdate, Transcript, TranscriptProgress

Told = TranscriptProgress | LiveUpdate | Transcript
#: Pieces of a recording that is fed which may be on their way at once.
MAX_UNHEARD = 3


class TranscribeStream:
    """An asynchronous iterator whose last item is the transcript; failures are raised by it.

    Of a live session or a recording that is fed, `push` hands sound in and `finish` says that no more will come; the
    latter waits for `room` before it pushes. Whoever leaves early calls `close`, or uses the stream as a context
    manager.
    """

    def __init__(
        self,
        call_id: str,
        hear: Callable[[str, bytes], None],
        stop: Callable[[str], None],
        abort: Callable[[TranscribeStream], None],
    ) -> None:
        self.id = call_id
        self._hear, self._stop, self._abort = hear, stop, abort
        self._items: deque[Told] = deque()
        self._error: AntiphonError | None = None
        self._is_done = False
        self._loop = asyncio.get_running_loop()
        self._taken: asyncio.Future[None] = self._loop.create_future()
        self._waiter: asyncio.Future[None] | None = None
        self._num_unheard = 0
        self._feeder: asyncio.Future[None] | None = None

    # -- for the reader -----------------------------------------------------------------------------------------

    async def accepted(self) -> None:
        """Of a live session: return when it takes sound; raise what refused it."""
        await asyncio.wait([self._taken])
        if self._error is not None:
            raise type(self._error)(*self._error.args)

    def push(self, samples: bytes) -> None:
        """Mono sound at 16 kHz as float32 bytes in native order."""
        if not self._is_done:
            self._num_unheard += 1
            self._hear(self.id, samples)

    async def room(self) -> bool:
        """Wait until another piece of a recording may be pushed; False if none is wanted any more."""
        while self._num_unheard >= MAX_UNHEARD and not self._is_done:
            self._feeder = self._loop.create_future()
            try:
                await self._feeder
            finally:
                self._feeder = None
        return not self._is_done

    def finish(self) -> None:
        """No more sound will come; the transcript follows."""
        if not self._is_done:
            self._stop(self.id)

    def __aiter__(self) -> TranscribeStream:
        return self

    async def __anext__(self) -> Told:
        while True:
            if self._items:
                return self._items.popleft()
            if self._error is not None:
                raise type(self._error)(*self._error.args)
            if self._is_done:
                raise StopAsyncIteration
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def wait(self) -> Transcript:
        """Read to the end and return the transcript."""
        async for told in self:
            if isinstance(told, Transcript):
                return told
        raise EngineError(f"transcription {self.id} was ended before its transcript")

    def close(self) -> None:
        """The reader has gone: end what still runs. May be called twice."""
        if not self._is_done:
            self._is_done = True
            self._abort(self)
            self._wake()

    async def __aenter__(self) -> TranscribeStream:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    # -- for the client -----------------------------------------------------------------------------------------

    def _wake(self) -> None:
        for future in (self._taken, self._waiter, self._feeder):
            if future is not None and not future.done():
                future.set_result(None)

    def accept(self) -> None:
        if not self._taken.done():
            self._taken.set_result(None)

    def heard(self) -> None:
        self._num_unheard -= 1
        self._wake()

    def put(self, told: Told) -> None:
        if not self._is_done:
            self._items.append(told)
            self._is_done = isinstance(told, Transcript)
            self._wake()

    def fail(self, error: AntiphonError) -> None:
        if not self._is_done:
            self._error, self._is_done = error, True
            self._wake()
