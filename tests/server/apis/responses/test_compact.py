"""Counting the tokens of a prompt, and making a long conversation short."""

from __future__ import annotations

import base64
import json
from typing import Any

import openai
import orjson
import pytest

from antiphon.server.apis.responses import compact, compaction, history
from antiphon.server.apis.responses.compaction import packed
from antiphon.server.apis.responses.items import messages
from antiphon.server.apis.responses.request_schemas import ITEMS, PLAIN_ITEMS
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from support.server.http_server import RunningServer

GREEDY: dict[str, Any] = {"model": "tiny-chat", "temperature": 0, "max_output_tokens": 6}
ADD: Any = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}


def test_tokens_are_those_of_the_prompt(client: openai.OpenAI) -> None:
    first = client.responses.create(**GREEDY, input="one", instructions="Be kind.", tools=[ADD])
    assert first.usage is not None
    counted = client.responses.input_tokens.count(
        model="tiny-chat", input="one", instructions="Be kind.", tools=[ADD], personality="friendly"
    )
    assert counted.object == "response.input_tokens" and counted.input_tokens == first.usage.input_tokens
    assert client.responses.input_tokens.count(model="tiny-chat", input="one").input_tokens < counted.input_tokens
    second = client.responses.create(**GREEDY, input="two", previous_response_id=first.id)
    again = client.responses.input_tokens.count(model="tiny-chat", input="two", previous_response_id=first.id)
    assert second.usage is not None and again.input_tokens == second.usage.input_tokens
    conversation = client.conversations.create(items=[{"role": "user", "content": "zero"}])
    in_it = client.responses.input_tokens.count(model="tiny-chat", input="one", conversation=conversation.id)
    third = client.responses.create(**GREEDY, input="one", conversation=conversation.id)
    assert third.usage is not None and in_it.input_tokens == third.usage.input_tokens
    long = client.responses.input_tokens.count(model="tiny-chat", input="ab" * 4000)
    assert long.input_tokens > 4096  # more than the model takes
    assert client.responses.input_tokens.count(model="tiny-chat").input_tokens > 0


def conversation(num_turns: int) -> list[Any]:
    items: list[Any] = []
    for number in range(num_turns):
        items.append({"role": "user", "content": f"question {number} " + "about something " * 20})
        items.append({"role": "assistant", "content": f"answer {number}"})
    call = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "42"}
    return [*items, {"role": "user", "content": "the last question"}, call, result]


def test_a_long_conversation_becomes_short(client: openai.OpenAI) -> None:
    items = conversation(13)
    full = client.responses.input_tokens.count(model="tiny-chat", input=items)
    assert full.input_tokens > 4096
    compacted = client.responses.compact(model="tiny-chat", input=items, instructions="Be kind.")
    assert compacted.object == "response.compaction"
    (item,) = compacted.output
    assert item.type == "compaction" and item.id.startswith("cmp_")
    assert compacted.usage.input_tokens > 4096 and compacted.usage.output_tokens > 0  # in pieces
    content = json.loads(base64.b64decode(item.encrypted_content))
    assert content["summary"]
    assert [one["type"] for one in content["kept"]] == ["message", "function_call", "function_call_output"]
    following: list[Any] = [*compacted.output, {"role": "user", "content": "and now?"}]
    response = client.responses.create(**GREEDY, input=following)
    assert response.usage is not None and response.usage.input_tokens < full.input_tokens // 2
    listed = list(client.responses.input_items.list(response.id, order="asc"))
    assert [one.type for one in listed] == ["compaction", "message"]
    more = client.responses.create(**GREEDY, input="more", previous_response_id=response.id)
    assert more.usage is not None and more.usage.input_tokens > response.usage.input_tokens
    twice = client.responses.compact(model="tiny-chat", previous_response_id=more.id)
    second = json.loads(base64.b64decode(twice.output[0].encrypted_content))  # type: ignore[union-attr]
    assert second["summary"] and len(second["kept"]) == 2  # the last question and its answer


def test_a_short_conversation_is_kept_as_it_is(client: openai.OpenAI) -> None:
    compacted = client.responses.compact(model="tiny-chat", input="just this", prompt_cache_key="x")
    assert compacted.usage.total_tokens == 0
    same = client.responses.create(**GREEDY, input=compacted.output)  # type: ignore[arg-type]
    plain = client.responses.create(**GREEDY, input="just this")
    assert same.output_text == plain.output_text
    empty = client.responses.compact(model="tiny-chat")
    assert client.responses.create(**GREEDY, input=[*empty.output, {"role": "user", "content": "a"}]).id  # type: ignore[list-item]


