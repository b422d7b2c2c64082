"""`TranscribeStream`: a transcription or a live session, for one asyncio reader."""

from __future__ import annotations

import asyncio

from antiphon.audio.samples import Floats
from antiphon.errors import EngineError
from antiphon.runtime.calls.async_reader import AsyncReader
from antiphon.runtime.calls.control import SoundControl
from antiphon.runtime.calls.events import Event, PieceRead
from antiphon.runtime.calls.sinks import ThreadSink
from antiphon.runtime.calls.transcript import LiveUpdate, Transcript, TranscriptProgress

#: Pieces of a recording that may be on their way at once.
MAX_UNREAD_PIECES = 3

TranscriptItem = TranscriptProgress | LiveUpdate | Transcript


class TranscribeStream(AsyncReader[TranscriptItem]):
    """Progress or updates, and last the transcript.

    A live session, or a recording that is sent while it is transcribed, takes sound by `push` until `finish`; the
    latter waits for `room` before each piece.
    """

    _control: SoundControl

    def __init__(self, control: SoundControl, sink: ThreadSink) -> None:
        super().__init__(control, sink)
        self._num_unread = 0
        self._room: asyncio.Future[None] | None = None

    def push(self, samples: Floats) -> None:
        """Mono sound at 16 kHz."""
        if not self._is_done:
            self._num_unread += 1
            self._control.push(samples)

    async def room(self) -> bool:
        """Wait until another piece of a recording may be pushed; False if the call has ended."""
        while self._num_unread >= MAX_UNREAD_PIECES and not self._is_done:
            self._room = self._loop.create_future()
            try:
                await self._room
            finally:
                self._room = None
        return not self._is_done

    def finish(self) -> None:
        """No more sound will come; the transcript follows."""
        if not self._is_done:
            self._control.finish()

    async def wait(self) -> Transcript:
        """Read to the end and return the transcript."""
        async for item in self:
            if isinstance(item, Transcript):
                return item
        raise EngineError(f"transcription {self.id} was ended before its transcript")

    def put(self, event: Event) -> None:
        if isinstance(event, PieceRead):
            self._num_unread -= 1
            self._wake()
        else:
            super().put(event)

    def _is_last(self, item: TranscriptItem) -> bool:
        return isinstance(item, Transcript)

    def _futures(self) -> tuple[asyncio.Future[None] | None, ...]:
        return self._accepted, self._waiter, self._room
