"""`/v1/responses` through openai-python: whole, streamed, gone on from, kept and let go."""

from __future__ import annotations

import json
import threading
from typing import Annotated, Any

import httpx
import openai
import pytest
from pydantic import BaseModel, Field

from antiphon.server.apis.responses.store import ResponseStore, StoredResponse
from antiphon.server.generation.text.generation import Generations
from antiphon.server.web.http.errors import ApiError
from support.server.http_server import RunningServer

ADD: dict[str, Any] = {
    "type": "function",
    "name": "add",
    "description": "Adds.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b": {"enum": ["x", "y"]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
    "strict": True,
}
GREEDY: dict[str, Any] = {"model": "tiny-chat", "temperature": 0, "max_output_tokens": 12}


class Person(BaseModel):
    name: Annotated[str, Field(max_length=5)]
    age: Annotated[int, Field(ge=0, le=99)]


def test_a_response_is_what_the_chat_says(client: openai.OpenAI) -> None:
    response = client.responses.create(**GREEDY, input="hello", instructions="Be kind.", metadata={"a": "b"})
    messages: list[Any] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}]
    chat = client.chat.completions.create(model="tiny-chat", messages=messages, max_tokens=12, temperature=0)
    assert response.output_text == chat.choices[0].message.content
    assert response.status == "incomplete" and response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage is not None and chat.usage is not None
    assert response.usage.input_tokens == chat.usage.prompt_tokens
    assert response.usage.output_tokens == 12
    assert response.usage.input_tokens_details.cached_tokens >= 0
    assert (response.instructions, response.metadata, response.temperature) == ("Be kind.", {"a": "b"}, 0)
    items = client.responses.create(
        **GREEDY,
        instructions="Be kind.",
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "hel"}, {"type": "input_text", "text": "lo"}]}
        ],
    )
    assert items.output_text == response.output_text


