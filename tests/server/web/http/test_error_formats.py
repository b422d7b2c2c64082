"""Errors before a route is reached, in the format of the API that the path belongs to."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from antiphon.server.web.access.admin_access import AdminAccess
from antiphon.server.web.access.hosts import AllowedHosts
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.middleware.active_requests import ActiveRequests
from antiphon.server.web.middleware.admission import Rules
from antiphon.server.web.middleware.gate import Gate
from antiphon.server.web.telemetry.metrics import Metrics

KEY = "a key of some length"


async def failing(scope: Scope, receive: Receive, send: Send) -> None:
    """An application whose streams break off."""
    kind = b"application/x-ndjson" if scope["path"].startswith("/api") else b"text/event-stream"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    raise ApiError(503, "gone", code="gone")


def get(path: str, **headers: str) -> httpx.Response:
    hosts = AllowedHosts("127.0.0.1")
    rules = Rules(AdminAccess(None, hosts), hosts, KeyRing([KEY]))
    gate = Gate(failing, rules, ActiveRequests(), Metrics(), lambda: False)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(gate, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(ask())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/models", "/v1/models/x"])
def test_a_missing_key_in_anthropics_format(path: str) -> None:
    answer = get(path, **{"anthropic-version": "2023-06-01"})
    body: dict[str, Any] = answer.json()
    assert answer.status_code == 401 and body.keys() == {"type", "error", "request_id"}
    assert body["error"]["type"] == "authentication_error" and body["error"]["message"]
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]


def test_a_missing_key_in_the_other_formats() -> None:
    assert get("/api/tags").json().keys() == {"error"} and isinstance(get("/api/tags").json()["error"], str)
    assert get("/v1/models").json()["error"]["code"] == "invalid_api_key"
    assert "request-id" not in get("/v1/models").headers
    assert get("/apix").json()["error"]["code"] == "invalid_api_key"


def test_a_stream_ends_with_an_error_in_its_format() -> None:
    key = {"authorization": f"Bearer {KEY}"}
    anthropic = get("/v1/messages", **key).text
    assert anthropic.startswith(
        'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"gone"}'
    )
    assert get("/v1/messages", **{"x-api-key": KEY}).text.startswith("event: error\n")
    assert get("/api/chat", **key).text == '{"error":"gone"}\n'
    assert get("/v1/chat/completions", **key).text.startswith('data: {"error":{"message":"gone"')
