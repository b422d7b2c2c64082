"""Round trip of a voice: a transcription model hears what the voice says."""

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
#: Sample rate of transcription models, in Hz.
RATE = 16_000
SAMPLE = "voice.jsonl"


@dataclass(frozen=True)
class Heard:
    """Transcript of a spoken sentence, aligned with the intended text."""

    text: str
    words: Alignment
    characters: Alignment


def sample_sentences() -> list[str]:
    """Return the bundled sentences, with numbers, dates, names, questions and heteronyms."""
    return [str(json.loads(line)["text"]) for line in sample_text(SAMPLE).splitlines()]


def resampled(sound: Floats, rate: int) -> Floats:
    """Resample a sound to 16 kHz."""
    return np.asarray(soxr.resample(sound, rate, RATE), dtype=np.float32)


def heard(judge: Engine, sound: Floats, sentence: str, model: str | None = None, language: str | None = None) -> Heard:
    """Transcribe a 16 kHz sound that says `sentence`, and align both after Whisper's normalisation."""
    transcript = judge.transcribe(sound, model=model, language=language)
    normalize = normalizer(transcript.language)
    said, found = normalize(sentence), normalize(transcript.text)
    return Heard(transcript.text.strip(), align_words(said, found), align_characters(said, found))
