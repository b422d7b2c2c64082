"""Fields that only hint are accepted, and honoured where they can be."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest

from antiphon.runtime.loading.model_text import ModelText
from antiphon.server.apis.responses.run import ResponseRun
from antiphon.server.generation.parameters.reasoning_effort import template_options
from antiphon.server.serving.models import ReadyModel
from antiphon.text.chat_template import ChatTemplate
from antiphon.text.tool_calls.output_parser import CallArguments, CallStart, Content
from support.server.http_server import RunningServer
from support.waiting import wait_until

MESSAGES: list[Any] = [{"role": "user", "content": "hello"}]
HINTS: dict[str, Any] = {
    "metadata": {"a": "b"},
    "store": True,
    "service_tier": "flex",
    "safety_identifier": "somebody",
    "prompt_cache_key": "key",
    "prompt_cache_retention": "24h",
    "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
    "user": "somebody",
}
CHAT_HINTS: dict[str, Any] = {
    **HINTS,
    "reasoning_effort": "high",
    "verbosity": "low",
    "prediction": {"type": "content", "content": "hello"},
}
RESPONSE_HINTS: dict[str, Any] = {
    **HINTS,
    "truncation": "auto",
    "text": {"verbosity": "high"},
    "reasoning": {"effort": "xhigh", "summary": "auto", "context": "auto", "mode": "standard"},
    "max_tool_calls": 3,
    "background": False,
    "include": ["file_search_call.results", "reasoning.encrypted_content"],
    "access_programs": {"cyber": "standard"},
    "image": {"context_compression": "auto"},
    "stream_options": {"include_obfuscation": False},
}


@pytest.mark.parametrize("stream", [False, True])
def test_chats_with_every_hint(client: openai.OpenAI, stream: bool) -> None:
    plain = dict(model="tiny-chat", messages=MESSAGES, max_tokens=3, temperature=0)
    hints = {**CHAT_HINTS, "stream_options": {"include_obfuscation": False}}
    raw = client.chat.completions.with_raw_response.create(**plain, **hints, stream=stream)
    assert "x-antiphon-ignored" not in raw.headers
    answers = list(raw.parse()) if stream else [raw.parse()]
    wanted = client.chat.completions.create(**plain)
    assert {answer.service_tier for answer in answers} == {"default"} and wanted.service_tier is None
    assert {answer.system_fingerprint for answer in answers} == {wanted.system_fingerprint}
    parts = [choice.delta if stream else choice.message for answer in answers for choice in answer.choices]
    assert "".join(part.content or "" for part in parts) == wanted.choices[0].message.content


def test_null_is_as_good_as_absent(server: RunningServer) -> None:
    """For every field that may be omitted, on every route with a JSON body."""
    for path, schema, body in (
        ("/v1/chat/completions", "ChatBody", {"messages": MESSAGES, "max_tokens": 1}),
        ("/v1/completions", "CompletionBody", {"prompt": "a", "max_tokens": 1}),
        ("/v1/responses", "ResponseBody", {"input": "a", "max_output_tokens": 1}),
        ("/v1/embeddings", "EmbeddingBody", {"input": "a"}),
    ):
        pages = httpx.get(server.url + "/openapi.json").json()["components"]["schemas"]
        names = set(pages[schema]["properties"]) - body.keys()
        model = "bert" if "embeddings" in path else "tiny-chat"
        body = {**dict.fromkeys(names), **body, "model": model}
        answer = httpx.post(server.url + path, json=body, timeout=30)
        assert answer.status_code == 200, answer.text


def test_completions_with_every_hint(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="tiny-chat", prompt="a", max_tokens=1, extra_body={**HINTS, "stream_options": {"include_usage": True}}
    )
    assert answer.system_fingerprint is not None and answer.system_fingerprint.startswith("fp_")


@pytest.mark.parametrize("stream", [False, True])
def test_responses_with_every_hint(client: openai.OpenAI, stream: bool) -> None:
    plain = dict(model="tiny-chat", input="hello", max_output_tokens=3, temperature=0)
    raw = client.responses.with_raw_response.create(**plain, **RESPONSE_HINTS, stream=stream)
    assert "x-antiphon-ignored" not in raw.headers
    answer = list(raw.parse())[-1].response if stream else raw.parse()
    assert (answer.service_tier, answer.truncation, answer.max_tool_calls) == ("default", "auto", 3)
    assert (answer.metadata, answer.safety_identifier, answer.prompt_cache_key) == ({"a": "b"}, "somebody", "key")
    assert answer.text.verbosity == "high" and answer.reasoning.effort == "xhigh"
    assert answer.output_text == client.responses.create(**plain).output_text


@pytest.mark.parametrize("path", ["chat", "completions"])
def test_usage_in_every_chunk(client: openai.OpenAI, path: str) -> None:
    options: Any = {"include_usage": True, "continuous_usage_stats": True}
    stream = dict(model="tiny-chat", max_tokens=9, temperature=0, stream=True, stream_options=options)

    def growing_counts() -> bool:
        """Whether the counts grow from chunk to chunk. On a busy machine one chunk may have all tokens."""
        if path == "chat":
            chunks: list[Any] = list(client.chat.completions.create(messages=MESSAGES, **stream))
        else:
            chunks = list(client.completions.create(prompt="hello", **stream))
        usages = [chunk.usage for chunk in chunks]
        assert all(usages)
        counts = [usage.completion_tokens for usage in usages]
        assert counts == sorted(counts) and counts[-1] == 9
        assert {usage.prompt_tokens for usage in usages} == {usages[-1].prompt_tokens}
        assert all(usage.total_tokens == usage.prompt_tokens + usage.completion_tokens for usage in usages)
        return len(set(counts)) > 1

    wait_until(growing_counts, "a stream of several chunks")


def test_usage_in_the_last_chunk(client: openai.OpenAI) -> None:
    stream: Any = dict(model="tiny-chat", max_tokens=9, temperature=0, stream=True)
    stream["stream_options"] = {"include_usage": True}
    usages = [chunk.usage for chunk in client.chat.completions.create(messages=MESSAGES, **stream)]
    assert usages[-1] and not any(usages[:-1])


def model_with(template: str | None) -> ReadyModel:
    made = None if template is None else ChatTemplate(template)
    return ReadyModel("m", ModelText("m", None, made, frozenset(), 8), 8, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("template", "given", "effort", "wanted"),
    [
        ("{{ enable_thinking }}", None, "none", {"enable_thinking": False}),
        ("{{ enable_thinking }}", None, "minimal", {"enable_thinking": False}),
        ("{% if enable_thinking %}a{% endif %}", {"x": 1}, "low", {"x": 1, "enable_thinking": True}),
        ("{{ enable_thinking }}", {"enable_thinking": True}, "none", {"enable_thinking": True}),
        ("{% if not thinking %}a{% endif %}", None, "none", {"thinking": False}),
        ("{{ reasoning_effort }}", None, "high", {"reasoning_effort": "high"}),
        ("thinking costs effort", None, "none", None),
        ("{{ enable_thinking }}", None, None, None),
        (None, None, "high", None),
    ],
)
def test_effort_becomes_what_the_template_knows(
    template: str | None, given: dict[str, Any] | None, effort: str | None, wanted: dict[str, Any] | None
) -> None:
    assert template_options(given, effort, model_with(template)) == wanted


def test_effort_reaches_the_prompt(
    client: openai.OpenAI, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = server.serving.models.find("tiny-chat")
    assert model.text is not None
    template = ChatTemplate("{% if enable_thinking %}thoughtful{% else %}-{% endif %}")
    monkeypatch.setattr(model, "text", replace(model.text, chat_template=template))

    def lengths(effort: Any) -> tuple[int, int]:
        chat = client.chat.completions.create(
            model="tiny-chat", messages=MESSAGES, max_tokens=1, reasoning_effort=effort
        )
        answer = client.responses.create(
            model="tiny-chat", input="a", max_output_tokens=16, reasoning={"effort": effort}
        )
        assert chat.usage is not None and answer.usage is not None
        return chat.usage.prompt_tokens, answer.usage.input_tokens

    assert lengths("none") == lengths("minimal") == (1, 1)
    assert lengths("low") == lengths("max") == (10, 10)


def test_oldest_turns_are_dropped_when_asked(client: openai.OpenAI) -> None:
    """`truncation: auto` keeps the instructions and as many of the last turns as fit."""
    turns = [
        {"role": role, "content": f"{number} " + "ab" * 200} for number in range(9) for role in ("user", "assistant")
    ]
    items: list[Any] = [{"role": "developer", "content": "obey"}, *turns, {"role": "user", "content": "last"}]
    details = dict(model="tiny-chat", max_output_tokens=2, temperature=0, store=True)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**details, input=items)
    assert refused.value.code == "context_length_exceeded" and refused.value.param == "input"
    with pytest.raises(openai.BadRequestError):
        client.responses.create(**details, input=items, truncation="disabled")
    cut = client.responses.create(**details, input=items, truncation="auto")
    assert cut.usage.input_tokens + 2 <= 4096
    for dropped in range(1, 10):  # the same as the most turns that fit
        rest = [items[0], *items[1 + 2 * dropped :]]
        try:
            wanted = client.responses.create(**details, input=rest)
            break
        except openai.BadRequestError:
            continue
    assert wanted.usage.input_tokens == cut.usage.input_tokens and wanted.output_text == cut.output_text
    assert len(client.responses.input_items.list(cut.id, limit=100).data) == len(items)


def test_calls_beyond_the_bound_are_left_out() -> None:
    pieces = [CallStart(0, "a"), CallArguments(0, "{}"), Content(" "), CallStart(1, "b"), CallArguments(1, "{}")]
    run = SimpleNamespace(request=SimpleNamespace(max_tool_calls=1))
    assert ResponseRun._allowed(run, list(pieces)) == pieces[:3]  # type: ignore[arg-type]
    run.request.max_tool_calls = None
    assert ResponseRun._allowed(run, list(pieces)) == pieces  # type: ignore[arg-type]


def test_a_missing_model_is_the_one_that_fits(server: RunningServer) -> None:
    answer = httpx.post(server.url + "/v1/embeddings", json={"input": "a"}, timeout=30)
    assert answer.status_code == 200 and answer.json()["model"] == "bert"
    answer = httpx.post(server.url + "/v1/completions", json={"prompt": "a"}, timeout=30)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "missing_required_parameter", "model")
    assert "several fit (tiny-chat, tiny-llama3, tiny-thinker, tiny-plain)" in error["message"]
    answer = httpx.post(server.url + "/v1/completions", json={"model": "nobody", "prompt": "a"}, timeout=30)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
