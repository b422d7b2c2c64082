"""`GivenAnswers`: voice services that really hear and speak, with answers given in advance."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.engine.request import Priority
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions
from antiphon.runtime.frontend.async_engine import AsyncEngine
from antiphon.runtime.voice.items import Item, Message, Role
from antiphon.runtime.voice.services import Answer, AnswerPiece, AnswerUsage, HeardText, Hearing, StreamingSynthesis
from antiphon.runtime.voice.settings import VoiceSettings
from antiphon.text.tool_calls.pieces import Content


@dataclass
class SteppedClock:
    """Clock that stands still until its time is set."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class GivenAnswer:
    """Answer to give. With `is_open`, the response stays in progress after the text until it is interrupted."""

    text: str
    is_open: bool


class WrittenAnswer:
    """Answer that streams a given text word by word."""

    def __init__(self, given: GivenAnswer) -> None:
        words = given.text.split(" ")
        self._left = deque(word if index == 0 else f" {word}" for index, word in enumerate(words))
        self._is_open = given.is_open
        self._closed = asyncio.Event()
        self.usage = AnswerUsage()

    async def __anext__(self) -> AnswerPiece:
        await asyncio.sleep(0)
        if not self._left and self._is_open:
            await self._closed.wait()
        if not self._left or self._closed.is_set():
            raise StopAsyncIteration
        return Content(self._left.popleft())

    def close(self) -> None:
        self._closed.set()


class GivenAnswers:
    """`VoiceServices` over a real engine. Answer number n of the conversation is `answers[n]`.

    `history` is the conversation passed to the last answer.
    """

    def __init__(self, engine: AsyncEngine, transcription: str, speech: str, answers: Sequence[GivenAnswer]) -> None:
        self._engine = engine
        self._transcription, self._speech = transcription, speech
        self._answers = answers
        self.history: Sequence[Item] = ()

    async def hear(self, options: HearingOptions, model: str | None) -> Hearing:
        return await self._engine.hear(model=self._transcription, turns=options.turns, hypotheses=False)

    async def answer(self, items: Sequence[Item], settings: VoiceSettings) -> Answer:
        self.history = items
        return WrittenAnswer(self._answers[len(answers_in(items))])

    async def prefill(self, items: Sequence[Item], settings: VoiceSettings) -> None:
        pass

    async def speak(self, settings: VoiceSettings) -> StreamingSynthesis:
        """Synthesize without pacing, so that neither clauses nor sound depend on the machine's speed."""
        return await self._engine.speak(None, model=self._speech, priority=Priority.HIGH)

    async def transcribe(self, samples: Floats, options: TranscriptionOptions, model: str | None) -> HeardText:
        call = await self._engine.transcribe(samples, model=self._transcription, timestamps=False)
        return HeardText((await call.wait()).text, "en", len(samples) / SPEECH_RATE)


def answers_in(items: Sequence[Item]) -> list[Message]:
    return [item for item in items if isinstance(item, Message) and item.role is Role.ASSISTANT]
