"""Asyncio readers of calls in any process: `AsyncTranscription`, `AsyncLiveSession`, `AsyncVoiceActivity`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from antiphon.audio.samples import Floats, samples_of
from antiphon.engine.request import FinishReason
from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.calls.async_reader import AsyncReader
from antiphon.runtime.calls.control import SoundControl
from antiphon.runtime.calls.events import Event, PieceRead
from antiphon.runtime.calls.sinks import ThreadSink
from antiphon.runtime.calls.transcript import LiveUpdate, Transcript, TranscriptProgress
from antiphon.runtime.calls.voice_events import VoiceEvent

#: Maximum chunks of a recording in flight.
MAX_UNREAD_PIECES = 3

TranscriptItem = TranscriptProgress | LiveUpdate | Transcript


class AsyncTranscription(AsyncReader[TranscriptItem]):
    """An asynchronous iterator of events, the last of which is the transcript.

    Leaving it early (break, cancellation, `aclose`) cancels the rest. A live session in the engine process, or a
    recording that is sent while it is transcribed, takes sound by `push` until `finish`; a recording waits for `room`
    before each chunk.
    """

    _control: SoundControl

    def __init__(self, control: SoundControl, sink: ThreadSink) -> None:
        super().__init__(control, sink)
        self._num_unread = 0
        self._room: asyncio.Future[None] | None = None

    def push(self, samples: Floats) -> None:
        """Send mono samples at 16 kHz."""
        if not self._is_done:
            self._num_unread += 1
            self._control.push(samples)

    async def room(self) -> bool:
        """Wait until another chunk of a recording may be pushed; return False if the call has ended."""
        while self._num_unread >= MAX_UNREAD_PIECES and not self._is_done:
            self._room = self._loop.create_future()
            try:
                await self._room
            finally:
                self._room = None
        return not self._is_done

    def finish(self) -> None:
        """Declare the sound complete; the transcript follows."""
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

    def _futures(self) -> tuple[asyncio.Future[None] | None, ...]:
        return self._accepted, self._waiter, self._room


class AsyncLiveSession(AsyncReader[LiveUpdate]):
    """A live session for asyncio: an asynchronous iterator of updates that ends after `finish` or `close`."""

    _control: SoundControl

    def __init__(self, control: SoundControl, sink: ThreadSink) -> None:
        super().__init__(control, sink)
        self._outcome: asyncio.Future[Transcript] = self._loop.create_future()

    def __aiter__(self) -> AsyncIterator[LiveUpdate]:
        """Return the session; leaving its loop does not end it, `finish` and `close` do."""
        return self

    def push(self, samples: Floats | bytes) -> None:
        """Add mono sound at 16 kHz: floats, or 16-bit little-endian bytes. Never blocks."""
        self._control.push(samples_of(samples))

    async def finish(self) -> Transcript:
        """Transcribe what remains and return the whole transcript. Raises the error if the session failed."""
        self._control.finish()
        return await asyncio.shield(self._outcome)

    def close(self, reason: FinishReason = FinishReason.DISCONNECTED) -> None:
        """End the session at once; discard sound that has not been transcribed."""
        self._control.cancel(reason)

    def put(self, event: Event) -> None:
        if isinstance(event, AntiphonError):
            self._outcome.set_exception(event)
            self._outcome.exception()  # marks it as retrieved: `finish`, if called, raises it
        elif isinstance(event, Transcript):
            self._outcome.set_result(event)
        else:
            super().put(event)
            return
        self._is_done = True
        self._wake()


class AsyncVoiceActivity(AsyncReader[VoiceEvent]):
    """An asynchronous iterator of events, the last of which is `VoiceEnded`. Leaving it early cancels the call."""

    _control: SoundControl

    def push(self, samples: Floats) -> None:
        """Send mono samples at 16 kHz."""
        if not self._is_done:
            self._control.push(samples)

    def finish(self) -> None:
        """Declare the sound complete."""
        if not self._is_done:
            self._control.finish()
