"""Chat completions with `store: true`: listed, read, changed and deleted."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from support.server.http_server import RunningServer

DETAILS: dict[str, Any] = {"model": "tiny-chat", "max_tokens": 5, "temperature": 0}
MESSAGES: list[Any] = [
    {"role": "system", "content": "Be kind.", "name": "x"},
    {"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]},
]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"enum": ["x", "y"]}},
            "required": ["a"],
            "additionalProperties": False,
        },
    },
}
RUN: Any = {
    "type": "custom",
    "custom": {
        "name": "run",
        "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[abc]{3}"}},
    },
}


def test_kept_read_changed_and_deleted(client: openai.OpenAI) -> None:
    made = client.chat.completions.create(**DETAILS, messages=MESSAGES, store=True, metadata={"topic": "t1"})
    kept = client.chat.completions.retrieve(made.id)
    assert kept.to_dict() == {**made.to_dict(), "metadata": {"topic": "t1"}}
    messages = list(client.chat.completions.messages.list(made.id, limit=1))  # pages of one
    assert [(one.id, one.role, one.content) for one in messages] == [
        (f"{made.id}-0", "system", "Be kind."),
        (f"{made.id}-1", "user", "hello"),
    ]
    assert messages[0].content_parts is None and [part.text for part in messages[1].content_parts or ()] == [
        "hel",
        "lo",
    ]  # type: ignore[union-attr]
    assert [one.role for one in client.chat.completions.messages.list(made.id, order="desc")] == ["user", "system"]
    changed = client.chat.completions.update(made.id, metadata={"topic": "t2"})
    assert changed.to_dict()["metadata"] == {"topic": "t2"}
    assert client.chat.completions.delete(made.id).deleted
    for call in (
        client.chat.completions.retrieve,
        client.chat.completions.delete,
        client.chat.completions.messages.list,
    ):
        with pytest.raises(openai.NotFoundError) as missing:
            call(made.id)
        assert missing.value.code == "completion_not_found"
    unkept = client.chat.completions.create(**DETAILS, messages=MESSAGES)
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.retrieve(unkept.id)


def test_lists_are_filtered_and_cut(client: openai.OpenAI) -> None:
    for number in range(5):
        client.chat.completions.create(
            **DETAILS, messages=MESSAGES, store=True, metadata={"run": "lists", "part": str(number % 2)}
        )
    metadata = {"run": "lists"}
    found = list(client.chat.completions.list(metadata=metadata, limit=2))
    assert len(found) == 5 and len({one.id for one in found}) == 5
    backwards = list(client.chat.completions.list(metadata=metadata, order="desc"))
    assert [one.id for one in backwards] == [one.id for one in found][::-1]
    assert len(list(client.chat.completions.list(metadata={**metadata, "part": "1"}))) == 2
    assert list(client.chat.completions.list(metadata={"run": "none"})) == []
    assert len(list(client.chat.completions.list(metadata=metadata, model="default-chat"))) == 5
    assert list(client.chat.completions.list(model="bert")) == []
    assert client.chat.completions.list(limit=0).data == []
    with pytest.raises(openai.BadRequestError):
        list(client.chat.completions.list(after="none"))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"n": 3, "logprobs": True, "top_logprobs": 2, "seed": 3},
        {"model": "tiny-thinker", "max_tokens": 9},
        {"tools": [TOOL], "tool_choice": "required", "seed": 1, "max_tokens": 60},
        {"tools": [RUN], "tool_choice": "required", "seed": 1, "max_tokens": 60},
    ],
)
def test_a_stream_is_kept_as_the_whole_answer(client: openai.OpenAI, more: dict[str, Any]) -> None:
    details = {**DETAILS, "messages": MESSAGES, "store": True, **more}
    chunks = list(client.chat.completions.create(**details, stream=True))
    kept = client.chat.completions.retrieve(chunks[0].id).to_dict()
    whole = client.chat.completions.create(**details).to_dict()
    for answer in (kept, whole):
        for choice in answer["choices"]:  # type: ignore[attr-defined]
            for call in choice["message"].get("tool_calls", ()):
                call["id"] = ""
    assert kept["choices"] == whole["choices"]
    assert kept["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]  # type: ignore[index]
    assert kept["object"] == "chat.completion" and kept["model"] == details["model"]


def test_another_key_finds_nothing(owners: tuple[openai.OpenAI, openai.OpenAI], shared: RunningServer) -> None:
    first, second = owners
    made = first.chat.completions.create(**DETAILS, messages=MESSAGES, store=True)
    assert [one.id for one in first.chat.completions.list()] == [made.id]
    assert list(second.chat.completions.list()) == []
    for act in (
        lambda: second.chat.completions.retrieve(made.id),
        lambda: second.chat.completions.update(made.id, metadata={}),
        lambda: second.chat.completions.messages.list(made.id),
        lambda: second.chat.completions.delete(made.id),
    ):
        with pytest.raises(openai.NotFoundError):
            act()
    for _ in range(8):
        first.chat.completions.create(**DETAILS, messages=MESSAGES, store=True)
    with pytest.raises(openai.NotFoundError, match="the last 8"):
        first.chat.completions.retrieve(made.id)
