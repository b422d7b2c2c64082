"""`AsyncEngine`: the same engine for asyncio. Readers are woken once a step, not once a token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any

from torch import Tensor

from antiphon.audio.samples import RawFormat
from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import EngineError
from antiphon.runtime.async_synthesis import AsyncSynthesis
from antiphon.runtime.async_transcription import AsyncLiveSession, AsyncTranscription
from antiphon.runtime.config import EngineConfig
from antiphon.runtime.engine import EngineBase, _params_for, _several, embedding_of
from antiphon.runtime.loading import LoadedModel
from antiphon.runtime.recording import SoundSource, open_recording
from antiphon.runtime.requests import Prompt
from antiphon.runtime.speaking import speech_options
from antiphon.runtime.streams import Completion, Delta, TextOutput
from antiphon.runtime.transcribing import transcription_options
from antiphon.runtime.transcription_options import DEFAULT_INTERVAL
from antiphon.runtime.voice_activity import voice_model
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.text.tokenizer import Tokenizer


class AsyncStream:
    """An asynchronous iterator of deltas. Leaving it early (break, cancellation, `aclose`) cancels the request."""

    def __init__(self, engine: AsyncEngine, tokenizer: Tokenizer, request: Request) -> None:
        self._engine = engine
        self._event = asyncio.Event()
        self._is_dirty = False
        self.output = TextOutput(tokenizer, request, self._mark)

    @property
    def id(self) -> str:
        """The request's id, as in traces."""
        return self.output.request.id

    def _mark(self) -> None:
        """In the engine's thread: have the reader woken after this step."""
        if not self._is_dirty:
            self._is_dirty = True
            self._engine.dirty.append(self)

    def wake(self) -> None:
        """In the reader's loop."""
        self._is_dirty = False
        self._event.set()

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self._deltas()

    async def _deltas(self) -> AsyncIterator[Delta]:
        try:
            while True:
                self._event.clear()
                done = self.output.is_done
                delta = self.output.read()
                if delta is not None:
                    yield delta
                elif done:
                    break
                else:
                    await self._event.wait()
        finally:
            self.close()
        if self.output.request.finish_reason is FinishReason.FAILED:
            raise EngineError(f"request {self.id} failed: {self.output.request.error}")

    async def wait(self) -> Completion:
        """Read to the end and return the whole answer."""
        async for _ in self:
            pass
        return self.output.completion()

    def completion(self) -> Completion:
        """The whole answer of a stream that was read to its end."""
        return self.output.completion()

    def cancel(self) -> None:
        """Cancel the request. What was generated so far can still be read."""
        if not self.output.is_done:
            self._engine.abort(self.id, FinishReason.CANCELLED)

    def close(self) -> None:
        """Cancel the request if it is still running and free its memory."""
        if not self.output.is_done:
            self._engine.abort(self.id, FinishReason.DISCONNECTED)

    async def aclose(self) -> None:
        """The same as `close`, for `contextlib.aclosing`."""
        self.close()


