"""Transcripts as text, JSON and subtitles."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from antiphon.errors import InvalidRequestError
from antiphon.runtime.calls.speech import TimedWord
from antiphon.runtime.calls.transcript import Segment, Transcript, TranscriptProgress, Word
from antiphon.text.tokenization.whisper_tokens import language_name

#: Anything that a subtitle can show.
Cue = Segment | Word | TimedWord


def word_lines(words: Sequence[Word]) -> str:
    """Return a line per word: start and end in seconds and the text, between tabs (Audacity's label format)."""
    return "".join(f"{word.start:.3f}\t{word.end:.3f}\t{word.text.strip()}\n" for word in words)


def srt(parts: Sequence[Cue]) -> str:
    """Return SubRip: numbered cues with a comma before the milliseconds."""
    cues = [
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{_cue_text(cue)}\n"
        for number, cue in enumerate(_cues(parts), start=1)
    ]
    return "\n".join(cues)


def vtt(parts: Sequence[Cue]) -> str:
    """Return WebVTT: cues with a point before the milliseconds."""
    cues = [
        f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n{_escaped(_cue_text(cue))}\n" for cue in _cues(parts)
    ]
    return "WEBVTT\n\n" + "\n".join(cues)


FORMATS: dict[str, Callable[[Transcript], str]] = {
    "text": lambda transcript: transcript.text + "\n",
    "json": lambda transcript: json.dumps({"text": transcript.text}, ensure_ascii=False) + "\n",
    "verbose_json": lambda transcript: json.dumps(verbose(transcript), ensure_ascii=False, indent=2) + "\n",
    "srt": lambda transcript: srt(transcript.segments),
    "vtt": lambda transcript: vtt(transcript.segments),
}
#: Formats in which each word can have its own line or cue. Verbose JSON has words anyway if they are known.
WORD_FORMATS: dict[str, Callable[[Sequence[Word]], str]] = {"text": word_lines, "srt": srt, "vtt": vtt}


def render(transcript: Transcript, format: str, *, words: bool = False) -> str:
    """Return the transcript in one of `FORMATS`; with `words`, in lines or cues of one word each."""
    if format not in FORMATS:
        raise InvalidRequestError(f"format is {format!r}; choose one of: {', '.join(FORMATS)}")
    if words and format in WORD_FORMATS:
        return WORD_FORMATS[format](transcript.words)
    return FORMATS[format](transcript)


def verbose(transcript: Transcript) -> dict[str, Any]:
    """Return the fields of OpenAI's verbose JSON, with words if they were requested."""
    told: dict[str, Any] = {
        "task": transcript.task,
        "language": language_name(transcript.language),
        "duration": round(transcript.duration, 3),
        "text": transcript.text,
        "segments": [segment_fields(index, segment) for index, segment in enumerate(transcript.segments)],
    }
    if any(segment.words for segment in transcript.segments):
        told["words"] = [word_fields(word) for word in transcript.words]
    return told


def progress(update: TranscriptProgress, num_before: int) -> dict[str, Any]:
    """Return an update's segments (numbered from `num_before`) and words as in `verbose`, and the seconds processed."""
    return {
        "segments": [segment_fields(num_before + index, segment) for index, segment in enumerate(update.segments)],
        "words": [word_fields(word) for segment in update.segments for word in segment.words],
        "seconds": round(update.processed_seconds, 3),
    }


def segment_fields(index: int, segment: Segment) -> dict[str, Any]:
    return {
        "id": index,
        "seek": round(segment.seek * 100),
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": segment.temperature,
        "avg_logprob": round(segment.avg_logprob, 6),
        "compression_ratio": round(segment.compression_ratio, 6),
        "no_speech_prob": round(segment.no_speech_prob, 9),
    }


def word_fields(word: Word) -> dict[str, Any]:
    return {"word": word.text.strip(), "start": round(word.start, 3), "end": round(word.end, 3)}


def _cues(parts: Sequence[Cue]) -> list[Cue]:
    return [part for part in parts if part.text.strip()]


def _cue_text(cue: Cue) -> str:
    # A blank line would end the cue, and an arrow would begin its timing.
    return " ".join(cue.text.split()).replace("-->", "->")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(max(0.0, seconds) * 1000)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02d}:{minutes:02d}:{rest // 1000:02d}{point}{rest % 1000:03d}"
