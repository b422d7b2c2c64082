"""Routes by other paths and methods, routes that are not there, and the small routes of health and documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from antiphon import __version__
from antiphon.server.app import ROUTERS
from antiphon.server.page import docs_page
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.middleware.route_table import RouteTable
from support.server.http_server import RunningServer
from support.server.pool import ServerPool

ADMIN_KEY, KEY = "an-admin-key", "an-api-key"
TABLE = RouteTable([route for router in ROUTERS for route in router.routes])


@pytest.fixture
def keyed(servers: ServerPool, chat_folder: Path) -> Iterator[RunningServer]:
    """With an API key and an admin key."""
    specs = (ModelSpec.of(str(chat_folder)),)
    config = ServerConfig(models=specs, keys=KeyRing([KEY]), admin_keys=KeyRing([ADMIN_KEY]), offline=True)
    with servers.lease(config, {"kv_bytes": 16 << 20}) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/models", "/v1/models"),
        ("/models/a/b", "/v1/models/a/b"),
        ("/responses/x/cancel", "/v1/responses/x/cancel"),
        ("/audio/speech", "/v1/audio/speech"),
        ("/v1/models", "/v1/models"),
        ("/tokenize", "/tokenize"),
        ("/admin/models", "/admin/models"),
        ("/livez", "/livez"),
        ("/", "/"),
        ("", ""),
        ("models", "models"),
        ("//models", "//models"),
        ("/nothing", "/nothing"),
    ],
)
def test_the_prefix_may_be_omitted(path: str, wanted: str) -> None:
    assert TABLE.canonical(path) == wanted


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        ("POST", "/v1/chat/completion", "; did you mean POST /v1/chat/completions?"),
        ("POST", "/v1/v1/chat/completions", "; did you mean POST /v1/chat/completions?"),
        ("POST", "/v1/embedding", "; did you mean POST /v1/embeddings?"),
        ("GET", "/v1/model", "; did you mean GET /v1/models?"),
        ("PUT", "/v1/embeding", "; did you mean POST /v1/embeddings?"),
        ("GET", "/" + "x" * 5000, ""),
        ("GET", "/%\r\n\x00", ""),
    ],
)
def test_what_is_not_there(method: str, path: str, told: str) -> None:
    error = TABLE.not_found(method, path)
    assert (error.status, error.code) == (404, "not_found")
    assert error.message.startswith(f"there is no route {method} /") and error.message.endswith(told)
    assert error.message.isprintable() and len(error.message) < 300


def test_errors_of_routes(server: RunningServer) -> None:
    answer = httpx.post(server.url + "/v1/chat/completion", json={})
    assert answer.status_code == 404
    wanted = "there is no route POST /v1/chat/completion; did you mean POST /v1/chat/completions?"
    assert answer.json()["error"]["message"] == wanted
    answer = httpx.put(server.url + "/v1/responses/abc")
    assert answer.status_code == 405 and answer.headers["allow"] == "DELETE, GET, HEAD"
    assert answer.json()["error"]["message"].endswith("this path allows DELETE, GET, HEAD")


def test_a_client_without_the_prefix(server: RunningServer) -> None:
    with openai.OpenAI(base_url=server.url, api_key="unused", max_retries=0) as client:
        assert "tiny-chat" in {model.id for model in client.models.list()}
        messages: list[Any] = [{"role": "user", "content": "a"}]
        assert client.chat.completions.create(model="tiny-chat", messages=messages, max_tokens=1).choices
        chunks = client.completions.create(model="tiny-chat", prompt="a", max_tokens=1, stream=True)
        assert list(chunks)
        assert client.embeddings.create(model="bert", input="a").data
        made = client.responses.create(model="tiny-chat", input="a", max_output_tokens=16)
        assert client.responses.retrieve(made.id).id == made.id


def test_head_is_get_without_a_body(server: RunningServer) -> None:
    for path in (
        "/v1/models",
        "/models",
        "/v1/models/tiny-chat",
        "/livez",
        "/readyz",
        "/version",
        "/docs",
        "/openapi.json",
    ):
        head, get = httpx.head(server.url + path), httpx.get(server.url + path)
        assert head.status_code == get.status_code == 200 and not head.content
        for name in ("content-type", "content-length"):
            assert head.headers[name] == get.headers[name], path
    assert httpx.head(server.url + "/v1/completions").status_code == 405
    missing = httpx.head(server.url + "/v1/models/nobody")
    assert missing.status_code == 404 and not missing.content


def test_health_needs_no_key(keyed: RunningServer, server: RunningServer) -> None:
    for ask, path in ((httpx.get, "/health"), (httpx.get, "/ping"), (httpx.post, "/ping"), (httpx.head, "/health")):
        assert ask(keyed.url + path).status_code == 200
    assert httpx.get(keyed.url + "/version").status_code == 401
    assert httpx.get(server.url + "/version").json() == {"version": __version__}
    server.serving.is_draining = True
    try:
        assert {httpx.get(server.url + path).status_code for path in ("/health", "/ping")} == {503}
    finally:
        server.serving.is_draining = False


def test_the_only_model_need_not_be_named(keyed: RunningServer) -> None:
    headers = {"x-api-key": KEY}
    for path, body in (
        ("/v1/completions", {"prompt": "a", "max_tokens": 1}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "model": None}),
        ("/v1/responses", {"input": "a", "max_output_tokens": 1}),
    ):
        answer = httpx.post(keyed.url + path, json=body, headers=headers, timeout=30)
        assert answer.status_code == 200 and answer.json()["model"] == "tiny-chat", answer.text
    assert httpx.post(keyed.url + "/tokenize", json={"prompt": "a"}, headers=headers).json()["count"] == 1
    answer = httpx.post(keyed.url + "/v1/embeddings", json={"input": "a"}, headers=headers)
    assert answer.status_code == 400 and "no model of this server fits" in answer.json()["error"]["message"]


def test_deleting_a_model_unloads_it(keyed: RunningServer, server: RunningServer) -> None:
    for key in (KEY, "unused-key"):
        with keyed.openai(key) as client, pytest.raises(openai.AuthenticationError):
            client.models.delete("tiny-chat")
    with keyed.openai(ADMIN_KEY) as client:
        gone = client.models.delete("tiny-chat")
        assert (gone.id, gone.object, gone.deleted) == ("tiny-chat", "model", True)
        with pytest.raises(openai.NotFoundError):
            client.models.delete("nobody")
    with keyed.openai(KEY) as client:
        assert client.models.retrieve("tiny-chat").to_dict()["state"] == "unloaded"
        assert client.completions.create(model="tiny-chat", prompt="a", max_tokens=1).choices  # loaded again
        with keyed.openai(ADMIN_KEY) as admin:
            stream = client.completions.create(
                model="tiny-chat", prompt="a", max_tokens=4000, stream=True, extra_body={"ignore_eos": True}
            )
            next(iter(stream))
            with pytest.raises(openai.ConflictError) as used:
                admin.models.delete("tiny-chat")
            assert used.value.code == "model_in_use"
            stream.close()
    keyed.wait_until_idle()
    refused = httpx.delete(server.url + "/v1/models/tiny-chat")  # this server has no admin key
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "admin_disabled")
    evil = {"authorization": f"Bearer {ADMIN_KEY}", "origin": "http://evil.example"}
    assert httpx.delete(keyed.url + "/v1/models/tiny-chat", headers=evil).json()["error"]["code"] == "invalid_origin"
    assert httpx.delete(keyed.url + "/models/tiny-chat").status_code == 401


def test_the_documentation_is_one_page(keyed: RunningServer) -> None:
    answer = httpx.get(keyed.url + "/docs")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    assert "openapi.json" in answer.text and len(answer.content) < 20_000
    assert not re.search(r"https?:|src=|href=|//[a-z]|@import|innerHTML|eval", answer.text)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert answer.text.count(docs_page.SCRIPT) == answer.text.count(docs_page.STYLE) == 1
