"""Reasoning, content and tool calls are told apart, however the text is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.text.tool_calls.forms import GENERIC, HERMES, LLAMA, ToolForm
from antiphon.text.tool_calls.output_parser import CallArguments, CallStart, Content, OutputParser, Piece, Reasoning

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


def parse(parts: list[str], is_cut: bool = False, **options: Any) -> tuple[str, str, list[tuple[str, str]]]:
    parser = OutputParser(TOOLS, **options)
    pieces = [piece for part in parts for piece in parser.feed(part)]
    return whole(pieces + parser.finish(is_cut))


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
    ('{"arguments": {}, "name": "add"}', {}, ("", "", [("add", "{}")])),
    ('{"name": "nobody", "arguments": {}}', {}, None),
    ('{"answer": [1, 2], "name": "add", "arguments": {}}', {}, None),
    ('see {"name": "add", "arguments": {}}', {}, ("see", "", [("add", "{}")])),
    ('see `{"name": "add", "arguments": {}}`', {}, None),
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
    ('{"name": "add", "arguments": {}}', ("", "", [("add", "{}")])),
    ('see {"name": "add", "parameters": {}}', ("see", "", [("add", "{}")])),
    (f"{TAG}```json\n{BARE}\n```", ("", "", [WEATHER])),
    (BARE + " Done; really.", ("Done; really.", "", [WEATHER])),
    ('{"name": "add", "parameters": {"a": 1', ("", "", [("add", '{"a": 1')])),
    ('{"name": "add", "parameters": "{\\"a\\": 1}"}', ("", "", [("add", '{"a": 1}')])),
]
CASES += [(text, {"form": LLAMA}, wanted) for text, wanted in LLAMA_CASES]

#: Without the tags: in fences, alone, wrapped. These are read alike in every form.
CALL = '{"name": "add", "arguments": {"a": 1}}'
A_CALL = ("add", '{"a": 1}')
UNTAGGED = [
    (f"```json\n{CALL}\n```", ("", "", [A_CALL])),
    (f"```tool_call\n{CALL}\n```\nDone.", ("Done.", "", [A_CALL])),
    (f"```{CALL}```", ("", "", [A_CALL])),
    (f"I will add.\n\n```json\n{CALL}\n```\n\n", ("I will add.", "", [A_CALL])),
    (f"```json\n{CALL}\n{CALL}\n```", ("", "", [A_CALL] * 2)),
    (f"```json\n{CALL}\n```\n```json\n{CALL}\n```", ("", "", [A_CALL] * 2)),
    (f"```json\n[{CALL}, {CALL}]\n```", ("", "", [A_CALL] * 2)),
    (f"First:\n{CALL}\nThen:\n{CALL}", ("First:Then:", "", [A_CALL] * 2)),
    ('```json\n{\n  "name": "add",\n  "parameters": {\n    "a": 1\n  }\n}\n```',
     ("", "", [("add", '{\n    "a": 1\n  }')])),
    (f"[{CALL}]", ("", "", [A_CALL])),
    (f" [ {CALL} ,{CALL}] so", ("so", "", [A_CALL] * 2)),
    (f'{{"tool_calls": [{CALL}]}}', ("", "", [A_CALL])),
    (f'{{"tool_call": {CALL}}}', ("", "", [A_CALL])),
    (f'{{"function": {CALL}}}', ("", "", [A_CALL])),
    (f'{{"type": "function", "function": {CALL}}}', ("", "", [A_CALL])),
    ('{"tool_calls": [{"id": "x", "type": "function", "function": {"name": "add", "arguments": "{\\"a\\": 1}"}}]}',
     ("", "", [A_CALL])),
    ('{"function": "add", "arguments": {"a": 1}}', ("", "", [A_CALL])),
    ('{"name": "add", "arguments": "{\\"a\\": 1}"}', ("", "", [A_CALL])),
    (f"{CALL}}}", ("", "", [A_CALL])),
    ('```json\n{"name": "nobody", "arguments": {}}\n```', None),
    (f'```json\n{{"plan": [{CALL}]}}\n```', None),
    (f'{{"plan": [{CALL}]}} and\n\nmore', None),
    (f'[1, 2, {CALL}]', None),
    (f'[{CALL}, {{"name": "nobody", "arguments": {{}}}}]', None),
    (f"```python\nprint({CALL})\n```\nas code", None),
    (f"```python\nprint(1)\n```\n{CALL}", ("```python\nprint(1)\n```", "", [A_CALL])),
    ("```json\n{}\n```", None),
    ("```", None),
    ("```json\n", None),
    ("a { b [ c ``` d `", None),
    ('{"name": "add", "arguments": [1]}', None),
    ('{"name": "add", "arguments": "Paris"}', None),
    ('```json\n{"name": "add", "arguments": {"a": <number>}}\n```', None),
    ('```json\n{"name": "add", "arguments": {"a": 1', None),
    ('{"type": "object", "properties": {"name": {"type": "string"}}}', None),
    ('{"function": {"name": "add"}}', None),
    ('{"name": "add", "name": "weather", "arguments": {}}', None),
    ("{'name': 'add', 'arguments': {}}", None),
    ("\n\n  [ ] { } \n", None),
]  # fmt: skip
CASES += [(text, {"form": HERMES}, wanted) for text, wanted in UNTAGGED]
#: Where calls usually stand alone, the arguments of the first are streamed before they can be checked.
STREAMED = ('{"name": "add", "arguments": [1]}', '{"name": "add", "arguments": "Paris"}', '{"name": "add", "name"')
CASES += [
    (text, {"form": form}, wanted)
    for text, wanted in UNTAGGED
    for form in (LLAMA, GENERIC)
    if not text.startswith(STREAMED)
]
CASES += [
    (f"<tool_call>\n```json\n{CALL}\n```\n</tool_call>", {}, ("", "", [A_CALL])),
    (f"```xml\n<tool_call>{CALL}</tool_call>\n```", {}, ("", "", [A_CALL])),
    (f"<tool_call>[{CALL}, {CALL}]</tool_call>", {}, ("", "", [A_CALL] * 2)),
    (f"<tool_call>{CALL}\n<tool_call>{CALL}", {}, ("", "", [A_CALL] * 2)),
    (f"<tool_call>{CALL}}}</tool_call>", {}, ("", "", [A_CALL])),
    (f'{{"x": "<tool_call>"}} <tool_call>{CALL}</tool_call>', {}, ('{"x": "<tool_call>"}', "", [A_CALL])),
    (f"```json\n{CALL}\n{CALL}\n``` more", {"is_single": True}, ("", "", [A_CALL])),
    (f"[{CALL}, {CALL}]", {"is_single": True}, ("", "", [A_CALL])),
]

#: Ends of answers that reached the limit of tokens.
CUT = [
    ('I will. <tool_call>\n{"na', "I will.", []),
    ("I will. <tool_call>", "I will.", []),
    ("I will. <tool_ca", "I will.", []),
    ('<tool_call>{"name": "add", "arguments": {"a": 1', "", [("add", '{"a": 1')]),
    ('```json\n{"name": "add", "arguments": {"a": 1', "", [("add", '{"a": 1')]),
    ('```json\n{"name": "add", "argu', "", [("add", "")]),
    ('```json\n{"name": "ad', "", []),
    ('{"name": "ad', "", []),
    ('{"tool_calls": [{"name": "add", "arguments": {"a": 1}}', "", []),
    ('[{"name": "add", "arguments": {"a": 1}}', "", []),
    ('```json\n{"name": "nobody", "arg', '```json\n{"name": "nobody", "arg', []),
    ('{"answer": [1, 2', '{"answer": [1, 2', []),
    ("a < b", "a < b", []),
    ("a <", "a <", []),
    ("sets such as {", "sets such as {", []),
    ("```json\n", "```json\n", []),
    ("```python\nprint(", "```python\nprint(", []),
]


@pytest.mark.parametrize(("text", "content", "calls"), CUT, ids=range(len(CUT)))
def test_a_cut_call_is_no_content(text: str, content: str, calls: list[tuple[str, str]]) -> None:
    for cut in range(len(text) + 1):
        parser = OutputParser(TOOLS)
        pieces = [*parser.feed(text[:cut]), *parser.feed(text[cut:]), *parser.finish(is_cut=True)]
        assert whole(pieces) == (content, "", calls), cut


def test_the_input_of_a_custom_tool_may_be_any_text() -> None:
    text = '{"name": "add", "arguments": "1 + 1"}'
    assert parse([text], custom=frozenset({"add"})) == ("", "", [("add", "1 + 1")])
    assert parse([text]) == (text, "", [])


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


SOUP = ["```", "```json\n", "```python\n", CALL, "{", "}", "[", "]", ",", "\n", "\n\n", '{"name": "add"',
        ', "arguments": ', '{"a": 1}', '"', "\\", "text", "`", " ", "<tool_call>", "</tool_call>", "<tool", TAG,
        '{"tool_calls": ',
        '{"function": ', '"nobody"', "null"]  # fmt: skip


@given(
    st.lists(st.sampled_from(SOUP), max_size=14),
    st.sampled_from([HERMES, LLAMA, GENERIC]),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_untagged_soup_is_read_alike_however_it_is_cut(
    parts: list[str], form: ToolForm, is_single: bool, is_cut: bool, data: st.DataObject
) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    made = [parse(given, form=form, is_single=is_single, is_cut=is_cut) for given in (pieces, [text], list(text))]
    assert made[0] == made[1] == made[2]
    content, _, calls = made[0]
    if not calls and not is_cut:
        assert content == text
    assert len(calls) <= 1 or not is_single


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
