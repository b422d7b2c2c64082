"""`antiphon transcribe` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.models.tiny_whisper import dims, state_dict, vocabulary
from support.programs.command_line import Invoke, assert_refused
from support.sound.heard_words import is_heard
from support.sound.speech import JFK_TEXT, jfk
from weights.whisper_files import ggml_file


def test_what_is_refused(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = tmp_path / "a.wav"
    sound.write_bytes(b"RIFF")
    assert_refused(invoke("transcribe"), "no recording", code=2)
    assert_refused(invoke("transcribe", "nowhere.wav"), "nowhere.wav")
    assert_refused(invoke("transcribe", str(sound), "--format", "docx"), "docx", "srt", code=2)
    assert_refused(invoke("transcribe", str(sound), "--beam", "99"), "beams is 99", code=2)
    assert_refused(invoke("transcribe", str(sound), str(sound), "--live"), "one source, not 2", code=2)
    assert_refused(invoke("transcribe", str(sound), "--speculate", "ngram"), "--speculate goes with --live", code=2)
    model = tmp_path / "ggml.bin"
    model.write_bytes(ggml_file(dims(), state_dict(), vocabulary(50257)))
    told = invoke("transcribe", str(sound), "--model", str(model))
    assert told.code == 1 and f"antiphon: {sound}: " in told.err and "Traceback" not in told.err


@pytest.mark.weights
@pytest.mark.slow
def test_files_and_formats(invoke: Invoke, tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp3"
    broken.write_bytes(b"\xff\xfb" + bytes(400))
    arguments = ("--model", "whisper-tiny.en", "--format", "verbose_json", "--words", "--output", str(tmp_path / "out"))
    told = invoke("transcribe", str(jfk()), str(broken), *arguments)
    assert told.code == 1 and "broken.mp3: " in told.err and "real-time factor" in told.err
    verbose = json.loads((tmp_path / "out" / f"{jfk().stem}.json").read_text())
    assert is_heard(JFK_TEXT, verbose["text"])
    assert len(verbose["words"]) in (21, 22, 23) and verbose["segments"][0]["start"] < 1
