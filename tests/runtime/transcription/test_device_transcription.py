"""Transcription by the executors of a GPU, on a card that computes with the CPU's operations: the same transcripts."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from antiphon import Engine
from antiphon.errors import AudioError
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.transcription.window.decoding import Recogniser, WindowJob
from support.kernels.cards import imitated_card
from support.models.tiny_whisper import MULTILINGUAL, tiny_whisper

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

SETTINGS: dict[str, Any] = dict(device="cpu", kv_bytes=64 << 20, key_type="fp16", value_type="fp16", record=False)
OPTIONS: dict[str, Any] = dict(voice_activity=False, no_speech_limit=1.0, words=True)


@pytest.mark.parametrize(
    "options", [dict(temperatures=(0.0,)), dict(temperatures=(0.0,), beams=3), dict(temperatures=(0.4,), best_of=2)]
)
@pytest.mark.long("kernels run in Triton's interpreter")
def test_transcripts_are_those_of_the_cpu(options: dict[str, Any]) -> None:
    """Languages are detected, words are aligned, and windows of several recordings share steps."""
    generator = np.random.default_rng(5)
    sounds = [generator.standard_normal(length).astype(np.float32) * 0.1 for length in (60_000, 170_000, 7_000)]
    loaded = tiny_whisper(MULTILINGUAL)
    with Engine(loaded, **SETTINGS) as engine:
        expected = engine.transcribe_all(sounds, **OPTIONS, **options)
    with Engine(replace(loaded, device=imitated_card()), **SETTINGS) as engine:
        got = engine.transcribe_all(sounds, **OPTIONS, **options)
        steps = [step for step in engine.step_records() if step.model.endswith("encoder")]
    # Five stages are one step; windows of one recording follow each other.
    assert 2 <= len(steps) <= 4 and all(step.stage == 0 for step in steps)
    assert any(segment.words for own in got for segment in own.segments)
    for own, other in zip(got, expected, strict=True):
        assert own.text == other.text and own.language == other.language
        assert [segment.tokens for segment in own.segments] == [segment.tokens for segment in other.segments]
        spans = [[(word.text, word.start, word.end) for word in segment.words] for segment in own.segments]
        assert spans == [[(word.text, word.start, word.end) for word in segment.words] for segment in other.segments]


def test_windows_go_to_a_card_as_samples() -> None:
    recogniser = Recogniser.of(replace(tiny_whisper(), device=imitated_card()))
    samples = np.arange(3000, dtype=np.float32)
    (request,) = WindowJob(recogniser, samples, TranscriptionOptions(), "en").start()
    assert request.inputs.tolist() == samples.tolist()
    long = np.zeros(int(recogniser.window_seconds * 16_000) + 1, dtype=np.float32)
    with pytest.raises(AudioError, match="do not fit a window of 10 s"):
        WindowJob(recogniser, long, TranscriptionOptions(), "en").start()
