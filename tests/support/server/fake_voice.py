"""Voice services without models: loud sound is speech, answers are prepared in advance, speech is a tone."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from antiphon.audio.samples import Floats
from antiphon.errors import EngineError
from antiphon.runtime.calls import hearing
from antiphon.runtime.calls.speech import SpeechChunk, TimedWord
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions, TurnDetection, TurnSettings
from antiphon.runtime.voice.items import Item
from antiphon.runtime.voice.services import AnswerPiece, AnswerUsage, HeardText
from antiphon.runtime.voice.settings import VoiceSettings
from antiphon.server.web.http.errors import ApiError, invalid
from antiphon.text.tool_calls.pieces import CallArguments, CallStart, Content

RATE = 16_000
VOICE_RATE = 24_000
LOUD = 0.1
#: Milliseconds of silence that end a turn.
SILENCE_MS = 100
FRAME_MS = 10


class FakeHearing:
    """Turn detection in 10 ms frames: a loud frame starts a turn, 100 ms without one end it.

    The N-th turn is transcribed as "turn N".
    """

    def __init__(self, options: HearingOptions) -> None:
        self._turns = options.turns
        self._events: asyncio.Queue[hearing.HearingEvent | Exception | None] = asyncio.Queue()
        self._rest = np.zeros(0, np.float32)
        self._at_ms = 0
        self._turn = 0
        self._start_ms: int | None = None
        self._loud_ms = 0
        self._since_commit = 0
        self._is_closed = False
        #: Seconds of each ended turn.
        self.turn_seconds: list[float] = []

    def _emit(self, event: hearing.HearingEvent) -> None:
        self._events.put_nowait(event)

    async def __anext__(self) -> hearing.HearingEvent:
        event = await self._events.get()
        if event is None:
            raise StopAsyncIteration
        if isinstance(event, Exception):
            raise event
        return event

    def push(self, samples: Floats) -> None:
        size = RATE * FRAME_MS // 1000
        self._rest = np.concatenate([self._rest, samples])
        while len(self._rest) >= size:
            frame, self._rest = self._rest[:size], self._rest[size:]
            self._at_ms += FRAME_MS
            self._since_commit += FRAME_MS
            if self._turns.detection is not TurnDetection.MANUAL:
                self._detect(bool(np.abs(frame).max() > LOUD))

    def _detect(self, is_loud: bool) -> None:
        if is_loud:
            self._loud_ms = self._at_ms
            if self._start_ms is None:
                self._turn += 1
                self._start_ms = max(0, self._at_ms - FRAME_MS)
                self._emit(hearing.SpeechStarted(self._turn, self._start_ms))
                self._emit(hearing.TurnText(self._turn, "turn", str(self._turn)))
        elif self._start_ms is not None and self._at_ms - self._loud_ms >= SILENCE_MS:
            self._end(self._start_ms, self._loud_ms)

    def _end(self, start_ms: int, end_ms: int) -> None:
        now = time.monotonic()
        marks = hearing.TurnMarks(now, now, transcription_started=now, transcription_ended=now)
        self._emit(hearing.TurnEnded(self._turn, start_ms, end_ms, marks))
        seconds = (end_ms - start_ms) / 1000
        self.turn_seconds.append(seconds)
        self._emit(hearing.TurnTranscript(self._turn, f"turn {self._turn}", "en", (), seconds, marks))
        self._start_ms = None
        self._since_commit = 0

    def commit(self) -> None:
        if self._start_ms is not None:
            self._end(self._start_ms, self._at_ms)
        elif self._since_commit < 100:
            self._emit(hearing.CommitEmpty(self._since_commit))
        else:
            self._turn += 1
            self._end(self._at_ms - self._since_commit, self._at_ms)

    def clear(self) -> None:
        if self._start_ms is not None:
            self._emit(hearing.TurnDropped(self._turn))
        self._start_ms, self._since_commit = None, 0
        self._emit(hearing.Cleared(self._at_ms))

    def configure(self, turns: TurnSettings, transcription: TranscriptionOptions) -> None:
        self._turns = turns

    def set_min_speech(self, milliseconds: int) -> None:
        pass

    def hold_hypotheses(self, is_held: bool) -> None:
        pass

    def rest(self, milliseconds: int = 0) -> None:
        pass

    def close(self) -> None:
        self._is_closed = True
        self._events.put_nowait(None)

    def die(self) -> None:
        self._events.put_nowait(EngineError("the engine process died"))


class FakeAnswer:
    """Answer whose pieces become available once `go` is set."""

    def __init__(self, pieces: Sequence[AnswerPiece], go: asyncio.Event) -> None:
        self._pieces = deque(pieces)
        self._go = go
        self.is_closed = False

    async def __anext__(self) -> AnswerPiece:
        await self._go.wait()
        await asyncio.sleep(0)
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.popleft()

    @property
    def usage(self) -> AnswerUsage:
        return AnswerUsage(11, 4, 7)

    def close(self) -> None:
        self.is_closed = True


class FakeSynthesis:
    """Synthesis in which each appended text becomes a chunk of 100 ms."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[SpeechChunk | None] = asyncio.Queue()
        self._num_chunks = 0

    def append(self, text: str) -> None:
        samples = (0.25 * np.sin(np.arange(VOICE_RATE // 10) / 10)).astype(np.float32)
        start = self._num_chunks / 10
        self._num_chunks += 1
        words = (TimedWord(text, start, start + 0.1),)
        self._chunks.put_nowait(SpeechChunk(samples, VOICE_RATE, start, text, words))

    def end_text(self) -> None:
        self._chunks.put_nowait(None)

    async def __anext__(self) -> SpeechChunk:
        chunk = await self._chunks.get()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    def close(self) -> None:
        self._chunks.put_nowait(None)


@dataclass
class FakeVoice:
    """Fake voice services of a session, with a record of its requests and open calls."""

    answers: deque[Sequence[AnswerPiece]] = field(default_factory=deque)
    #: Cleared by a test to hold answers back.
    go: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[tuple[list[Item], VoiceSettings]] = field(default_factory=list)
    opened: list[FakeAnswer] = field(default_factory=list)
    hearings: list[FakeHearing] = field(default_factory=list)
    is_closed: bool = False
    #: Turn detection modes that were prepared, and the error that preparing raises instead, if any.
    detections: list[TurnDetection] = field(default_factory=list)
    no_detectors: ApiError | None = None
    #: Names of the only voices.
    voices: frozenset[str] = frozenset({"alloy", "ash"})
    #: Cleared by a test while the speech model is supposedly loading.
    speaks: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.go.set()
        self.speaks.set()

    def close(self) -> None:
        self.is_closed = True

    async def have_detectors(self, turns: TurnSettings) -> None:
        if self.no_detectors is not None:
            raise self.no_detectors
        self.detections.append(turns.detection)

    async def check_voice(self, settings: VoiceSettings) -> None:
        await self.speaks.wait()
        if settings.voice not in self.voices:
            raise invalid(f"there is no voice {settings.voice!r}; voices: {', '.join(sorted(self.voices))}", "voice")

    async def hear(self, options: HearingOptions, model: str | None) -> FakeHearing:
        self.hearings.append(FakeHearing(options))
        return self.hearings[-1]

    async def answer(self, items: Sequence[Item], settings: VoiceSettings) -> FakeAnswer:
        self.asked.append((list(items), settings))
        pieces = self.answers.popleft() if self.answers else text("Hello ", "there.")
        self.opened.append(FakeAnswer(pieces, self.go))
        return self.opened[-1]

    async def prefill(self, items: Sequence[Item], settings: VoiceSettings) -> None:
        pass

    async def speak(self, settings: VoiceSettings) -> FakeSynthesis:
        return FakeSynthesis()

    async def transcribe(self, samples: Floats, options: TranscriptionOptions, model: str | None) -> HeardText:
        return HeardText("a recording", "en", len(samples) / RATE)


def text(*pieces: str) -> list[AnswerPiece]:
    return [Content(piece) for piece in pieces]


def call(name: str, *arguments: str) -> list[AnswerPiece]:
    return [CallStart(0, name), *(CallArguments(0, piece) for piece in arguments)]
