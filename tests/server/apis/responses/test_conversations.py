"""`/v1/conversations` through openai-python, alone and with responses."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from antiphon.server.stored.conversations import ConversationStore, StoredConversation
from antiphon.server.web.http.errors import ApiError
from support.server.http_server import RunningServer

GREEDY: dict[str, Any] = {"model": "tiny-chat", "temperature": 0, "max_output_tokens": 6}


def user(text: str) -> Any:
    return {"role": "user", "content": text, "type": "message"}


def test_made_changed_and_deleted(client: openai.OpenAI) -> None:
    empty = client.conversations.create()
    assert empty.object == "conversation" and empty.metadata == {}
    made = client.conversations.create(items=[user("a")], metadata={"topic": "demo"})
    assert client.conversations.retrieve(made.id) == made
    assert client.conversations.update(made.id, metadata={"topic": "other"}).metadata == {"topic": "other"}
    assert client.conversations.retrieve(made.id).metadata == {"topic": "other"}
    assert client.conversations.update(made.id, metadata=None).metadata == {}
    deleted = client.conversations.delete(made.id)
    assert deleted.deleted and deleted.object == "conversation.deleted"
    for call in (client.conversations.retrieve, client.conversations.delete, client.conversations.items.list):
        with pytest.raises(openai.NotFoundError) as missing:
            call(made.id)
        assert missing.value.code == "conversation_not_found"


def test_items(client: openai.OpenAI) -> None:
    made = client.conversations.create(items=[user("a")])
    call: Any = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}
    added = client.conversations.items.create(
        made.id, items=[user("b"), call, user("c")], include=["file_search_call.results"]
    )
    assert [item.type for item in added.data] == ["message", "function_call", "message"]
    assert (added.first_id, added.last_id, added.has_more) == (added.data[0].id, added.data[2].id, False)
    items = list(client.conversations.items.list(made.id, order="asc", limit=2))  # pages of two
    assert [item.id for item in items][1:] == [item.id for item in added.data]
    assert list(client.conversations.items.list(made.id)) == items[::-1]
    assert client.conversations.items.list(made.id, limit=0).data == []
    found: Any = client.conversations.items.retrieve(items[1].id or "", conversation_id=made.id)
    assert found == items[1] and found.content[0].text == "b" and found.status == "completed"
    assert client.conversations.items.delete(found.id, conversation_id=made.id).id == made.id
    assert [item.id for item in client.conversations.items.list(made.id)] == [items[3].id, items[2].id, items[0].id]
    for act in (client.conversations.items.retrieve, client.conversations.items.delete):
        with pytest.raises(openai.NotFoundError) as missing:
            act(found.id, conversation_id=made.id)
        assert missing.value.code == "item_not_found"
    with pytest.raises(openai.BadRequestError):
        client.conversations.items.create(made.id, items=[user("x")] * 21)
    with pytest.raises(openai.BadRequestError):
        client.conversations.items.create(made.id, items=[])


def test_responses_read_and_extend_it(client: openai.OpenAI) -> None:
    made = client.conversations.create(items=[user("one")])
    first = client.responses.create(**GREEDY, input="two", conversation=made.id)
    assert first.conversation is not None and first.conversation.id == made.id
    plain = client.responses.create(**GREEDY, input=[user("one"), user("two")])
    assert first.output_text == plain.output_text and plain.conversation is None
    events = list(client.responses.create(**GREEDY, input="three", conversation={"id": made.id}, stream=True))
    last: Any = events[-1]
    items: list[Any] = list(client.conversations.items.list(made.id, order="asc"))
    assert [item.role for item in items] == ["user", "user", "assistant", "user", "assistant"]
    assert [item.content[0].text for item in items] == [
        "one", "two", first.output_text, "three", last.response.output_text,
    ]  # fmt: skip
    assert items[2].id == first.output[0].id
    unkept = client.responses.create(**GREEDY, input="four", conversation=made.id, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(unkept.id)
    assert len(list(client.conversations.items.list(made.id))) == 7
    both = client.responses.create(**GREEDY, input="x", conversation=made.id, previous_response_id=first.id)
    assert both.usage is not None and last.response.usage.input_tokens < both.usage.input_tokens
    with pytest.raises(openai.BadRequestError, match="not of this conversation"):
        client.responses.create(**GREEDY, input="x", conversation=made.id, previous_response_id=plain.id)
    with pytest.raises(openai.NotFoundError) as missing:
        client.responses.create(**GREEDY, input="x", conversation="conv_none")
    assert missing.value.param == "conversation"
    client.responses.create(**GREEDY, conversation=made.id)  # without input
    background = client.responses.create(**GREEDY, input="y", conversation=made.id, background=True)
    assert background.conversation is not None


def test_a_conversation_belongs_to_its_key(owners: tuple[openai.OpenAI, openai.OpenAI]) -> None:
    first, second = owners
    made = first.conversations.create(items=[user("a")])
    (item,) = first.conversations.items.list(made.id)
    for act in (
        lambda: second.conversations.retrieve(made.id),
        lambda: second.conversations.update(made.id, metadata={}),
        lambda: second.conversations.items.list(made.id),
        lambda: second.conversations.items.retrieve(item.id or "", conversation_id=made.id),
        lambda: second.conversations.items.create(made.id, items=[user("b")]),
        lambda: second.conversations.delete(made.id),
        lambda: second.responses.create(**GREEDY, input="x", conversation=made.id),
    ):
        with pytest.raises(openai.NotFoundError):
            act()
    assert len(list(first.conversations.items.list(made.id))) == 1


def test_the_number_is_bounded(owners: tuple[openai.OpenAI, openai.OpenAI], shared: RunningServer) -> None:
    client = owners[0]
    made = [client.conversations.create().id for _ in range(9)]
    with pytest.raises(openai.NotFoundError, match="the last 8 are kept"):
        client.conversations.retrieve(made[0])
    with pytest.raises(openai.BadRequestError, match="at most 100,000") as large:
        for _ in range(3):
            client.conversations.items.create(made[-1], items=[user("x" * 2000)] * 20)
    assert large.value.code == "conversation_too_large"
    assert len(list(client.conversations.items.list(made[-1], limit=100))) == 40
    assert httpx.get(shared.url + "/v1/conversations/x").status_code == 401


def test_bytes_are_counted_as_items_come_and_go() -> None:
    store = ConversationStore(8, 1000)
    first, second = StoredConversation(None, {}), StoredConversation(0, {})
    store.extend(first, [])
    store.extend(second, [])
    items = [{"id": str(number), "text": "x" * 100} for number in range(5)]
    store.extend(second, items)
    store.extend(second, items)  # known by their ids
    assert len(second.items) == 5
    for _ in range(3):
        store.remove_item(second, second.items[0]["id"])
    store.extend(first, items)
    assert len(store) == 1 or len(store) == 2
    with pytest.raises(ApiError, match="has no item"):
        store.remove_item(first, "9")
    store.remove(first)
    with pytest.raises(ApiError):
        store.find(first.id, None)
