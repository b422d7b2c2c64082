"""Fields that a schema does not know are ignored and named in a header; a strict server rejects them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import openai
import pytest
from fastapi import FastAPI, Request, Response
from pydantic import ValidationError

from antiphon.server.apis.responses.request_schemas import ResponseBody
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.request_schemas import CompletionBody
from antiphon.server.web.access.admin_access import AdminAccess
from antiphon.server.web.access.hosts import AllowedHosts
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.bodies.body_size import BodyBudget
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.bodies.unknown_fields import validate_known
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.ignored_fields import HEADER, MAX_HEADER_CHARACTERS, IgnoredFields
from antiphon.server.web.middleware.active_requests import ActiveRequests
from antiphon.server.web.middleware.admission import Rules
from antiphon.server.web.middleware.gate import Gate
from antiphon.server.web.telemetry.metrics import Metrics
from support.server.http_server import RunningServer

MESSAGES: list[Any] = [{"role": "user", "content": "hello"}]
CHAT: dict[str, Any] = {"model": "tiny-chat", "messages": MESSAGES, "max_tokens": 2}


def context(is_strict: bool = False) -> RequestContext:
    return RequestContext("id", is_strict=is_strict, task=None)


def test_unknown_fields_are_removed_at_every_depth() -> None:
    part = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    body = {
        **CHAT,
        "messages": [{"role": "user", "content": [part, part], "colour": 1}, {"role": "assistant", "content": "b"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": 1}, "speed": 2}, "cache": 3}],
        "tool_choice": {"type": "function", "function": {"name": "f", "why": 1}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}, "note": ""}},
        "frobnicate": None,
    }
    seen = context()
    made = validate_known(ChatBody, body, seen)
    assert set(seen.ignored.header().split(", ")) == {
        "frobnicate",
        "messages[].colour",
        "messages[].content[].cache_control",
        "tools[].cache",
        "tools[].function.speed",
        "tool_choice.function.why",
        "response_format.json_schema.note",
    }
    clean = {
        **body,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 2}, body["messages"][1]],
    }
    clean["tools"] = [{"type": "function", "function": {"name": "f", "parameters": {"x": 1}}}]
    clean["tool_choice"] = {"type": "function", "function": {"name": "f"}}
    clean["response_format"] = {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}
    del clean["frobnicate"]
    assert made == ChatBody.model_validate(clean)
    with pytest.raises(ValidationError):
        validate_known(ChatBody, body, context(is_strict=True))


def test_items_of_responses() -> None:
    seen = context()
    text = {"type": "input_text", "text": "a", "cache_control": {}}
    items = [
        {"role": "user", "content": [text], "x": 1},
        {"type": "function_call_output", "call_id": "c", "output": [text]},
    ]
    made = validate_known(ResponseBody, {"input": items, "reasoning": {"depth": 2}}, seen)
    assert made.model_dump(exclude_unset=True)["input"][0] == {
        "role": "user",
        "content": [{"type": "input_text", "text": "a"}],
    }
    assert set(seen.ignored.header().split(", ")) == {
        "input[].x", "input[].content[].cache_control", "input[].output[].cache_control", "reasoning.depth",
    }  # fmt: skip


def test_another_fault_is_still_an_error() -> None:
    with pytest.raises(ValidationError) as fault:
        validate_known(ChatBody, {**CHAT, "frobnicate": 1, "temperature": -1}, context())
    assert [one["loc"] for one in fault.value.errors()] == [("temperature",)]


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        (ChatBody, "web_search_options", {"search_context_size": "low"}),
        (ChatBody, "mirostat", 1),
        (CompletionBody, "use_beam_search", True),
        (CompletionBody, "top_n_sigma", 1.5),
        (ResponseBody, "prompt", {"id": "p"}),
    ],
)
def test_fields_that_change_the_meaning_are_rejected(model: Any, field: str, value: Any) -> None:
    body = (
        {"messages": MESSAGES} if model is ChatBody else {"prompt": "a"} if model is CompletionBody else {"input": "a"}
    )
    with pytest.raises(ApiError) as refused:
        validate_known(model, {**body, field: value}, context())
    assert (refused.value.status, refused.value.code, refused.value.param) == (400, "unsupported_value", field)


@pytest.mark.parametrize("neutral", [{"mirostat": 0}, {"use_beam_search": False}, {"top_n_sigma": -1}, {"tfs_z": 1.0}])
def test_values_that_ask_for_nothing_are_ignored(neutral: dict[str, Any]) -> None:
    seen = context()
    validate_known(CompletionBody, {"prompt": "a", **neutral}, seen)
    assert seen.ignored.header() == next(iter(neutral))


def test_fields_of_messages_that_change_the_meaning() -> None:
    for message, path in (
        ({"role": "user", "content": "a", "images": ["aGk="]}, "messages[].images"),
        ({"role": "assistant", "content": "a", "prefix": True}, "messages[].prefix"),
    ):
        with pytest.raises(ApiError) as refused:
            validate_known(ChatBody, {"messages": [message]}, context())
        assert (refused.value.code, refused.value.param) == ("unsupported_value", path)


def test_the_header_is_safe_and_bounded() -> None:
    seen = IgnoredFields()
    seen.add("a\r\nset-cookie: b, ü\x00")
    assert seen.header() == "a??set-cookie??b????"
    for number in range(1000):
        seen.add(f"field{number}" + "x" * 500)
    value = seen.header()
    assert value.isascii() and value.isprintable() and len(value) <= MAX_HEADER_CHARACTERS + 10
    assert value.endswith(f"+{1001 - len(value.split(', ')) + 1}")


def test_many_unknown_fields() -> None:
    """A quadratic way would take minutes."""
    seen = context()
    validate_known(ChatBody, {**CHAT, **{f"key{index}": 0 for index in range(100_000)}}, seen)
    assert seen.ignored.header().endswith(", +99968")


@pytest.mark.parametrize("is_strict", [False, True])
def test_strict_and_not(is_strict: bool) -> None:
    app = FastAPI()
    app.state.body_budget = BodyBudget(1 << 20)

    @app.post("/chat")
    @app.post("/admin/chat")
    async def chat(request: Request) -> Response:
        body = await read_body(request, ChatBody, 1 << 20)
        return json_response({"messages": len(body.messages)})

    hosts = AllowedHosts("127.0.0.1", ())
    rules = Rules(AdminAccess(KeyRing(["admin-key"]), hosts), hosts, is_strict=is_strict)
    app.add_middleware(Gate, rules=rules, requests=ActiveRequests(), metrics=Metrics(), is_draining=lambda: False)

    async def ask(path: str, body: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(app)
        headers = {"authorization": "Bearer admin-key"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            return await client.post(path, json=body)

    plain = asyncio.run(ask("/chat", CHAT))
    assert plain.status_code == 200 and HEADER not in plain.headers
    answer = asyncio.run(ask("/chat", {**CHAT, "frobnicate": 1}))
    if not is_strict:
        assert answer.status_code == 200 and answer.headers[HEADER] == "frobnicate"
        answer = asyncio.run(ask("/admin/chat", {**CHAT, "frobnicate": 1}))  # administration is always strict
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("unknown_parameter", "frobnicate")


def test_the_client_sees_what_was_ignored(client: openai.OpenAI) -> None:
    for stream in (False, True):
        raw = client.chat.completions.with_raw_response.create(
            **CHAT, stream=stream, extra_body={"frobnicate": 1, "another": {"a": 1}}
        )
        assert raw.headers[HEADER] == "frobnicate, another"
        list(raw.parse()) if stream else raw.parse()
    plain = client.chat.completions.with_raw_response.create(**CHAT)
    assert HEADER not in plain.headers


def test_every_route_ignores_them(server: RunningServer) -> None:
    for path, body in (
        ("/v1/completions", {"model": "tiny-chat", "prompt": "a", "max_tokens": 1}),
        ("/v1/responses", {"model": "tiny-chat", "input": "a", "max_output_tokens": 1}),
        ("/v1/embeddings", {"model": "bert", "input": "a"}),
        ("/tokenize", {"model": "tiny-chat", "prompt": "a"}),
    ):
        answer = httpx.post(server.url + path, json={**body, "frobnicate": 1}, timeout=30)
        assert answer.status_code == 200, answer.text
        assert answer.headers[HEADER] == "frobnicate"
