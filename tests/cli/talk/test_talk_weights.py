"""`antiphon talk` with real models on a recording."""

from __future__ import annotations

from pathlib import Path

import pytest
import soundfile

from antiphon import Engine
from antiphon.audio.resample import resample
from support.programs.command_line import Invoke
from support.sound.heard_words import is_heard
from support.sound.speech import word_error_rate

pytestmark = [pytest.mark.weights, pytest.mark.slow]
RATE = 24_000


def test_a_question_is_heard_answered_and_spoken(invoke: Invoke, tmp_path: Path) -> None:
    question, out = tmp_path / "question.wav", tmp_path / "conversation.wav"
    assert invoke("speak", "What is the capital of France?", "--output", str(question)).code == 0
    outcome = invoke(
        "talk", "--input", str(question), "--output", str(out), "--transcription-model", "whisper-tiny.en",
        "--temperature", "0", "--waterfall", "--speculate", "ngram",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    heard, answer = (line.partition(": ")[2] for line in lines[:2])
    assert [line.partition(": ")[0] for line in lines[:2]] == ["You", "Antiphon"]
    assert is_heard("What is the capital of France?", heard)
    assert "Paris" in answer
    assert lines[2].endswith("s after the end of speech") and any("transcript final" in line for line in lines[3:])
    sound, rate = soundfile.read(out, dtype="float32")
    assert rate == RATE and sound.ndim == 2
    with Engine("whisper-tiny.en", quantize="int8", kv_bytes=256 << 20) as engine:
        spoken = [engine.transcribe(resample(sound[:, channel], RATE, 16_000)).text for channel in (0, 1)]
    assert is_heard(heard, spoken[0])
    assert word_error_rate(answer, spoken[1]) <= 0.25, (answer, spoken[1])
