"""`POST /v1/audio/transcriptions` and `/v1/audio/translations`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.engine.request import Priority
from antiphon.runtime.calls.transcript import Transcript, TranscriptionStats, TranscriptProgress
from antiphon.runtime.transcription.captions import progress, render, verbose
from antiphon.runtime.transcription.options import DEFAULT_TEMPERATURES, TranscriptionOptions
from antiphon.server.bodies.uploads import read_form
from antiphon.server.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.http.context import RequestContext, context_of
from antiphon.server.http.errors import ApiError, invalid
from antiphon.server.http.events import event
from antiphon.server.serving.serving import serving_of
from antiphon.server.sound.logprobs import token_logprobs
from antiphon.server.sound.request_schemas import SoundForm, TranscriptionForm, TranslationForm
from antiphon.server.sound.upload_transcription import UploadTranscription
from antiphon.text.tokenization.tokenizer import Tokenizer

router = APIRouter()
CONTENT_TYPES = {"text": "text/plain", "srt": "application/x-subrip", "vtt": "text/vtt"}
#: Encoder positions in a second of sound; reported as input tokens.
TOKENS_PER_SECOND = 50


@router.post("/v1/audio/transcriptions")
async def transcriptions(request: Request) -> Response:
    serving = serving_of(request)
    form = await read_form(request, TranscriptionForm, serving.config.limits.audio_bytes)
    try:
        _check(form, context_of(request))
    except BaseException:
        form.file.close()
        raise
    words = "word" in form.timestamp_granularities and form.response_format == "verbose_json"
    language = form.languages[0] if form.language is None and len(form.languages) == 1 else form.language
    options = _options(form, language=language, words=words)
    if form.keywords:
        options = replace(options, prompt=" ".join([*filter(None, [form.prompt]), ", ".join(form.keywords)]))
    return await _answer(request, form, options)


@router.post("/v1/audio/translations")
async def translations(request: Request) -> Response:
    serving = serving_of(request)
    form = await read_form(request, TranslationForm, serving.config.limits.audio_bytes)
    return await _answer(request, form, _options(form, translate=True))


def _check(form: TranscriptionForm, context: RequestContext) -> None:
    shape = form.response_format or "json"
    if form.stream and shape not in ("json", "text", "verbose_json"):
        message = f"response_format {shape} cannot be streamed; json, text and verbose_json can"
        raise invalid(message, "stream", "unsupported_value")
    if form.include and shape != "json":
        message = f"include: logprobs go with response_format json, which is {shape}"
        raise invalid(message, "include", "unsupported_value")
    if "timestamp_granularities" in form.model_fields_set and shape != "verbose_json":
        message = f"timestamp_granularities go with response_format verbose_json, which is {shape}"
        if context.is_strict:
            raise invalid(message, "timestamp_granularities")
        context.ignored.add("timestamp_granularities")


def _options(form: SoundForm, **more: Any) -> TranscriptionOptions:
    return TranscriptionOptions(
        prompt=form.prompt or "",
        beams=form.beam_size or 1,
        sequential=bool(form.sequential),
        temperatures=(form.temperature,) if form.temperature else DEFAULT_TEMPERATURES,
        priority=Priority.NORMAL if form.priority is None else Priority(form.priority),
        **more,
    )


async def _answer(request: Request, form: SoundForm, options: TranscriptionOptions) -> Response:
    serving = serving_of(request)
    log_fields = context_of(request).log_fields
    try:
        model = await serving.models.ready(form.model, "transcribe")
    except BaseException:
        form.file.close()
        raise
    log_fields["model"] = model.name
    call = UploadTranscription(serving, model, form.file, options)
    if isinstance(form, TranscriptionForm) and form.stream:
        events = call.events()
        first = await unless_disconnected(request, _first(events))
        tokenizer = model.text.tokenizer if form.include else None
        is_verbose = form.response_format == "verbose_json"
        sent = _events(first, events, log_fields, bool(form.timings), tokenizer, is_verbose)
        return EventStream(sent, call.close)
    transcript = await unless_disconnected(request, call.wait())
    log_transcription(log_fields, transcript.stats)
    shape = form.response_format or "json"
    if shape in CONTENT_TYPES:
        return Response(render(transcript, shape), media_type=CONTENT_TYPES[shape])
    usage = {"type": "duration", "seconds": round(transcript.duration, 3)}
    usage |= timings(transcript.stats) if form.timings else {}
    if shape == "json":
        wants_logprobs = isinstance(form, TranscriptionForm) and bool(form.include)
        more = token_logprobs(transcript.segments, model.text.tokenizer if wants_logprobs else None)
        return json_response({"text": transcript.text, "usage": usage, **more})
    content = verbose(transcript)
    if isinstance(form, TranscriptionForm) and "segment" not in form.timestamp_granularities:
        del content["segments"]
    if options.words:
        content.setdefault("words", [])
    return json_response({**content, "usage": usage})


async def _first(events: AsyncGenerator[TranscriptProgress | Transcript]) -> TranscriptProgress | Transcript:
    """The first event, so that a request that is rejected gets its error status."""
    return await anext(events)


async def _events(
    first: TranscriptProgress | Transcript,
    rest: AsyncGenerator[TranscriptProgress | Transcript],
    log_fields: dict[str, Any],
    with_timings: bool,
    tokenizer: Tokenizer | None,
    is_verbose: bool,
) -> AsyncGenerator[bytes]:
    """Text as it becomes final, with log-probabilities if there is a tokenizer; an error is the last event.

    If it is verbose, each event has its segments and words, and how many seconds of the recording are done.
    """
    update: TranscriptProgress | Transcript | None = first
    num_segments = 0
    try:
        while update is not None:
            if isinstance(update, Transcript):
                log_transcription(log_fields, update.stats)
                usage = _tokens(update.stats) | (timings(update.stats) if with_timings else {})
                more = verbose(update) if is_verbose else token_logprobs(update.segments, tokenizer)
                yield event({"type": "transcript.text.done", "text": update.text, "usage": usage, **more})
            elif update.text or is_verbose:
                more = token_logprobs(update.segments, tokenizer)
                if is_verbose:
                    more = progress(update, num_segments)
                    num_segments += len(update.segments)
                yield event({"type": "transcript.text.delta", "delta": update.text, **more})
            update = await anext(rest, None)
    except ApiError as error:
        log_fields["code"] = error.code
        yield event(error.body())
    finally:
        await rest.aclose()


def _tokens(stats: TranscriptionStats) -> dict[str, Any]:
    heard = round(stats.audio_seconds * TOKENS_PER_SECOND)
    return {
        "type": "tokens",
        "input_tokens": heard,
        "input_token_details": {"audio_tokens": heard, "text_tokens": 0},
        "output_tokens": stats.num_tokens,
        "total_tokens": heard + stats.num_tokens,
        "seconds": round(stats.audio_seconds, 3),
    }


def timings(stats: TranscriptionStats) -> dict[str, Any]:
    return {
        "timings": {
            "processing": stats.processing_seconds,
            "real_time_factor": stats.real_time_factor,
            "time_to_first_text": stats.time_to_first_text,
        }
    }


def log_transcription(log_fields: dict[str, Any], stats: TranscriptionStats) -> None:
    """Add the figures of a transcription to the request's log line."""
    log_fields["audio_seconds"] = round(stats.audio_seconds, 3)
    log_fields["real_time_factor"] = round(stats.real_time_factor, 4)
    if stats.time_to_first_text is not None:
        log_fields["time_to_first_text"] = round(stats.time_to_first_text, 4)
