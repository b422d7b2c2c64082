"""The detectors that transcriptions use: loaded on use, under the server's memory budget, and in no list of models."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import httpx

from antiphon.models.base.companions import VOICE_ACTIVITY
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.server.http_server import ADMIN_KEY, RunningServer
from support.server.pool import ServerPool
from support.sound.sounds import tone, wav_bytes
from support.waiting import wait_until

KV_BYTES = 32 << 20


def transcribed(server: RunningServer) -> httpx.Response:
    url = server.url + "/v1/audio/transcriptions"
    return httpx.post(url, files={"file": ("a", wav_bytes(tone(1)))}, data={"model": "whisper-1"}, timeout=60)


def admin(server: RunningServer, method: str, path: str, **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {ADMIN_KEY}"}
    return httpx.request(method, f"{server.url}/admin/{path}", headers=headers, json=body or None, timeout=60)


def card(server: RunningServer) -> dict[str, Any] | None:
    cards = {card["name"]: card for card in admin(server, "GET", "models").json()["models"]}
    return cards.get(VOICE_ACTIVITY)


def test_loaded_on_use_charged_and_listed_for_admins_alone(hearing: RunningServer) -> None:
    assert card(hearing) is None
    charged = admin(hearing, "GET", "models").json()["memory"]["weight_bytes"]
    assert transcribed(hearing).status_code == 200
    hearing.wait_until_idle()
    found = card(hearing)
    assert found is not None
    assert (found["state"], found["task"], found["requests"]) == ("ready", "voice-activity", 0)
    assert found["charged_bytes"] == found["weight_bytes"] > 2_000_000
    memory = admin(hearing, "GET", "models").json()["memory"]
    assert memory["weight_bytes"] == charged + found["charged_bytes"]
    listed = [model["id"] for model in httpx.get(hearing.url + "/v1/models").json()["data"]]
    assert VOICE_ACTIVITY not in listed and "whisper-1" in listed
    assert httpx.get(f"{hearing.url}/v1/models/{VOICE_ACTIVITY}").status_code == 404


def test_it_can_be_unloaded_and_comes_back(hearing: RunningServer) -> None:
    assert transcribed(hearing).status_code == 200
    hearing.wait_until_idle()
    answer = admin(hearing, "POST", "models/unload", model=VOICE_ACTIVITY)
    assert answer.status_code == 200 and answer.json()["state"] == "unloaded"
    assert card(hearing) is None
    assert transcribed(hearing).status_code == 200
    assert card(hearing) is not None


def test_it_is_loaded_again_after_the_engine_was_restarted(hearing: RunningServer) -> None:
    assert transcribed(hearing).status_code == 200
    pid = hearing.serving.client.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: hearing.serving.client.pid not in (None, pid), "a new engine process")
    page = lambda: httpx.get(hearing.url + "/metrics").text  # noqa: E731
    wait_until(lambda: f'model_name="{VOICE_ACTIVITY}"' in page(), "the detector to be loaded again", seen=page)
    assert transcribed(hearing).status_code == 200
    found = card(hearing)
    assert found is not None and found["state"] == "ready"


def test_a_budget_without_room_for_it(servers: ServerPool, whisper: Path) -> None:
    size = whisper.stat().st_size
    models = (ModelSpec.of(str(whisper)),)
    config = ServerConfig(models=models, memory_bytes=KV_BYTES + size + 1000, offline=True)
    with servers.lease(config, {"kv_bytes": KV_BYTES}) as running:
        answer = transcribed(running)
        assert answer.status_code == 503, answer.text
        error = answer.json()["error"]
        assert "'silero-vad' needs " in error["message"] and "memory budget" in error["message"], error
        running.wait_until_idle()
