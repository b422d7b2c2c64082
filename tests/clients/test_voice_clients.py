"""Clients of OpenAI's Realtime API, unchanged, in conversations with a real server on real weights.

Each says a recorded sentence and hears an answer, lets a tool be called, and interrupts an answer. OpenAI's own client
runs in this environment, the others in soak tests and in environments with the locked versions of
`environments/voice.txt` and `environments/voice_node`. What cannot be installed is a failure.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.audio.decode import decode
from antiphon.audio.pcm import to_s16
from antiphon.audio.resample import resample
from antiphon.models.base.companions import END_OF_TURN
from antiphon.server.apis.realtime.session_config import REALTIME
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.fetching.client_environments import VARIABLES, environment_python, node_modules
from support.server.http_server import RunningServer, running_server
from support.sound.sounds import wav_bytes
from support.sound.speech import RATE, librivox_clips, word_error_rate

PROGRAMS = Path(__file__).parent / "programs" / "voice"
NAMES = ("use_openai_agents", "use_pipecat", "use_livekit")
MODELS = ("smollm2-135m", "whisper-tiny.en", "hibari-6m")
KEY = "a-key-for-clients"
OUTPUT_RATE = 24_000
SILENCE_SECONDS = 2.5
SPEECH_KINDS = ("input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped")


@pytest.fixture(scope="module")
def server(model_path: Callable[[str], Path]) -> Iterator[RunningServer]:
    for name in (*MODELS, "english-phonemes", "silero-vad", END_OF_TURN):
        model_path(name)
    models = tuple(ModelSpec.of(name) for name in MODELS)
    config = ServerConfig(models=models, keys=KeyRing([KEY]), memory_bytes=4 << 30, offline=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(REALTIME, "temperature", 0.0)  # the same answers every time
        with running_server(config, {"kv_bytes": 128 << 20, "quantize": "auto"}) as running:
            yield running


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A file with a sentence and a silence, as PCM at 24 kHz, and its words."""
    clip, words = librivox_clips()[0]
    silence = np.zeros(round(OUTPUT_RATE * SILENCE_SECONDS), np.float32)
    samples = np.concatenate([resample(decode(clip, rate=RATE).values, RATE, OUTPUT_RATE), silence])
    path = tmp_path_factory.mktemp("speech") / "sentence.pcm"
    path.write_bytes(to_s16(samples).tobytes())
    return path, words


def report_of(command: list[str], server: RunningServer, speech: Path) -> dict[str, Any]:
    """What a program printed."""
    variables = {"CLIENT_HOST": server.url, "CLIENT_KEY": KEY, "CLIENT_SPEECH": str(speech)}
    ran = subprocess.run(command, env=VARIABLES | variables, capture_output=True, text=True, timeout=500)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-6000:]
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def likeness(first: str, second: str) -> float:
    """By letters: 1 for the same text, about 0.4 for two that have nothing in common."""
    return SequenceMatcher(None, letters(first), letters(second), autojunk=False).ratio()


def check(report: dict[str, Any], words: str, server: RunningServer) -> None:
    assert not report["errors"]
    assert [kind for kind in report["kinds"] if kind in SPEECH_KINDS][:2] == list(SPEECH_KINDS)
    assert word_error_rate(words, report["heard"]) <= 0.25, report["heard"]
    assert report["tool_arguments"]["city"] in ("Paris", "Oslo")
    assert report["interrupted_status"] == "cancelled" or report["was_over"]
    first, after_the_tool = report["answers"]
    for answer in (first, after_the_tool):
        spoken = np.frombuffer(base64.b64decode(answer["sound"]), "<i2").astype(np.float32) / 32768
        assert 0.02 < len(spoken) / OUTPUT_RATE / len(letters(answer["text"])) < 0.3 and spoken.std() > 0.01
        answer["samples"] = spoken
    with server.openai(KEY) as client:
        file = ("answer.wav", wav_bytes(first["samples"], OUTPUT_RATE))
        again = client.audio.transcriptions.create(model="whisper-1", file=file)
    assert likeness(first["text"], again.text) > 0.55, (first["text"], again.text)
    server.wait_until_idle()


@pytest.mark.slow
@pytest.mark.weights
def test_openais_own_client(server: RunningServer, speech: tuple[Path, str]) -> None:
    path, words = speech
    check(report_of([sys.executable, str(PROGRAMS / "use_openai.py")], server, path), words, server)


@pytest.mark.soak
@pytest.mark.timeout(1500)  # the first one installs the environment
@pytest.mark.parametrize("name", NAMES)
def test_python_client(name: str, server: RunningServer, speech: tuple[Path, str]) -> None:
    path, words = speech
    check(report_of([str(environment_python("voice")), str(PROGRAMS / f"{name}.py")], server, path), words, server)


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_node_client(server: RunningServer, speech: tuple[Path, str]) -> None:
    path, words = speech
    modules = node_modules("voice_node")
    command = ["node", str(PROGRAMS / "use_agents_realtime.mjs"), str(modules)]
    check(report_of(command, server, path), words, server)
