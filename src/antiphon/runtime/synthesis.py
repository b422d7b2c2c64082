"""`Synthesis`: a text that may still be coming, spoken clause by clause through the engine, in a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import numpy as np

from antiphon.audio.samples import Floats
from antiphon.audio.speech.clauses import Clause, ClauseSplitter
from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.telemetry import SpeechRecord
from antiphon.errors import AntiphonError, EngineError, InvalidRequestError
from antiphon.models.synthesizer import Speech
from antiphon.runtime.requests import new_id
from antiphon.runtime.speech import SpeechChunk, SpeechStats
from antiphon.runtime.speech_account import SpeechAccount
from antiphon.runtime.speech_options import SpeechOptions
from antiphon.runtime.speech_seams import is_silent, trimmed
from antiphon.runtime.speech_text import Piece, Speaker
from antiphon.runtime.text_feed import TextFeed

#: Utterances of one synthesis that are in the engine at once, after the first sound; before it, one.
MAX_IN_FLIGHT = 2
#: Chunks that wait for a slow reader before the synthesis pauses.
MAX_UNREAD = 8
#: A paced synthesis waits when it is this many seconds ahead of its listener, and hurries when it is nearly caught up.
FAR_AHEAD, NEARLY_DRY = 12.0, 0.75
_POLL = 0.05


@dataclass(frozen=True)
class SpeechPort:
    """What a synthesis needs of an engine."""

    add: Callable[[list[Request]], Future[None]]
    abort: Callable[[str, FinishReason], None]
    clock: Callable[[], float]
    record: Callable[[SpeechRecord], None] = lambda record: None
    batch_invariant: bool = False


@dataclass(frozen=True)
class _Text:
    """A piece of the text; None when there is no more, or when it failed."""

    text: str | None
    error: AntiphonError | None = None


class _ClosedError(Exception):
    """The reader has gone."""


class Synthesis:
    """An iterator of chunks of speech at `rate` samples a second. Closing it cancels the rest.

    `on_chunk`, if given, is called from the synthesis' own thread with every chunk, then with the error or None.
    """

    def __init__(
        self,
        speaker: Speaker,
        port: SpeechPort,
        text: str | TextFeed | Iterable[str],
        options: SpeechOptions,
        on_chunk: Callable[[SpeechChunk | AntiphonError | None], None] | None = None,
    ) -> None:
        self.id = new_id().replace("request", "speech")
        self.rate = speaker.model.sample_rate
        self._model_name = speaker.loaded.name
        self._reader = speaker.reader(options)
        self._port = port
        self._options = options
        if isinstance(text, str) and not text.strip():
            raise InvalidRequestError("there is no text to speak")
        self._text = text
        self._on_chunk = on_chunk
        self._chunks: SimpleQueue[SpeechChunk | AntiphonError | None] = SimpleQueue()
        self._unread = threading.Semaphore(MAX_UNREAD)
        self._events: SimpleQueue[Request | _Text | None] = SimpleQueue()
        self._in_flight: deque[tuple[Request, Piece]] = deque()
        self._is_closed = threading.Event()
        self._is_done = False
        self._account = SpeechAccount(port.clock)
        self._splitter = ClauseSplitter()
        self._sources: deque[Iterator[Clause]] = deque()
        self._clause_pieces: Iterator[Piece] = iter(())
        self._piece: Piece | None = None
        self._text_ended = False
        self._stats: SpeechStats | None = None
        self._deadline = None if options.timeout is None else port.clock() + options.timeout
        self._arrived = port.clock()
        self._thread = threading.Thread(target=self._run, name="antiphon-speech", daemon=True)
        self._thread.start()

    # -- the reader's side --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[SpeechChunk]:
        return self

    def __next__(self) -> SpeechChunk:
        if self._is_done:
            raise StopIteration
        item = self._chunks.get()
        if isinstance(item, SpeechChunk):
            self._unread.release()
            return item
        self._is_done = True
        if item is None:
            raise StopIteration
        raise item

    def release(self) -> None:
        """For readers with `on_chunk`: one more chunk has been read."""
        self._unread.release()

    def wait(self) -> Floats:
        """Read to the end and return all samples."""
        pieces = [chunk.samples for chunk in self]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    @property
    def stats(self) -> SpeechStats:
        """What the synthesis cost, once it has ended."""
        if self._stats is None:
            raise EngineError(f"synthesis {self.id} has not come to its end")
        return self._stats

    def close(self) -> None:
        """Cancel the rest."""
        self._is_closed.set()
        self._events.put(None)

    def __enter__(self) -> Synthesis:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the synthesis' own thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        outcome: AntiphonError | None = None
        try:
            self._speak()
            self._stats = self._account.stats()
            self._port.record(self._record(self._stats))
        except _ClosedError:
            outcome = EngineError(f"synthesis {self.id} was closed")
        except AntiphonError as error:
            outcome = error
        except Exception as error:  # an iterator of text that is the caller's may raise anything
            outcome = EngineError(f"synthesis {self.id} failed: {type(error).__name__}: {error}")
        finally:
            for request, _ in self._in_flight:
                self._port.abort(request.id, FinishReason.DISCONNECTED)
            self._in_flight.clear()
        self._hand_over(outcome)

    def _speak(self) -> None:
        """Hand sound over as it is made, have more made as there is room, and wait for what comes next."""
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
        if isinstance(text, str):
            self._events.put(_Text(text))
            self._events.put(_Text(None))
        elif isinstance(text, TextFeed):
            text.listen(lambda piece: self._events.put(_Text(piece)))
        else:
            # The caller's iterator may wait for its next piece; the sound that is ready must not.
            threading.Thread(target=self._pump, args=(text,), name="antiphon-text", daemon=True).start()
            return
        while not self._events.empty() and not self._text_ended:
            self._take_event(None)

    def _pump(self, text: Iterable[str]) -> None:
        try:
            for piece in text:
                if self._is_closed.is_set():
                    return
                self._events.put(_Text(piece))
            self._events.put(_Text(None))
        except Exception as error:  # the iterator is the caller's
            self._events.put(_Text(None, EngineError(f"the text failed: {type(error).__name__}: {error}")))

    def _take_event(self, seconds: float | None) -> None:
        """Wait for text, for an utterance that ended, or for so many seconds."""
        try:
            event = self._events.get(timeout=seconds)
        except Empty:
            return
        if self._is_closed.is_set():
            raise _ClosedError
        if isinstance(event, _Text):
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
        """Have the next utterance ready. Where its length shall suit the listener, not before that can be told."""
        if self._piece is not None:
            return
        if self._options.paced and not self._port.batch_invariant:
            if self._in_flight and self._account.first_audio is None:
                return
            self._splitter.room = self._account.room(self._coming())
        self._piece = self._next_piece()

    def _next_piece(self) -> Piece | None:
        """The next utterance of the text that is there; clauses with nothing to say are passed over."""
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
            on_end=self._events.put,
        )
        self._port.add([request]).result()
        self._in_flight.append((request, piece))

    def _priority(self) -> Priority:
        """A listener who is about to hear nothing goes before those who are not."""
        ahead = self._account.ahead()
        dry = self._options.paced and ahead is not None and ahead < NEARLY_DRY
        return min(self._options.priority, Priority.HIGH) if dry else self._options.priority

    def _due(self) -> float | None:
        """When a listener will have heard all that is made or being made; None before the first sound."""
        heard_by = self._account.heard_by
        return None if heard_by is None else heard_by + self._account.seconds_of(self._coming())

    def _coming(self) -> int:
        """Phonemes in the engine."""
        return sum(len(piece.utterance.ids) for _, piece in self._in_flight)

    def _wait_for_listener(self) -> float:
        """Seconds that a paced synthesis which is far ahead gives away; 0 otherwise."""
        ahead = self._account.ahead() if self._options.paced else None
        return 0.0 if ahead is None or ahead <= FAR_AHEAD else min(ahead - FAR_AHEAD + _POLL, 1.0)

    def _deliver(self, request: Request, piece: Piece) -> None:
        if request.finish_reason is not FinishReason.STOP:
            raise EngineError(f"synthesis {self.id} ended by {request.finish_reason}: {request.error or 'no result'}")
        chunk = self._chunk(request.result, piece)
        request.result = None
        self._account.add(chunk, len(piece.utterance.ids), request.marks.arrived, request.marks.finished)
        self._hand_over(chunk)

    def _chunk(self, speech: Speech, piece: Piece) -> SpeechChunk:
        samples = speech.samples.numpy()
        if is_silent(samples):
            raise EngineError(f"the model made no sound of {piece.text[:80]!r}")
        cut = trimmed(np.clip(samples, -1.0, 1.0), self.rate, piece.pause)
        start = self._account.num_samples / self.rate
        return SpeechChunk(
            cut.samples, self.rate, start, piece.text, piece.timed_words(speech, start, cut.offset, self.rate)
        )

    def _hand_over(self, item: SpeechChunk | AntiphonError | None) -> None:
        if isinstance(item, SpeechChunk):
            while not self._unread.acquire(timeout=_POLL):
                if self._is_closed.is_set():
                    raise _ClosedError
        if self._on_chunk is not None:
            self._on_chunk(item)
        else:
            self._chunks.put(item)

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
