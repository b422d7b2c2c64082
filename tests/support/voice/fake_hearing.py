"""`FakeHearing`: turn detection by loudness. A block of sound is speech if its first sample is above 0.5.

Events follow the order that `runtime/calls/hearing.py` documents. Speech has a word every 200 ms.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from antiphon.audio.samples import Floats
from antiphon.runtime.calls.hearing import (
    Cleared,
    CommitEmpty,
    HearingEvent,
    IdleTimeout,
    SpeechStarted,
    TurnDropped,
    TurnEnded,
    TurnFailed,
    TurnGuess,
    TurnLooked,
    TurnMarks,
    TurnResumed,
    TurnText,
    TurnTranscript,
)
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions, TurnDetection, TurnSettings

if TYPE_CHECKING:
    from support.voice.fake_services import FakeServices

WORD_MS = 200
GUESS_MS, MIN_COMMIT_MS = 100, 100


@dataclass
class HearingDelays:
    """Behaviour of turns, by turn number: seconds until a guess and a transcript, and how the turn ends."""

    guess: Callable[[int], float] = lambda turn: 0.1
    transcript: Callable[[int], float] = lambda turn: 0.3
    is_noise: Callable[[int], bool] = lambda turn: False
    is_dropped: Callable[[int], bool] = lambda turn: False
    fails: Callable[[int], bool] = lambda turn: False


class FakeHearing:
    def __init__(self, services: FakeServices, options: HearingOptions, delays: HearingDelays) -> None:
        self._services = services
        self._turns = options.turns
        self._delays = delays
        self._loop = asyncio.get_running_loop()
        self._events: deque[HearingEvent] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.is_closed = False
        self.error: Exception | None = None
        self.min_speech, self.is_held = 0, False
        self.position = 0
        self._turn = 0
        self._is_open = False
        self._buffered = self._spoken = self._run = self._silence = self._start = self._end = 0
        self._guessed: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._idle_from: int | None = 0
        services.open_calls.add(self)  # type: ignore[arg-type]
        services.num_calls += 1

    # -- controls -----------------------------------------------------------------------------------------------

    def push(self, samples: Floats) -> None:
        milliseconds = len(samples) // 16
        self.position += milliseconds
        self._buffered += milliseconds
        if self._turns.detection is TurnDetection.MANUAL and not self._is_open:
            self._hear_manual(milliseconds if samples[0] > 0.5 else 0)
        elif samples[0] > 0.5:
            self._hear_speech(milliseconds)
        else:
            self._hear_silence(milliseconds)

    def commit(self) -> None:
        if self._buffered < MIN_COMMIT_MS:
            self._emit(CommitEmpty(self._buffered))
            return
        if not self._is_open:
            self._turn += 1
            self._start = self.position - self._buffered
        self._end = self.position
        self._finish()

    def clear(self) -> None:
        if self._is_open:
            self._drop()
        self._reset()
        self._emit(Cleared(self.position))

    def configure(self, turns: TurnSettings, transcription: TranscriptionOptions) -> None:
        self._turns = turns

    def set_min_speech(self, milliseconds: int) -> None:
        self.min_speech = milliseconds

    def hold_hypotheses(self, is_held: bool) -> None:
        self.is_held = is_held

    def rest(self, milliseconds: int = 0) -> None:
        self._idle_from = self.position + milliseconds

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            for timer in self._timers:
                timer.cancel()
            self._services.open_calls.discard(self)  # type: ignore[arg-type]
            self._services.on_close(self)  # type: ignore[arg-type]
            self._wake()

    def fail(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._wake()

    # -- turns --------------------------------------------------------------------------------------------------

    def _hear_speech(self, milliseconds: int) -> None:
        self._idle_from = None
        if not self._is_open:
            self._run += milliseconds
            if self._run < max(self.min_speech, 1):
                return
            self._turn += 1
            self._is_open, self._spoken, self._silence = True, self._run, 0
            self._start = max(0, self.position - self._run - self._turns.prefix_ms)
            self._emit(SpeechStarted(self._turn, self._start))
            return
        if self._silence >= GUESS_MS:
            self._void_guess()
            self._emit(TurnResumed(self._turn))
        self._silence = 0
        self._speak(milliseconds, self._turn)

    def _hear_manual(self, milliseconds: int) -> None:
        self._speak(milliseconds, self._turn + 1)

    def _speak(self, milliseconds: int, turn: int) -> None:
        before, self._spoken = self._spoken, self._spoken + milliseconds
        if self._spoken // 1000 > before // 1000 and not self.is_held:
            words = self._text(turn).split()
            self._emit(TurnText(turn, " ".join(words[:-3]), " ".join(["", *words[-3:]])))

    def _hear_silence(self, milliseconds: int) -> None:
        self._run = 0
        idle = self._turns.idle_timeout_ms
        if not self._is_open:
            if idle is not None and self._idle_from is not None and self.position - self._idle_from >= idle:
                self._emit(IdleTimeout(self._idle_from, self.position))
                self._idle_from = None
            return
        if self._silence == 0:
            self._end = self.position - milliseconds
        self._silence += milliseconds
        if self._silence >= GUESS_MS and self._timer is None and self._guessed is None:
            text = self._text()
            self._timer = self._later(self._delays.guess(self._turn), lambda: self._guess(text))
        if self._silence >= self._turns.silence_ms:
            if self._delays.is_dropped(self._turn):
                self._drop()
                self._reset()
            else:
                self._finish()

    def _guess(self, text: str) -> None:
        self._timer, self._guessed = None, text
        self._emit(TurnLooked(self._turn, 0.9, self._end))
        self._emit(TurnGuess(self._turn, text, self._end))

    def _void_guess(self) -> None:
        self._guessed = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self) -> None:
        turn, text, guessed, now = self._turn, self._text(), self._guessed, self._loop.time()
        marks = TurnMarks(now - self._silence / 1000, now)
        self._emit(TurnEnded(turn, self._start, self._end, marks))
        seconds = (self._end - self._start) / 1000
        self._reset()
        done = TurnMarks(marks.speech_ended, now, None, 0.0, now, now, guessed == text)
        final = TurnTranscript(turn, text, "en", (), seconds, done)
        if guessed == text:
            self._emit(final)
        elif self._delays.fails(turn):
            self._later(self._delays.transcript(turn), lambda: self._emit(TurnFailed(turn, "EngineError", "no")))
        else:
            self._later(self._delays.transcript(turn), lambda: self._emit(final))

    def _drop(self) -> None:
        self._emit(TurnDropped(self._turn))

    def _reset(self) -> None:
        self._void_guess()
        self._is_open = False
        self._buffered = self._spoken = self._run = self._silence = 0

    def _text(self, turn: int | None = None) -> str:
        turn = turn or self._turn
        if self._delays.is_noise(turn):
            return ""
        return " ".join(f"t{turn}w{index}" for index in range(self._spoken // WORD_MS))

    # -- events -------------------------------------------------------------------------------------------------

    def _later(self, seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        def act() -> None:
            self._timers.discard(timer)
            action()

        timer = self._loop.call_later(seconds, act)
        self._timers.add(timer)
        return timer

    def _emit(self, event: HearingEvent) -> None:
        self._events.append(event)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def __anext__(self) -> HearingEvent:
        while True:
            if self.error is not None:
                raise self.error
            if self.is_closed:
                raise StopAsyncIteration
            if self._events:
                return self._events.popleft()
            self._waiter = self._loop.create_future()
            await self._waiter
