"""`EngineVoice`: services of a voice session, over an engine in this process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.engine.request import Priority
from antiphon.errors import EngineError, TooManyTokensError
from antiphon.models.base.companions import END_OF_TURN
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions, TurnDetection
from antiphon.runtime.frontend.async_engine import AsyncEngine
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.text.stream import AsyncStream
from antiphon.runtime.voice.chat_history import chat_messages, last_turn, longest_fitting, room_for_answer
from antiphon.runtime.voice.items import Item
from antiphon.runtime.voice.repetition import RepetitionDetector
from antiphon.runtime.voice.services import Answer, AnswerPiece, AnswerUsage, HeardText, Hearing, StreamingSynthesis
from antiphon.runtime.voice.settings import VoiceSettings
from antiphon.text.chat_template import ChatPrompt
from antiphon.text.reasoning import THINK, reasoning_options
from antiphon.text.tool_calls.output_parser import Content, OutputParser, Piece


class EngineVoice:
    """Voice services over three loaded models; model names in a session's settings are ignored.

    Reasoning is turned off, since it would be silence; reasoning that a model generates anyway is left out.
    """

    def __init__(self, engine: AsyncEngine, chat: LoadedModel, transcription: str, speech: str) -> None:
        self._engine = engine
        self._chat = chat
        self._transcription = transcription
        self._speech = speech

    async def warm_up(self, settings: VoiceSettings) -> None:
        """Use each model once, so that the first turn does not wait for lazy initialisation."""
        hearing = await self.hear(HearingOptions(settings.turns, settings.transcription), None)
        hearing.close()
        if settings.turns.detection is TurnDetection.SEMANTIC_VAD:
            await asyncio.to_thread(self._engine.detectors.run, END_OF_TURN, np.zeros(SPEECH_RATE, np.float32))
        await self.transcribe(np.zeros(SPEECH_RATE, np.float32), TranscriptionOptions(voice_activity=False), None)
        await self.prefill([], settings)
        options = dict(voice=settings.voice, speed=settings.speed)
        await (await self._engine.speak("Ready.", model=self._speech, **options)).wait()

    async def hear(self, options: HearingOptions, model: str | None) -> Hearing:
        values = dict(
            turns=options.turns,
            transcription=options.transcription,
            hypotheses=options.hypotheses,
            interval=options.interval,
            backoff=options.backoff,
        )
        return await self._engine.hear(model=self._transcription, **values)

    async def answer(self, items: Sequence[Item], settings: VoiceSettings) -> Answer:
        prompt = await self._fitting_prompt(items, settings)
        given = {} if settings.temperature is None else {"temperature": settings.temperature}
        limit = settings.token_limit or self._context
        params = self._engine.sampling_defaults(self._chat.name, max_tokens=limit, **given)
        stream = await self._engine.stream(prompt.ids, params, model=self._chat.name, priority=Priority.HIGH)
        template = self._chat.chat_template
        thinks = template is not None and THINK in template.source
        parser = OutputParser(reasoning=thinks, in_reasoning=thinks and prompt.text.rstrip().endswith(THINK))
        return EngineAnswer(stream, parser, len(prompt.ids))

    async def prefill(self, items: Sequence[Item], settings: VoiceSettings) -> None:
        prompt = await asyncio.to_thread(self._prompt, items, settings, self._context, is_open=True)
        params = self._engine.sampling_defaults(self._chat.name, max_tokens=1)
        try:
            stream = await self._engine.stream(prompt.ids, params, model=self._chat.name, priority=Priority.LOW)
            try:
                await stream.wait()
            finally:
                stream.close()
        except EngineError:
            pass  # the answer itself will report it

    async def speak(self, settings: VoiceSettings) -> StreamingSynthesis:
        options = dict(voice=settings.voice, speed=settings.speed, paced=True, priority=Priority.HIGH)
        return await self._engine.speak(None, model=self._speech, **options)

    async def transcribe(self, samples: Floats, options: TranscriptionOptions, model: str | None) -> HeardText:
        known: dict[str, Any] = dict(
            language=options.language, prompt=options.prompt, voice_activity=options.voice_activity
        )
        async with await self._engine.transcribe(samples, model=self._transcription, **known) as transcription:
            transcript = await transcription.wait()
        return HeardText(transcript.text, transcript.language, len(samples) / SPEECH_RATE)

    # -- prompts ------------------------------------------------------------------------------------------------

    @property
    def _context(self) -> int:
        return self._chat.causal_lm().max_positions

    async def _fitting_prompt(self, items: Sequence[Item], settings: VoiceSettings) -> ChatPrompt:
        """Build the prompt without the oldest turns that leave no room for an answer."""
        limit = self._context - room_for_answer(settings.token_limit, self._context)

        async def prepare(some: Sequence[Item]) -> ChatPrompt | None:
            try:
                return await asyncio.to_thread(self._prompt, some, settings, limit)
            except TooManyTokensError:
                return None

        found: ChatPrompt | None = await longest_fitting(items, prepare)
        if found is not None:
            return found
        return await asyncio.to_thread(self._prompt, last_turn(items), settings, self._context)

    def _prompt(
        self, items: Sequence[Item], settings: VoiceSettings, max_tokens: int, *, is_open: bool = False
    ) -> ChatPrompt:
        """Build a prompt; blocking. An open prompt ends with the last message, which may continue."""
        template = self._chat.chat_template
        assert template is not None
        make = partial(template.prompt, add_generation_prompt=not is_open, max_tokens=max_tokens)
        options = reasoning_options(template, is_on=False, effort="none")
        return make(self._chat.tokenizer, chat_messages(items, settings.instructions), **options)


class EngineAnswer:
    """Answer of the chat model. `close` aborts its request."""

    def __init__(self, stream: AsyncStream, parser: OutputParser, prompt_tokens: int) -> None:
        self._stream = stream
        self._deltas = aiter(stream)
        self._parser = parser
        self._repetition = RepetitionDetector()
        self._pieces: deque[AnswerPiece] = deque()
        self._usage = AnswerUsage(prompt_tokens)
        self._has_ended = False

    @property
    def usage(self) -> AnswerUsage:
        return self._usage

    def close(self) -> None:
        self._has_ended = True
        self._pieces.clear()
        self._stream.close()

    async def __anext__(self) -> AnswerPiece:
        while not self._pieces:
            if self._has_ended:
                raise StopAsyncIteration
            try:
                delta = await anext(self._deltas)
            except StopAsyncIteration:
                if not self._has_ended:
                    self._end()
                continue
            tokens = self._usage.output_tokens + len(delta.token_ids)
            self._usage = AnswerUsage(self._usage.input_tokens, output_tokens=tokens)
            self._take(self._parser.feed(delta.text))
            if self._repetition.push(delta.token_ids):
                self._stop()
        return self._pieces.popleft()

    def _stop(self) -> None:
        """End an answer that repeats itself."""
        self._take(self._parser.finish(is_cut=True))
        self._usage = replace(self._usage, is_repeating=True)
        self._has_ended = True
        self._stream.close()

    def _end(self) -> None:
        self._has_ended = True
        done = self._stream.completion()
        is_cut = done.finish_reason == "length"
        self._take(self._parser.finish(is_cut))
        self._usage = AnswerUsage(done.prompt_tokens, done.cached_tokens, len(done.token_ids), is_cut)

    def _take(self, found: Sequence[Piece]) -> None:
        self._pieces += [piece for piece in found if isinstance(piece, Content)]
