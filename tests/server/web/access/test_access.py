"""API keys, a model that cannot be loaded, an engine that dies, and what is logged."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from antiphon.errors import InvalidRequestError
from antiphon.runtime.process.engine_process import EngineProcess
from antiphon.server.serving.setup.config import DEFAULT_ALIASES, Limits, ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.telemetry.logs import JsonLines
from support.server.http_server import RunningServer
from support.server.pool import ServerPool
from support.waiting import wait_until

KEYS = ["first-secret-key", "second-secret-key"]
MESSAGES = [{"role": "user", "content": "an-unmistakable-prompt"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of keys and a broken model."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys").write_text("# keys\n\n" + "\n".join(KEYS) + "\n")
    (folder / "broken.gguf").write_bytes(b"GGUF" + b"\x03\x00\x00\x00" + b"\xff" * 64)
    return folder


@pytest.fixture
def guarded(servers: ServerPool, chat_folder: Path, folder: Path) -> Iterator[RunningServer]:
    """With keys, and with a second model whose file is broken."""
    specs = (ModelSpec.of(str(chat_folder)), ModelSpec.of(str(folder / "broken.gguf")))
    config = ServerConfig(models=specs, keys=KeyRing.read(folder / "keys"), offline=True)
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        yield running


def test_keys_open_and_others_do_not(guarded: RunningServer) -> None:
    for key in KEYS:
        names = {model.id for model in guarded.openai(key).models.list()}
        assert names == {"tiny-chat", "broken", *(DEFAULT_ALIASES.keys() - {"default-embedding"})}
    for key in ("first-secret-ke", "first-secret-key2", "x"):
        with pytest.raises(openai.AuthenticationError) as refused:
            guarded.openai(key).models.list()
        assert (refused.value.code, refused.value.type) == ("invalid_api_key", "authentication_error")
        bare = httpx.get(guarded.url + "/v1/models", headers={"x-api-key": key})
        assert bare.status_code == 401
    for path in ("/v1/models", "/metrics", "/openapi.json", "/nothing"):
        assert httpx.get(guarded.url + path).status_code == 401
    for headers in ({"x-api-key": KEYS[1]}, {"x-api-key": KEYS[1], "authorization": "Bearer unused"}):
        assert httpx.get(guarded.url + "/v1/models", headers=headers).status_code == 200
    basic = httpx.get(guarded.url + "/v1/models", headers={"authorization": f"Basic {KEYS[0]}"})
    assert basic.status_code == 401 and basic.headers["www-authenticate"] == "Bearer"
    headers = {"authorization": f"Bearer {KEYS[0]}", "host": "antiphon.example"}  # with a key, any name will do
    assert httpx.get(guarded.url + "/v1/models", headers=headers).status_code == 200
    assert httpx.get(guarded.url + "/livez").status_code == 200
    assert httpx.get(guarded.url + "/readyz").status_code == 503


def test_keys_are_not_kept_in_the_clear() -> None:
    ring = KeyRing(KEYS)
    assert not any(key in repr(vars(ring)) + repr(ring) for key in KEYS)
    with pytest.raises(InvalidRequestError, match="no API key"):
        KeyRing([])
    with pytest.raises(InvalidRequestError, match="4 characters") as short:
        KeyRing(["abcd"])
    assert "abcd" not in str(short.value)


def test_a_model_that_failed_to_load(guarded: RunningServer) -> None:
    with guarded.openai(KEYS[0]) as client:
        with pytest.raises(openai.InternalServerError, match=r"broken.*failed to load: .*broken\.gguf") as failed:
            client.completions.create(model="broken", prompt="a")
        assert failed.value.status_code == 503 and failed.value.code == "model_load_failed"
        assert client.completions.create(model="tiny-chat", prompt="a", max_tokens=2, temperature=0).choices[0].text
        assert client.models.retrieve("broken").to_dict()["state"] == "failed"
    ready = httpx.get(guarded.url + "/readyz")
    assert ready.status_code == 503 and ready.json()["models"]["broken"].startswith("failed: ")


def request_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The lines of requests with the id `mine`; a line of an earlier test's request may still come."""
    lines = [JsonLines().format(record) for record in list(caplog.records)]
    found = [json.loads(line) for line in lines if '"event": "request"' in line]
    return [line for line in found if line["request_id"] == "mine"]


def test_logs_hold_no_text_and_no_keys(guarded: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="antiphon"), guarded.openai(KEYS[0]) as client:
        details = dict(model="tiny-chat", messages=MESSAGES, max_tokens=9, temperature=0)
        details["extra_headers"] = {"x-request-id": "mine"}
        text = client.chat.completions.create(**details).choices[0].message.content
        list(client.chat.completions.create(**details, stream=True))
        # A line is written after the answer has left.
        wait_until(lambda: len(request_lines(caplog)) >= 2, "two lines in the log", seen=lambda: request_lines(caplog))
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(**details, logit_bias={"an-unmistakable-prompt": 101})
        wait_until(lambda: len(request_lines(caplog)) >= 3, "a third line", seen=lambda: request_lines(caplog))
    lines = [JsonLines().format(record) for record in caplog.records]
    requests = request_lines(caplog)
    assert len(requests) == 3
    assert requests[0]["route"] == "/v1/chat/completions" and requests[0]["model"] == "tiny-chat"
    assert requests[0]["completion_tokens"] == requests[1]["completion_tokens"] == 9
    assert (requests[2]["status"], requests[2]["code"]) == (400, "invalid_value")
    everything = "\n".join(lines)
    assert not any(secret in everything for secret in ("unmistakable", json.dumps(text), *KEYS))


