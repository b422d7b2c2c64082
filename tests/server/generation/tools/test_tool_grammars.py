"""The grammars that hold answers to tool calls accept what each form's own template writes, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon.errors import InvalidRequestError
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.tools.tool_use import ToolUse, tool_use
from antiphon.server.serving.setup.config import Limits
from antiphon.text.chat_template import ChatTemplate
from antiphon.text.grammar import GrammarCompiler
from antiphon.text.tokenization.bytes_vocab import BytesTokenizer
from antiphon.text.tokenization.hf_vocab import tokenizer_from_file
from antiphon.text.tool_calls.forms import GENERIC, GENERIC_REASONING, HERMES, LLAMA, takes_one_call, tool_form
from support.server.http_server import TOOL_TEMPLATE

LLAMA_SOURCE = (Path(__file__).parents[3] / "text" / "templates" / "llama3.jinja").read_text(encoding="utf-8")
MANY = LLAMA_SOURCE.replace("single tool-calls", "few tool calls")
PARAMETERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "add", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "clock", "strict": True}},
]
ONE = '{"name": "add", "parameters": {"a": 1}}'
TWO = '{"name": "clock", "parameters": {}}'
H_ONE = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
H_TWO = '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
NAMED = {"type": "function", "function": {"name": "clock"}}

G_ONE = ONE.replace("parameters", "arguments")
G_TWO = TWO.replace("parameters", "arguments")
#: Templates that know no tools.
PLAIN = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
THINKER = PLAIN + "{# <think> #}"


def allowed(mode: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [NAMED]}}


CASES: list[tuple[str, Any, bool | None, list[str], list[str]]] = [
    (MANY, "required", None, [ONE, f"{ONE}; {TWO}", f"{TWO}; {TWO}; {ONE}"], [f"{ONE};{TWO}", "no", ONE[:-1], "{}"]),
    (MANY, "required", False, [ONE, TWO], [f"{ONE}; {TWO}"]),
    (LLAMA_SOURCE, "required", None, [ONE, TWO], [f"{ONE}; {TWO}", '{"name": "add", "parameters": {"a": "x"}}']),
    (LLAMA_SOURCE, NAMED, None, [TWO], [ONE, f"{TWO}; {TWO}"]),
    (LLAMA_SOURCE, "auto", None, ["hello { }", ONE, TWO, ""], ['{"name": "clock", "parameters": {"a": 1}}', "{}"]),
    (TOOL_TEMPLATE, "required", None, [H_ONE, f"{H_ONE}\n{H_TWO}"], [H_ONE + H_TWO, ONE, f"{H_ONE}; {H_TWO}"]),
    (TOOL_TEMPLATE, NAMED, None, [H_TWO], [H_ONE]),
    (TOOL_TEMPLATE, "auto", None, ["hello", "so " + H_TWO, H_ONE + " then"], ['<tool_call>\n{"name": "no"']),
    (TOOL_TEMPLATE, "auto", False, ["hello", "so " + H_TWO], [H_ONE + " then", f"{H_ONE}\n{H_TWO}"]),
    (PLAIN, "auto", True, [G_ONE, f"{G_ONE}\n{G_TWO}", '{"response": "a \\"b\\"\\n"}'], ["hello", G_ONE + "}", "{}"]),
    (PLAIN, "auto", False, [G_ONE, '{"response": ""}'], [f"{G_ONE}\n{G_TWO}", f'{G_ONE}\n{{"response": ""}}']),
    (PLAIN, "required", True, [G_ONE, f"{G_TWO}\n{G_TWO}"], ["hello", '{"response": "a"}']),
    (PLAIN, "required", None, [G_ONE], [f"{G_TWO}\n{G_TWO}"]),
    (PLAIN, NAMED, None, [G_TWO], [G_ONE, f"{G_TWO}\n{G_TWO}"]),
    (THINKER, "auto", None, ["hello", G_ONE, G_TWO, "<think>a</think>"], ['{"name": "clock", "arguments": {"a": 1}}']),
    (PLAIN, allowed("auto"), None, [G_TWO, '{"response": "a"}'], [G_ONE]),
    (PLAIN, allowed("required"), None, [G_TWO], [G_ONE, '{"response": "a"}']),
    (TOOL_TEMPLATE, allowed("required"), None, [H_TWO], [H_ONE, "hello"]),
]  # fmt: skip


Accepts = Callable[[str, dict[str, Any], str], bool]


@pytest.fixture(scope="module")
def accepts(chat_folder: Path) -> Accepts:
    """Whether a text is an answer to a request of these fields, for a model with that template."""
    tokenizer = tokenizer_from_file(chat_folder / "tokenizer.json", chat_folder / "tokenizer_config.json")
    compiler = GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size)

    def accepts(source: str, fields: dict[str, Any], text: str) -> bool:
        grammar = used(source, fields).grammar
        assert grammar is not None
        constraint = compiler.compile(grammar)
        try:
            for token in tokenizer.encode(text, add_special_tokens=False):
                constraint.advance(token)
            constraint.advance(next(iter(tokenizer.eos_ids)))
        except InvalidRequestError:
            return False
        return True

    return accepts


def used(source: str, fields: dict[str, Any]) -> ToolUse:
    model: Any = SimpleNamespace(
        name="m", text=SimpleNamespace(chat_template=ChatTemplate(source), tokenizer=BytesTokenizer())
    )
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": TOOLS, **fields}
    return tool_use(ChatBody.model_validate(body), model, Limits())


@pytest.mark.parametrize(("source", "choice", "parallel", "good", "bad"), CASES, ids=range(len(CASES)))
def test_grammars(
    accepts: Accepts, source: str, choice: Any, parallel: bool | None, good: list[str], bad: list[str]
) -> None:
    fields = {"tool_choice": choice, "parallel_tool_calls": parallel}
    assert [text for text in good if not accepts(source, fields, text)] == []
    assert [text for text in bad if accepts(source, fields, text)] == []


POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}
FORM = {"response_format": {"type": "json_schema", "json_schema": {"name": "point", "schema": POINT}}}


@pytest.mark.parametrize(
    ("source", "fields", "good", "bad"),
    [
        (TOOL_TEMPLATE, FORM, ['{"x": 1}', '{"x":1}', H_ONE, f"{H_ONE}\n{H_TWO}"], ["hello", H_ONE + '{"x": 1}']),
        (PLAIN, FORM, ['{"x": 1}', G_ONE], ['{"response": "a"}', '{"name": "add", "arguments": {}}']),
        (PLAIN, {**FORM, "tool_choice": "required"}, [G_ONE], ['{"x": 1}']),
        (PLAIN, {**FORM, "tool_choice": "none"}, None, None),
        (TOOL_TEMPLATE, {"guided_choice": ["yes", "no"]}, ["yes", "no", H_TWO], ["maybe"]),
        (TOOL_TEMPLATE, {"guided_regex": "[0-9]{2}"}, ["12", H_TWO], ["1", "123"]),
        (TOOL_TEMPLATE, {"guided_grammar": 'start: "a" call\ncall: "b"+'}, ["abb", H_TWO], ["a"]),
        (TOOL_TEMPLATE, {"response_format": {"type": "json_object"}}, ['{"a": [1]}', H_TWO], ["[1]", "a"]),
    ],
    ids=range(8),
)  # fmt: skip
def test_a_call_or_an_answer_of_the_format(
    accepts: Accepts, source: str, fields: dict[str, Any], good: list[str] | None, bad: list[str] | None
) -> None:
    if good is None or bad is None:
        use = used(source, fields)
        assert not use.tools and use.grammar is not None and use.grammar.json_schema is not None
        return
    assert [text for text in good if not accepts(source, fields, text)] == []
    assert [text for text in bad if accepts(source, fields, text)] == []


def custom(form: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "custom", "custom": {"name": "run", "format": form or {"type": "text"}}}


def grammar_format(syntax: str, definition: str) -> dict[str, Any]:
    return {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}


def run_call(text: str) -> str:
    return json.dumps({"name": "run", "arguments": {"input": text}})


LARK = grammar_format("lark", 'start: NUMBER (OP NUMBER)*\nNUMBER: /[0-9]+/\nOP: "+" | "-"')
REGEX = grammar_format("regex", "[a-z]+")


@pytest.mark.parametrize(
    ("source", "form", "choice", "good", "bad"),
    [
        (PLAIN, None, "required", [run_call('a\n"b')], ['{"name": "run", "arguments": {}}']),
        (PLAIN, REGEX, "auto", [run_call("ab")], [run_call("A")]),
        (TOOL_TEMPLATE, REGEX, "auto", ["hello"], [f"<tool_call>\n{run_call('A')}\n</tool_call>"]),
        (PLAIN, LARK, "required", ["```run\n1+2-3\n```"], ["1+2", "```run\n1+\n```", "```run\n\n```"]),
        (TOOL_TEMPLATE, LARK, "auto", ["hello", "so ```run\n1+2\n```"], ["so ```run\nx"]),
        (LLAMA_SOURCE, LARK, "auto", ["hello", "```run\n1+2\n```"], ["```run\nx"]),
    ],
    ids=range(6),
)  # fmt: skip
def test_the_input_of_custom_tools(
    accepts: Accepts, source: str, form: dict[str, Any] | None, choice: str, good: list[str], bad: list[str]
) -> None:
    fields = {"tools": [custom(form)], "tool_choice": choice}
    assert [text for text in good if not accepts(source, fields, text)] == []
    assert [text for text in bad if accepts(source, fields, text)] == []


def test_forms_are_found_from_templates() -> None:
    templates = Path(__file__).parents[3] / "text" / "templates"
    found = {path.stem: tool_form(ChatTemplate(path.read_text(encoding="utf-8"))) for path in templates.iterdir()}
    assert found["llama3"] is LLAMA and found["gemma"] is found["mistral"] is GENERIC
    assert tool_form(ChatTemplate(TOOL_TEMPLATE)) is HERMES and tool_form(None) is GENERIC
    assert tool_form(ChatTemplate("{{ messages }}<think>")) is GENERIC_REASONING
    assert takes_one_call(ChatTemplate(LLAMA_SOURCE)) and not takes_one_call(ChatTemplate(MANY))