def test_streamed_events(client: openai.OpenAI) -> None:
    whole = client.responses.create(**GREEDY, input="hello")
    events = list(client.responses.create(**GREEDY, input="hello", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"} and deltas
    assert "".join(deltas) == whole.output_text
    last = events[-1]
    assert last.type == "response.incomplete" and last.response.output_text == whole.output_text
    with client.responses.stream(**GREEDY, input="hello", store=False) as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
    assert snapshots[-1] == whole.output_text


def test_parsing_into_a_model(client: openai.OpenAI) -> None:
    details: dict[str, Any] = dict(model="tiny-chat", input="hello", text_format=Person, extra_body={"seed": 3})
    parsed = client.responses.parse(**details)
    assert isinstance(parsed.output_parsed, Person) and parsed.status == "completed"
    with client.responses.stream(**details) as stream:
        final = stream.get_final_response()
    assert final.output_parsed == parsed.output_parsed
    assert final.text is not None and final.text.format is not None and final.text.format.type == "json_schema"


def test_a_tool_conversation(client: openai.OpenAI) -> None:
    details: dict[str, Any] = dict(model="tiny-chat", tools=[ADD], parallel_tool_calls=False, extra_body={"seed": 1})
    first = client.responses.create(**details, input="hello", tool_choice="required")
    (call,) = first.output
    assert call.type == "function_call" and call.name == "add" and call.status == "completed"
    values = json.loads(call.arguments)
    assert 0 <= values["a"] <= 9 and values["b"] in ("x", "y")
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "3"}
    second = client.responses.create(
        **GREEDY, previous_response_id=first.id, input=[result], tools=[ADD], tool_choice="none"
    )
    history: list[Any] = [{"role": "user", "content": "hello"}, *first.output, result]
    stateless = client.responses.create(**GREEDY, input=history, tools=[ADD], tool_choice="none", store=False)
    assert second.output_text == stateless.output_text
    assert second.usage is not None and stateless.usage is not None
    assert second.usage.input_tokens == stateless.usage.input_tokens

    arguments, done = "", None
    for event in client.responses.create(**details, input="hello", tool_choice="required", stream=True):
        if event.type == "response.function_call_arguments.delta":
            arguments += event.delta
        elif event.type == "response.function_call_arguments.done":
            done = event
    assert done is not None and done.arguments == arguments == call.arguments
    named = client.responses.create(**details, input="hello", tool_choice={"type": "function", "name": "add"})
    assert [item.type for item in named.output] == ["function_call"]
    with client.responses.stream(**details, input="hello", tool_choice="required") as stream:
        final = stream.get_final_response()
    assert final.output[0].type == "function_call" and final.output[0].arguments == call.arguments


def test_reasoning_is_an_item_of_its_own(client: openai.OpenAI) -> None:
    form = {"guided_regex": "<think>[a-c]{3}</think>\n[x-z]{4}"}
    details: dict[str, Any] = dict(model="tiny-thinker", input="hello", extra_body={**form, "seed": 2})
    whole = client.responses.create(**details)
    assert [item.type for item in whole.output] == ["message"]  # a given form is taken as it is

    free: dict[str, Any] = dict(model="tiny-thinker", input="hello", temperature=0, max_output_tokens=9)
    response = client.responses.create(**free)
    (item,) = response.output  # its template opens the reasoning, and nine tokens do not close it
    assert item.type == "reasoning" and item.content is not None
    assert len(item.content[0].text) > 3 and response.usage is not None
    assert response.usage.output_tokens_details.reasoning_tokens > 3
    events = list(client.responses.create(**free, stream=True))
    assert (
        "".join(event.delta for event in events if event.type == "response.reasoning_text.delta")
        == item.content[0].text
    )
    again = client.responses.create(**free, previous_response_id=response.id)
    assert again.usage is not None and again.usage.input_tokens > response.usage.input_tokens


def test_logprobs(client: openai.OpenAI) -> None:
    response = client.responses.create(
        **GREEDY, input="hello", include=["message.output_text.logprobs"], top_logprobs=2
    )
    message = response.output[0]
    assert message.type == "message" and message.content[0].type == "output_text"
    logprobs = message.content[0].logprobs or []
    assert "".join(entry.token for entry in logprobs) == response.output_text
    assert all(len(entry.top_logprobs) == 2 for entry in logprobs)
    streamed = [
        entry.token
        for event in client.responses.create(**GREEDY, input="hello", top_logprobs=1, stream=True)
        if event.type == "response.output_text.delta"
        for entry in event.logprobs
    ]
    assert "".join(streamed) == response.output_text


def test_kept_listed_and_deleted(client: openai.OpenAI) -> None:
    first = client.responses.create(**GREEDY, input="one", instructions="x")
    second = client.responses.create(
        **GREEDY, input=[{"role": "user", "content": "two"}], previous_response_id=first.id
    )
    kept = client.responses.retrieve(second.id)
    assert kept == second and kept.previous_response_id == first.id
    ids = [item.id for item in client.responses.input_items.list(second.id, order="asc", limit=2)]  # pages of two
    assert len(ids) == len(set(ids)) == 3
    listed = list(client.responses.input_items.list(second.id))
    assert [item.id for item in listed] == ids[::-1]
    assert [getattr(item, "role", None) for item in listed] == ["user", "assistant", "user"]
    assert listed[0].content[0].text == "two"  # type: ignore[union-attr]
    client.responses.delete(first.id)
    for call in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
        with pytest.raises(openai.NotFoundError) as missing:
            call(first.id)
        assert missing.value.code == "response_not_found"
    with pytest.raises(openai.BadRequestError) as missing_previous:
        client.responses.create(**GREEDY, input="three", previous_response_id=first.id)
    assert missing_previous.value.code == "previous_response_not_found"
    assert missing_previous.value.param == "previous_response_id"
    third = client.responses.create(
        **GREEDY, input="three", previous_response_id=second.id
    )  # which needs not the first
    assert third.usage is not None and second.usage is not None
    assert third.usage.input_tokens > second.usage.input_tokens
    unkept = client.responses.create(**GREEDY, input="one", store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(unkept.id)
    with pytest.raises(openai.BadRequestError, match="has ended with status incomplete"):
        client.responses.cancel(second.id)


def test_instructions_are_not_carried_over(client: openai.OpenAI, server: RunningServer) -> None:
    first = client.responses.create(**GREEDY, input="one", instructions="long instructions " * 4)
    second = client.responses.create(**GREEDY, input="two", previous_response_id=first.id)
    plain: list[Any] = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": first.output_text},
        {"role": "user", "content": "two"},
    ]
    chat = client.chat.completions.create(model="tiny-chat", messages=plain, max_tokens=12, temperature=0)
    assert chat.usage is not None and second.usage is not None
    assert second.usage.input_tokens == chat.usage.prompt_tokens
    assert second.output_text == chat.choices[0].message.content


def test_the_second_turn_finds_the_first_in_the_cache(client: openai.OpenAI) -> None:
    first = client.responses.create(**GREEDY, input="a long enough beginning " * 8, extra_body={"cache_salt": "r"})
    second = client.responses.create(
        **GREEDY, input="and?", previous_response_id=first.id, extra_body={"cache_salt": "r"}
    )
    assert second.usage is not None and second.usage.input_tokens_details.cached_tokens > 100


def test_cancelling_a_stream(client: openai.OpenAI, server: RunningServer) -> None:
    stream = client.responses.create(
        model="tiny-chat", input="hello", stream=True, extra_body={"ignore_eos": True}, max_output_tokens=4000
    )
    events = iter(stream)
    created = next(events)
    assert created.type == "response.created"
    for event in events:
        if event.type == "response.output_text.delta":
            break
    assert client.responses.retrieve(created.response.id).status == "in_progress"
    told: list[Any] = []
    reader = threading.Thread(target=lambda: told.extend(events))
    reader.start()
    assert client.responses.cancel(created.response.id).status == "cancelled"
    reader.join()
    last = told[-1]
    assert last.response.status == "cancelled" and last.response.output_text
    assert client.responses.retrieve(created.response.id) == last.response
    assert client.responses.cancel(created.response.id).status == "cancelled"
    server.wait_until_idle()


def test_a_stream_that_is_left_is_not_kept(client: openai.OpenAI, server: RunningServer) -> None:
    stream = client.responses.create(
        model="tiny-chat", input="hello", stream=True, extra_body={"ignore_eos": True}, max_output_tokens=4000
    )
    created = next(iter(stream))
    stream.close()
    server.wait_until_idle()
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(created.response.id)  # type: ignore[union-attr]


def test_a_failure_on_the_way(client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    read, begun = Generations.read, set[Generations]()

    async def broken(self: Generations) -> Any:
        if self in begun:
            raise ApiError(500, "the step failed", code="engine_error", kind="server_error")
        begun.add(self)
        return await read(self)

    monkeypatch.setattr(Generations, "read", broken)
    told: list[Any] = []
    with pytest.raises(openai.APIError, match="the step failed") as failed:
        for event in client.responses.create(**GREEDY, input="hello", stream=True):
            told.append(event)
    assert failed.value.code == "engine_error"
    last = told[-1]
    assert last.type == "response.failed" and last.response.status == "failed"
    assert last.response.error.message == "the step failed"
    with pytest.raises(openai.InternalServerError, match="the step failed"):
        client.responses.create(**GREEDY, input="hello")
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(last.response.id)


REFUSED: list[tuple[dict[str, Any], str, str | None]] = [
    ({"conversation": 3}, "invalid_value", "conversation"),
    ({"prompt": {"id": "x"}}, "unsupported_value", "prompt"),
    ({"background": True, "store": False}, "invalid_value", "store"),
    ({"truncation": "auto", "input": "ab" * 4000}, "context_length_exceeded", "input"),
    ({"reasoning": {"effort": "much"}}, "invalid_value", "reasoning.effort"),
    ({"tools": [{"type": "weather"}]}, "invalid_value", None),
    ({"tools": [ADD, ADD]}, "invalid_value", "tools"),
    ({"tool_choice": "required"}, "invalid_value", "tool_choice"),
    ({"text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": 3}}}}, "invalid_schema", None),
    ({"input": []}, "invalid_value", "input"),
    ({"input": ""}, "invalid_value", "input"),
    ({"input": [{"type": "input_image"}]}, "invalid_value", None),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "unsupported_value", None),
    ({"input": "ab" * 4000}, "context_length_exceeded", "input"),
    ({"temperature": -1}, "invalid_value", "temperature"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "code", "param"), REFUSED, ids=range(len(REFUSED)))
