"""`/v1/realtime/client_secrets` through openai-python: sessions begin as the secret says, and it opens nothing else."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import openai
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from antiphon.server.web.access import client_secrets
from antiphon.server.web.access.client_secrets import ClientSecrets
from antiphon.server.web.http.errors import ApiError
from support.server.http_server import RunningServer

STORE_KEYS = ("first-store-key", "second-store-key")
Owners = tuple[openai.OpenAI, openai.OpenAI]


def created(server: RunningServer, secret: str, query: str = "", **options: Any) -> dict[str, Any]:
    """The session that begins with a secret."""
    headers = None if options else {"authorization": f"Bearer {secret}"}
    url = f"{server.url.replace('http', 'ws')}/v1/realtime{query}"
    with connect(url, additional_headers=headers, **options) as session:
        event = json.loads(session.recv(timeout=60))
    assert event["type"] == "session.created"
    session: dict[str, Any] = event["session"]
    return session


def refusal(server: RunningServer, secret: str) -> dict[str, Any]:
    with pytest.raises(InvalidStatus) as caught:
        created(server, secret)
    assert caught.value.response.status_code == 401
    error: dict[str, Any] = json.loads(caught.value.response.body or b"{}")["error"]
    return error


def test_a_session_begins_as_its_secret_says(shared: RunningServer, owners: Owners) -> None:
    session: Any = {
        "type": "realtime",
        "model": "tiny-chat",
        "instructions": "Be brief.",
        "output_modalities": ["text"],
        "tools": [{"type": "function", "name": "add", "parameters": {"type": "object"}}],
        "audio": {"input": {"turn_detection": None, "format": {"type": "audio/pcmu"}}},
    }
    made = owners[0].realtime.client_secrets.create(
        session=session, expires_after={"anchor": "created_at", "seconds": 60}
    )
    assert made.value.startswith("ek_") and made.session.type == "realtime"
    assert made.session.instructions == "Be brief." and made.session.output_modalities == ["text"]
    for options in ({}, {"subprotocols": ["realtime", f"openai-insecure-api-key.{made.value}"]}):
        begun = created(shared, made.value, **options)
        assert (begun["model"], begun["instructions"], begun["output_modalities"]) == (
            "tiny-chat",
            "Be brief.",
            ["text"],
        )
        assert begun["tools"][0]["name"] == "add"
        assert begun["audio"]["input"]["turn_detection"] is None
        assert begun["audio"]["input"]["format"] == {"type": "audio/pcmu"}
    assert created(shared, made.value, "?model=gpt-realtime")["model"] == "gpt-realtime"


def test_without_a_session_and_for_transcription(shared: RunningServer, owners: Owners) -> None:
    plain = owners[0].realtime.client_secrets.create()
    assert created(shared, plain.value, "?model=tiny-chat")["model"] == "tiny-chat"
    made = owners[0].realtime.client_secrets.create(
        session={
            "type": "transcription",
            "audio": {"input": {"transcription": {"model": "whisper-1", "language": "en"}}},
        }
    )
    assert made.session.type == "transcription"
    begun = created(shared, made.value)
    assert begun["type"] == "transcription" and begun["audio"]["input"]["transcription"]["language"] == "en"


def test_a_secret_opens_nothing_else(shared: RunningServer, owners: Owners) -> None:
    secret = owners[0].realtime.client_secrets.create().value
    for method, path in (("GET", "/v1/models"), ("GET", "/v1/files"), ("POST", "/v1/realtime/client_secrets")):
        answer = httpx.request(method, shared.url + path, headers={"authorization": f"Bearer {secret}"}, json={})
        assert answer.status_code == 401, path
    assert httpx.post(shared.url + "/v1/realtime/client_secrets", json={}).status_code == 401


def test_a_secret_expires(
    shared: RunningServer, server: RunningServer, owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = owners[0].realtime.client_secrets.create(expires_after={"seconds": 10})
    assert "model" in created(shared, made.value)
    assert refusal(shared, "ek_" + "0" * 48)["code"] == "invalid_api_key"
    with server.openai() as client:
        open_to_all = client.realtime.client_secrets.create()
        assert created(server, open_to_all.value)["model"]
    now = made.expires_at
    monkeypatch.setattr(time, "time", lambda: now + 1000.0)
    assert "has expired" in refusal(shared, made.value)["message"]
    assert "has expired" in refusal(server, open_to_all.value)["message"]  # also where no key is needed


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"expires_after": {"seconds": 9}}, 400, "expires_after.seconds"),
        ({"expires_after": {"seconds": 7201}}, 400, "expires_after.seconds"),
        ({"session": {"type": "realtime", "model": "no-such-model"}}, 404, "model"),
        ({"session": {"output_modalities": ["smell"]}}, 400, "session.output_modalities.0"),
        ({"session": {"audio": {"input": {"transcription": {"model": "tiny-chat"}}}}}, 400,
         "session.audio.input.transcription.model"),
        ({"session": {"instructions": "x" * 300_000}}, 400, "session"),
    ],
)  # fmt: skip
def test_sessions_that_cannot_be(server: RunningServer, body: dict[str, Any], status: int, param: str) -> None:
    answer = httpx.post(server.url + "/v1/realtime/client_secrets", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param), answer.text


def test_the_number_of_secrets_of_a_key_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_secrets, "MAX_SECRETS", 3)
    monkeypatch.setattr(client_secrets, "MAX_BYTES", 100)
    store, now = ClientSecrets(), 1000.0
    monkeypatch.setattr(time, "time", lambda: now)
    values = [store.create(0, {}, 10, 60)[0] for _ in range(3)]
    with pytest.raises(ApiError, match="3 client secrets with 30 bytes") as caught:
        store.create(0, {}, 10, 60)
    assert (caught.value.status, caught.value.code) == (429, "too_many_client_secrets")
    other, made = store.create(1, {"a": 1}, 100, 60)  # another key has a share of its own
    assert store.find(other.encode()) == made and made.key == 1
    with pytest.raises(ApiError):
        store.create(1, {}, 1, 60)
    now += 61
    assert not any(store.find(value.encode()) for value in values)
    assert store.create(0, {}, 10, 60)