@pytest.fixture
def open_to_pages(servers: ServerPool, chat_folder: Path) -> Iterator[RunningServer]:
    """For pages of one origin, with a short time for each request, and a log of what clients send."""
    config = ServerConfig(
        models=(ModelSpec.of(str(chat_folder)),),
        keys=KeyRing(KEYS),
        cors_origins=("https://page.example",),
        limits=Limits(request_seconds=0.5),
        logs_text=True,
        offline=True,
    )
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        yield running


@pytest.mark.slow
def test_pages_of_other_origins_are_not_helped(open_to_pages: RunningServer, server: RunningServer) -> None:
    def preflight(url: str, origin: str) -> httpx.Response:
        headers = {
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "anthropic-version,authorization,content-type,x-api-key",
        }
        return httpx.options(url + "/v1/chat/completions", headers=headers)

    allowed = preflight(open_to_pages.url, "https://page.example")
    assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == "https://page.example"
    assert "anthropic-version" in allowed.headers["access-control-allow-headers"]
    headers = {"origin": "https://page.example"}
    assert httpx.get(open_to_pages.url + "/livez", headers=headers).headers["access-control-allow-origin"]
    for url, origin in ((open_to_pages.url, "https://other.example"), (server.url, "https://page.example")):
        assert "access-control-allow-origin" not in preflight(url, origin).headers


@pytest.mark.slow
def test_a_request_that_takes_too_long_and_a_log_with_text(
    open_to_pages: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with open_to_pages.openai(KEYS[0]) as client, caplog.at_level(logging.INFO, logger="antiphon"):
        details = dict(model="tiny-chat", prompt="secret words", max_tokens=4000, n=8, extra_body={"ignore_eos": True})
        with pytest.raises(openai.InternalServerError, match=r"longer than 0\.5 s") as slow:
            client.completions.create(**details)
        assert slow.value.status_code == 504 and slow.value.code == "timeout"
        with pytest.raises(openai.APIError, match=r"longer than 0\.5 s"):
            list(client.completions.create(**details, stream=True))
    assert any("secret words" in JsonLines().format(record) for record in caplog.records)
    with socket.create_connection(open_to_pages.url.removeprefix("http://").split(":"), timeout=60) as connection:
        lines = ["POST /tokenize HTTP/1.1", "Host: localhost", f"Authorization: Bearer {KEYS[0]}"]
        lines += ["Content-Type: application/json", "Content-Length: 100", "", "{"]
        connection.sendall("\r\n".join(lines).encode())
        assert b"504" in connection.recv(4096)  # a body that never comes to its end


def test_metrics(server: RunningServer) -> None:
    httpx.post(
        server.url + "/v1/completions",
        json={"model": "tiny-chat", "prompt": "hello", "max_tokens": 3, "ignore_eos": True},
    )
    text = server.metrics()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values['antiphon:generation_tokens_total{model_name="tiny-chat"}']) >= 3
    assert float(values['antiphon:time_to_first_token_seconds_count{model_name="tiny-chat"}']) >= 1
    assert values['antiphon:num_requests_running{model_name="tiny-chat"}'] == "0.0"
    assert values["antiphon:engine_up"] == "1.0"
    assert 'antiphon:http_requests_total{route="/v1/completions",status="200"}' in values


def test_a_killed_engine_is_told_and_replaced(guarded: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stream ends with an error event, readiness says why, and the next answers are right again."""
    go_on = threading.Event()
    engine = guarded.serving.client
    prepare = engine._prepare

    async def prepare_later(process: EngineProcess) -> None:
        await asyncio.to_thread(go_on.wait, 120)
        await prepare(process)

    monkeypatch.setattr(engine, "_prepare", prepare_later)
    details = dict(model="tiny-chat", prompt="hello", temperature=0)
    with guarded.openai(KEYS[0]) as client:
        wanted = client.completions.create(**details, max_tokens=8).choices[0].text
        stream = client.completions.create(**details, max_tokens=4000, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        with pytest.raises(openai.APIError, match="engine"):
            for _ in stream:
                pass
        ready = httpx.get(guarded.url + "/readyz")
        assert ready.status_code == 503 and ready.json()["models"]["tiny-chat"] == "loading"
        assert client.models.retrieve("tiny-chat").to_dict()["state"] == "loading"
        with pytest.raises(openai.InternalServerError) as refused:
            client.completions.create(**details)
        assert refused.value.status_code == 503 and refused.value.code == "engine_restarting"
        assert "retry-after" in refused.value.response.headers
        go_on.set()
        wait_until(lambda: httpx.get(guarded.url + "/readyz").json()["status"] != "restarting", "the engine's restart")
        assert client.completions.create(**details, max_tokens=8).choices[0].text == wanted