def test_refusals(client: openai.OpenAI, change: dict[str, Any], code: str, param: str | None) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/responses", body={**GREEDY, "input": "hello", **change}, cast_to=object)
    assert refused.value.code == code, refused.value
    assert param is None or refused.value.param == param


def test_queries_that_are_wrong(server: RunningServer, client: openai.OpenAI) -> None:
    made = client.responses.create(**GREEDY, input="one").id
    for query in ("input_items?limit=-1", "input_items?limit=x", "input_items?order=up", "input_items?after=nothing"):
        answer = httpx.get(f"{server.url}/v1/responses/{made}/{query}")
        assert answer.status_code == 400 and answer.json()["error"]["code"] == "invalid_value"
    assert httpx.get(f"{server.url}/v1/responses/{made}?stream=true&starting_after=-1").status_code == 400


def stored(number: int, size: int = 10, owner: int | None = None) -> StoredResponse:
    return StoredResponse({"id": f"r{number}", "output": "x" * size}, [], [], owner)


def test_the_store_is_bounded_by_number_and_by_bytes() -> None:
    store = ResponseStore(3, 990)
    for number in range(3):
        store.add(stored(number))
    store.find("r0", None)  # used last
    store.add(stored(3))
    assert len(store) == 3
    with pytest.raises(ApiError):
        store.find("r1", None)
    store.add(stored(4, size=900))
    assert 1 <= len(store) <= 2 and store.num_bytes <= 990
    before = len(store), store.num_bytes
    store.add(stored(5, size=2000))  # larger than the whole store
    assert (len(store), store.num_bytes) == before


def test_a_response_belongs_to_its_key() -> None:
    store = ResponseStore(3, 1000)
    store.add(stored(1, owner=0))
    assert store.find("r1", 0).owner == 0
    for other in (None, 1):
        with pytest.raises(ApiError, match="no response"):
            store.find("r1", other)
        with pytest.raises(ApiError, match="no response"):
            store.remove("r1", other)
