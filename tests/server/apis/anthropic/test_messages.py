"""Anthropic's API through its own client: messages whole and streamed, tools, thinking, counts, models and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest

from antiphon.server.web.http.errors import ApiError
from support.server.http_server import RunningServer

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
ADD: dict[str, Any] = {
    "name": "add",
    "description": "Adds.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["a"],
        "additionalProperties": False,
    },
}
#: The client has no arguments for these any more.
GREEDY = {"temperature": 0}
CLOCK: dict[str, Any] = {"name": "clock", "input_schema": {"type": "object", "properties": {}}}


@pytest.fixture
def claude(server: RunningServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0, timeout=60) as made:
        yield made


def events_of(server: RunningServer, body: dict[str, Any]) -> list[tuple[str, Any]]:
    """The names and contents of the events of a stream, as they were sent."""
    response = httpx.post(server.url + "/v1/messages", json={**body, "stream": True}, timeout=60)
    assert response.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in response.text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_message_equals_the_chat_it_stands_for(server: RunningServer, claude: anthropic.Anthropic) -> None:
    answer = claude.messages.create(
        model="tiny-chat",
        max_tokens=12,
        system=[
            {"type": "text", "text": "Be ", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "brief."},
        ],
        messages=[{"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}],
        metadata={"user_id": "someone"},
        extra_body={"temperature": 0, "top_k": 5, "top_p": 0.9},
    )
    with server.openai() as client:
        chat = client.chat.completions.create(
            model="tiny-chat",
            max_tokens=12,
            messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
            temperature=0,
        )
    (block,) = answer.content
    assert block.type == "text" and block.text == chat.choices[0].message.content
    assert answer.role == "assistant" and answer.model == "tiny-chat" and answer.id.startswith("msg_")
    assert answer.stop_reason == "max_tokens" and answer.stop_sequence is None
    usage = answer.usage
    assert chat.usage is not None and usage.output_tokens == 12
    assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == chat.usage.prompt_tokens
    assert answer._request_id


def test_cached_tokens_are_counted_apart(claude: anthropic.Anthropic) -> None:
    messages: list[Any] = [{"role": "user", "content": "a prompt that is read twice " * 20}]
    first, second = (claude.messages.create(model="tiny-chat", max_tokens=1, messages=messages).usage for _ in range(2))
    assert second.cache_read_input_tokens
    assert second.input_tokens + second.cache_read_input_tokens == first.input_tokens + (
        first.cache_read_input_tokens or 0
    )


def test_stop_sequence_is_named(claude: anthropic.Anthropic) -> None:
    whole = claude.messages.create(model="tiny-chat", max_tokens=12, messages=HELLO, extra_body=GREEDY)
    assert whole.content[0].type == "text"
    text = whole.content[0].text
    answer = claude.messages.create(
        model="tiny-chat", max_tokens=12, messages=HELLO, extra_body=GREEDY, stop_sequences=["\x00", text[4:6]]
    )
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == text[4:6]
    assert answer.content[0].type == "text" and answer.content[0].text == text[: text.index(text[4:6])]


def test_stream_has_anthropics_events(server: RunningServer, claude: anthropic.Anthropic) -> None:
    body = {"model": "tiny-chat", "max_tokens": 8, "messages": HELLO}
    whole = claude.messages.create(**body, extra_body=GREEDY)
    found = events_of(server, {**body, **GREEDY})
    assert all(name == content["type"] for name, content in found)
    names = [name for name, _ in found]
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(names[3:-3]) == {"content_block_delta"}
    start = found[0][1]["message"]
    assert start["content"] == [] and start["stop_reason"] is None and start["usage"]["output_tokens"] == 0
    text = "".join(content["delta"]["text"] for name, content in found if name == "content_block_delta")
    assert whole.content[0].type == "text" and text == whole.content[0].text
    last = found[-2][1]
    assert last["delta"] == {"stop_reason": "max_tokens", "stop_sequence": None} and last["usage"]["output_tokens"] == 8


def test_stream_by_the_client(claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(model="tiny-chat", max_tokens=8, messages=HELLO, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert final.content[0].type == "text" and final.content[0].text == text
    assert final.usage.output_tokens == 8 and final.stop_reason == "max_tokens"


@pytest.mark.parametrize("model", ["tiny-chat", "tiny-llama3"])
def test_named_tool_is_called_and_answered(claude: anthropic.Anthropic, model: str) -> None:
    tools: list[Any] = [ADD, CLOCK]
    choice: Any = {"type": "tool", "name": "add"}
    answer = claude.messages.create(model=model, max_tokens=100, messages=HELLO, tools=tools, tool_choice=choice)
    (block,) = answer.content
    assert answer.stop_reason == "tool_use" and block.type == "tool_use" and block.name == "add"
    assert 0 <= block.input["a"] <= 9 and block.id.startswith("toolu_")  # type: ignore[operator]
    result: Any = {
        "type": "tool_result",
        "tool_use_id": block.id,
        "content": [{"type": "text", "text": "no such number"}],
        "is_error": True,
    }
    history: list[Any] = [
        *HELLO,
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": [result, {"type": "text", "text": "Go on."}]},
    ]
    next_answer = claude.messages.create(model=model, max_tokens=5, messages=history, tools=tools, extra_body=GREEDY)
    assert next_answer.usage.output_tokens == 5


def test_any_tool_one_at_a_time_as_a_stream(claude: anthropic.Anthropic) -> None:
    choice: Any = {"type": "any", "disable_parallel_tool_use": True}
    with claude.messages.stream(
        model="tiny-chat", max_tokens=200, messages=HELLO, tools=[ADD, CLOCK], tool_choice=choice
    ) as stream:
        kinds = [event.delta.type for event in stream if event.type == "content_block_delta"]
        final = stream.get_final_message()
    (block,) = final.content
    assert set(kinds) <= {"input_json_delta"} and final.stop_reason == "tool_use"
    assert block.type == "tool_use" and block.name in ("add", "clock")
    assert isinstance(block.input, dict) and set(block.input) == ({"a"} if block.name == "add" else set())


def test_cut_call_is_an_object_all_the_same(claude: anthropic.Anthropic) -> None:
    tool = {
        "name": "say",
        "input_schema": {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 200}},
            "required": ["text"],
        },
    }
    choice: Any = {"type": "tool", "name": "say"}
    answer = claude.messages.create(
        model="tiny-chat",
        max_tokens=60,
        messages=HELLO,
        tools=[tool],
        tool_choice=choice,  # type: ignore[list-item]
    )
    block = answer.content[-1]
    assert answer.stop_reason == "max_tokens" and block.type == "tool_use" and isinstance(block.input, dict)


def test_no_tool_is_offered_when_none_may_be_called(claude: anthropic.Anthropic) -> None:
    with_none = claude.messages.count_tokens(
        model="tiny-chat",
        messages=HELLO,
        tools=[ADD],
        tool_choice={"type": "none"},  # type: ignore[list-item]
    )
    assert with_none.input_tokens == claude.messages.count_tokens(model="tiny-chat", messages=HELLO).input_tokens


def test_thinking_is_a_block_of_its_own(server: RunningServer, claude: anthropic.Anthropic) -> None:
    body: dict[str, Any] = {"model": "tiny-thinker", "max_tokens": 8, "messages": HELLO}
    answer = claude.messages.create(**body, thinking={"type": "enabled", "budget_tokens": 1024}, extra_body=GREEDY)
    (block,) = answer.content
    assert block.type == "thinking" and block.thinking
    found = events_of(server, {**body, **GREEDY})
    deltas = [content["delta"] for name, content in found if name == "content_block_delta"]
    assert {delta["type"] for delta in deltas} == {"thinking_delta"}
    assert "".join(delta["thinking"] for delta in deltas) == block.thinking
    history: list[Any] = [*HELLO, {"role": "assistant", "content": answer.content}, *HELLO]
    assert claude.messages.create(**{**body, "messages": history}, extra_body=GREEDY).usage.output_tokens == 8
    hidden = claude.messages.create(**body, thinking={"type": "adaptive", "display": "omitted"}, extra_body=GREEDY)
    assert hidden.content[0].type == "thinking" and hidden.content[0].thinking == ""


def test_schema_of_the_output(claude: anthropic.Anthropic) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    answer = claude.messages.create(
        model="tiny-chat",
        max_tokens=60,
        messages=HELLO,
        output_config={"format": {"type": "json_schema", "schema": schema}},
    )
    assert answer.content[0].type == "text" and json.loads(answer.content[0].text)["n"] in (1, 2)


def test_counted_tokens_are_those_of_the_message(claude: anthropic.Anthropic) -> None:
    asked: dict[str, Any] = {"model": "tiny-chat", "messages": HELLO, "system": "Be brief.", "tools": [ADD]}
    usage = claude.messages.create(**asked, max_tokens=1).usage
    counted = claude.messages.count_tokens(**asked).input_tokens
    assert counted == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_unknown_model_and_server_tools(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        claude.messages.create(model="claude-sonnet", max_tokens=1, messages=HELLO)
    body: Any = caught.value.body
    assert body["error"]["type"] == "not_found_error" and "claude-sonnet" in body["error"]["message"]
    search: Any = {"type": "web_search_20250305", "name": "web_search"}
    with pytest.raises(anthropic.BadRequestError, match=r"tools\[0\]"):
        claude.messages.create(model="tiny-chat", max_tokens=1, messages=HELLO, tools=[search])


def test_models_are_listed_in_pages(claude: anthropic.Anthropic, server: RunningServer) -> None:
    names = [model.id for model in claude.models.list(limit=1)]
    assert {"tiny-chat", "tiny-thinker", "tiny-llama3"} <= set(names) and "bert" not in names
    page = claude.models.list(limit=2, after_id=names[0])
    assert [model.id for model in page.data] == names[1:3]
    back = claude.models.list(limit=1, before_id=names[2])
    assert [model.id for model in back.data] == names[1:2] and back.has_more
    model = claude.models.retrieve("tiny-chat")
    assert model.type == "model" and model.display_name == "tiny-chat" and model.created_at.year >= 2024
    with pytest.raises(anthropic.NotFoundError):
        claude.models.retrieve("nothing")
    assert httpx.get(server.url + "/v1/models").json()["object"] == "list"


def test_error_inside_a_stream_is_an_event(server: RunningServer, claude: anthropic.Anthropic) -> None:
    """A request that an administrator cancels while it is streamed."""
    with claude.messages.stream(model="tiny-chat", max_tokens=4000, messages=HELLO, extra_body=GREEDY) as stream:
        events = iter(stream)
        next(events)
        (context,) = [one for one in server.serving.requests if one.path == "/v1/messages"]
        error = ApiError(499, "the request was cancelled", code="cancelled")
        server.loop.call_soon_threadsafe(context.end_with, error)
        with pytest.raises(anthropic.APIStatusError) as caught:
            for _ in events:
                pass
    body: Any = caught.value.body
    assert body["type"] == "error" and "cancelled" in body["error"]["message"]


@pytest.mark.parametrize("model", ["tiny-chat", "tiny-llama3"])
def test_a_last_turn_of_the_assistant_is_continued(
    server: RunningServer, claude: anthropic.Anthropic, model: str
) -> None:
    begun: list[Any] = [*HELLO, {"role": "assistant", "content": "I think"}]
    with server.openai() as client:
        chat = client.chat.completions.create(
            model=model,
            messages=begun,
            max_tokens=8,
            temperature=0,
            extra_body={"continue_final_message": True, "add_generation_prompt": False},
        )
    assert chat.usage is not None
    blocks: list[Any] = [*HELLO, {"role": "assistant", "content": [{"type": "text", "text": "I think"}]}]
    for messages in (begun, blocks):
        answer = claude.messages.create(model=model, max_tokens=8, messages=messages, extra_body=GREEDY)
        (block,) = answer.content
        assert block.type == "text" and block.text == chat.choices[0].message.content
        counted = claude.messages.count_tokens(model=model, messages=messages).input_tokens
        assert counted == chat.usage.prompt_tokens
    found = events_of(server, {"model": model, "max_tokens": 8, "messages": begun, **GREEDY})
    text = "".join(content["delta"]["text"] for name, content in found if name == "content_block_delta")
    assert text == chat.choices[0].message.content


def test_a_prompt_over_the_context_is_counted(claude: anthropic.Anthropic) -> None:
    long: list[Any] = [{"role": "user", "content": "hello " * 5000}]
    counted = claude.messages.count_tokens(model="tiny-chat", messages=long).input_tokens
    one = claude.messages.count_tokens(model="tiny-chat", messages=HELLO).input_tokens
    assert counted > 4096 and counted > 5000 > one
    with pytest.raises(anthropic.BadRequestError, match="maximum context length is 4096"):
        claude.messages.create(model="tiny-chat", messages=long, max_tokens=1)


def test_a_turn_is_not_continued_with_tools_that_the_template_does_not_know(claude: anthropic.Anthropic) -> None:
    begun: list[Any] = [*HELLO, {"role": "assistant", "content": "I think"}]
    asked: dict[str, Any] = {"model": "tiny-plain", "messages": begun, "tools": [ADD]}
    with pytest.raises(anthropic.BadRequestError, match="cannot continue the last message of a chat with tools"):
        claude.messages.create(**asked, max_tokens=4)
    with pytest.raises(anthropic.BadRequestError, match="cannot continue"):
        claude.messages.count_tokens(**asked)
    for more in ({"tool_choice": {"type": "none"}}, {"model": "tiny-chat"}):
        answer = claude.messages.create(**{**asked, **more}, max_tokens=4, extra_body=GREEDY)
        assert answer.usage.output_tokens == 4
