"""From the text of a model to Ollama's lines: calls whole and with objects, whatever the deltas."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.apis.ollama.chat_body import messages_of
from antiphon.server.apis.ollama.line_format import ChatLines
from antiphon.server.apis.ollama.request_schemas import OllamaMessage
from antiphon.server.generation.parameters.messages import AssistantMessage, ToolMessage
from antiphon.text.tool_calls.output_parser import OutputParser

TEXT = (
    "Let me see.\n"
    '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>\n'
    '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
)
ENDED = Ended("x/0", "stop", 5, 9, 0, queue=0.25, time_to_first_token=0.5, total=2.0)


def lines_of(text: str, size: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    parser = OutputParser(frozenset({"add", "clock"}))
    made = ChatLines("m", parser, lambda delta: delta.text, lambda _: None, 10.0, 11.0)
    lines: list[dict[str, Any]] = []
    for start in range(0, len(text), size):
        lines += made.take(0, TextDelta("x/0", text[start : start + size], [start]))
    lines += made.take(0, ENDED)
    return lines, asyncio.run(made.whole())


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_calls_are_whole(size: int) -> None:
    lines, whole = lines_of(TEXT, size)
    calls = [call for line in lines for call in line["message"].get("tool_calls", ())]
    wanted = [{"index": 0, "name": "add", "arguments": {"a": 1}}, {"index": 1, "name": "clock", "arguments": {}}]
    assert [call["function"] for call in calls] == wanted and whole["message"]["tool_calls"] == calls
    assert "".join(line["message"]["content"] for line in lines) == whole["message"]["content"] == "Let me see."
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]


def test_a_cut_call_is_an_object() -> None:
    cut = TEXT[: TEXT.index("1}}") + 1]
    _, whole = lines_of(cut, 3)
    assert whole["message"]["tool_calls"][0]["function"]["arguments"] == {"a": 1}


def test_durations_are_nanoseconds() -> None:
    _, whole = lines_of("hello", 5)
    assert whole["load_duration"] == 10**9
    assert whole["prompt_eval_duration"] == 250_000_000 and whole["eval_duration"] == 1_500_000_000
    assert (whole["prompt_eval_count"], whole["eval_count"], whole["done_reason"]) == (5, 9, "stop")


def test_results_find_their_calls_by_name_and_order() -> None:
    def call(name: str) -> dict[str, Any]:
        return {"function": {"name": name, "arguments": {}}}

    given = [
        {"role": "assistant", "tool_calls": [call("add"), call("clock"), call("add")]},
        {"role": "tool", "content": "noon", "tool_name": "clock"},
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "2", "tool_name": "add"},
    ]
    asked, *results = messages_of([OllamaMessage.model_validate(message) for message in given])
    assert isinstance(asked, AssistantMessage) and asked.tool_calls is not None
    ids = [made.id for made in asked.tool_calls]
    assert len(set(ids)) == 3
    assert [one.tool_call_id for one in results if isinstance(one, ToolMessage)] == [ids[1], ids[0], ids[2]]


CALL = TEXT[TEXT.index("<tool_call>") : TEXT.index("\n</tool_call>")]


def parsed(text: str, **options: Any) -> dict[str, Any]:
    """The whole answer of an output that ended at the limit of tokens."""
    parser = OutputParser(frozenset({"add", "clock"}), **options)
    made = ChatLines("m", parser, lambda delta: delta.text, lambda _: None, 10.0, 11.0)
    ended = Ended("x/0", "length", 5, 9, 0)
    made.add(0, TextDelta("x/0", text, [1]))
    made.add(0, ended)
    return asyncio.run(made.whole())


def test_no_part_of_a_call_that_the_limit_cut_becomes_content() -> None:
    for size in range(len("<tool_call>"), len(CALL)):
        whole = parsed("Let me see.\n" + CALL[:size])
        assert whole["message"]["content"] == "Let me see." and whole["done_reason"] == "length", size


def test_a_complete_only_call_ends_the_answer() -> None:
    whole = parsed(CALL + "\n</tool_call> and more", is_single=True)
    assert whole["done_reason"] == "stop" and whole["message"]["content"] == ""
    assert whole["message"]["tool_calls"][0]["function"]["arguments"] == {"a": 1}
