"""Packages and programs that the server lacks are 501 with what to install there; faults of the request stay 400."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.audio import encode as encoding
from antiphon.audio.encode import encode
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.server.http_server import RunningServer, running_server
from support.sound.sounds import tone, wav_bytes


def transcribed(server: RunningServer, sound: bytes, **more: Any) -> httpx.Response:
    url = server.url + "/v1/audio/transcriptions"
    return httpx.post(url, files={"file": ("a", sound)}, data={"model": "whisper-1", **more}, timeout=60)


def check_missing(answer: httpx.Response, *words: str) -> None:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (501, "missing_dependency", "server_error"), error
    assert all(word in error["message"] for word in words), error


@pytest.mark.parametrize("stream", ["false", "true"])
def test_sound_that_needs_a_missing_package(
    hearing: RunningServer, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    flac, slow = encode(tone(1), "flac", 16_000), wav_bytes(tone(1, rate=8_000), 8_000)
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.setitem(sys.modules, "soxr", None)
    check_missing(transcribed(hearing, flac, stream=stream), "decoding", "`pip install av`")
    check_missing(transcribed(hearing, slow, stream=stream), "from 8000 to 16000 Hz", "`pip install soxr`")
    assert transcribed(hearing, wav_bytes(tone(1))).status_code == 200


def test_faults_of_the_sound_stay_the_clients(hearing: RunningServer) -> None:
    answer = transcribed(hearing, b"no sound at all" * 20)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_audio")


@pytest.fixture(scope="module")
def speaking(
    model_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory, chat_folder: Path
) -> Iterator[RunningServer]:
    """Kokoro and Hibari on a machine without espeak-ng."""
    for name in ("hibari-6m", "kokoro-82m", "english-phonemes"):
        model_path(name)
    specs = tuple(ModelSpec.of(reference) for reference in ("hibari-6m", "kokoro-82m", str(chat_folder)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
        with running_server(ServerConfig(models=specs, offline=True), {"kv_bytes": 32 << 20}) as running:
            yield running


def spoken(server: RunningServer, **body: Any) -> httpx.Response:
    body = {"model": "tts-1", "input": "Hello.", "voice": "alloy", **body}
    return httpx.post(server.url + "/v1/audio/speech", json=body, timeout=120)


@pytest.mark.slow
@pytest.mark.weights
def test_speech_that_needs_a_missing_package(speaking: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    check_missing(spoken(speaking), "libmp3lame", "`pip install av`")
    check_missing(spoken(speaking, stream_format="sse"), "`pip install av`")
    assert spoken(speaking, response_format="wav").status_code == 200
    chat = {"model": "tiny-chat", "messages": [{"role": "user", "content": "a"}], "max_tokens": 30, "logit_bias": {}}
    chat |= {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "mp3"}, "guided_regex": "Hello\\."}
    check_missing(httpx.post(speaking.url + "/v1/chat/completions", json=chat, timeout=120), "`pip install av`")
    streamed = httpx.post(speaking.url + "/v1/chat/completions", json={**chat, "stream": True}, timeout=120).text
    assert '"code":"missing_dependency"' in streamed.strip().splitlines()[-1]
    speaking.wait_until_idle()


@pytest.mark.slow
@pytest.mark.weights
def test_a_codec_that_pyav_was_built_without(speaking: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(encoding._CODECS, "mp3", encoding._Codec("mp3", "libnothing", "fltp"))
    check_missing(spoken(speaking), "cannot encode with libnothing")


@pytest.mark.slow
@pytest.mark.weights
def test_a_language_that_needs_espeak(speaking: RunningServer) -> None:
    check_missing(spoken(speaking, model="kokoro-82m", language="fr"), "'fr'", "`apt install espeak-ng`")
    check_missing(spoken(speaking, model="kokoro-82m", voice="ff_siwis"), "voice 'ff_siwis' speaks fr", "espeak-ng")
    unknown = spoken(speaking, model="kokoro-82m", language="tlh")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (400, "invalid_value")
