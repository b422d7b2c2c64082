"""Reasoning, content and tool calls are told apart, however the text is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.server.tool_calls.forms import LLAMA
from antiphon.server.tool_calls.output_parser import CallArguments, CallStart, Content, OutputParser, Piece, Reasoning

TOOLS = frozenset({"weather", "add"})
ONE = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich", "days": [1, 2]}}\n</tool_call>'
TWO = '<tool_call>\n{"arguments": {"a": 1, "b": {"c": "}"}}, "name": "add"}\n</tool_call>'

TAG_INSIDE = '<tool_call>{"name": "add", "arguments": {"a": "</tool_call>"}}</tool_call>!'


def whole(pieces: list[Piece]) -> tuple[str, str, list[tuple[str, str]]]:
    """Content, reasoning and calls put together."""
    content, reasoning, calls = "", "", []
    for piece in pieces:
        if isinstance(piece, Content):
            content += piece.text
        elif isinstance(piece, Reasoning):
            reasoning += piece.text
        elif isinstance(piece, CallStart):
            assert piece.index == len(calls)
            calls.append((piece.name, ""))
        else:
            assert isinstance(piece, CallArguments) and piece.index == len(calls) - 1
            calls[-1] = (calls[-1][0], calls[-1][1] + piece.text)
    return content, reasoning, calls


def parse(parts: list[str], **options: Any) -> tuple[str, str, list[tuple[str, str]]]:
    parser = OutputParser(TOOLS, **options)
    pieces = [piece for part in parts for piece in parser.feed(part)]
    return whole(pieces + parser.finish())


WEATHER = ("weather", '{"city": "Zürich", "days": [1, 2]}')
ADD = ("add", '{"a": 1, "b": {"c": "}"}}')
CASES = [
    ("plain text, no tags < <tool", {}, ("plain text, no tags < <tool", "", [])),
    (ONE, {}, ("", "", [WEATHER])),
    (ONE + "\n" + TWO, {}, ("", "", [WEATHER, ADD])),
    ("I will look.\n\n" + ONE, {}, ("I will look.", "", [WEATHER])),
    (ONE + "\nDone.", {}, ("Done.", "", [WEATHER])),
    ("<think>\nhm </thin\n</think>\n\nYes.", {"reasoning": True}, ("Yes.", "hm </thin", [])),
    ("hm</think>" + ONE, {"in_reasoning": True}, ("", "hm", [WEATHER])),
    ("\n<thinly", {"reasoning": True}, ("\n<thinly", "", [])),
    ("<think>cut off", {"reasoning": True}, ("", "cut off", [])),
    ("a <think>b</think>", {"reasoning": True}, ("a <think>b</think>", "", [])),
    ('x <tool_call>{"name": "nobody", "arguments": {}}</tool_call> y', {}, None),
    ("x <tool_call>not json</tool_call> y", {}, None),
    ('<tool_call>{"arguments": {}}</tool_call>', {}, None),
    ('<tool_call>{"name": ["weather"]}</tool_call>', {}, None),
    ('{"name": "add", "arguments": {"a": 1}}', {}, ("", "", [("add", '{"a": 1}')])),
    ('\n{"name": "add", "arguments": {}}\n{"name": "weather", "arguments": {"a": 2}} so', {},
     ("so", "", [("add", "{}"), ("weather", '{"a": 2}')])),
    ('{"name": "add"} is no call', {}, None),
    ('{"arguments": {}, "name": "add"}', {}, None),
    ('{"name": "nobody", "arguments": {}}', {}, None),
    ('{"answer": [1, 2], "name": "add", "arguments": {}}', {}, None),
    ('see {"name": "add", "arguments": {}}', {}, None),
    ('<tool_call>{"name": "add"}</tool_call>', {}, ("", "", [("add", "{}")])),
    ('x <tool_call>\n{"na', {}, None),
    ("x <tool_call>", {}, None),
    (TAG_INSIDE, {}, ("!", "", [("add", '{"a": "</tool_call>"}')])),
    ('<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>', {}, ("", "", [("add", '{"a": 1}')])),
    ('<tool_call>{"name": "add", "arguments": null}</tool_call>', {}, ("", "", [("add", "{}")])),
    ('<tool_call>{"name": "add", "arguments": {"a": 1', {}, ("", "", [("add", '{"a": 1')])),
    ('<tool_call>{"name": "add", "id": 7, "arguments": {"a": "\\"{"}}', {}, ("", "", [("add", '{"a": "\\"{"}')])),
]  # fmt: skip


TAG = "<|python_tag|>"
BARE = '{"name": "weather", "parameters": {"city": "Zürich", "days": [1, 2]}}'
LLAMA_CASES = [
    (BARE, ("", "", [WEATHER])),
    (TAG + BARE, ("", "", [WEATHER])),
    (f"{TAG} {BARE}; {BARE}", ("", "", [WEATHER, WEATHER])),
    (f"{BARE};{BARE}\n{BARE}", ("", "", [WEATHER] * 3)),
    (f"I will look. {TAG}{BARE}", ("I will look.", "", [WEATHER])),
    ('{"type": "function", "name": "add", "parameters": {"a": 1}}', ("", "", [("add", '{"a": 1}')])),
    (f'{TAG}{{"type": "function", "name": "add", "parameters": {{}}}}', ("", "", [("add", "{}")])),
    (f'{TAG}weather.call(city="Oslo", days=[1, 2])', ("", "", [("weather", '{"city": "Oslo", "days": [1, 2]}')])),
    (f"look {TAG}add.call()", ("look", "", [("add", "{}")])),
    (f"{TAG}nobody.call(a=1)", None),
    (f"{TAG}add.call(1)", None),
    (f"{TAG}add.call(**x)", None),
    (f"{TAG}add.call(a=open('x'))", None),
    (f"{TAG}print(1", None),
    (f"{TAG}  ", None),
    ('{"name": "nobody", "parameters": {}}', None),
    ('{"name": "add", "arguments": {}}', None),
    ('see {"name": "add", "parameters": {}}', None),
    (BARE + " Done; really.", ("Done; really.", "", [WEATHER])),
    ('{"name": "add", "parameters": {"a": 1', ("", "", [("add", '{"a": 1')])),
    ('{"name": "add", "parameters": "{\\"a\\": 1}"}', ("", "", [("add", '{"a": 1}')])),
]
CASES += [(text, {"form": LLAMA}, wanted) for text, wanted in LLAMA_CASES]


@pytest.mark.parametrize(("text", "options", "wanted"), CASES, ids=range(len(CASES)))
def test_every_split_gives_the_same(text: str, options: dict[str, Any], wanted: object) -> None:
    wanted = wanted or (text, "", [])  # what is no call of ours stays as it was written
    assert parse([text], **options) == wanted
    assert parse(list(text), **options) == wanted
    for cut in range(len(text)):
        assert parse([text[:cut], text[cut:]], **options) == wanted, cut


def test_arguments_stream_before_the_call_is_complete() -> None:
    parser = OutputParser(TOOLS)
    assert parser.feed('<tool_call>\n{"name": "weather", ') == [CallStart(0, "weather")]
    assert parser.feed('"arguments": {"city": "Par') == [CallArguments(0, '{"city": "Par')]
    assert parser.feed('is"}') == [CallArguments(0, 'is"}')]


def test_json_that_is_no_call_streams_at_once() -> None:
    parser = OutputParser(TOOLS)
    assert parser.feed('{"answer": ') == [Content('{"answer":')]
    assert parser.feed("[1") == [Content(" [1")]


def test_without_tools_and_reasoning_text_passes_through_at_once() -> None:
    parser = OutputParser()
    assert parser.feed(ONE + " <think>") == [Content(ONE + " <think>")]


@given(st.lists(st.sampled_from(["<tool_call>", "</tool_call>", "<think>", "</think>", '{"name": "add"', "}", ",", "\n",
                                 '"arguments": {}', '"', "\\", "text", "<", " "]), max_size=12), st.data())  # fmt: skip
def test_soup_is_read_alike_however_it_is_cut(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert parse(pieces, reasoning=True) == parse([text], reasoning=True)


@given(st.lists(st.sampled_from([TAG, ";", '{"name": "add"', "}", ",", "\n", '"parameters": {}', '"type": 1', "{",
                                 '"', "add.call(", ")", "text", "<|", " "]), max_size=12), st.data())  # fmt: skip
def test_llama_soup_is_read_alike_however_it_is_cut(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert parse(pieces, form=LLAMA) == parse([text], form=LLAMA)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_any_arguments_come_through_exactly(value: object) -> None:
    arguments = json.dumps({"value": value})
    text = f'<tool_call>{{"name": "add", "arguments": {arguments}}}</tool_call>'
    assert parse(list(text)) == ("", "", [("add", arguments)])


@pytest.mark.parametrize("name", ["nobody", "add"])
@pytest.mark.parametrize("tag", ["", "<tool_call>"])
def test_a_call_inside_what_is_no_call(name: str, tag: str) -> None:
    text = (
        f'{tag}{{"x": 1, "name": "{name}", "arguments": {{"y": "<tool_call>{{\\"name\\": \\"add\\"}}</tool_call>"}}}} z'
    )
    wanted = parse([text])
    for cut in range(len(text)):
        assert parse([text[:cut], text[cut:]]) == wanted, cut
