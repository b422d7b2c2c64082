"""The detectors that transcriptions use: loaded on use, under the server's memory budget, and in no list of models."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.models.base.companions import VOICE_ACTIVITY
from antiphon.server.access.keys import KeyRing
from antiphon.server.setup.config import ModelSpec, ServerConfig
from support.models.tiny_whisper import dims, state_dict, vocabulary
from support.server.http_server import RunningServer, running_server
from support.sound.sounds import tone, wav_bytes
from support.waiting import wait_until
from weights.whisper_files import ggml_file

KV_BYTES = 32 << 20
ADMIN = "an-admins-own-key"


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory, model_path: Callable[[str], Path]) -> Path:
    model_path(VOICE_ACTIVITY)
    path = tmp_path_factory.mktemp("whisper") / "ggml-tiny.bin"
    path.write_bytes(ggml_file(dims(), state_dict(), vocabulary(50257)))
    return path


def config(whisper: Path, **more: Any) -> ServerConfig:
    return ServerConfig(models=(ModelSpec.of(str(whisper)),), admin_keys=KeyRing([ADMIN]), offline=True, **more)


@pytest.fixture(scope="module")
def server(whisper: Path) -> Iterator[RunningServer]:
    with running_server(config(whisper), {"kv_bytes": KV_BYTES}) as running:
        yield running


def transcribed(server: RunningServer) -> httpx.Response:
    url = server.url + "/v1/audio/transcriptions"
    return httpx.post(url, files={"file": ("a", wav_bytes(tone(1)))}, data={"model": "whisper-1"}, timeout=60)


def admin(server: RunningServer, method: str, path: str, **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {ADMIN}"}
    return httpx.request(method, f"{server.url}/admin/{path}", headers=headers, json=body or None, timeout=60)


def card(server: RunningServer) -> dict[str, Any] | None:
    cards = {card["name"]: card for card in admin(server, "GET", "models").json()["models"]}
    return cards.get(VOICE_ACTIVITY)


def test_loaded_on_use_charged_and_listed_for_admins_alone(server: RunningServer) -> None:
    assert card(server) is None
    charged = admin(server, "GET", "models").json()["memory"]["weight_bytes"]
    assert transcribed(server).status_code == 200
    server.wait_until_idle()
    found = card(server)
    assert found is not None
    assert (found["state"], found["task"], found["requests"]) == ("ready", "voice-activity", 0)
    assert found["charged_bytes"] == found["weight_bytes"] > 2_000_000
    memory = admin(server, "GET", "models").json()["memory"]
    assert memory["weight_bytes"] == charged + found["charged_bytes"]
    listed = [model["id"] for model in httpx.get(server.url + "/v1/models").json()["data"]]
    assert VOICE_ACTIVITY not in listed and "whisper-1" in listed
    assert httpx.get(f"{server.url}/v1/models/{VOICE_ACTIVITY}").status_code == 404


def test_it_can_be_unloaded_and_comes_back(server: RunningServer) -> None:
    assert transcribed(server).status_code == 200
    server.wait_until_idle()
    answer = admin(server, "POST", "models/unload", model=VOICE_ACTIVITY)
    assert answer.status_code == 200 and answer.json()["state"] == "unloaded"
    assert card(server) is None
    assert transcribed(server).status_code == 200
    assert card(server) is not None


def test_it_is_loaded_again_after_the_engine_was_restarted(server: RunningServer) -> None:
    assert transcribed(server).status_code == 200
    pid = server.serving.client.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: server.serving.client.pid not in (None, pid), "a new engine process")
    page = lambda: httpx.get(server.url + "/metrics").text  # noqa: E731
    wait_until(lambda: f'model_name="{VOICE_ACTIVITY}"' in page(), "the detector to be loaded again", seen=page)
    assert transcribed(server).status_code == 200
    found = card(server)
    assert found is not None and found["state"] == "ready"


def test_a_budget_without_room_for_it(whisper: Path) -> None:
    size = whisper.stat().st_size
    with running_server(config(whisper, memory_bytes=KV_BYTES + size + 1000), {"kv_bytes": KV_BYTES}) as running:
        answer = transcribed(running)
        assert answer.status_code == 503, answer.text
        error = answer.json()["error"]
        assert "'silero-vad' needs " in error["message"] and "memory budget" in error["message"], error
        running.wait_until_idle()
