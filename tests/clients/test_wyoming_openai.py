"""`wyoming-openai`, a bridge from Wyoming to servers with OpenAI's API, between a Wyoming client and this server.

It needs Python 3.12, and runs in an environment with the locked versions. What cannot be installed is a failure.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from wyoming.asr import Transcribe
from wyoming.client import AsyncTcpClient
from wyoming.info import Describe, Info
from wyoming.tts import Synthesize, SynthesizeVoice

from antiphon.audio.decode import decode
from antiphon.audio.pcm import to_s16
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.fetching.client_environments import VARIABLES, environment_python
from support.server.http_server import RunningServer, running_server
from support.server.wyoming_server import events_until, run_client, send_sound, sound_of
from support.sound.heard_words import is_heard
from support.sound.speech import JFK_TEXT, jfk
from support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1500)]

SPOKEN = "The quick brown fox jumps over the lazy dog."


def python_312() -> str | None:
    """An interpreter of Python 3.12 or later on this machine."""
    found = [sys.executable, shutil.which("python3.12")]
    found += map(str, sorted((Path.home() / ".pyenv" / "versions").glob("3.12*/bin/python3.12")))
    check = "import sys; sys.exit(sys.version_info < (3, 12))"
    return next((path for path in found if path and not subprocess.run([path, "-c", check]).returncode), None)


@pytest.fixture(scope="module")
def bridge_python() -> Path:
    base = python_312()
    if base is None:
        pytest.skip("wyoming-openai needs Python 3.12, and this machine has an older one")
    return environment_python("wyoming_openai", base)


@pytest.fixture(scope="module")
def server(model_path: Callable[[str], Path]) -> Iterator[RunningServer]:
    for name in ("whisper-tiny.en", "hibari-6m", "english-phonemes", "silero-vad"):
        model_path(name)
    models = (ModelSpec.of("whisper-tiny.en"), ModelSpec.of("hibari-6m"))
    with running_server(ServerConfig(models=models, offline=True), {"kv_bytes": 64 << 20}) as running:
        yield running


@pytest.fixture(scope="module")
def port(bridge_python: Path, server: RunningServer) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    url = f"{server.url}/v1"
    arguments = ["--uri", f"tcp://127.0.0.1:{number}", "--languages", "en", "--stt-openai-url", url]
    arguments += ["--stt-openai-key", "unused", "--tts-openai-key", "unused", "--tts-openai-url", url]
    arguments += ["--stt-models", "whisper-tiny.en", "--tts-models", "hibari-6m", "--tts-voices", "heart", "alloy"]
    bridge = subprocess.Popen([str(bridge_python), "-m", "wyoming_openai", *arguments], env=VARIABLES)

    def is_listening() -> bool:
        assert bridge.poll() is None
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", number)) == 0

    try:
        wait_until(is_listening, "the bridge to listen")
        yield number
    finally:
        bridge.terminate()
        bridge.wait(30)


def test_both_directions(port: int) -> None:
    async def session(client: AsyncTcpClient) -> tuple[Info, str, bytes]:
        await client.write_event(Describe().event())
        info = Info.from_event((await events_until(client, "info"))[-1])
        await client.write_event(Transcribe(name="whisper-tiny.en", language="en").event())
        await send_sound(client, to_s16(decode(jfk()).values).tobytes())
        text = (await events_until(client, "transcript"))[-1].data["text"]
        await client.write_event(Synthesize(SPOKEN, voice=SynthesizeVoice(name="heart")).event())
        return info, text, sound_of(await events_until(client, "audio-stop"))

    info, text, sound = run_client(port, session)
    assert [model.name for program in info.asr for model in program.models] == ["whisper-tiny.en"]
    assert "heart" in [voice.name for program in info.tts for voice in program.voices]
    assert is_heard(JFK_TEXT, text)
    assert 1.5 < len(sound) / 48_000 < 5 and np.frombuffer(sound, "<i2").std() > 300


def test_two_clients_of_the_bridge(port: int) -> None:
    async def session() -> int:
        async with AsyncTcpClient("127.0.0.1", port, read_timeout=60) as client:
            await client.write_event(Synthesize(SPOKEN, voice=SynthesizeVoice(name="heart")).event())
            return len(sound_of(await events_until(client, "audio-stop")))

    async def both() -> list[int]:
        return await asyncio.gather(session(), session())

    first, second = asyncio.run(both())
    assert first == second > 0
