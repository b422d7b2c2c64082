"""A server with a Whisper of random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from antiphon.models.base.companions import VOICE_ACTIVITY
from antiphon.server.serving.setup.config import Limits, ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.models.tiny_whisper import dims, state_dict, vocabulary
from support.server.http_server import ADMIN_KEY, RunningServer
from support.server.pool import ServerPool
from support.server.scripted_transcriptions import ScriptedServer, scripted_transcriptions
from weights.whisper_files import ggml_file


@pytest.fixture(scope="session")
def whisper(tmp_path_factory: pytest.TempPathFactory, model_path: Callable[[str], Path]) -> Path:
    """An English model. The detector that it uses is the real one."""
    model_path(VOICE_ACTIVITY)
    path = tmp_path_factory.mktemp("whisper") / "ggml-tiny.bin"
    path.write_bytes(ggml_file(dims(), state_dict(), vocabulary(50257)))
    return path


#: The API keys of the server of scripted transcriptions.
SCRIBE_KEYS = ("the-first-scribe-key", "the-second-scribe-key")


@pytest.fixture
def scribe(servers: ServerPool, whisper: Path) -> Iterator[ScriptedServer]:
    """A server with two keys, where tests decide what a transcription gives and when."""
    limits = Limits(audio_bytes=4 << 20, audio_seconds=60.0, background=3, background_concurrency=2)
    config = ServerConfig(
        models=(ModelSpec.of(str(whisper)),), keys=KeyRing(list(SCRIBE_KEYS)), limits=limits, offline=True
    )
    with (
        servers.lease(config, {"kv_bytes": 32 << 20}) as running,
        scripted_transcriptions(running, SCRIBE_KEYS[0]) as scripted,
    ):
        yield scripted


@pytest.fixture
def hearing(servers: ServerPool, whisper: Path, encoder_folder: Path) -> Iterator[RunningServer]:
    """With an encoder, an admin key, and limits that are soon reached."""
    limits = Limits(audio_bytes=1 << 20, audio_seconds=20.0, body_bytes=1 << 20, speech_characters=100)
    config = ServerConfig(
        models=(ModelSpec.of(str(whisper)), ModelSpec.of(str(encoder_folder))),
        admin_keys=KeyRing([ADMIN_KEY]),
        limits=limits,
        offline=True,
    )
    with servers.lease(config, {"kv_bytes": 32 << 20}) as running:
        yield running
