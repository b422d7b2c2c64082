"""Answers to transcriptions: in every response format, whole and as events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from antiphon.runtime.calls.transcript import Transcript, TranscriptionStats, TranscriptProgress
from antiphon.runtime.transcription.captions import progress, render, verbose
from antiphon.server.generation.sound.logprobs import token_logprobs
from antiphon.server.generation.sound.request_schemas import SoundForm, TranscriptionForm
from antiphon.server.web.http.context import LogFields, RequestContext
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.events import event
from antiphon.text.tokenization.tokenizer import Tokenizer

CONTENT_TYPES = {"text": "text/plain", "srt": "application/x-subrip", "vtt": "text/vtt"}
#: Encoder positions per second of sound, reported as input tokens.
TOKENS_PER_SECOND = 50


def answer_content(form: SoundForm, transcript: Transcript, tokenizer: Tokenizer) -> str | dict[str, Any]:
    """Return the transcript in the form's response format: text for those in `CONTENT_TYPES`, else a JSON object."""
    shape = form.response_format or "json"
    if shape in CONTENT_TYPES:
        return render(transcript, shape)
    usage: dict[str, Any] = {"type": "duration", "seconds": round(transcript.duration, 3)}
    usage |= timings(transcript.stats) if form.timings else {}
    if shape == "json":
        more = token_logprobs(transcript.segments, tokenizer if _wants_logprobs(form) else None)
        return {"text": transcript.text, "usage": usage, **more}
    content = _verbose(form, transcript)
    if isinstance(form, TranscriptionForm) and "segment" not in form.timestamp_granularities:
        del content["segments"]
    return {**content, "usage": usage}


def _verbose(form: SoundForm, transcript: Transcript) -> dict[str, Any]:
    content = verbose(transcript)
    if isinstance(form, TranscriptionForm) and "word" in form.timestamp_granularities:
        content.setdefault("words", [])  # a silent recording has no words
    return content


def _wants_logprobs(form: SoundForm) -> bool:
    return isinstance(form, TranscriptionForm) and bool(form.include)


async def answer_events(
    form: SoundForm,
    first: TranscriptProgress | Transcript,
    rest: AsyncGenerator[TranscriptProgress | Transcript],
    context: RequestContext,
    tokenizer: Tokenizer,
) -> AsyncGenerator[bytes]:
    """Yield text as it becomes final; an error is the last event. Each update restarts the request's time limit.

    With verbose JSON, each event has its segments and words, and the seconds of the recording that are done.
    """
    is_verbose = form.response_format == "verbose_json"
    drawn_by = tokenizer if _wants_logprobs(form) else None
    update: TranscriptProgress | Transcript | None = first
    num_segments = 0
    try:
        while update is not None:
            if isinstance(update, Transcript):
                log_transcription(context.log_fields, update.stats)
                usage = _tokens(update.stats) | (timings(update.stats) if form.timings else {})
                more = _verbose(form, update) if is_verbose else token_logprobs(update.segments, drawn_by)
                yield event({"type": "transcript.text.done", "text": update.text, "usage": usage, **more})
            elif update.text or is_verbose:
                more = token_logprobs(update.segments, drawn_by)
                if is_verbose:
                    more = progress(update, num_segments)
                    num_segments += len(update.segments)
                yield event({"type": "transcript.text.delta", "delta": update.text, **more})
            context.note_progress()
            update = await anext(rest, None)
    except ApiError as error:
        context.log_fields["code"] = error.code
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


def log_transcription(log_fields: LogFields, stats: TranscriptionStats) -> None:
    log_fields["audio_seconds"] = round(stats.audio_seconds, 3)
    log_fields["real_time_factor"] = round(stats.real_time_factor, 4)
    if stats.time_to_first_text is not None:
        log_fields["time_to_first_text"] = round(stats.time_to_first_text, 4)
