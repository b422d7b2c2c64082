"""From the text of a model to Anthropic's message, where the output ends at the limit of tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.apis.anthropic.message_format import MessageFormat
from antiphon.server.apis.anthropic.request_schemas import MessagesBody
from antiphon.text.tool_calls.output_parser import OutputParser

CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}'


def cut_message(text: str, **options: Any) -> dict[str, Any]:
    body = MessagesBody.model_validate({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]})
    chat: Any = SimpleNamespace(
        parser=lambda: OutputParser(frozenset({"add"}), **options),
        text=lambda delta: delta.text,
        call=SimpleNamespace(prompt=[1], params=SimpleNamespace(max_tokens=9)),
        model=SimpleNamespace(name="m"),
    )
    message = MessageFormat(body, chat)
    message.add(0, TextDelta("x/0", text, [1]))
    message.add(0, Ended("x/0", "length", 1, 9, 0))
    return message.message()


def test_no_part_of_a_cut_call_becomes_text() -> None:
    for size in range(len("<tool_call>"), len(CALL)):
        message = cut_message("Let me see.\n" + CALL[:size])
        texts = [block["text"] for block in message["content"] if block["type"] == "text"]
        assert texts == ["Let me see."] and message["stop_reason"] == "max_tokens", size


def test_a_complete_only_call_ends_the_message() -> None:
    message = cut_message(CALL + "\n</tool_call> and more", is_single=True)
    (block,) = message["content"]
    assert (block["name"], block["input"], message["stop_reason"]) == ("add", {"a": 1}, "tool_use")
