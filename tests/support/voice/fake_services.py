"""`FakeServices`: scripted hearing, answers and speech, on the event loop's clock."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from antiphon.audio.samples import Floats
from antiphon.errors import EngineError
from antiphon.runtime.calls.speech import SpeechChunk, TimedWord
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions
from antiphon.runtime.voice.items import Item, Message
from antiphon.runtime.voice.services import AnswerPiece, AnswerUsage, HeardText
from antiphon.runtime.voice.settings import VoiceSettings
from antiphon.text.tool_calls.pieces import Content
from support.voice.fake_hearing import FakeHearing, HearingDelays

#: Samples per second of the fake speech.
RATE = 100
SECONDS_PER_WORD = 0.4


@dataclass
class AnswerScript:
    """Pieces of an answer, `delay` seconds before each, and the answer's end or error."""

    pieces: Sequence[AnswerPiece]
    delay: float = 0.05
    opening: float = 0.02
    error: Exception | None = None
    is_cut: bool = False
    is_repeating: bool = False


def says(text: str, **options: object) -> AnswerScript:
    """Build an answer that comes word by word."""
    words = text.split(" ")
    pieces = [Content(word if index == 0 else f" {word}") for index, word in enumerate(words)]
    return AnswerScript(pieces, **options)  # type: ignore[arg-type]


class Call:
    """Open call of the engine; it counts as open until it is closed."""

    def __init__(self, services: FakeServices) -> None:
        self._services = services
        self.is_closed = False
        self.error: Exception | None = None
        services.open_calls.add(self)
        services.num_calls += 1

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._services.open_calls.discard(self)
            self._services.on_close(self)

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self.error is not None:
            raise self.error


class FakeAnswer(Call):
    def __init__(self, services: FakeServices, script: AnswerScript, items: Sequence[Item]) -> None:
        super().__init__(services)
        self.items = list(items)
        self._script = script
        self._left = deque(script.pieces)
        self._num_read = 0

    @property
    def usage(self) -> AnswerUsage:
        is_cut, is_repeating = self._script.is_cut and not self._left, self._script.is_repeating and not self._left
        return AnswerUsage(len(self.items), 0, self._num_read, is_cut, is_repeating)

    async def __anext__(self) -> AnswerPiece:
        await self.wait(self._script.delay)
        if self.is_closed:
            raise StopAsyncIteration
        if not self._left:
            if self._script.error is not None:
                raise self._script.error
            raise StopAsyncIteration
        self._num_read += 1
        return self._left.popleft()


class FakeSynthesis(Call):
    """Synthesis word by word; a chunk ends at the last comma so far, or at the end of the text."""

    def __init__(self, services: FakeServices, delay: float) -> None:
        super().__init__(services)
        self._delay = delay
        self._text = ""
        self._is_ended = False
        self._seconds = 0.0
        self._changed = asyncio.Event()
        self._num_words = 0

    def append(self, text: str) -> None:
        self._text += text
        self._changed.set()

    def end_text(self) -> None:
        self._is_ended = True
        self._changed.set()

    def close(self) -> None:
        super().close()
        self._changed.set()

    def fail(self) -> None:
        self._changed.set()

    async def __anext__(self) -> SpeechChunk:
        while True:
            if self.error is not None:
                raise self.error
            end = self._text.rfind(",") + 1 or (len(self._text) if self._is_ended else 0)
            words = self._text[:end].split()
            if words:
                await self.wait(self._delay)
                text, self._text = self._text[:end], self._text[end:]
                return self._chunk(text, words)
            if self._is_ended or self.is_closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()

    def _chunk(self, text: str, words: list[str]) -> SpeechChunk:
        start, step = self._seconds, SECONDS_PER_WORD
        timed = tuple(
            TimedWord(word.strip(",."), start + index * step, start + (index + 1) * step)
            for index, word in enumerate(words)
        )
        self._seconds += step * len(words)
        return SpeechChunk(np.zeros(round(step * len(words) * RATE), np.float32), RATE, start, text, timed)


@dataclass(eq=False)
class FakeServices:
    """Voice services without models. `script` returns the next answer to a conversation.

    `kill` makes every open call fail; new calls fail until the engine has restarted.
    """

    script: Callable[[Sequence[Item], VoiceSettings], AnswerScript] = lambda items, settings: says("yes, it is so")
    delays: HearingDelays = field(default_factory=HearingDelays)
    speech_delay: float = 0.1
    synthesis: type[FakeSynthesis] = FakeSynthesis
    open_calls: set[Call] = field(default_factory=set)
    num_calls: int = 0
    on_close: Callable[[Call], None] = lambda call: None
    restart_seconds: float = 0.3
    answers: list[FakeAnswer] = field(default_factory=list)
    prefills: list[list[Item]] = field(default_factory=list)
    num_prefilling: int = 0
    most_prefilling: int = 0
    hearings: list[FakeHearing] = field(default_factory=list)
    _dead_until: float = 0.0

    def kill(self) -> None:
        """Fail all open calls as if the engine process had died; new calls fail for `restart_seconds`."""
        self._dead_until = asyncio.get_running_loop().time() + self.restart_seconds
        for call in list(self.open_calls):
            call.error = EngineError("the engine process died")
            if isinstance(call, FakeSynthesis | FakeHearing):
                call.fail()

    async def _opened(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if asyncio.get_running_loop().time() < self._dead_until:
            raise EngineError("the engine process died")

    async def hear(self, options: HearingOptions, model: str | None) -> FakeHearing:
        await self._opened(0.03)
        hearing = FakeHearing(self, options, self.delays)
        self.hearings.append(hearing)
        return hearing

    async def answer(self, items: Sequence[Item], settings: VoiceSettings) -> FakeAnswer:
        script = self.script(items, settings)
        await self._opened(script.opening)
        answer = FakeAnswer(self, script, items)
        self.answers.append(answer)
        return answer

    async def prefill(self, items: Sequence[Item], settings: VoiceSettings) -> None:
        self.prefills.append(list(items))
        self.num_prefilling += 1
        self.most_prefilling = max(self.most_prefilling, self.num_prefilling)
        try:
            await self._opened(0.2)
        finally:
            self.num_prefilling -= 1

    async def speak(self, settings: VoiceSettings) -> FakeSynthesis:
        await self._opened(0.01)
        return self.synthesis(self, self.speech_delay)

    async def transcribe(self, samples: Floats, options: TranscriptionOptions, model: str | None) -> HeardText:
        await self._opened(0.2)
        return HeardText("said in a message", "en", len(samples) / 16_000)


def texts(items: Sequence[Item]) -> list[str]:
    return [item.text for item in items if isinstance(item, Message)]
