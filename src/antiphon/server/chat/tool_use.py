"""`ToolUse`: the tools that a chat may call, and the grammar that enforces the form of the calls."""

from __future__ import annotations

import json
from dataclasses import dataclass

from antiphon.server.chat.request_schemas import ChatBody
from antiphon.server.http.errors import ApiError, invalid
from antiphon.server.serving.models import ReadyModel
from antiphon.server.setup.config import Limits
from antiphon.server.text.grammar import checked_grammar
from antiphon.server.text.messages import NamedTool, Tool
from antiphon.server.text.tools import check_tools
from antiphon.server.tool_calls.forms import HERMES, LLAMA, ToolForm, takes_one_call, tool_form
from antiphon.text.grammar_spec import GrammarSpec

NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}

#: JSON on one line, as models write it: unbounded whitespace could go on for ever.
STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


@dataclass(frozen=True)
class ToolUse:
    """`grammar` is set if the form of the calls is enforced."""

    tools: tuple[Tool, ...] = ()
    grammar: GrammarSpec | None = None
    is_single: bool = False
    form: ToolForm = HERMES

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.function.name for tool in self.tools)


def tool_use(body: ChatBody, model: ReadyModel, limits: Limits) -> ToolUse:
    """Validated against the model and the limits; with `tool_choice: none` the prompt has no tools."""
    tools, choice = body.tools or [], body.tool_choice
    if not tools:
        if choice is not None and choice not in ("none", "auto"):
            raise invalid("tool_choice asks for a call, and there are no tools", "tool_choice")
        return ToolUse()
    check_tools(tools, limits)
    if choice == "none":
        return ToolUse()
    template = model.text.chat_template
    form = tool_form(template)
    if form is None:
        known = f"{HERMES.tag}…{HERMES.end} or " + f'{{"name": …, "{LLAMA.arguments_key}": …}}'
        message = f"the chat template of model {model.name!r} does not know tools in the form {known}"
        raise ApiError(400, message, code="unsupported_value", param="tools")
    called = tools
    if isinstance(choice, NamedTool):
        called = [tool for tool in tools if tool.function.name == choice.function.name]
        if not called:
            raise invalid(f"tool_choice names {choice.function.name!r}, which is no tool here", "tool_choice")
    is_single = body.parallel_tool_calls is False
    grammar = None
    if isinstance(choice, NamedTool):
        grammar = _grammar(form, called, "start: call")
    elif choice == "required":
        several = f"start: call ({json.dumps(form.separator)} call)*"
        grammar = _grammar(form, called, "start: call" if is_single or takes_one_call(template) else several)
    elif any(tool.function.strict for tool in tools):
        grammar = _optional_grammar(form, called)
    return ToolUse(tuple(tools), grammar, is_single, form)


def _optional_grammar(form: ToolForm, tools: list[Tool]) -> GrammarSpec:
    """Text is free; a call, once begun, must match the schemas of strict tools."""
    if form is LLAMA:  # a call begins with the first character of the answer or not at all
        start = "start: call | TEXT\nTEXT: /([^{](.|\\n)*)?/"
        return _grammar(form, tools, start, all_strict=False)
    start = (
        "start: (begin rest)* TEXT\nTEXT: /(.|\\n)*/\n" + f'begin[lazy]: TEXT "{form.tag}"\nrest: "\\n" function end'
    )
    return _grammar(form, tools, start, all_strict=False)


def _grammar(form: ToolForm, tools: list[Tool], start: str, all_strict: bool = True) -> GrammarSpec:
    """A Lark grammar with one rule per tool, which has the schema of its arguments."""
    before = f"{json.dumps(form.before)} " if form.before else ""
    end = json.dumps(form.after) if form.after else '""'
    lines = [start, f"call: {before}function end", f"end: {end}"]
    lines.append("function: " + " | ".join(f"function_{index}" for index in range(len(tools))))
    for index, tool in enumerate(tools):
        function = tool.function
        schema = function.parameters or NO_PARAMETERS
        if not (all_strict or function.strict):
            schema = {"type": "object"}
        begin = f'{{"name": {json.dumps(function.name)}, "{form.arguments_key}": '
        styled = {**schema, "x-guidance": STYLE}
        lines.append(f'function_{index}: {json.dumps(begin)} %json {json.dumps(styled)} "}}"')
    return checked_grammar("tools", grammar="\n".join(lines))
