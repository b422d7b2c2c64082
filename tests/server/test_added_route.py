"""A route that is added as CONTRIBUTING.md says: behind the gate, described, with errors in its API's format."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from antiphon.runtime.process.client import EngineClient
from antiphon.server.app import ROUTERS, create_app
from antiphon.server.serving.setup.config import ServerConfig
from antiphon.server.web.access.keys import KeyRing
from support.server import word_count

URL, PATH, KEY = "http://127.0.0.1:8000", "/v1/word_count", "an-api-key"


@pytest.fixture
def app() -> FastAPI:
    config = ServerConfig(models=(), keys=KeyRing([KEY]), offline=True)
    return create_app(config, EngineClient({}, offline=True), routers=(*ROUTERS, word_count.router))


def send(app: FastAPI, method: str, path: str, body: Any = None, key: str | None = KEY) -> httpx.Response:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}

    async def exchange() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
            return await client.request(method, path, json=body, headers=headers)

    return asyncio.run(exchange())


def test_an_added_route_answers_and_is_described(app: FastAPI) -> None:
    assert send(app, "POST", PATH, {"text": "one two three"}).json() == {"num_words": 3}
    page = send(app, "GET", "/openapi.json").json()["paths"][PATH]["post"]
    assert page["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/WordCountBody"
    }
    answer = page["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/WordCountAnswer"}


@pytest.mark.parametrize(
    ("body", "key", "status", "code"),
    [
        ({"text": "one"}, None, 401, "invalid_api_key"),
        ({"text": " "}, KEY, 400, "invalid_value"),
        ({"text": 1}, KEY, 400, "invalid_value"),
    ],
)
def test_an_added_route_is_behind_the_gate(app: FastAPI, body: Any, key: str | None, status: int, code: str) -> None:
    answer = send(app, "POST", PATH, body, key)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["x-request-id"]


def test_a_path_like_that_of_an_added_route_is_suggested(app: FastAPI) -> None:
    assert PATH in send(app, "POST", "/v1/word_counts", {}).json()["error"]["message"]
