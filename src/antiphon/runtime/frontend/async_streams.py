"""What `AsyncEngine` returns: asynchronous iterators that are read in the engine's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator

import numpy as np

from antiphon.audio.samples import Floats
from antiphon.engine.request import FinishReason
from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.calls.async_reader import AsyncReader
from antiphon.runtime.calls.events import Ended, Event, TextDelta
from antiphon.runtime.calls.sinks import AsyncioSink
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats
from antiphon.runtime.calls.transcript import LiveUpdate, Transcript, TranscriptEvent
from antiphon.runtime.frontend.streams import samples_of
from antiphon.runtime.speech.call import SpeechCall
from antiphon.runtime.speech.stream import SpeakStream
from antiphon.runtime.text.calls import SampleControl
from antiphon.runtime.text.output import Completion, SampleOutput, check_not_failed
from antiphon.runtime.text.stream import GenerateStream
from antiphon.runtime.transcription.call import TranscriptionCall
from antiphon.runtime.transcription.live import LiveCall
from antiphon.runtime.transcription.stream import TranscribeStream


class AsyncStream:
    """An asynchronous iterator of deltas. Leaving it early (break, cancellation, `aclose`) cancels the request."""

    def __init__(self, output: SampleOutput, control: SampleControl, sink: AsyncioSink) -> None:
        self.output = output
        self._reader = GenerateStream(control, sink, 1)
        self._ended: Ended | None = None

    @property
    def id(self) -> str:
        """The request's id, as in traces."""
        return self._reader.id

    def __aiter__(self) -> AsyncIterator[TextDelta]:
        return self._deltas()

    async def _deltas(self) -> AsyncIterator[TextDelta]:
        try:
            async for item in self._reader:
                if isinstance(item, TextDelta):
                    yield item
                else:
                    self._ended = item
        finally:
            self.close()
        if self._ended is not None:
            check_not_failed(self._ended)

    async def wait(self) -> Completion:
        """Read to the end and return the whole answer."""
        async for _ in self:
            pass
        return self.completion()

    def completion(self) -> Completion:
        """The whole answer of a stream that was read to its end."""
        if self._ended is None:
            raise EngineError(f"request {self.id} has not ended yet, or was not read to its end")
        return self.output.completion(self._ended)

    def cancel(self) -> None:
        """Cancel the request. What was generated so far can still be read."""
        self._reader.cancel()

    def close(self) -> None:
        """Cancel the request if it is still running and free its memory."""
        self._reader.close()

    async def aclose(self) -> None:
        """The same as `close`, for `contextlib.aclosing`."""
        self.close()


class AsyncTranscription:
    """An asynchronous iterator of events, the last of which is the transcript.

    Leaving it early (break, cancellation, `aclose`) cancels the rest.
    """

    def __init__(self, call: TranscriptionCall, sink: AsyncioSink) -> None:
        self._reader = TranscribeStream(call, sink)

    def __aiter__(self) -> AsyncIterator[TranscriptEvent]:
        return self._events()

    async def _events(self) -> AsyncIterator[TranscriptEvent]:
        try:
            async for event in self._reader:
                yield event  # type: ignore[misc]
        finally:
            self.close()

    async def wait(self) -> Transcript:
        """Read to the end and return the transcript."""
        try:
            return await self._reader.wait()
        finally:
            self.close()

    def close(self) -> None:
        """Cancel what is still running."""
        self._reader.close()

    async def aclose(self) -> None:
        """The same as `close`, for `contextlib.aclosing`."""
        self.close()


class AsyncLiveSession(AsyncReader[LiveUpdate]):
    """A live session for asyncio: an asynchronous iterator of updates that ends after `finish` or `close`."""

    def __init__(self, call: LiveCall, sink: AsyncioSink) -> None:
        super().__init__(call, sink)
        self._call = call
        self._outcome: asyncio.Future[Transcript] = self._loop.create_future()

    def push(self, samples: Floats | bytes) -> None:
        """Add mono sound at 16 kHz: floats, or 16-bit little-endian bytes. Never blocks."""
        self._call.push(samples_of(samples))

    async def finish(self) -> Transcript:
        """Transcribe what remains and return the whole transcript. Raises the error if the session failed."""
        self._call.finish()
        return await asyncio.shield(self._outcome)

    def close(self, reason: FinishReason = FinishReason.DISCONNECTED) -> None:
        """End the session at once; what has not been transcribed is dropped."""
        self._call.cancel(reason)

    def put(self, event: Event) -> None:
        if isinstance(event, AntiphonError):
            self._outcome.set_exception(event)
            self._outcome.exception()  # raised by `finish`, if that is called
        elif isinstance(event, Transcript):
            self._outcome.set_result(event)
        else:
            super().put(event)
            return
        self._is_done = True
        self._wake()

    def _is_last(self, item: LiveUpdate) -> bool:
        return False


class AsyncSynthesis:
    """An asynchronous iterator of chunks. Leaving it early (break, cancellation, `aclose`) cancels the rest."""

    def __init__(self, call: SpeechCall, sink: AsyncioSink, text: AsyncIterable[str] | None) -> None:
        self._call = call
        self._reader = SpeakStream(call, sink)
        self._stats: SpeechStats | None = None
        self._failure: BaseException | None = None
        self._feeding = None if text is None else asyncio.get_running_loop().create_task(self._feed(text))

    async def _feed(self, text: AsyncIterable[str]) -> None:
        try:
            async for piece in text:
                self._call.append(piece)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._failure = error
            self._call.cancel()
        finally:
            self._call.end_text()

    @property
    def id(self) -> str:
        """The synthesis' id, as in traces."""
        return self._call.id

    @property
    def rate(self) -> int:
        """Samples a second."""
        return self._call.rate

    @property
    def stats(self) -> SpeechStats:
        """What the synthesis cost, once it was read to its end."""
        if self._stats is None:
            raise EngineError(f"synthesis {self.id} has not come to its end")
        return self._stats

    def __aiter__(self) -> AsyncIterator[SpeechChunk]:
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[SpeechChunk]:
        try:
            async for item in self._reader:
                if isinstance(item, SpeechChunk):
                    yield item
                else:
                    self._stats = item
        except AntiphonError as error:
            raise self._failure or error from None
        finally:
            self.close()

    async def wait(self) -> Floats:
        """Read to the end and return all samples."""
        pieces = [chunk.samples async for chunk in self]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    def close(self) -> None:
        """Cancel the rest."""
        if self._feeding is not None:
            self._feeding.cancel()
        self._reader.close()

    async def aclose(self) -> None:
        """The same as `close`, for `contextlib.aclosing`."""
        self.close()