class AsyncEngine(EngineBase):
    """The same engine for asyncio. Create it inside a running event loop and use it from that loop only.

    Arguments are those of `Engine`.
    """

    def __init__(
        self,
        *models: str | LoadedModel,
        config: EngineConfig | None = None,
        offline: bool = False,
        **options: Any,
    ) -> None:
        self._event_loop = asyncio.get_running_loop()
        self.dirty: list[AsyncStream] = []
        super().__init__(*models, config=config, offline=offline, after_step=self._wake_readers, **options)

    def _wake_readers(self) -> None:
        if self.dirty:
            dirty, self.dirty = self.dirty, []
            if not self._event_loop.is_closed():
                self._event_loop.call_soon_threadsafe(_wake_all, dirty)

    def abort(self, request_id: str, reason: FinishReason = FinishReason.CANCELLED) -> None:
        """Cancel a request by its id, as `AsyncStream.id` has it."""
        self._loop.abort(request_id, reason)

    async def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        model: str | None = None,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
        grammar: GrammarSpec | None = None,
        cache_salt: str = "",
    ) -> AsyncStream:
        """Generate one answer and return it as a stream of text.

        Errors in the request (a prompt that is too long, a bad grammar) and overload are raised here.
        """
        details = dict(priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        streams = await self._submit([prompt], [params or SamplingParams()], model, details)
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
        grammar: GrammarSpec | None = None,
        cache_salt: str = "",
    ) -> list[Completion]:
        """Generate whole answers: `n` for each prompt, in the order of the prompts."""
        several = _several(prompts)
        details = dict(n=n, priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        streams = await self._submit(several, _params_for(several, params), model, details)
        return list(await asyncio.gather(*(stream.wait() for stream in streams)))

    async def _submit(
        self, prompts: Sequence[Prompt], params: Sequence[SamplingParams], model: str | None, details: dict[str, Any]
    ) -> list[AsyncStream]:
        def make() -> list[Request]:
            pairs = zip(prompts, params, strict=True)
            return [request for prompt, own in pairs for request in self._make(prompt, own, model, **details)]

        # Tokenizing and compiling take milliseconds; they must not hold up the event loop.
        requests = await asyncio.to_thread(make)
        streams = [AsyncStream(self, self._factories[r.model].loaded.tokenizer, r) for r in requests]
        try:
            await asyncio.wrap_future(self._loop.add(requests))
        except asyncio.CancelledError:
            for stream in streams:  # they may have been taken in already
                stream.close()
            raise
        return streams

    async def embed(self, texts: str | Sequence[str], *, model: str | None = None) -> list[Tensor]:
        """Embed texts: one vector for each, in order."""
        listed = [texts] if isinstance(texts, str) else texts
        requests = await asyncio.to_thread(self._embedding_requests, listed, model)
        ended = [self._event_loop.create_future() for _ in requests]
        for request, future in zip(requests, ended, strict=True):
            request.on_end = _resolver(self._event_loop, future)
        await asyncio.wrap_future(self._loop.add(requests))
        await asyncio.gather(*ended)
        return [embedding_of(request) for request in requests]

    async def transcribe(
        self, source: SoundSource, *, model: str | None = None, raw: RawFormat | None = None, **options: Any
    ) -> AsyncTranscription:
        """Transcribe a recording. The result gives segments as they become final; its `wait` gives the transcript.

        Options are the fields of `TranscriptionOptions`.
        """
        checked = transcription_options(options)
        transcriber = await asyncio.to_thread(self._transcriber, model)
        recording = await asyncio.to_thread(open_recording, source, raw=raw)
        return AsyncTranscription(transcriber, recording, checked)

    async def listen(
        self, *, model: str | None = None, interval: float = DEFAULT_INTERVAL, **options: Any
    ) -> AsyncLiveSession:
        """Start a live transcription: push sound as it arrives and read updates."""
        checked = transcription_options(options)
        transcriber = await asyncio.to_thread(self._transcriber, model)
        await asyncio.to_thread(voice_model)
        return AsyncLiveSession(transcriber, checked, interval)

    async def speak(
        self, text: str | AsyncIterable[str], *, model: str | None = None, **options: Any
    ) -> AsyncSynthesis:
        """Speak a text. The result gives chunks of sound, the first while the rest is being synthesised.

        The text may be an asynchronous iterator of strings that are still being written. Options are the fields of
        `SpeechOptions`.
        """
        checked = speech_options(options)
        speaker, port = await asyncio.to_thread(self._speaker, model)
        await asyncio.to_thread(speaker.reader, checked)  # loads what reading needs, and refuses what it cannot
        return AsyncSynthesis(speaker, port, text, checked)

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await asyncio.to_thread(self.close)


def _wake_all(streams: list[AsyncStream]) -> None:
    for stream in streams:
        stream.wake()


def _resolver(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> Any:
    def resolve(_: Request) -> None:
        loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(None))

    return resolve
