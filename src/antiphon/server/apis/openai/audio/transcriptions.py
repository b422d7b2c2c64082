"""`POST /v1/audio/transcriptions` and `/v1/audio/translations`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.engine.request import Priority
from antiphon.runtime.calls.transcript import Transcript, TranscriptProgress
from antiphon.runtime.calls.transcription_options import DEFAULT_TEMPERATURES, TranscriptionOptions
from antiphon.server.apis.openai.audio.background import background_job, start_in_background
from antiphon.server.apis.openai.audio.response_schemas import AnyTranscriptAnswer
from antiphon.server.generation.sound.partial_transcript import PartialTranscript, tell_progress
from antiphon.server.generation.sound.request_schemas import SoundForm, TranscriptionForm, TranslationForm
from antiphon.server.generation.sound.transcript_answers import (
    CONTENT_TYPES,
    answer_content,
    answer_events,
    log_transcription,
)
from antiphon.server.generation.sound.upload_transcription import UploadTranscription
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.bodies.uploads import read_form
from antiphon.server.web.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.web.http.context import RequestContext, context_of
from antiphon.server.web.http.errors import invalid
from antiphon.server.web.http.openapi import FORM, described

router = APIRouter()
TEXT_TYPES = tuple(f"{kind}; charset=utf-8" for kind in CONTENT_TYPES.values())


@router.post("/v1/audio/transcriptions")
@described(body=TranscriptionForm, answer=AnyTranscriptAnswer, can_stream=True, body_type=FORM, other_types=TEXT_TYPES)
async def transcriptions(request: Request) -> Response:
    job = background_job(request)
    if job is not None:
        return await job.transcribe(request)
    form = await read_form(request, TranscriptionForm, serving_of(request).config.limits.audio_bytes)
    try:
        _check(form)
        _check_shape(form, context_of(request))
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
@described(body=TranslationForm, answer=AnyTranscriptAnswer, can_stream=True, body_type=FORM, other_types=TEXT_TYPES)
async def translations(request: Request) -> Response:
    form = await read_form(request, TranslationForm, serving_of(request).config.limits.audio_bytes)
    try:
        _check(form)
    except BaseException:
        form.file.close()
        raise
    return await _answer(request, form, _options(form, translate=True))


def _check(form: SoundForm) -> None:
    shape = form.response_format or "json"
    if form.stream and form.background:
        message = "stream and background exclude each other: a transcription in the background is polled by its id"
        raise invalid(message, "background", "unsupported_value")
    if form.stream and shape not in ("json", "text", "verbose_json"):
        message = f"response_format {shape} cannot be streamed; json, text and verbose_json can"
        raise invalid(message, "stream", "unsupported_value")


def _check_shape(form: TranscriptionForm, context: RequestContext) -> None:
    """Reject the fields that need another response format; without strict checks, some are only ignored."""
    shape = form.response_format or "json"
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
    serving, context = serving_of(request), context_of(request)
    try:
        if form.background:
            return await unless_disconnected(request, start_in_background(request, form, options))
        model = await serving.models.ready(form.model, "transcribe")
    except BaseException:
        form.file.close()
        raise
    context.log_fields["model"] = model.name
    call = UploadTranscription(serving, model, form.file, options)
    if form.stream:
        events = call.events()
        first = await unless_disconnected(request, _first(events))
        context.on_failure = tell_progress
        return EventStream(answer_events(form, first, events, context, model.text.tokenizer), call.close)
    partial = PartialTranscript()
    context.on_failure = partial.add_to
    transcript = await unless_disconnected(request, call.wait(partial.take))
    log_transcription(context.log_fields, transcript.stats)
    content = answer_content(form, transcript, model.text.tokenizer)
    if isinstance(content, str):
        return Response(content, media_type=CONTENT_TYPES[form.response_format or "json"])
    return json_response(content)


async def _first(events: AsyncGenerator[TranscriptProgress | Transcript]) -> TranscriptProgress | Transcript:
    """Return the first event before any is sent, so that a rejected request still gets its error status."""
    return await anext(events)
