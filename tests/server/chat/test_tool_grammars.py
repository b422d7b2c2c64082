"""The grammars that hold answers to tool calls accept what each form's own template writes, and nothing else."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon.errors import EngineError
from antiphon.server.chat.request_schemas import ChatBody
from antiphon.server.chat.tool_use import tool_use
from antiphon.server.http.errors import ApiError
from antiphon.server.setup.config import Limits
from antiphon.server.tool_calls.forms import HERMES, LLAMA, takes_one_call, tool_form
from antiphon.text.chat_template import ChatTemplate
from antiphon.text.grammar import GrammarCompiler
from antiphon.text.tokenization.hf_vocab import tokenizer_from_file
from support.http_server import TOOL_TEMPLATE

LLAMA_SOURCE = (Path(__file__).parents[2] / "text" / "templates" / "llama3.jinja").read_text(encoding="utf-8")
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

CASES: list[tuple[str, Any, bool | None, list[str], list[str]]] = [
    (MANY, "required", None, [ONE, f"{ONE}; {TWO}", f"{TWO}; {TWO}; {ONE}"], [f"{ONE};{TWO}", "no", ONE[:-1], "{}"]),
    (MANY, "required", False, [ONE, TWO], [f"{ONE}; {TWO}"]),
    (LLAMA_SOURCE, "required", None, [ONE, TWO], [f"{ONE}; {TWO}", '{"name": "add", "parameters": {"a": "x"}}']),
    (LLAMA_SOURCE, NAMED, None, [TWO], [ONE, f"{TWO}; {TWO}"]),
    (LLAMA_SOURCE, "auto", None, ["hello { }", ONE, TWO, ""], ['{"name": "clock", "parameters": {"a": 1}}', "{}"]),
    (TOOL_TEMPLATE, "required", None, [H_ONE, f"{H_ONE}\n{H_TWO}"], [H_ONE + H_TWO, ONE, f"{H_ONE}; {H_TWO}"]),
    (TOOL_TEMPLATE, NAMED, None, [H_TWO], [H_ONE]),
    (TOOL_TEMPLATE, "auto", None, ["hello", "so " + H_TWO, H_ONE + " then"], ['<tool_call>\n{"name": "no"']),
]  # fmt: skip


@pytest.mark.parametrize(("source", "choice", "parallel", "good", "bad"), CASES, ids=range(len(CASES)))
def test_grammars(
    chat_folder: Path, source: str, choice: Any, parallel: bool | None, good: list[str], bad: list[str]
) -> None:
    tokenizer = tokenizer_from_file(chat_folder / "tokenizer.json", chat_folder / "tokenizer_config.json")
    model: Any = SimpleNamespace(name="m", text=SimpleNamespace(chat_template=ChatTemplate(source)))
    body = ChatBody.model_validate(
        {"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": TOOLS, "tool_choice": choice,
         "parallel_tool_calls": parallel}
    )  # fmt: skip
    use = tool_use(body, model, Limits())
    assert use.grammar is not None
    compiler = GrammarCompiler(tokenizer, tokenizer.eos_ids, tokenizer.vocab_size)

    def accepts(text: str) -> bool:
        constraint = compiler.compile(use.grammar)
        try:
            for token in tokenizer.encode(text, add_special_tokens=False):
                constraint.advance(token)
            constraint.advance(next(iter(tokenizer.eos_ids)))
        except EngineError:
            return False
        return True

    assert [text for text in good if not accepts(text)] == []
    assert [text for text in bad if accepts(text)] == []


def test_forms_are_found_from_templates() -> None:
    templates = Path(__file__).parents[2] / "text" / "templates"
    found = {path.stem: tool_form(ChatTemplate(path.read_text(encoding="utf-8"))) for path in templates.iterdir()}
    assert found["llama3"] is LLAMA and found["gemma"] is None
    assert tool_form(ChatTemplate(TOOL_TEMPLATE)) is HERMES and tool_form(None) is None
    assert takes_one_call(ChatTemplate(LLAMA_SOURCE)) and not takes_one_call(ChatTemplate(MANY))


def test_a_model_without_tools_says_so() -> None:
    model: Any = SimpleNamespace(name="m", text=SimpleNamespace(chat_template=ChatTemplate("{{ messages }}")))
    body = ChatBody.model_validate({"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": TOOLS})
    with pytest.raises(ApiError, match="does not know tools in the form <tool_call>"):
        tool_use(body, model, Limits())
