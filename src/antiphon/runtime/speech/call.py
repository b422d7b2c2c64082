"""`SpeechCall`: a text that may still be written, spoken clause by clause through the engine, in its own thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from antiphon.audio.samples import Floats
from antiphon.audio.speech.clauses import Clause, ClauseSplitter
from antiphon.audio.time_stretch import time_stretched
from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.telemetry import SpeechRecord
from antiphon.errors import AntiphonError, EngineError, InvalidRequestError
from antiphon.models.base.speech_state import Speech
from antiphon.runtime.calls.control import new_id
from antiphon.runtime.calls.port import EnginePort
from antiphon.runtime.calls.sinks import Sink
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.runtime.calls.thread_call import ThreadCall
from antiphon.runtime.speech.account import SpeechAccount
from antiphon.runtime.speech.seams import FIRST_LEAD, LEAD, is_silent, trimmed
from antiphon.runtime.speech.text import Piece, Reader, Speaker, SpeechEngine
from antiphon.runtime.speech.text_feed import TextFeed

if TYPE_CHECKING:  # needs msgspec, which an embedded engine runs without
    from antiphon.runtime.calls.tasks import Speak

#: Maximum utterances of one synthesis in flight after the first sound; before it, the maximum is 1.
MAX_IN_FLIGHT = 2
#: Unread chunks at which the synthesis waits for a slow reader.
MAX_UNREAD = 8
#: Seconds ahead of its listener above which a paced synthesis waits, and below which it hurries.
FAR_AHEAD, NEARLY_DRY = 12.0, 0.75
_POLL = 0.05


@dataclass(frozen=True)
class _Text:
    """A part of the text. The last part has no `text`; it has an `error` if the text failed."""

    text: str | None
    error: AntiphonError | None = None


class SpeechCall(ThreadCall):
    """A call that emits chunks of speech and at the end `SpeechStats`, or an error.

    Create it, `prepare` it, then `start` it. Text may be appended, and the call cancelled, from its creation on.
    """

    id_prefix = "speech"
    rate: int
    _reader: Reader
    _port: EnginePort
    _options: SpeechOptions
    _account: SpeechAccount

    def __init__(self, call_id: str, sink: Sink) -> None:
        super().__init__(call_id, sink)
        self._model_name = ""
        self._text: str | TextFeed | Iterable[str] | None = None
        self._first_text = ""  # comes before all appended text
        self._unread = threading.Semaphore(MAX_UNREAD)
        self._inbox: SimpleQueue[Request | _Text | None] = SimpleQueue()
        self._in_flight: deque[tuple[Request, Piece]] = deque()
        self._is_closed = threading.Event()
        self._splitter = ClauseSplitter()
        self._sources: deque[Iterator[Clause]] = deque()
        self._clause_pieces: Iterator[Piece] = iter(())
        self._piece: Piece | None = None
        self._text_ended = False
        self._deadline: float | None = None
        self._arrived = 0.0

    def prepare(
        self,
        speaker: Speaker,
        port: EnginePort,
        text: str | TextFeed | Iterable[str] | None,
        options: SpeechOptions,
    ) -> None:
        """Load the voice and pronunciation; raise the error that rejects the call.

        `text` is None if all of it is appended.
        """
        self._reader = Reader(speaker, options)
        if isinstance(text, str) and not text.strip():
            raise InvalidRequestError("there is no text to speak")
        self.rate = speaker.model.sample_rate
        self._model_name = speaker.loaded.name
        self._text, self._options, self._port = text, options, port
        self._account = SpeechAccount(port.clock)
        self._arrived = port.clock()
        self._deadline = None if options.timeout is None else self._arrived + options.timeout

    def begin(self, engine: SpeechEngine, request: Speak) -> None:
        if request.is_open:
            self._first_text = request.text
        text = None if request.is_open else request.text
        self.prepare(engine.speaker(request.model), engine.port, text, request.options)
        self._start_accepted()

    # -- for any thread -----------------------------------------------------------------------------------------

    def release(self) -> None:
        self._unread.release()

    def append(self, text: str) -> None:
        self._inbox.put(_Text(text))

    def end_text(self) -> None:
        self._inbox.put(_Text(None))

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        """End the call and discard what is being synthesised."""
        self._is_closed.set()
        self._inbox.put(None)

    # -- the call's own thread --------------------------------------------------------------------------------

    @property
    def _subject(self) -> str:
        return f"synthesis {self.id}"

    def _work(self) -> SpeechStats:
        try:
            self._speak()
            stats = self._account.stats()
            self._port.record(self._record(stats))
            return stats
        finally:
            left = [request.id for request, _ in self._in_flight]
            self._port.loop.abort_all(left, FinishReason.DISCONNECTED)
            self._in_flight.clear()

    def _speak(self) -> None:
        """Emit sound as it is made, submit utterances while there is room, and wait for the next event."""
        self._begin_text()
        while True:
            while self._in_flight and self._in_flight[0][0].is_ended:
                self._deliver(*self._in_flight.popleft())
            self._look_ahead()
            wait = self._wait_for_listener()
            while self._piece is not None and len(self._in_flight) < self._most_in_flight() and wait == 0.0:
                self._submit(self._piece)
                self._piece = None
                self._look_ahead()
            if self._piece is None and not self._in_flight and self._text_ended:
                break
            self._take_event(wait or None)
        if not self._account.num_samples:
            runs = self._account.unreadable.runs[:8]
            raise InvalidRequestError(
                "there is nothing in the text that can be spoken"
                + (f"; these characters cannot be read: {' '.join(runs)}" if runs else "")
            )

    def _begin_text(self) -> None:
        text = self._text
        if self._first_text:
            self._take_text(_Text(self._first_text))
        if isinstance(text, str):
            self.append(text)
            self.end_text()
        elif isinstance(text, TextFeed):
            text.listen(lambda piece: self._inbox.put(_Text(piece)))
        elif text is not None:
            # The caller's iterator may block for its next text; sound that is ready must not wait for it.
            threading.Thread(target=self._pump, args=(text,), name="antiphon-text", daemon=True).start()
            return
        while not self._inbox.empty() and not self._text_ended:
            self._take_event(None)

    def _pump(self, text: Iterable[str]) -> None:
        try:
            for piece in text:
                if self._is_closed.is_set():
                    return
                self.append(piece)
            self.end_text()
        except Exception as error:  # the caller's iterator may raise anything
            self._inbox.put(_Text(None, EngineError(f"the text failed: {type(error).__name__}: {error}")))

    def _take_event(self, seconds: float | None) -> None:
        """Wait up to `seconds` (None: without limit) for text or for an utterance that ended."""
        try:
            event = self._inbox.get(timeout=seconds)
        except Empty:
            return
        if self._is_closed.is_set():
            raise self._closed_error()
        if isinstance(event, _Text) and not self._text_ended:
            self._take_text(event)

    def _take_text(self, event: _Text) -> None:
        if event.error is not None:
            raise event.error
        if event.text is None:
            self._text_ended = True
            self._sources.append(self._splitter.finish())
        elif isinstance(event.text, str):
            self._account.num_characters += len(event.text)
            self._sources.append(self._splitter.push(event.text))
        else:
            raise InvalidRequestError(f"text came as {type(event.text).__name__}, not as a string")

    def _look_ahead(self) -> None:
        """Prepare the next utterance. A paced synthesis waits for its first sound, whose pace sets the next length."""
        if self._piece is not None:
            return
        if self._options.paced and not self._port.batch_invariant:
            if self._in_flight and self._account.first_audio is None:
                return
            self._splitter.hurries = True
            self._splitter.room = self._account.room(self._coming())
        self._piece = self._next_piece()

    def _next_piece(self) -> Piece | None:
        """Return the next utterance of the text so far, or None. Clauses with nothing to say are skipped."""
        while True:
            for piece in self._clause_pieces:
                self._account.take(piece)
                if piece.utterance.ids:
                    return piece
            while self._sources:
                clause = next(self._sources[0], None)
                if clause is not None:
                    self._clause_pieces = self._reader.pieces(clause)
                    break
                self._sources.popleft()
            else:
                return None

    def _most_in_flight(self) -> int:
        return MAX_IN_FLIGHT if self._account.first_audio is not None else 1

    def _submit(self, piece: Piece) -> None:
        request = Request(
            new_id(),
            self._model_name,
            piece.utterance.ids,
            SamplingParams(),
            task="synthesize",
            priority=self._priority(),
            deadline=self._deadline,
            due=self._due(),
            inputs=piece.utterance,
            on_end=self._inbox.put,
        )
        self._port.loop.add([request]).result()
        self._in_flight.append((request, piece))

    def _priority(self) -> Priority:
        """Return the request's priority, which is high if the listener has nearly no sound left."""
        ahead = self._account.ahead()
        dry = self._options.paced and ahead is not None and ahead < NEARLY_DRY
        return min(self._options.priority, Priority.HIGH) if dry else self._options.priority

    def _due(self) -> float | None:
        """Return when the listener will have heard all sound made or in flight; None before the first sound."""
        heard_by = self._account.heard_by
        return None if heard_by is None else heard_by + self._account.seconds_of(self._coming())

    def _coming(self) -> int:
        """Return the number of phonemes in flight."""
        return sum(len(piece.utterance.ids) for _, piece in self._in_flight)

    def _wait_for_listener(self) -> float:
        """Return the seconds that a paced synthesis far ahead of its listener waits; otherwise 0."""
        ahead = self._account.ahead() if self._options.paced else None
        return 0.0 if ahead is None or ahead <= FAR_AHEAD else min(ahead - FAR_AHEAD + _POLL, 1.0)

    def _deliver(self, request: Request, piece: Piece) -> None:
        if request.finish_reason is not FinishReason.STOP:
            raise EngineError(f"synthesis {self.id} ended by {request.finish_reason}: {request.error or 'no result'}")
        chunk = self._chunk(request.result, piece)
        request.result = None
        self._account.add(chunk, len(piece.utterance.ids), request.marks.arrived, request.marks.finished)
        self._emit(chunk)

    def _chunk(self, speech: Speech, piece: Piece) -> SpeechChunk:
        samples = speech.samples.numpy()
        if is_silent(samples):
            raise EngineError(f"the model made no sound of {piece.text[:80]!r}")
        faster = self._options.speed / piece.utterance.speed
        if faster > 1.0:
            samples, speech, piece = _compressed(speech, piece, self.rate, faster)
        lead = (LEAD if self._account.num_samples else FIRST_LEAD) / max(1.0, self._options.speed)
        cut, offset = trimmed(np.clip(samples, -1.0, 1.0), self.rate, piece.pause, lead)
        start = self._account.num_samples / self.rate
        return SpeechChunk(cut, self.rate, start, piece.text, piece.timed_words(speech, start, offset, self.rate))

    def _emit(self, chunk: SpeechChunk) -> None:
        """Emit a chunk once the reader has room for it."""
        while not self._unread.acquire(timeout=_POLL):
            if self._is_closed.is_set():
                raise self._closed_error()
        self._sink.put(self.id, chunk)

    def _closed_error(self) -> EngineError:
        return EngineError(f"{self._subject} was closed")

    def _record(self, stats: SpeechStats) -> SpeechRecord:
        return SpeechRecord(
            id=self.id,
            model=self._model_name,
            arrived=self._arrived,
            audio_seconds=stats.audio_seconds,
            processing_seconds=stats.processing_seconds,
            real_time_factor=stats.real_time_factor,
            time_to_first_audio=stats.time_to_first_audio,
            worst_deficit=stats.worst_deficit,
            clauses=stats.num_clauses,
        )


def _compressed(speech: Speech, piece: Piece, rate: int, speed: float) -> tuple[Floats, Speech, Piece]:
    """Compress the samples in time by `speed`; adjust the durations in the speech and the piece."""
    samples = time_stretched(speech.samples.numpy(), rate, speed)
    ends = [round(end / speed) for end in accumulate(speech.id_samples)]
    id_samples = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    faster = replace(speech, id_samples=id_samples)
    return samples, faster, replace(piece, lead_samples=round(piece.lead_samples / speed))
