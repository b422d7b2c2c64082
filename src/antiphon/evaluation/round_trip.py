"""What a voice says, as a transcription model hears it."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import soxr
from numpy.typing import NDArray

from antiphon.evaluation.items import sample_text
from antiphon.evaluation.metrics.speech import Alignment, align_characters, align_words, normalizer
from antiphon.runtime.frontend.engine import Engine

Floats = NDArray[np.float32]

DEFAULT_JUDGE = "whisper-base.en"
#: Samples a second that transcription models take.
RATE = 16_000
SAMPLE = "voice.jsonl"


@dataclass(frozen=True)
class Heard:
    """A sentence as it was heard, and how it differs from what was to be said."""

    text: str
    words: Alignment
    characters: Alignment


def sample_sentences() -> list[str]:
    """Sentences with numbers, dates, names, questions, and words whose sound depends on their sense."""
    return [str(json.loads(line)["text"]) for line in sample_text(SAMPLE).splitlines()]


def resampled(sound: Floats, rate: int) -> Floats:
    """At 16 kHz."""
    return np.asarray(soxr.resample(sound, rate, RATE), dtype=np.float32)


def heard(judge: Engine, sound: Floats, sentence: str, model: str | None = None, language: str | None = None) -> Heard:
    """Transcribe a sound at 16 kHz that says `sentence`, and compare both after Whisper's normalisation."""
    transcript = judge.transcribe(sound, model=model, language=language)
    normalize = normalizer(transcript.language)
    said, found = normalize(sentence), normalize(transcript.text)
    return Heard(transcript.text.strip(), align_words(said, found), align_characters(said, found))
