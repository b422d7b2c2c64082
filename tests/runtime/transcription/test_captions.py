"""Subtitles and JSON of a transcript."""

from __future__ import annotations

import json

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.runtime.calls.transcript import Segment, Transcript, TranscriptionStats, Word
from antiphon.runtime.transcription.captions import FORMATS, render

STATS = TranscriptionStats(3661.5, 3000.0, 30.0, 0.5, 120, 2, 4000)
SEGMENTS = (
    Segment(0.0, 2.5, " Hello --> <b>world</b>", (50364, 1, 50489), words=(Word(" Hello", 0.0, 0.4, 0.9),)),
    Segment(2.5, 2.5, " "),
    Segment(3600.0, 3661.4996, " Line\none & two."),
)
TRANSCRIPT = Transcript("de", 0.9, 3661.5, SEGMENTS, "transcribe", STATS)


def test_text_and_json() -> None:
    assert render(TRANSCRIPT, "text") == "Hello --> <b>world</b>  Line\none & two.\n"
    assert json.loads(render(TRANSCRIPT, "json")) == {"text": TRANSCRIPT.text}


def test_srt() -> None:
    assert render(TRANSCRIPT, "srt") == (
        "1\n00:00:00,000 --> 00:00:02,500\nHello -> <b>world</b>\n\n2\n01:00:00,000 --> 01:01:01,500\nLine one & two.\n"
    )


def test_vtt() -> None:
    assert render(TRANSCRIPT, "vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:02.500\nHello -&gt; &lt;b&gt;world&lt;/b&gt;\n\n"
        "01:00:00.000 --> 01:01:01.500\nLine one &amp; two.\n"
    )


def test_verbose_json_reads_as_openai_types() -> None:
    from openai.types.audio import TranscriptionVerbose

    told = TranscriptionVerbose.model_validate_json(render(TRANSCRIPT, "verbose_json"))
    assert told.language == "german" and float(told.duration) == 3661.5
    assert told.segments is not None and told.segments[0].tokens == [50364, 1, 50489]
    assert told.words is not None and told.words[0].word == "Hello"


def test_empty_and_unknown() -> None:
    empty = Transcript("en", 1.0, 1.0, (), "transcribe", STATS)
    assert render(empty, "srt") == "" and render(empty, "vtt") == "WEBVTT\n\n" and render(empty, "text") == "\n"
    assert empty.stats.real_time_factor == pytest.approx(30 / 3661.5)
    with pytest.raises(InvalidRequestError, match="docx"):
        render(empty, "docx")
    assert set(FORMATS) == {"text", "json", "verbose_json", "srt", "vtt"}
