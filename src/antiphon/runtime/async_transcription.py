"""Transcription for asyncio: events of a recording, and live sessions, read from the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

from antiphon.audio.samples import Floats
from antiphon.errors import AntiphonError
from antiphon.runtime.live import LiveTranscription
from antiphon.runtime.transcribing import samples_of
from antiphon.runtime.transcript import LiveUpdate, Transcript, TranscriptEvent
from antiphon.runtime.transcription import CancelledTranscriptionError, Chunks, JobRunner, Transcriber
from antiphon.runtime.transcription_options import TranscriptionOptions


class AsyncTranscription:
    """An asynchronous iterator of events, the last of which is the transcript.

    Leaving it early (break, cancellation, `aclose`) cancels the rest.
    """

    def __init__(self, transcriber: Transcriber, recording: Chunks, options: TranscriptionOptions) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[TranscriptEvent | BaseException] = asyncio.Queue()
        self._runner = JobRunner(transcriber.port)
        self._is_done = False
        arguments = (transcriber, recording, options)
        self._thread = threading.Thread(target=self._run, args=arguments, name="antiphon-transcribe", daemon=True)
        self._thread.start()

    def _run(self, transcriber: Transcriber, recording: Chunks, options: TranscriptionOptions) -> None:
        try:
            for event in transcriber.run(recording, options, self._runner):
                self._put(event)
        except BaseException as error:
            self._put(error)

    def _put(self, item: TranscriptEvent | BaseException) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._events.put_nowait, item)

    def __aiter__(self) -> AsyncIterator[TranscriptEvent]:
        return self._read()

    async def _read(self) -> AsyncIterator[TranscriptEvent]:
        try:
            while not self._is_done:
                event = await self._events.get()
                self._is_done = isinstance(event, BaseException | Transcript)
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            self.close()

    async def wait(self) -> Transcript:
        """Read to the end and return the transcript."""
        async for event in self:
            if isinstance(event, Transcript):
                return event
        raise CancelledTranscriptionError("the transcription was cancelled")

    def close(self) -> None:
        """Cancel what is still running."""
        if not self._is_done:
            self._is_done = True
            self._runner.cancel()

    async def aclose(self) -> None:
        """The same as `close`, for `contextlib.aclosing`."""
        self.close()


class AsyncLiveSession:
    """A live session for asyncio: an asynchronous iterator of updates that ends after `finish` or `close`."""

    def __init__(self, transcriber: Transcriber, options: TranscriptionOptions, interval: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._updates: asyncio.Queue[LiveUpdate | None] = asyncio.Queue()
        self._outcome: asyncio.Future[Transcript] = self._loop.create_future()
        self._live = LiveTranscription(transcriber, options, self._put, self._ended, interval)

    def _put(self, update: LiveUpdate | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._updates.put_nowait, update)

    def _ended(self, outcome: Transcript | AntiphonError) -> None:
        def settle() -> None:
            if not self._outcome.done():
                if isinstance(outcome, AntiphonError):
                    self._outcome.set_exception(outcome)
                else:
                    self._outcome.set_result(outcome)
            self._updates.put_nowait(None)

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle)

    def push(self, samples: Floats | bytes) -> None:
        """Add mono sound at 16 kHz: floats, or 16-bit little-endian bytes. Never blocks."""
        self._live.push(samples_of(samples))

    def __aiter__(self) -> AsyncIterator[LiveUpdate]:
        return self._read()

    async def _read(self) -> AsyncIterator[LiveUpdate]:
        while (update := await self._updates.get()) is not None:
            yield update

    async def finish(self) -> Transcript:
        """Transcribe what remains and return the whole transcript. Raises the error if the session failed."""
        self._live.finish()
        return await asyncio.shield(self._outcome)

    def close(self) -> None:
        """End the session at once; what has not been transcribed is dropped."""
        self._live.close()

    async def __aenter__(self) -> AsyncLiveSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
