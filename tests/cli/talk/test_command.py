"""`antiphon talk` as a user types it: what is refused, and a conversation with a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from antiphon.cli.talk import command
from antiphon.server.web.access.keys import KeyRing
from support.programs.command_line import Invoke, assert_refused
from support.programs.forks import BARE_MODULES, template
from support.server.fake_voice import FakeVoice, text
from support.server.realtime_server import fake_realtime


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Half a second that the fake server takes for speech, and a silence that ends the turn."""
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(8000) / 16_000)
    soundfile.write(tmp_path / "in.wav", np.concatenate([tone, np.zeros(4000)]), 16_000)
    return tmp_path / "in.wav"


def test_what_is_refused(invoke: Invoke, recording: Path, tmp_path: Path) -> None:
    given, out = ("talk", "--input", str(recording)), str(tmp_path / "out.wav")
    assert_refused(invoke("talk", "--input", "nowhere.wav", "-o", out), "there is no file nowhere.wav")
    (tmp_path / "text.wav").write_text("this is no sound")
    assert_refused(invoke("talk", "--input", str(tmp_path / "text.wav"), "-o", out), "text.wav")
    assert_refused(invoke(*given, "-o", str(tmp_path / "out.mp3")), "out.mp3 in .wav", code=2)
    assert_refused(invoke(*given, "-o", str(tmp_path / "none" / "out.wav")), "there is no folder")
    assert_refused(invoke(*given, "-o", out, "--model", "nothing-like-it"), "nothing-like-it")
    assert_refused(invoke(*given, "-o", out, "--model", "whisper-base.en"), "antiphon transcribe")
    assert_refused(invoke(*given, "-o", out, "--transcription-model", "hibari-6m"), "use one of: whisper-base")
    assert_refused(invoke(*given, "-o", out, "--speech-model", "qwen2.5-coder-0.5b"), "qwen2.5-coder-0.5b")
    manual = ("--push-to-talk", "--eagerness", "low")
    assert_refused(invoke(*given, "-o", out, *manual), "remove --turn-detection and --eagerness", code=2)
    wrong = ("--turn-detection", "server_vad", "--eagerness", "low")
    assert_refused(invoke(*given, "-o", out, *wrong), "--turn-detection semantic_vad", code=2)
    assert_refused(invoke(*given, "-o", out, "--max-tokens", "0"), "max_tokens is 0", code=2)
    assert not Path(out).exists()


def test_options_of_the_engine(
    invoke: Invoke, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []

    async def with_engine(_: object, setup: object, settings: object, options: dict[str, Any]) -> None:
        given.append(options)

    monkeypatch.setattr(command, "_loaded", lambda *_: {})
    monkeypatch.setattr(command, "_with_engine", with_engine)
    talk = ("talk", "--input", str(recording), "-o", str(tmp_path / "out.wav"), "--device", "cpu")
    for more in ((), ("--speculate", "ngram", "--kv-memory", "64")):
        assert invoke(*talk, *more).code == 0
    assert given == [
        {"kv_bytes": None, "device": "cpu", "speculate": "off"},
        {"kv_bytes": 64 << 20, "device": "cpu", "speculate": "ngram"},
    ]


def test_devices_that_are_missing(invoke: Invoke, recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    assert_refused(invoke("talk"), "the microphone needs sounddevice", "pip install sounddevice")
    assert_refused(invoke("talk", "--input", str(recording)), "the speaker needs sounddevice")


@pytest.mark.long("a conversation of two seconds is held")
def test_with_a_server(invoke: Invoke, recording: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.wav"
    with fake_realtime() as server:

        def prepare(voice: FakeVoice) -> None:
            voice.answers.append(text("It is ", "so."))

        server.prepare = prepare
        url = f"http://127.0.0.1:{server.port}"
        outcome = invoke(
            "talk", "--base-url", url, "--input", str(recording), "--output", str(out), "--voice", "ash", "--waterfall",
            "--instructions", "Be brief.", "--turn-detection", "server_vad",
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
        settings = server.voice.asked[0][1]
    lines = outcome.out.splitlines()
    assert lines[:2] == ["You: turn 1", "Antiphon: It is so."]
    assert lines[2].startswith("  first sound ") and any("turn decided" in line for line in lines)
    assert (settings.voice, settings.instructions, settings.max_tokens) == ("ash", "Be brief.", 256)
    sound, rate = soundfile.read(out)
    assert rate == 24_000 and np.abs(sound[:, 0]).max() > 0.4 and np.abs(sound[:, 1]).max() > 0.2


def test_one_turn_with_a_server(invoke: Invoke, recording: Path, tmp_path: Path) -> None:
    with fake_realtime() as server:
        url, files = f"http://127.0.0.1:{server.port}", ("--input", str(recording), "-o", str(tmp_path / "out.wav"))
        outcome = invoke("talk", "--base-url", url, *files, "--push-to-talk")
        assert outcome.code == 0, outcome.err
        assert len(server.voice.asked) == 1
    assert outcome.out.splitlines()[:2] == ["You: turn 1", "Antiphon: Hello there."]


@pytest.mark.long("a conversation of two seconds is held")
def test_what_a_server_refuses(invoke: Invoke, recording: Path, tmp_path: Path) -> None:
    files = ("--input", str(recording), "--output", str(tmp_path / "out.wav"))
    (tmp_path / "key").write_text("a-key-that-is-long-enough\n")
    with fake_realtime(keys=KeyRing.read(tmp_path / "key")) as server:
        url = f"http://127.0.0.1:{server.port}"
        assert_refused(invoke("talk", "--base-url", url, *files), "--api-key-file or ANTIPHON_API_KEY")
        accepted = invoke("talk", "--base-url", url, "--api-key-file", str(tmp_path / "key"), *files)
        assert accepted.code == 0, accepted.err
    with fake_realtime() as server:
        url = f"http://127.0.0.1:{server.port}"
        assert_refused(invoke("talk", "--base-url", url, *files, "--voice", "nobody"), "nobody", "alloy, ash")
        assert_refused(invoke("talk", "--base-url", url, *files, "--speech-model", "x"), "--speech-model", code=2)
        assert_refused(invoke("talk", "--base-url", url, *files, "--model", "nothing"), "nothing")
    assert_refused(invoke("talk", "--base-url", url, *files), "cannot connect to", "antiphon serve")


def test_talking_to_a_server_needs_no_torch() -> None:
    code = "import sys, antiphon.cli.talk.run, antiphon.cli.talk.realtime_session; sys.exit('torch' in sys.modules)"
    assert template(*BARE_MODULES).run(code, ()).returncode == 0
