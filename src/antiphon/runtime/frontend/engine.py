"""`Engine`: models in one process, with one scheduler and one memory budget, for callers in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Unpack, overload

import torch
from torch import Tensor

from antiphon.argument_types import check_type
from antiphon.audio.samples import RawFormat
from antiphon.engine.request import Priority
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.calls.events import Embeddings
from antiphon.runtime.calls.sinks import ThreadSink
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.runtime.calls.thread_reader import ThreadInbox
from antiphon.runtime.calls.transcript import LiveUpdate, Transcript, TranscriptEvent
from antiphon.runtime.calls.transcription_options import DEFAULT_INTERVAL, TranscriptionOptions
from antiphon.runtime.frontend.arguments import (
    SPOKEN,
    TOKENS,
    ParamSets,
    as_messages,
    as_prompt,
    as_prompts,
    from_options,
)
from antiphon.runtime.frontend.front_end import FrontEnd
from antiphon.runtime.frontend.streams import LiveSession, Stream, Synthesis
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.speech.call import SpeechCall
from antiphon.runtime.speech.text_feed import TextFeed
from antiphon.runtime.text.calls import EmbeddingCall, SampleControl
from antiphon.runtime.text.output import Completion, SampleOutput
from antiphon.runtime.text.requests import Messages, Prompt, RequestOptions
from antiphon.runtime.transcription.call import TranscriptionCall
from antiphon.runtime.transcription.listening.call import LiveCall
from antiphon.runtime.transcription.sound_source import SoundSource, open_sound
from antiphon.runtime.transcription.window.job_runner import CancelledTranscriptionError
from antiphon.text.grammar_spec import Grammar

MAX_TRANSCRIBE_THREADS = 64


class Engine(FrontEnd):
    """Models in this process, for any number of threads.

    `Engine("smollm2-135m", "whisper-base.en", kv_bytes=1 << 30)` loads models by catalog name, path or hub reference.
    Keyword arguments are the fields of `EngineConfig`, or pass `config`. With `offline` nothing is downloaded.
    `adapters` are LoRA adapters of the models, by name (`model:name` where several models could have it); see
    `load_adapter`. Requests of all threads are computed together. Use it as a context manager, or call `close`.

    A prompt is a text, a list of chat messages (`{"role": ..., "content": ...}`) or a list of token ids. `model` is
    needed only where several loaded models fit the call.
    """

    _sink: ThreadSink

    def __init__(
        self,
        *models: str | Path | LoadedModel,
        config: EngineConfig | None = None,
        offline: bool = False,
        adapters: Mapping[str, str | Path] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(ThreadSink(), *models, config=config, offline=offline, adapters=adapters, **options)

    # -- text ---------------------------------------------------------------------------------------------------

    @overload
    def chat(
        self,
        messages: Messages,
        params: SamplingParams | None = None,
        *,
        n: None = None,
        **options: Unpack[RequestOptions],
    ) -> Completion: ...

    @overload
    def chat(
        self, messages: Messages, params: SamplingParams | None = None, *, n: int, **options: Unpack[RequestOptions]
    ) -> list[Completion]: ...

    def chat(
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
        """Answer a conversation, a list of messages such as `{"role": "user", "content": "Hello"}`.

        The model's chat template makes the prompt; a model without one is an `InvalidRequestError`. Returns one answer,
        or with `n` a list of `n` answers. `stream(messages)` gives the same answer as it is generated. `grammar` is the
        form of the answer, or a pydantic class: then the answer's text is JSON that the class validates.
        """
        conversation = as_messages("messages", messages)
        count = 1 if n is None else n
        details = dict(n=count, model=model, priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        streams = self._streams([conversation], params, details)
        answers = [stream.wait() for stream in streams]
        return answers[0] if n is None else answers

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        model: str | None = None,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
        grammar: Grammar | None = None,
        cache_salt: str = "",
    ) -> Stream:
        """Generate one answer and return it as a stream of text.

        A conversation goes through the model's chat template, as in `chat`; a text is continued as it is. Errors in the
        request (a prompt that is too long, a bad grammar) and overload are raised here. `timeout` is in seconds, for
        the whole request. Requests with different `cache_salt` never share cached prefixes.
        """
        options = dict(model=model, priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        return self.stream_samples(prompt, params, n=1, **options)[0]  # type: ignore[arg-type]

    def stream_samples(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        n: int,
        model: str | None = None,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
        grammar: Grammar | None = None,
        cache_salt: str = "",
    ) -> list[Stream]:
        """Generate `n` samples of one prompt, each as a stream. They share the prompt in memory."""
        details = dict(n=n, model=model, priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        return self._streams([as_prompt("prompt", prompt)], params, details)

    def generate(
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
        """Continue prompts as they are: `n` whole answers for each, in the order of the prompts.

        No chat template is applied to a text or to token ids, so a model continues them; `chat` asks a model as a chat
        model expects it. A prompt that is a list of messages is a conversation, as in `chat`. Prompts are computed
        together. `params` applies to all prompts, or is a list with one for each.
        """
        several = as_prompts(prompts)
        details = dict(n=n, model=model, priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        return [stream.wait() for stream in self._streams(several, params, details)]

    def _streams(self, prompts: Sequence[Prompt], params: ParamSets, details: Mapping[str, Any]) -> list[Stream]:
        return self._submitted(self._samples_of_all(prompts, params, details))

    def _submitted(self, outputs: Sequence[SampleOutput]) -> list[Stream]:
        streams = [Stream(output, SampleControl(output.request, self._loop), self._sink) for output in outputs]
        try:
            self._loop.add([output.request for output in outputs]).result()
        except BaseException:
            self._sink.close(stream.id for stream in streams)
            raise
        return streams

    def distributions(
        self, tokens: Sequence[int], on_rows: Callable[[int, Tensor], None], *, model: str | None = None
    ) -> Completion:
        """Compute a prompt and report the distribution of the next token after each of its positions but the last.

        `on_rows(start, rows)` is called in the engine's thread, chunk by chunk: `rows[i]` has the log-probability of
        every token of the vocabulary after position `start + i`. A chunk may be reported again after a preemption. The
        completion has the prompt's own log-probabilities.
        """
        self._check(on_rows=on_rows, model=model)
        check_type("tokens", tokens, TOKENS)
        (output,) = self.samples(tokens, SamplingParams(max_tokens=1, prompt_logprobs=True), model=model)
        output.request.on_distributions = on_rows
        return self._submitted([output])[0].wait()

    def tokenize(
        self, text: str, *, model: str | None = None, add_special_tokens: bool = True, parse_special: bool = True
    ) -> list[int]:
        """Return the token ids of a text.

        `add_special_tokens` adds the tokens that the model expects around a text, such as begin of text. Spellings of
        control tokens become these tokens with `parse_special`, and stay plain text without it. No chat template is
        applied.
        """
        self._check(text=text, model=model, add_special_tokens=add_special_tokens, parse_special=parse_special)
        return self._tokenizer(model).encode(text, add_special_tokens=add_special_tokens, parse_special=parse_special)

    def detokenize(self, tokens: Sequence[int], *, model: str | None = None, skip_special_tokens: bool = False) -> str:
        """Return the text of token ids; `skip_special_tokens` leaves control tokens out."""
        self._check(model=model, skip_special_tokens=skip_special_tokens)
        check_type("tokens", tokens, TOKENS)
        return self._tokenizer(model).decode(tokens, skip_special_tokens=skip_special_tokens)

    def embed(self, texts: str | Sequence[str], *, model: str | None = None) -> list[Tensor]:
        """Embed texts: one vector for each, in order."""
        self._check(texts=texts, model=model)
        call = self._new_call(EmbeddingCall)
        call.attach(self.embedding_requests(call.id, [texts] if isinstance(texts, str) else texts, model))
        if not call.requests:
            return []
        inbox = ThreadInbox()
        self._sink.open([call.id], inbox)
        try:
            call.submit(self._loop).result()
            embeddings = inbox.get()
        finally:
            self._sink.close([call.id])
        assert isinstance(embeddings, Embeddings)
        return list(torch.from_numpy(embeddings.vectors))

    # -- transcription ------------------------------------------------------------------------------------------

    def transcribe(
        self, source: SoundSource, *, model: str | None = None, raw: RawFormat | None = None, **options: Any
    ) -> Transcript:
        """Transcribe a recording: a path, the bytes of a file, an open file, or samples at 16 kHz.

        Options are the fields of `TranscriptionOptions`. `raw` describes sound without a header.
        """
        *_, transcript = self.transcribe_events(source, model=model, raw=raw, **options)
        assert isinstance(transcript, Transcript)
        return transcript

    def transcribe_events(
        self, source: SoundSource, *, model: str | None = None, raw: RawFormat | None = None, **options: Any
    ) -> Iterator[TranscriptEvent]:
        """Transcribe a recording and yield segments as they become final, then the transcript.

        Closing the iterator cancels the work.
        """
        self._check(source=source, model=model, raw=raw)
        checked = from_options(TranscriptionOptions, options)
        transcriber = self.transcriber(model)
        sound = open_sound(source, raw=raw)
        return self._until_closed(self._new_call(TranscriptionCall).events(transcriber, sound, checked))

    def _until_closed(self, events: Iterator[TranscriptEvent]) -> Iterator[TranscriptEvent]:
        try:
            yield from events
        except CancelledTranscriptionError:
            self._check()
            raise

    def transcribe_all(
        self, sources: Sequence[SoundSource], *, model: str | None = None, **options: Any
    ) -> list[Transcript]:
        """Transcribe several recordings together; results are in the order of the sources."""
        self._check(sources=sources, model=model)
        if not sources:
            return []
        with ThreadPoolExecutor(min(MAX_TRANSCRIBE_THREADS, len(sources)), "antiphon-transcribe") as pool:
            return list(pool.map(lambda source: self.transcribe(source, model=model, **options), sources))

    def listen(
        self,
        on_update: Callable[[LiveUpdate], None] | None = None,
        *,
        model: str | None = None,
        interval: float = DEFAULT_INTERVAL,
        **options: Any,
    ) -> LiveSession:
        """Start a live transcription: push sound as it arrives; `on_update` is called from the session's thread.

        The hypothesis is updated after every `interval` seconds of sound.
        """
        self._check(on_update=on_update, model=model, interval=interval)
        checked = from_options(TranscriptionOptions, options)
        call = self._new_call(LiveCall)
        call.prepare(self.transcriber(model), checked, interval)
        session = LiveSession(call, self._sink, on_update)
        call.start()
        return session

    # -- speech -------------------------------------------------------------------------------------------------

    def speak(self, text: str | TextFeed | Iterable[str], *, model: str | None = None, **options: Any) -> Synthesis:
        """Speak a text. The result yields chunks of sound, clause by clause, while the rest is being synthesised.

        The text may be an iterable of strings that are still being written, such as the text of a stream. Options are
        the fields of `SpeechOptions`.
        """
        self._check(model=model)
        check_type("text", text, SPOKEN)
        checked = from_options(SpeechOptions, options)
        call = self._new_call(SpeechCall)
        call.prepare(self.speaker(model), self.port, text, checked)
        synthesis = Synthesis(call, self._sink)
        call.start()
        return synthesis

    def __enter__(self) -> Engine:
        self._check()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
