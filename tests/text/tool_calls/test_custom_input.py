"""The input of custom tools is decoded exactly, however its JSON is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.text.tool_calls.custom_input import CustomInput
from antiphon.text.tool_calls.forms import GENERIC
from antiphon.text.tool_calls.json_text import JsonText
from antiphon.text.tool_calls.output_parser import CallArguments, CallStart, Content, OutputParser, Piece

RUN = frozenset({"run"})


def fed(reader: CustomInput, parts: list[str]) -> str:
    return "".join(reader.feed(part) for part in parts) + reader.finish()


@given(st.text(), st.booleans())
def test_any_text_comes_through(text: str, is_ascii: bool) -> None:
    written = json.dumps({"input": text}, ensure_ascii=is_ascii)
    assert fed(CustomInput(), [written]) == fed(CustomInput(), list(written)) == text


@given(st.text(alphabet='ab\\"/nu0123dD89cfF{', max_size=30))
def test_any_string_is_decoded_alike_however_it_is_cut(text: str) -> None:
    whole, cut = JsonText(), JsonText()
    assert whole.feed(text) == "".join(cut.feed(character) for character in text)
    assert whole.is_done == cut.is_done


@pytest.mark.parametrize(("arguments", "wanted"), [("1 + 1", "1 + 1"), ('{"x": 1}', '{"x": 1}'), ("{}", "")])
def test_other_arguments_are_the_input(arguments: str, wanted: str) -> None:
    assert fed(CustomInput(), list(arguments)) == fed(CustomInput(), [arguments]) == wanted


def joined(pieces: list[Piece]) -> tuple[str, list[str]]:
    content, inputs = "", []
    for piece in pieces:
        if isinstance(piece, Content):
            content += piece.text
        elif isinstance(piece, CallStart):
            assert piece.is_custom and piece.name == "run"
            inputs.append("")
        elif isinstance(piece, CallArguments):
            assert piece.is_custom
            inputs[-1] += piece.text
    return content, inputs


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("```run\nprint(1)\n\nprint('```')\n```", ("", ["print(1)\n\nprint('```')"])),
        ("So:\n```run\na\n```\n```run\nb\n``` Done.", ("So:Done.", ["a", "b"])),
        ("```run\ncut", ("", ["cut"])),
        ('{"name": "run", "arguments": {"input": "a\\n\\"b\\u00e9"}}', ("", ['a\n"bé'])),
        ('{"name": "run", "arguments": "a b"}', ("", ["a b"])),
        ('```json\n{"name": "run", "arguments": {"input": "a"}}\n```', ("", ["a"])),
        ("```running\na\n```", ("```running\na\n```", [])),
        ('{"response": "I \\"can\\"\\n help"}', ('I "can"\n help', [])),
        ('{"response": "cut', ("cut", [])),
        ('{"responses": "a"}', ('{"responses": "a"}', [])),
    ],
    ids=range(10),
)
def test_blocks_calls_and_wrapped_text(text: str, wanted: tuple[str, list[str]]) -> None:
    for cut in range(len(text) + 1):
        parser = OutputParser(RUN, form=GENERIC, custom=RUN)
        pieces = [*parser.feed(text[:cut]), *parser.feed(text[cut:]), *parser.finish()]
        assert joined(pieces) == wanted, cut
    parser = OutputParser(RUN, form=GENERIC, custom=RUN)
    assert joined([*(piece for letter in text for piece in parser.feed(letter)), *parser.finish()]) == wanted