def test_a_summary_comes_before_the_next_message() -> None:
    kept = PLAIN_ITEMS.validate_python([{"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}])
    item = {"type": "compaction", "encrypted_content": packed("a was said", kept)}
    made = messages("system", ITEMS.validate_python([item, {"role": "user", "content": "d"}]))
    assert [message.role for message in made] == ["system", "user", "assistant", "user"]
    assert made[1].content == "Summary of our conversation so far:\na was said\n\nb"
    alone = {"type": "compaction", "encrypted_content": packed("a", [])}
    assistant = {"role": "assistant", "content": "x"}
    made = messages(None, ITEMS.validate_python([alone, assistant, alone]))
    assert [message.role for message in made] == ["user", "assistant", "user"]
    ChatBody(model="m", messages=made)


@pytest.mark.parametrize(
    "content",
    [
        "x",
        base64.b64encode(b"{}").decode(),
        base64.b64encode(json.dumps({"version": 1, "summary": 3, "kept": []}).encode()).decode(),
        base64.b64encode(json.dumps({"version": 2, "summary": "", "kept": []}).encode()).decode(),
        base64.b64encode(
            json.dumps(
                {"version": 1, "summary": "", "kept": [{"type": "compaction", "encrypted_content": ""}]}
            ).encode()
        ).decode(),
        "\ud7ff" * 100,
    ],
)
def test_content_that_is_not_ours(client: openai.OpenAI, server: RunningServer, content: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**GREEDY, input=[{"type": "compaction", "encrypted_content": content}])
    assert refused.value.code == "invalid_compaction" and refused.value.param == "input"


def test_what_a_compaction_item_contains_is_bounded(client: openai.OpenAI) -> None:
    def refusal(*kept: list[Any]) -> openai.BadRequestError:
        content = [orjson.dumps({"version": 1, "summary": "", "kept": items}) for items in kept]
        items = [{"type": "compaction", "encrypted_content": base64.b64encode(one).decode()} for one in content]
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.input_tokens.count(model="tiny-chat", input=items)  # type: ignore[arg-type]
        return refused.value

    message = {"role": "user", "content": ""}
    assert "contains 1,025 items; at most 1,024" in refusal([message] * 1025).message
    assert "contain 1,200 items; at most 1,024" in refusal([message] * 600, [message] * 600).message
    assert refusal([[]] * 40_000).code == "body_too_complex"
    assert refusal([[[[]]] * 3]).code == "invalid_compaction"


def test_a_compaction_item_is_unpacked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (item,) = ITEMS.validate_python([{"type": "compaction", "encrypted_content": packed("a was said", [])}])
    first = messages(None, [item])
    monkeypatch.setattr(compaction, "orjson", None)
    assert messages(None, [item]) == first
    assert "content" not in item.model_dump() and "_content" not in item.model_dump()


def test_a_long_conversation_is_validated_in_parts(client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "STEP", 3)
    made = client.conversations.create(items=[{"role": "user", "content": str(number)} for number in range(8)])
    compacted = client.responses.compact(model="tiny-chat", input="just this").output
    client.conversations.items.create(made.id, items=compacted)  # type: ignore[arg-type]
    counted = client.responses.input_tokens.count(model="tiny-chat", input="a", conversation=made.id)
    turns = [{"role": "user", "content": str(number)} for number in range(8)]
    whole: list[Any] = [*turns, {"role": "user", "content": "just this"}, {"role": "user", "content": "a"}]
    assert counted.input_tokens == client.responses.input_tokens.count(model="tiny-chat", input=whole).input_tokens


def test_what_is_tokenized_for_one_request_is_bounded(client: openai.OpenAI) -> None:
    text = "ab " * 100_000  # of 3 tokens each
    for ask in (client.responses.input_tokens.count, client.responses.compact):
        with pytest.raises(openai.BadRequestError, match="are tokenized for one request") as refused:
            ask(model="tiny-chat", input=text)  # type: ignore[operator]
        assert refused.value.code == "context_length_exceeded" and refused.value.param == "input"


def test_pieces_of_a_conversation_are_bounded(client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "MAX_PIECES", 1)
    with pytest.raises(openai.BadRequestError, match="2048 are tokenized for one request"):
        client.responses.compact(model="tiny-chat", input=conversation(13))
