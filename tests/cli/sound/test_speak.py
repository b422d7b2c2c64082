"""`antiphon speak` as a user runs it."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from antiphon.audio.decode import decode
from antiphon.cli.app import app
from antiphon.errors import AudioError, InvalidRequestError

MODEL = ["--model", "hibari-6m"]


def speak(*arguments: str, text: str | None = None) -> object:
    return CliRunner().invoke(app, ["speak", *arguments], input=text, catch_exceptions=True)


def refusal(*arguments: str, text: str | None = None) -> str:
    result = speak(*arguments, text=text)
    assert isinstance(result.exception, InvalidRequestError | AudioError), result.output  # type: ignore[attr-defined]
    return str(result.exception)  # type: ignore[attr-defined]


def test_what_is_wrong_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    out = str(tmp_path / "x.wav")
    assert "no text" in refusal("", "-o", out)
    assert "no text" in refusal("-o", out, text=" \n")
    assert "speed is 9.0" in refusal("Hi.", "--speed", "9", "-o", out)
    assert "x.xyz" in refusal("Hi.", "-o", str(tmp_path / "x.xyz"))
    assert "'ogg'" in refusal("Hi.", "-o", out, "--format", "ogg")
    assert "not both" in refusal("Hi.", "--file", out, "-o", out)
    assert "cannot read" in refusal("--file", str(tmp_path / "none.txt"), "-o", out)
    (tmp_path / "lexicon").write_text("# mine\nword\n")
    assert "line 2" in refusal("Hi.", "--lexicon", str(tmp_path / "lexicon"), "-o", out)


def test_without_a_player_a_file_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "-o speech.wav" in refusal("Hi.")


@pytest.mark.weights
@pytest.mark.slow
def test_files_pipes_and_captions(tmp_path: Path) -> None:
    text, lexicon = tmp_path / "text.txt", tmp_path / "lexicon"
    text.write_text("Hello there, this is a gif. It is short.")
    lexicon.write_text("gif ʤˈɪf\n")
    out, captions = tmp_path / "out.wav", tmp_path / "out.srt"
    result = speak(*MODEL, "--file", str(text), "-o", str(out), "--srt", str(captions), "--lexicon", str(lexicon))
    assert result.exit_code == 0, result.output  # type: ignore[attr-defined]
    with wave.open(str(out)) as file:
        seconds = file.getnframes() / file.getframerate()
        assert file.getframerate() == 24_000 and file.getnchannels() == 1
    assert 1.5 < seconds < 8
    assert "It is short." in captions.read_text()
    piped = speak(*MODEL, "-o", "-", "--format", "flac", text="Hello there.")
    sound = decode(piped.stdout_bytes, rate=24_000)  # type: ignore[attr-defined]
    assert sound.source.codec == "flac" and np.abs(sound.values).max() > 0.05
    assert "there is nothing in the text" in refusal("😀", *MODEL, "-o", str(tmp_path / "none.wav"))
    assert not (tmp_path / "none.wav").exists()
    voices = speak(*MODEL, "--voices")
    assert voices.stdout.split()[:3] == ["heart", "en-us", "also"]  # type: ignore[attr-defined]
