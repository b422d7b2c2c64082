"""Lark grammars that constrain an answer to calls of its tools, in the form of the model's template."""

from __future__ import annotations

import json
from collections.abc import Sequence

from antiphon.server.generation.parameters.grammar import checked_grammar
from antiphon.server.generation.parameters.messages import CustomTool, Tool
from antiphon.server.generation.parameters.strict_schema import JsonSchema, closed, without_annotations, without_extras
from antiphon.server.generation.parameters.tools import INPUT, input_grammar
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.text.lark_rules import json_rule, rule_body
from antiphon.text.tool_calls.forms import LLAMA, ToolForm

NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}

#: JSON on one line, as models write it: unbounded whitespace could go on for ever.
STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
#: Style of an answer in a response format: a space after commas and colons is optional.
ANSWER_STYLE = {"whitespace_flexible": False, "item_separator": ",[ ]?", "key_separator": ":[ ]?"}


class ToolGrammar:
    """Grammar with one rule `call` for all tools. Schemas apply to all tools with `all_strict`, else to strict ones."""

    def __init__(self, form: ToolForm, tools: Sequence[Tool | CustomTool], all_strict: bool = True) -> None:
        self._form = form
        self._functions: list[str] = []
        self._blocks: list[tuple[str, str]] = []  # opening fence, and the rule that follows it
        self._lines: list[str] = []
        for index, tool in enumerate(tools):
            if isinstance(tool, CustomTool):
                self._add_custom(tool, index)
            else:
                self._add_function(tool, index, all_strict)

    def required(self, is_single: bool) -> GrammarSpec:
        """Build the grammar of one call, or of one or more."""
        return self._made(f"start: {self._calls(is_single)}")

    def or_wrapped_text(self, is_single: bool) -> GrammarSpec:
        """Build the grammar of calls, or of an object that holds the text of an answer."""
        opener = self._form.text_opener[:-1]
        text = f'text: {json.dumps(opener)} {json_rule({"type": "string"}, STYLE)} "}}"'
        return self._made(f"start: {self._calls(is_single)} | text", text)

    def or_text(self, is_single: bool) -> GrammarSpec:
        """Build the grammar of free text with calls, which must match once begun.

        If the form has no tag, a call can only begin the answer.
        """
        form = self._form
        if form is LLAMA or not form.tag:
            fences = [f"~/{_escaped(fence)}(.|\\n)*/" for fence, _ in self._blocks]
            text = " & ".join([r"/([^{](.|\n)*)?/", *fences])
            return self._made(f"start: {self._calls(is_single)} | TEXT", f"TEXT: {text}")
        begins = [f'begin[lazy]: TEXT "{form.tag}"', 'rest: "\\n" function end'] if self._functions else []
        turns = ["begin rest"] if self._functions else []
        for index, (fence, rule) in enumerate(self._blocks):
            begins.append(f"begin_{index}[lazy]: TEXT {json.dumps(fence)}\nrest_{index}: {rule}")
            turns.append(f"begin_{index} rest_{index}")
        repeat = "?" if is_single else "*"
        # Nothing may follow the only call.
        start = f"start: ({' | '.join(turns)}){repeat} TEXT" if not is_single else f"start: {' | '.join(turns)} | TEXT"
        return self._made(start, "TEXT: /(.|\\n)*/", *begins)

    def _calls(self, is_single: bool) -> str:
        return "call" if is_single else f"call ({json.dumps(self._form.separator)} call)*"

    def _made(self, start: str, *lines: str) -> GrammarSpec:
        form = self._form
        before = f"{json.dumps(form.before)} " if form.before else ""
        end = json.dumps(form.after) if form.after else '""'
        calls = [f"{before}function end"] if self._functions else []
        calls += [f"{json.dumps(fence)} {rule}" for fence, rule in self._blocks]
        functions = [f"function: {' | '.join(self._functions)}"] if self._functions else []
        every = [start, *lines, f"call: {' | '.join(calls)}", f"end: {end}", *functions, *self._lines]
        return checked_grammar("tools", grammar="\n".join(every))

    def _add_function(self, tool: Tool, index: int, all_strict: bool) -> None:
        has_schema = all_strict or tool.function.strict
        self._add(tool.function.name, index, argument_schema(tool) if has_schema else {"type": "object"})

    def _add_custom(self, tool: CustomTool, index: int) -> None:
        block = block_rule(tool, index)
        if block is None:
            self._add(tool.custom.name, index, input_schema(tool))
            return
        fence, rule, line = block
        self._blocks.append((fence, rule))
        self._lines.append(line)

    def _add(self, name: str, index: int, schema: JsonSchema) -> None:
        begin = f'{{"name": {json.dumps(name)}, "{self._form.arguments_key}": '
        self._functions.append(f"function_{index}")
        self._lines.append(f'function_{index}: {json.dumps(begin)} {json_rule(schema, STYLE)} "}}"')


def argument_schema(tool: Tool) -> JsonSchema:
    """Return the schema that a function's arguments must match."""
    schema: JsonSchema = tool.function.parameters or NO_PARAMETERS
    return without_annotations(without_extras(closed(schema) if tool.function.strict else schema))


def input_schema(tool: CustomTool) -> JsonSchema:
    """Return the schema of a custom tool's arguments: its input as a string, matching its regular expression if any."""
    grammar = input_grammar(tool)
    text: JsonSchema = {"type": "string"}
    if grammar is not None:
        text["pattern"] = f"^(?:{grammar.definition})$"
    return {"type": "object", "properties": {INPUT: text}, "required": [INPUT], "additionalProperties": False}


def block_rule(tool: CustomTool, index: int) -> tuple[str, str, str] | None:
    """Return the opening fence, the rule after it, and the input's rule for a tool with a Lark grammar; otherwise None.

    Text and regular expressions fit into a JSON string; input in a Lark grammar is a code block.
    """
    grammar = input_grammar(tool)
    if grammar is None or grammar.syntax != "lark":
        return None
    line = f"input_{index}: {rule_body(GrammarSpec(grammar=grammar.definition), STYLE)}"
    return f"```{tool.custom.name}\n", f'input_{index} "\\n```"', line


def _escaped(fence: str) -> str:
    return fence.replace(".", r"\.").replace("\n", r"\n")
