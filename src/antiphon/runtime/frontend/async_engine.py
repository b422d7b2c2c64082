"""`AsyncEngine`: the engine for asyncio. Readers are woken once a step, not once a token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack, overload

import torch
from torch import Tensor

from antiphon.argument_types import check_type
from antiphon.audio.samples import RawFormat
from antiphon.engine.request import FinishReason, Priority
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import InvalidRequestError
from antiphon.runtime.calls.async_reader import AsyncReader
from antiphon.runtime.calls.events import Embeddings
from antiphon.runtime.calls.sinks import AsyncioSink
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.runtime.calls.transcription_options import DEFAULT_INTERVAL, TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions
from antiphon.runtime.frontend.arguments import (
    SPOKEN_ASYNC,
    TOKENS,
    ParamSets,
    as_messages,
    as_prompt,
    as_prompts,
    from_options,
)
from antiphon.runtime.frontend.front_end import FrontEnd
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.speech.call import SpeechCall
from antiphon.runtime.speech.stream import AsyncSynthesis
from antiphon.runtime.text.calls import EmbeddingCall, SampleControl
from antiphon.runtime.text.output import Completion
from antiphon.runtime.text.requests import Messages, Prompt, RequestOptions
from antiphon.runtime.text.stream import AsyncStream
from antiphon.runtime.transcription.call import TranscriptionCall
from antiphon.runtime.transcription.listening.call import LiveCall
from antiphon.runtime.transcription.sound_source import SoundSource, open_sound
from antiphon.runtime.transcription.stream import AsyncLiveSession, AsyncTranscription
from antiphon.runtime.voice.hearing import HearingCall
from antiphon.runtime.voice.hearing_stream import AsyncHearing
from antiphon.text.grammar_spec import Grammar


class AsyncEngine(FrontEnd):
    """Engine for asyncio. Create it inside a running event loop and use it from that loop only.

    Arguments are those of `Engine`.
    """

    _sink: AsyncioSink

    def __init__(
        self,
        *models: str | Path | LoadedModel,
        config: EngineConfig | None = None,
        offline: bool = False,
        adapters: Mapping[str, str | Path] | None = None,
        **options: Any,
    ) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise InvalidRequestError(
                "an AsyncEngine belongs to a running event loop; create it in a coroutine, or use Engine"
            ) from None
        sink = AsyncioSink(loop)
        super().__init__(sink, *models, config=config, offline=offline, adapters=adapters, **options)

    def abort(self, request_id: str, reason: FinishReason = FinishReason.CANCELLED) -> None:
        """Cancel a request by its `AsyncStream.id`."""
        self._loop.abort_all([request_id], reason)

    # -- text ---------------------------------------------------------------------------------------------------

    @overload
    async def chat(
        self,
        messages: Messages,
        params: SamplingParams | None = None,
        *,
        n: None = None,
        **options: Unpack[RequestOptions],
    ) -> Completion: ...

    @overload
    async def chat(
        self, messages: Messages, params: SamplingParams | None = None, *, n: int, **options: Unpack[RequestOptions]
    ) -> list[Completion]: ...

    async def chat(
        self,
        messages: Messages,
        params: SamplingParams | None = None,
        *,
        n: int | None = None,
        model: str | None = None,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
        grammar: Grammar | None = None,
        cache_salt: str = "",
    ) -> Completion | list[Completion]:
        """Answer a conversation: one answer, or with `n` a list of them. The arguments are those of `Engine.chat`."""
        conversation = as_messages("messages", messages)
        count = 1 if n is None else n
        details = dict(n=count, model=model, priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        streams = await self._streams([conversation], params, details)
        answers = await asyncio.gather(*(stream.wait() for stream in streams))
        return answers[0] if n is None else list(answers)

    async def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        model: str | None = None,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
        grammar: Grammar | None = None,
        cache_salt: str = "",
    ) -> AsyncStream:
        """Generate one answer and return it as a stream of text.

        A conversation goes through the model's chat template; a text is continued as it is. Errors in the request (a
        prompt that is too long, a bad grammar) and overload are raised here.
        """
        details = dict(model=model, priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        streams = await self._streams([as_prompt("prompt", prompt)], params, details)
        return streams[0]

    async def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        n: int = 1,
        model: str | None = None,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
        grammar: Grammar | None = None,
        cache_salt: str = "",
    ) -> list[Completion]:
        """Continue prompts as they are, as `Engine.generate` does: `n` whole answers for each."""
        several = as_prompts(prompts)
        details = dict(n=n, model=model, priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        streams = await self._streams(several, params, details)
        return list(await asyncio.gather(*(stream.wait() for stream in streams)))

    async def _streams(
        self, prompts: Sequence[Prompt], params: ParamSets, details: Mapping[str, Any]
    ) -> list[AsyncStream]:
        # Tokenizing and compiling take milliseconds, which would block the event loop.
        outputs = await asyncio.to_thread(self._samples_of_all, prompts, params, details)
        streams = [AsyncStream(output, SampleControl(output.request, self._loop), self._sink) for output in outputs]
        try:
            await asyncio.wrap_future(self._loop.add([output.request for output in outputs]))
        except BaseException:
            for stream in streams:  # a cancelled wait: the engine may have accepted them already
                stream.close()
            raise
        return streams

    async def tokenize(
        self, text: str, *, model: str | None = None, add_special_tokens: bool = True, parse_special: bool = True
    ) -> list[int]:
        """Return the token ids of a text, as `Engine.tokenize` does."""
        self._check(text=text, model=model, add_special_tokens=add_special_tokens, parse_special=parse_special)
        tokenizer = self._tokenizer(model)
        return await asyncio.to_thread(
            tokenizer.encode, text, add_special_tokens=add_special_tokens, parse_special=parse_special
        )

    async def detokenize(
        self, tokens: Sequence[int], *, model: str | None = None, skip_special_tokens: bool = False
    ) -> str:
        """Return the text of token ids, as `Engine.detokenize` does."""
        self._check(model=model, skip_special_tokens=skip_special_tokens)
        check_type("tokens", tokens, TOKENS)
        return await asyncio.to_thread(self._tokenizer(model).decode, tokens, skip_special_tokens=skip_special_tokens)

    async def embed(self, texts: str | Sequence[str], *, model: str | None = None) -> list[Tensor]:
        """Embed texts: one vector for each, in order."""
        self._check(texts=texts, model=model)
        call = self._new_call(EmbeddingCall)
        listed = [texts] if isinstance(texts, str) else texts
        call.attach(await asyncio.to_thread(self.embedding_requests, call.id, listed, model))
        if not call.requests:
            return []
        async with AsyncReader[Embeddings](call, self._sink) as reader:
            await asyncio.wrap_future(call.submit(self._loop))
            return list(torch.from_numpy((await anext(reader)).vectors))

    # -- transcription ------------------------------------------------------------------------------------------

    async def transcribe(
        self, source: SoundSource, *, model: str | None = None, raw: RawFormat | None = None, **options: Any
    ) -> AsyncTranscription:
        """Transcribe a recording. The result yields segments as they become final; its `wait` returns the transcript.

        Options are the fields of `TranscriptionOptions`.
        """
        self._check(source=source, model=model, raw=raw)
        checked = from_options(TranscriptionOptions, options)
        transcriber = await asyncio.to_thread(self.transcriber, model)
        sound = await asyncio.to_thread(open_sound, source, raw=raw)
        call = self._new_call(TranscriptionCall)
        transcription = AsyncTranscription(call, self._sink)
        call.start(transcriber, sound, checked)
        return transcription

    async def listen(
        self, *, model: str | None = None, interval: float = DEFAULT_INTERVAL, **options: Any
    ) -> AsyncLiveSession:
        """Start a live transcription: push sound as it arrives and read updates."""
        self._check(model=model, interval=interval)
        checked = from_options(TranscriptionOptions, options)
        call = self._new_call(LiveCall)
        transcriber = await asyncio.to_thread(self.transcriber, model)
        await asyncio.to_thread(call.prepare, transcriber, checked, interval)
        session = AsyncLiveSession(call, self._sink)
        call.start()
        return session

    async def hear(self, *, model: str | None = None, **options: Any) -> AsyncHearing:
        """Detect turns of speech: push sound as it arrives, and read each turn's begin, end and transcript."""
        self._check(model=model)
        checked = from_options(HearingOptions, options)
        call = self._new_call(HearingCall)
        transcriber = await asyncio.to_thread(self.transcriber, model)
        await asyncio.to_thread(call.prepare, transcriber, checked)
        hearing = AsyncHearing(call, self._sink)
        call.start()
        return hearing

    # -- speech -------------------------------------------------------------------------------------------------

    async def speak(
        self, text: str | AsyncIterable[str] | None, *, model: str | None = None, **options: Any
    ) -> AsyncSynthesis:
        """Speak a text. The result yields chunks of sound, the first while the rest is being synthesised.

        The text may be an asynchronous iterator of strings that are still being written, or None: then the text comes
        from the result's `append` and `end_text`. Options are the fields of `SpeechOptions`.
        """
        self._check(model=model)
        check_type("text", text, SPOKEN_ASYNC)
        checked = from_options(SpeechOptions, options)
        call = self._new_call(SpeechCall)
        speaker = await asyncio.to_thread(self.speaker, model)
        whole, coming = (text, None) if text is None or isinstance(text, str) else (None, text)
        await asyncio.to_thread(call.prepare, speaker, self.port, whole, checked)
        synthesis = AsyncSynthesis(call, self._sink, call.rate)
        if coming is not None:
            synthesis.feed(coming)
        call.start()
        return synthesis

    async def __aenter__(self) -> AsyncEngine:
        self._check()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await asyncio.to_thread(self.close)
