"""Ollama's API through its own client: chat, generate, embeddings, tools, thinking, models and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import ollama
import pytest

from antiphon import __version__
from support.server.http_server import RunningServer

HELLO = [{"role": "user", "content": "hello"}]
GREEDY = {"temperature": 0, "num_predict": 8, "num_ctx": 2048, "mirostat": 0}
ADD: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    },
}


@pytest.fixture
def llama(server: RunningServer) -> Iterator[ollama.Client]:
    made = ollama.Client(host=server.url, timeout=60)
    yield made
    made.close()


def lines_of(server: RunningServer, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    response = httpx.post(server.url + path, content=json.dumps(body), timeout=60)  # no content type, as curl -d
    assert response.headers["content-type"] == "application/x-ndjson", response.text
    return [json.loads(line) for line in response.text.splitlines()]


def test_chat_equals_the_chat_it_stands_for(server: RunningServer, llama: ollama.Client) -> None:
    answer = llama.chat("tiny-chat:latest", HELLO, options=GREEDY)
    with server.openai() as client:
        chat = client.chat.completions.create(model="tiny-chat", messages=HELLO, max_tokens=8, temperature=0)  # type: ignore[arg-type]
    assert answer.message.content == chat.choices[0].message.content
    assert answer.model == "tiny-chat:latest" and answer.done and answer.done_reason == "length"
    assert chat.usage is not None and answer.eval_count == 8 and answer.prompt_eval_count == chat.usage.prompt_tokens
    durations = (answer.total_duration, answer.load_duration, answer.prompt_eval_duration, answer.eval_duration)
    assert all(isinstance(value, int) and value >= 0 for value in durations)
    assert (answer.total_duration or 0) >= (answer.eval_duration or 0)


def test_stream_is_the_default_and_gives_lines(server: RunningServer, llama: ollama.Client) -> None:
    whole = llama.chat("tiny-chat", HELLO, options=GREEDY)
    lines = lines_of(server, "/api/chat", {"model": "tiny-chat", "messages": HELLO, "options": GREEDY})
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert "".join(line["message"]["content"] for line in lines) == whole.message.content
    assert lines[-1]["done_reason"] == "length" and lines[-1]["eval_count"] == 8
    parts = list(llama.chat("tiny-chat", HELLO, options=GREEDY, stream=True))
    assert "".join(part.message.content or "" for part in parts) == whole.message.content


def test_options_reach_the_sampler(llama: ollama.Client) -> None:
    text = llama.chat("tiny-chat", HELLO, options=GREEDY).message.content or ""
    stopped = llama.chat("tiny-chat", HELLO, options={**GREEDY, "stop": [text[3:5]]})
    assert stopped.message.content == text[: text.index(text[3:5])] and stopped.done_reason == "stop"
    one = {"temperature": 1.5, "num_predict": 20, "seed": 7, "top_k": 40, "top_p": 0.95, "min_p": 0.0}
    drawn = [llama.chat("tiny-chat", HELLO, options=one).message.content for _ in range(2)]
    assert drawn[0] == drawn[1]
    only_likeliest = {**one, "top_p": 0, "num_predict": 8, "repeat_penalty": 1.0}
    assert llama.chat("tiny-chat", HELLO, options=only_likeliest).message.content == text


def test_formats(llama: ollama.Client) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    answer = llama.chat("tiny-chat", HELLO, format=schema, options={"num_predict": 60, "seed": 1})
    assert json.loads(answer.message.content or "")["n"] in (1, 2)
    generated = llama.generate("tiny-chat", "hello", format=schema, options={"num_predict": 60, "seed": 1})
    assert json.loads(generated.response or "")["n"] in (1, 2)


@pytest.mark.parametrize("stream", [False, True])
def test_results_of_calls_without_ids_are_taken(server: RunningServer, stream: bool) -> None:
    history: list[dict[str, Any]] = [
        *HELLO,
        {"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "add", "arguments": {"a": 1}}}, {"function": {"name": "add", "arguments": {"a": 2}}},
        ]},
        {"role": "tool", "content": "three", "tool_name": "add"},
        {"role": "tool", "content": "four", "tool_name": "add"},
    ]  # fmt: skip
    body = {"model": "tiny-chat", "messages": history, "tools": [ADD], "options": GREEDY, "stream": stream}
    answer = httpx.post(server.url + "/api/chat", json=body, timeout=60)
    assert json.loads(answer.text.splitlines()[-1])["eval_count"] == 8


def test_thinking_is_a_field_of_its_own(server: RunningServer, llama: ollama.Client) -> None:
    answer = llama.chat("tiny-thinker", HELLO, options=GREEDY, think=True)
    assert answer.message.thinking and not answer.message.content
    generated = llama.generate("tiny-thinker", "hello", options=GREEDY)
    assert generated.thinking == answer.message.thinking and generated.response == ""
    lines = lines_of(server, "/api/chat", {"model": "tiny-thinker", "messages": HELLO, "options": GREEDY})
    assert "".join(line["message"].get("thinking", "") for line in lines) == answer.message.thinking
    with pytest.raises(ollama.ResponseError, match="does not support thinking"):
        llama.chat("tiny-chat", HELLO, think=True)


def test_logprobs(llama: ollama.Client) -> None:
    answer = llama.chat("tiny-chat", HELLO, options=GREEDY, logprobs=True, top_logprobs=2)
    assert answer.logprobs is not None and len(answer.logprobs) == 8
    assert "".join(entry.token for entry in answer.logprobs) == answer.message.content
    assert all(len(entry.top_logprobs or ()) == 2 for entry in answer.logprobs)
    raw = llama.generate("tiny-chat", "hello", raw=True, options=GREEDY, logprobs=True)
    assert raw.logprobs is not None and len(raw.logprobs) == 8


def test_generate_is_a_chat_unless_raw(server: RunningServer, llama: ollama.Client) -> None:
    messages = [{"role": "system", "content": "Be brief."}, *HELLO]
    chat = llama.chat("tiny-chat", messages, options=GREEDY)
    generated = llama.generate("tiny-chat", "hello", system="Be brief.", options=GREEDY)
    assert generated.response == chat.message.content and generated.prompt_eval_count == chat.prompt_eval_count
    raw = llama.generate("tiny-chat", "hello", raw=True, options=GREEDY)
    with server.openai() as client:
        completion = client.completions.create(model="tiny-chat", prompt="hello", max_tokens=8, temperature=0)
    assert raw.response == completion.choices[0].text and raw.context is None
    streamed = list(llama.generate("tiny-chat", "hello", raw=True, options=GREEDY, stream=True))
    assert "".join(part.response or "" for part in streamed) == raw.response


def test_context_goes_on_from_an_earlier_answer(llama: ollama.Client) -> None:
    first = llama.generate("tiny-chat", "hello", options=GREEDY)
    assert first.context is not None
    assert len(first.context) == (first.prompt_eval_count or 0) + (first.eval_count or 0)
    second = llama.generate("tiny-chat", "more", context=first.context, options=GREEDY)
    alone = llama.generate("tiny-chat", "more", options=GREEDY)
    assert second.prompt_eval_count == (alone.prompt_eval_count or 0) + len(first.context)
    assert second.response != alone.response


def test_embeddings_are_those_of_the_other_route(server: RunningServer, llama: ollama.Client) -> None:
    texts = ["hello", "a choir"]
    with server.openai() as client:
        wanted = [row.embedding for row in client.embeddings.create(model="bert", input=texts).data]
    answer = llama.embed("bert", texts)
    assert np.allclose(answer.embeddings, wanted, atol=1e-6) and answer.prompt_eval_count
    assert np.allclose(llama.embeddings("bert", texts[0]).embedding, wanted[0], atol=1e-6)
    assert len(llama.embed("bert", "hello", dimensions=8).embeddings[0]) == 8
    long = "hello " * 3000
    assert len(llama.embed("bert", long).embeddings) == 1
    with pytest.raises(ollama.ResponseError, match="tokens"):
        llama.embed("bert", long, truncate=False)


def test_models_are_listed_and_shown(server: RunningServer, llama: ollama.Client) -> None:
    listed = {model.model: model for model in llama.list().models}
    assert {"tiny-chat", "bert"} <= listed.keys()
    card = listed["tiny-chat"]
    assert card.size and card.details is not None and card.details.family == "llama"
    assert card.details.format == "safetensors" and card.details.quantization_level == "F32"
    running = {model.model: model for model in llama.ps().models}
    assert running["tiny-chat"].context_length == 4096 and running["tiny-chat"].expires_at is not None
    shown = llama.show("tiny-chat:latest")
    assert shown.capabilities == ["completion", "tools"] and "<|im_start|>" in (shown.template or "")
    assert shown.modelinfo is not None and shown.modelinfo["llama.context_length"] == 4096
    assert llama.show("bert").capabilities == ["embedding"]
    assert "thinking" in (llama.show("tiny-thinker").capabilities or ())
    assert httpx.get(server.url + "/api/version").json() == {"version": __version__}
    assert httpx.get(server.url + "/").text == "Antiphon is running"
    assert httpx.head(server.url + "/").status_code == 200
    assert llama.pull("tiny-chat").status == "success"


def test_requests_without_a_prompt_load(server: RunningServer) -> None:
    for path in ("/api/chat", "/api/generate"):
        answer = httpx.post(server.url + path, json={"model": "tiny-chat", "keep_alive": -1}, timeout=60).json()
        assert answer["done"] and answer["done_reason"] == "load"


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/api/chat", {"model": "nothing", "messages": HELLO}, 404, "nothing"),
        ("/api/chat", {"model": "tiny-chat:other", "messages": HELLO}, 404, "tiny-chat:other"),
        ("/api/chat", {"model": "tiny-chat", "messages": [{"role": "user", "images": ["AAAA"]}]}, 400, "images"),
        ("/api/generate", {"model": "tiny-chat", "prompt": "x", "template": "{{ .Prompt }}"}, 400, "template"),
        ("/api/generate", {"model": "tiny-chat", "prompt": "x", "images": ["AAAA"]}, 400, "images"),
        ("/api/generate", {"model": "tiny-chat", "prompt": "x", "options": {"temperature": "hot"}}, 400, "temperature"),
        ("/api/show", {}, 400, "model is missing"),
        ("/api/pull", {"model": "no/such"}, 404, "no/such"),
        ("/api/create", {"model": "x"}, 501, "not implemented"),
        ("/api/nothing", {}, 404, "there is no route POST /api/nothing"),
    ],
)
def test_errors_are_one_text(server: RunningServer, path: str, body: dict[str, Any], status: int, words: str) -> None:
    answer = httpx.post(server.url + path, json=body, timeout=60)
    assert answer.status_code == status and answer.json().keys() == {"error"}
    assert words in answer.json()["error"]


def test_a_page_in_a_browser_must_name_json(server: RunningServer) -> None:
    body = json.dumps({"model": "tiny-chat", "messages": HELLO, "stream": False})
    headers = {"origin": "http://evil.example", "content-type": "text/plain"}
    assert httpx.post(server.url + "/api/chat", content=body, headers=headers).status_code == 415


def test_without_a_length_an_answer_takes_what_the_server_allows(
    server: RunningServer, llama: ollama.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = server.serving.config
    monkeypatch.setattr(server.serving, "config", replace(config, limits=replace(config.limits, output_tokens=6)))
    for more in ({"raw": True}, {"suffix": "b"}, {}):
        answer = llama.generate("tiny-llama3", "hello", options={"temperature": 0}, **more)
        assert answer.eval_count is not None and answer.eval_count <= 6
    assert llama.generate("tiny-chat", "hello", raw=True, options={"temperature": 0}).eval_count == 6


def test_suffix_equals_the_completion_it_stands_for(server: RunningServer, llama: ollama.Client) -> None:
    made = llama.generate("tiny-llama3", "hello", suffix="world", options=GREEDY)
    with server.openai() as client:
        wanted, alone = (
            client.completions.create(model="tiny-llama3", prompt="hello", suffix=suffix, max_tokens=8, temperature=0)
            for suffix in ("world", None)
        )
    assert wanted.usage is not None and alone.usage is not None
    assert made.response == wanted.choices[0].text and made.prompt_eval_count == wanted.usage.prompt_tokens
    assert wanted.usage.prompt_tokens > alone.usage.prompt_tokens
    with pytest.raises(ollama.ResponseError, match="suffix"):
        llama.generate("tiny-chat", "hello", suffix="world", options=GREEDY)
