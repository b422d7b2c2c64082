"""Results of `Engine` calls: iterators that block the thread that reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Self

import numpy as np

from antiphon.audio.samples import Floats, samples_of
from antiphon.engine.request import FinishReason
from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.calls.control import CallControl
from antiphon.runtime.calls.events import Ended, Event, TextDelta
from antiphon.runtime.calls.sinks import ThreadSink
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats
from antiphon.runtime.calls.thread_reader import ThreadInbox
from antiphon.runtime.calls.transcript import LiveUpdate, Transcript
from antiphon.runtime.speech.call import SpeechCall
from antiphon.runtime.text.output import Completion, SampleOutput, check_not_failed
from antiphon.runtime.text.stream import joined
from antiphon.runtime.transcription.listening.call import LiveCall


class _Closing:
    """Object that is closed when its context is left or when it is garbage-collected."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Stream(_Closing):
    """Iterator of deltas. Closing or dropping it cancels the request if it is still running."""

    def __init__(self, output: SampleOutput, control: CallControl, sink: ThreadSink) -> None:
        self.output = output
        self._control = control
        self._inbox = ThreadInbox()
        sink.open([control.id], self._inbox)

    @property
    def id(self) -> str:
        """Id of the request, as in traces."""
        return self._control.id

    def __iter__(self) -> Iterator[TextDelta]:
        return self

    def __next__(self) -> TextDelta:
        while True:
            deltas = [event for event in self._inbox.get_all() if isinstance(event, TextDelta)]
            if deltas:
                return joined(deltas)
            if isinstance(self._inbox.final, Ended):
                check_not_failed(self._inbox.final)
                raise StopIteration

    def wait(self) -> Completion:
        """Wait for the end and return the whole answer."""
        self._inbox.wait_for_end()
        return self.completion()

    def completion(self) -> Completion:
        """Return the whole answer of a stream that was read to its end."""
        if not isinstance(self._inbox.final, Ended):
            raise EngineError(f"request {self.id} has not ended yet")
        return self.output.completion(self._inbox.final)

    def cancel(self) -> None:
        """Cancel the request. Text generated so far can still be read."""
        if not self.output.is_done:
            self._control.cancel(FinishReason.CANCELLED)

    def close(self) -> None:
        """Cancel the request if it is still running and free its memory."""
        if not self.output.is_done:
            self._control.cancel(FinishReason.DISCONNECTED)


class _LiveInbox:
    """Inbox that calls `on_update` in the session's thread, and keeps the outcome."""

    def __init__(self, on_update: Callable[[LiveUpdate], None] | None) -> None:
        self.outcome: Future[Transcript] = Future()
        self._on_update = on_update

    def put(self, event: Event) -> None:
        if isinstance(event, AntiphonError):
            self.outcome.set_exception(event)
        elif isinstance(event, Transcript):
            self.outcome.set_result(event)
        elif isinstance(event, LiveUpdate) and self._on_update is not None:
            self._on_update(event)


class LiveSession(_Closing):
    """Live transcription. Leaving its context, or dropping it, ends it at once."""

    def __init__(self, call: LiveCall, sink: ThreadSink, on_update: Callable[[LiveUpdate], None] | None) -> None:
        self._call = call
        self._inbox = _LiveInbox(on_update)
        sink.open([call.id], self._inbox)

    def push(self, samples: Floats | bytes) -> None:
        """Add mono sound at 16 kHz: floats, or 16-bit little-endian bytes. Never blocks."""
        self._call.push(samples_of(samples))

    def finish(self, timeout: float | None = None) -> Transcript:
        """Transcribe the remaining sound and return the whole transcript. Raises the error if the session failed."""
        self._call.finish()
        return self._inbox.outcome.result(timeout)

    def close(self) -> None:
        """End the session at once, discarding sound that has not been transcribed."""
        self._call.cancel(FinishReason.DISCONNECTED)


class Synthesis(_Closing):
    """Iterator of chunks of speech at `rate` Hz. Closing or dropping it cancels the rest."""

    def __init__(self, call: SpeechCall, sink: ThreadSink) -> None:
        self._call = call
        self._inbox = ThreadInbox()
        self._is_done = False
        sink.open([call.id], self._inbox)

    @property
    def id(self) -> str:
        """Id of the synthesis, as in traces."""
        return self._call.id

    @property
    def rate(self) -> int:
        """Sample rate in Hz."""
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
            self._is_done = True
        raise StopIteration

    def wait(self) -> Floats:
        """Read to the end and return all samples."""
        pieces = [chunk.samples for chunk in self]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    @property
    def stats(self) -> SpeechStats:
        """Cost of the synthesis, once it has ended."""
        if not isinstance(self._inbox.final, SpeechStats):
            raise EngineError(f"synthesis {self.id} has not come to its end")
        return self._inbox.final

    def close(self) -> None:
        """Cancel the rest of the synthesis."""
        self._call.cancel(FinishReason.DISCONNECTED)
