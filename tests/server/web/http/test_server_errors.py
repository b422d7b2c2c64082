"""Errors: OpenAI's shape, the client's own exception types, and nothing that a client sends breaks the server."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import openai
import pytest

from antiphon.errors import ContextLengthError
from antiphon.server.web.http.errors import api_error
from support.server.http_server import RunningServer

MESSAGES = [{"role": "user", "content": "hello"}]
#: As OpenAI writes it: litellm, LangChain and agents match its beginning.
CONTEXT_LENGTH = (
    r"This model's maximum context length is 4096 tokens\. However, you requested 5\d\d\d tokens "
    r"\(5\d\d\d in the messages, \d+ in the completion\)\. Please reduce the length of the messages or completion\."
)
GOOD = {"model": "tiny-chat", "messages": MESSAGES, "max_tokens": 2}


def post(server: RunningServer, path: str = "/v1/chat/completions", **options: Any) -> httpx.Response:
    return httpx.post(server.url + path, timeout=30, **options)


def test_the_client_raises_its_own_types(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="did you mean tiny-chat") as unknown:
        client.chat.completions.create(model="tiny-chatt", messages=MESSAGES)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match=CONTEXT_LENGTH) as long:
        client.chat.completions.create(model="tiny-chat", messages=[{"role": "user", "content": "ab" * 2600}])
    assert long.value.code == "context_length_exceeded" and long.value.param == "messages"
    with pytest.raises(openai.BadRequestError) as schema:
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "nonsense"}}}
        client.chat.completions.create(model="tiny-chat", messages=MESSAGES, response_format=form)
    assert schema.value.code == "invalid_schema"
    with pytest.raises(openai.BadRequestError, match="is an embedding model"):
        client.chat.completions.create(model="bert", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError, match="is a language model"):
        client.embeddings.create(model="tiny-chat", input="hello")
    with pytest.raises(
        openai.BadRequestError, match=r"is 32 tokens\. However, .* \(\d+ in the input\[1\], 0 in"
    ) as text:
        client.embeddings.create(model="bert", input=["a", "b" * 50])
    assert text.value.code == "context_length_exceeded"


def test_a_count_that_stopped_early_is_a_bound(server: RunningServer) -> None:
    long = "a b " * 100_000
    bodies: list[tuple[str, dict[str, Any], str]] = [
        ("/v1/completions", {"prompt": long}, "(more than 4095 in the prompt, 1 in the completion)"),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": long}]},
            "(more than 4095 in the messages, 1 in the completion)",
        ),
    ]
    for path, body, counts in bodies:
        message = post(server, path, json={"model": "tiny-chat", **body}).json()["error"]["message"]
        assert f"4096 tokens. However, you requested more than 4096 tokens {counts}. Please" in message
    message = post(server, "/v1/embeddings", json={"model": "bert", "input": long}).json()["error"]["message"]
    assert "requested more than 32 tokens (more than 32 in the input[0], 0 in the completion)" in message


def test_a_context_that_the_engine_finds_too_long() -> None:
    error = api_error(ContextLengthError("prompt has 9 tokens; the cache of model 'm' holds 8"))
    assert (error.status, error.code) == (400, "context_length_exceeded")
    assert error.message.startswith("This model's maximum context length is exceeded: prompt has 9 tokens")


@pytest.mark.slow
def test_langchain_tells_a_prompt_that_is_too_long(server: RunningServer) -> None:
    from langchain_core.exceptions import ContextOverflowError
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(base_url=f"{server.url}/v1", api_key="unused", model="tiny-chat", max_retries=0)
    with pytest.raises(ContextOverflowError, match="maximum context length is 4096 tokens"):
        model.invoke("ab" * 2600)


CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"reasoning_effort": "much"}, "invalid_value", "reasoning_effort"),
    ({"web_search_options": {"search_context_size": "low"}}, "unsupported_value", "web_search_options"),
    ({"mirostat": 2}, "unsupported_value", "mirostat"),
    ({"temperature": -1}, "invalid_value", "temperature"),
    ({"temperature": "1"}, "invalid_value", "temperature"),
    ({"top_p": 0}, "invalid_value", "top_p"),
    ({"n": 17}, "invalid_value", "n"),
    ({"n": True}, "invalid_value", "n"),
    ({"stop": ["a"] * 17}, "invalid_value", "stop"),
    ({"stop": [""]}, "invalid_value", "stop"),
    ({"logit_bias": {"x": 101}}, "invalid_value", "logit_bias.x"),
    ({"logit_bias": {"999999": 1}}, "invalid_value", "logit_bias"),
    ({"stop_token_ids": [99999]}, "invalid_value", "stop_token_ids"),
    ({"max_tokens": 0}, "invalid_value", "max_tokens"),
    ({"min_tokens": 9}, "invalid_value", "min_tokens"),
    ({"max_completion_tokens": 3}, "invalid_value", "max_completion_tokens"),
    ({"top_logprobs": 2}, "invalid_value", "top_logprobs"),
    ({"messages": []}, "invalid_value", "messages"),
    ({"messages": [{"role": "robot", "content": "a"}]}, "invalid_value", "messages[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "file"}]}]}, "unsupported_value", "messages[0].content[0]"),
    ({"web_search_options": {}}, "unsupported_value", "web_search_options"),
    ({"messages": [{"role": "user"}]}, "missing_required_parameter", "messages[0].content"),
    ({"guided_regex": "(", "guided_choice": ["a"]}, "invalid_value", "guided_regex"),
    ({"guided_regex": "("}, "invalid_schema", None),
    ({"guided_grammar": "start: nothing"}, "invalid_schema", None),
    ({"guided_json": {"a": "b" * 70_000}}, "invalid_schema", "guided_json"),
    ({"guided_regex": "a+", "banned_token_ids": [1]}, "invalid_value", "banned_token_ids"),
    ({"guided_choice": ["a", "ab"], "logit_bias": {"a": False}}, "invalid_value", None),
    ({"guided_regex": "a+", "min_tokens": 1}, "invalid_value", "min_tokens"),
    ({"allowed_token_ids": [1], "banned_token_ids": [1, 2]}, "invalid_value", "banned_token_ids"),
    ({"tool_choice": "required"}, "invalid_value", "tool_choice"),
    ({"chat_template_kwargs": {"messages": []}}, "invalid_value", "chat_template_kwargs"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "code", "param"), CASES, ids=[",".join(case[0]) for case in CASES])
def test_refusals(server: RunningServer, change: dict[str, Any], code: str, param: str | None) -> None:
    answer = post(server, json={**GOOD, **change})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == code, error
    assert error["type"] == "invalid_request_error"
    assert param is None or error["param"] == param


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"model": "\\ud800"}',
        b"[" * 100_000,
        b'{"temperature": NaN}',
        b"1e999",
    ],
    ids=range(9),
)
def test_garbage_bodies(server: RunningServer, body: bytes) -> None:
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/tokenize", "/detokenize"):
        answer = post(server, path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["message"]


def test_bodies_that_are_too_large(server: RunningServer) -> None:
    answer = post(server, json={**GOOD, "user": "a" * (1 << 20)})
    assert answer.status_code == 413 and answer.json()["error"]["code"] == "body_too_large"

    def pieces() -> Any:
        for _ in range(50):
            yield b" " * (1 << 20)

    answer = post(server, content=pieces(), headers={"content-type": "application/json"})
    assert answer.status_code == 413 and answer.json()["error"]["code"] == "body_too_large"


def test_content_type_and_routes(server: RunningServer) -> None:
    answer = post(server, content=json.dumps(GOOD), headers={"content-type": "text/plain"})
    assert answer.status_code == 415 and answer.json()["error"]["code"] == "unsupported_media_type"
    assert httpx.get(server.url + "/nothing").json()["error"]["code"] == "not_found"
    answer = httpx.get(server.url + "/v1/completions")
    assert answer.status_code == 405 and answer.json()["error"]["code"] == "method_not_allowed"


def test_garbage_before_http(server: RunningServer) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    for garbage in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(garbage)
            assert b" 200 " not in connection.recv(65536)
    assert post(server, json=GOOD).status_code == 200


def test_a_template_that_refuses(server: RunningServer) -> None:
    answer = post(server, json={**GOOD, "model": "bert"})
    assert answer.status_code == 400
    answer = post(server, "/apply-template", json={"model": "bert", "messages": MESSAGES})
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "invalid_template"


def test_text_routes(server: RunningServer) -> None:
    ids = post(server, "/tokenize", json={"model": "tiny-chat", "prompt": "hello the"}).json()
    assert ids["count"] == len(ids["tokens"]) == len(ids["token_strs"]) and ids["max_model_len"] == 4096
    text = post(server, "/detokenize", json={"model": "tiny-chat", "tokens": ids["tokens"]}).json()
    assert text == {"prompt": "hello the"}
    prompt = post(server, "/apply-template", json={"model": "tiny-chat", "messages": MESSAGES}).json()["prompt"]
    assert prompt == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    chat = post(server, "/tokenize", json={"model": "tiny-chat", "messages": MESSAGES}).json()["tokens"]
    again = post(server, "/tokenize", json={"model": "tiny-chat", "prompt": prompt}).json()["tokens"]
    assert chat == again
    developer = [{"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    answer = post(
        server, "/apply-template", json={"model": "tiny-chat", "messages": developer, "add_generation_prompt": False}
    )
    assert answer.json()["prompt"] == "<|im_start|>system\nab<|im_end|>\n"
    assert post(server, "/detokenize", json={"model": "tiny-chat", "tokens": [5000]}).status_code == 400


def test_truncation_is_opt_in(server: RunningServer) -> None:
    long = {"model": "tiny-chat", "prompt": "ab" * 4000, "max_tokens": 1}
    assert post(server, "/v1/completions", json=long).status_code == 400
    cut = post(server, "/v1/completions", json={**long, "truncate_prompt_tokens": 20})
    assert cut.json()["usage"]["prompt_tokens"] == 20


def test_overload_is_429_with_retry_after(server: RunningServer) -> None:
    """Eight run and 32 may wait; a request for more choices than there is room for is told to come back."""
    many = {"model": "tiny-chat", "prompt": ["hello"] * 16, "max_tokens": 4000, "ignore_eos": True, "stream": True}
    with httpx.Client(timeout=30) as first:
        streams = [first.stream("POST", server.url + "/v1/completions", json=many) for _ in range(3)]
        opened = [stream.__enter__() for stream in streams]
        statuses = [answer.status_code for answer in opened]
        refused = [answer for answer in opened if answer.status_code == 429]
        if not refused:
            refused = [post(server, "/v1/completions", json={**many, "stream": False})]
        assert refused[0].status_code == 429, statuses
        assert refused[0].headers["retry-after"] == "1"
        refused[0].read()
        assert refused[0].json()["error"]["code"] == "overloaded"
        for stream in streams:
            stream.__exit__(None, None, None)
    server.wait_until_idle()
