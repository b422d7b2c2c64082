"""What of an answer is spoken: no call, no tool and no tag of either, however the text is cut."""

from __future__ import annotations

import json

import pytest

from antiphon.text.tool_calls.unspoken import UnspokenCalls

TOOLS = frozenset({"get_weather"})
CALL = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
DEFINITION = json.dumps(
    {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
)
SPOKEN = [
    "The set {1, 2} and the list [a, b] are finite.",
    'She said {"city": "Oslo"} aloud, and {curly: true}.',
    '{"name": "Alice", "age": 30} is a person.',
    "If a < b, then `x` is <b>bold</b>.",
    "```python\nprint([1, 2])\n```",
    "[laughs] No, really!",
]
UNSPOKEN = [
    (CALL, ""),
    (f"Let me look. {CALL}", "Let me look. "),
    (f"<tool_call>\n{CALL}\n</tool_call> Done.", "Done."),
    (f"<tool_call>\n{CALL}\nDone.", "Done."),
    ("<tool_call>get_weather(city)</tool_call> Done.", "Done."),
    (f"<|python_tag|>{CALL}; {CALL}", ""),
    ('<|python_tag|>get_weather.call(city="Oslo")', ""),
    (f"```json\n{CALL}\n```\nDone.", "Done."),
    (f"[{CALL}, {CALL}] Done.", "Done."),
    (CALL * 5 + " Done.", "Done."),
    ('{"tool_calls": [{"function": {"name": "other", "arguments": "{}"}}]}', ""),
    ('{"name": "unknown_tool", "parameters": {"q": 1}} Sorry.', "Sorry."),
    ("{'name': 'get_weather', 'arguments': {'city': 'Oslo'}} Sorry.", "Sorry."),
    ('{"get_weather": {"city": "Oslo"}} Sorry.', "Sorry."),
    (f"I have {DEFINITION} here.", "I have here."),
    ('Well, {"name": "get_weather", "argu', "Well, "),
    ('{"na', ""),
    ("<tool_call>\n{", ""),
    ("Half a tag: <tool", "Half a tag: "),
]


def spoken(text: str, size: int) -> str:
    calls = UnspokenCalls(TOOLS)
    return "".join(calls.feed(text[at : at + size]) for at in range(0, len(text), size)) + calls.finish()


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("text", SPOKEN)
def test_other_text_stays_as_it_is(text: str, size: int) -> None:
    assert spoken(text, size) == text


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("text", "expected"), UNSPOKEN)
def test_calls_are_removed(text: str, expected: str, size: int) -> None:
    assert spoken(text, size) == expected


def test_only_what_may_be_markup_is_held_back() -> None:
    calls = UnspokenCalls(TOOLS)
    assert calls.feed("The set {1") == "The set {1"
    assert calls.feed(' and {"ci') == ' and {"ci'
    assert calls.feed('ty": 2') == 'ty": 2'
    assert calls.feed('} and {"name": "Alice", ') == "} and "
    assert calls.feed('"age": 30}.') == '{"name": "Alice", "age": 30}.'
