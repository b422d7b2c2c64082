"""What `Engine` returns: iterators that block the thread that reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import Empty
from typing import Any

import numpy as np

from antiphon.audio.samples import Floats, samples_of
from antiphon.engine.request import FinishReason
from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.calls.control import CallControl
from antiphon.runtime.calls.events import Ended, Event, TextDelta
from antiphon.runtime.calls.sinks import ThreadSink
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats
from antiphon.runtime.calls.thread_reader import ThreadInbox
from antiphon.runtime.calls.transcript import LiveUpdate, Transcript, TranscriptEvent
from antiphon.runtime.speech.call import SpeechCall
from antiphon.runtime.text.output import Completion, SampleOutput, check_not_failed
from antiphon.runtime.text.stream import joined
from antiphon.runtime.transcription.call import TranscriptionCall
from antiphon.runtime.transcription.live import LiveCall

#: How long a transcription that is left early is waited for: until what it has in the engine is cancelled.
CANCEL_SECONDS = 5.0


class Stream:
    """An iterator of deltas. Closing it, or dropping it, cancels the request if it is still running."""

    def __init__(self, output: SampleOutput, control: CallControl, sink: ThreadSink) -> None:
        self.output = output
        self._control = control
        self._inbox = ThreadInbox()
        self._ended: Ended | None = None
        sink.open([control.id], self._inbox)

    @property
    def id(self) -> str:
        """The request's id, as in traces."""
        return self._control.id

    def __iter__(self) -> Iterator[TextDelta]:
        return self

    def __next__(self) -> TextDelta:
        while self._ended is None:
            deltas: list[TextDelta] = []
            for event in self._inbox.get_all():
                if isinstance(event, TextDelta):
                    deltas.append(event)
                elif isinstance(event, Ended):
                    self._ended = event
            if deltas:
                return joined(deltas)
        check_not_failed(self._ended)
        raise StopIteration

    def wait(self) -> Completion:
        """Read to the end and return the whole answer."""
        for _ in self:
            pass
        return self.completion()

    def completion(self) -> Completion:
        """The whole answer of a stream that was read to its end."""
        if self._ended is None:
            raise EngineError(f"request {self.id} has not ended yet, or was not read to its end")
        return self.output.completion(self._ended)

    def cancel(self) -> None:
        """Cancel the request. What was generated so far can still be read."""
        if not self.output.is_done:
            self._control.cancel(FinishReason.CANCELLED)

    def close(self) -> None:
        """Cancel the request if it is still running and free its memory."""
        if not self.output.is_done:
            self._control.cancel(FinishReason.DISCONNECTED)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def transcript_events(
    call: TranscriptionCall, sink: ThreadSink, start: Callable[[], None]
) -> Iterator[TranscriptEvent]:
    """Start a transcription and yield its events. Closing the iterator cancels it."""
    inbox = ThreadInbox()
    sink.open([call.id], inbox)
    is_done = False
    start()
    try:
        while not is_done:
            try:
                event = inbox.get()
            except AntiphonError:
                is_done = True
                raise
            is_done = isinstance(event, Transcript)
            yield event  # type: ignore[misc]
    finally:
        if not is_done:
            _cancel(call, inbox)


def _cancel(call: TranscriptionCall, inbox: ThreadInbox) -> None:
    """Return when the call has ended, or soon: its source of sound may block."""
    call.cancel(FinishReason.DISCONNECTED)
    try:
        while not isinstance(inbox.get(CANCEL_SECONDS), Transcript):
            pass
    except (AntiphonError, Empty):
        pass


class LiveSession:
    """A live transcription. Leaving its context ends it at once."""

    def __init__(self, call: LiveCall, sink: ThreadSink, on_update: Callable[[LiveUpdate], None] | None) -> None:
        self._call = call
        self._on_update = on_update
        self._outcome: Future[Transcript] = Future()
        sink.open([call.id], self)

    def put(self, event: Event) -> None:
        """For the sink."""
        if isinstance(event, AntiphonError):
            self._outcome.set_exception(event)
        elif isinstance(event, Transcript):
            self._outcome.set_result(event)
        elif isinstance(event, LiveUpdate) and self._on_update is not None:
            self._on_update(event)

    def push(self, samples: Floats | bytes) -> None:
        """Add mono sound at 16 kHz: floats, or 16-bit little-endian bytes. Never blocks."""
        self._call.push(samples_of(samples))

    def finish(self, timeout: float | None = None) -> Transcript:
        """Transcribe what remains and return the whole transcript. Raises the error if the session failed."""
        self._call.finish()
        return self._outcome.result(timeout)

    def close(self) -> None:
        """End the session at once; what has not been transcribed is dropped."""
        self._call.cancel(FinishReason.DISCONNECTED)

    def __enter__(self) -> LiveSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Synthesis:
    """An iterator of chunks of speech at `rate` samples a second. Closing it cancels the rest."""

    def __init__(self, call: SpeechCall, sink: ThreadSink) -> None:
        self._call = call
        self._inbox = ThreadInbox()
        self._stats: SpeechStats | None = None
        self._is_done = False
        sink.open([call.id], self._inbox)

    @property
    def id(self) -> str:
        """The synthesis' id, as in traces."""
        return self._call.id

    @property
    def rate(self) -> int:
        """Samples a second."""
        return self._call.rate

    def __iter__(self) -> Iterator[SpeechChunk]:
        return self

    def __next__(self) -> SpeechChunk:
        if not self._is_done:
            try:
                event = self._inbox.get()
            except AntiphonError:
                self._is_done = True
                raise
            if isinstance(event, SpeechChunk):
                self._call.release()
                return event
            assert isinstance(event, SpeechStats)
            self._stats, self._is_done = event, True
        raise StopIteration

    def wait(self) -> Floats:
        """Read to the end and return all samples."""
        pieces = [chunk.samples for chunk in self]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    @property
    def stats(self) -> SpeechStats:
        """What the synthesis cost, once it was read to its end."""
        if self._stats is None:
            raise EngineError(f"synthesis {self.id} has not come to its end")
        return self._stats

    def close(self) -> None:
        """Cancel the rest."""
        self._call.cancel(FinishReason.DISCONNECTED)

    def __enter__(self) -> Synthesis:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
