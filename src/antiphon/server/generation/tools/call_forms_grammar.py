"""The Lark grammar of an answer in a response format, or of calls in every form that the answer parser knows.

A call and an answer may begin alike, and the lexer does not go back. So calls are cut into the same lexemes as JSON
answers: brackets, keys, strings and separators.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from antiphon.server.generation.parameters.grammar import checked_grammar
from antiphon.server.generation.parameters.messages import CustomTool, Tool
from antiphon.server.generation.parameters.strict_schema import JsonSchema
from antiphon.server.generation.parameters.tools import INPUT, tool_name
from antiphon.server.generation.tools.tool_grammar import ANSWER_STYLE, argument_schema, block_rule, input_schema
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.text.lark_rules import json_rule, json_style, rule_body
from antiphon.text.tool_calls.forms import LLAMA, ToolForm
from antiphon.text.tool_calls.written_calls import ARGUMENTS_KEYS, NAME_KEYS, WRAPPERS

#: Arguments as a string that holds a JSON object with at most two nested levels.
CHARACTER = r'([^"\\\x00-\x1f]|\\\\(\\\\|\\"|[nrtbf\/]|u[0-9a-fA-F]{4}))'
SCALAR = rf'(\\"{CHARACTER}*\\"|-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null)'
#: Literals of a Python call by JSON type; other types accept anything.
PYTHON_RULES = {"string": "PY_STRING", "integer": "PY_INTEGER", "number": "PY_NUMBER", "boolean": "PY_BOOLEAN"}
#: With more tools, calls in Python and calls that begin with the arguments would exceed the size of a grammar.
MAX_TOOLS_IN_ALL_FORMS = 32
PYTHON_VALUES = r"""
py_value: PY_STRING | PY_NUMBER | PY_BOOLEAN | "None" | py_list | py_dict
py_list: "[" (py_value (", " py_value)*)? "]"
py_dict: "{" (py_pair (", " py_pair)*)? "}"
py_pair: PY_STRING ": " py_value
PY_STRING: /"([^"\\\x00-\x1f]|\\["'\\nrt])*"|'([^'\\\x00-\x1f]|\\["'\\nrt])*'/
PY_INTEGER: /-?(0|[1-9][0-9]*)/
PY_NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?/
PY_BOOLEAN: "True" | "False"
"""  # fmt: skip


def calls_or_answer(
    form: ToolForm,
    tools: Sequence[Tool | CustomTool],
    answer: GrammarSpec,
    is_single: bool = False,
    has_control_tag: bool = False,
) -> GrammarSpec:
    """Build the grammar of one or more calls, or of an answer. With `is_single`, at most one call is allowed.

    With `has_control_tag`, the form's tag is a token of the vocabulary that no text spells.
    """
    style = json_style(answer, ANSWER_STYLE)
    lines = [
        "start: call | answer" if is_single else "start: call (BETWEEN? call)* | answer",
        f"answer: {rule_body(answer, ANSWER_STYLE)}",
        "BETWEEN: /[,;][ \\n]?|\\n/",
        *_separators(style),
    ]
    has_all_forms = len(tools) <= MAX_TOOLS_IN_ALL_FORMS
    functions = _Functions(form, style, has_all_forms)
    for index, tool in enumerate(tools):
        functions.add(tool, index)
    if functions.is_empty:
        return _checked([*lines, f"call: {' | '.join(functions.blocks)}", *functions.lines])
    reversed_calls = f"| arguments_key colon ({_any('r', functions.indices)})" if has_all_forms else ""
    more = "" if is_single else "(comma item)* "
    each = "value" if is_single else 'value ("\\n" value)*'
    fences = "|".join(name for name in ("json", "tool_call") if name not in functions.custom)
    forms = ["value", "fenced", *_tagged(form, functions, has_control_tag), *functions.blocks]
    return _checked(
        [
            *lines,
            f"call: {' | '.join(forms)}",
            f'fenced: /```({fences})?\\n/ {each} "\\n```"',
            "value: item | list | open extras wrapper colon (item | list) close",
            f"list: open_list item {more}close_list",
            f"item: open extras (body | {_quoted('function')} colon item) close",
            f"body: name_key colon ({_any('f', functions.indices)}) {reversed_calls}",
            "then_arguments: comma arguments_key colon",
            "then_name: comma name_key colon",
            f"name_key: {' | '.join(map(_quoted, NAME_KEYS))}",
            f"arguments_key: {' | '.join(map(_quoted, ARGUMENTS_KEYS))}",
            f"wrapper: {' | '.join(_quoted(name) for name in WRAPPERS if name != 'function')}",
            "extras: (type_pair comma)? (id_pair comma (type_pair comma)?)?",
            f"type_pair: {_quoted('type')} colon {_quoted('function')}",
            f'id_pair: {_quoted("id")} colon /"[A-Za-z0-9_-]{{0,64}}"/',
            *functions.lines,
        ]
    )


class _Functions:
    """Rules of all tools: `f` for calls that begin with the name, `r` with the arguments, and code blocks."""

    def __init__(self, form: ToolForm, style: dict[str, Any], has_all_forms: bool) -> None:
        self._form = form
        self._style = style
        self._has_all_forms = has_all_forms
        self._has_text = False
        self.indices: list[int] = []
        self.custom: list[str] = []
        self.blocks: list[str] = []
        #: Names of tools that need no arguments, and rules of calls in Python.
        self.bare: list[str] = []
        self.python: list[str] = []
        self._lines: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not self.indices

    @property
    def lines(self) -> list[str]:
        made = list(self._lines)
        if self._has_text:
            values = rf"({SCALAR}|\[({SCALAR}(, ?{SCALAR})*)?\]|\{{{_pairs(SCALAR)}\}})"
            made.append(rf'TEXT: /"\{{{_pairs(values)}\}}"/')
        return [*made, *PYTHON_VALUES.strip().splitlines()] if self.python else made

    def add(self, tool: Tool | CustomTool, index: int) -> None:
        name = tool_name(tool)
        arguments = [f"a{index}"]
        if isinstance(tool, CustomTool):
            self.custom.append(name)
            block = block_rule(tool, index)
            if block is not None:
                fence, rule, line = block
                self.blocks.append(f"{json.dumps(fence)} {rule}")
                self._lines.append(line)
                return
            schema = input_schema(tool)
            arguments.append(f"t{index}")
            self._lines.append(f"t{index}: {json_rule(schema['properties'][INPUT], self._style)}")
        else:
            schema = argument_schema(tool)
            if not tool.function.strict:  # arguments in other notations cannot be checked against the schema
                arguments.append("TEXT")
                self._has_text = True
                self._add_python(name, schema)
            if not schema.get("required"):
                arguments.append('"null"')
                self.bare.append(name)
        self.indices.append(index)
        value = arguments[0] if len(arguments) == 1 else f"({'|'.join(arguments)})"
        self._lines += [
            f"a{index}: {json_rule(schema, self._style)}",
            f"f{index}: {_quoted(name)} then_arguments {value}",
        ]
        if self._has_all_forms:
            self._lines.append(f"r{index}: {value} then_name {_quoted(name)}")

    def _add_python(self, name: str, schema: JsonSchema) -> None:
        properties = schema.get("properties")
        if not (self._form is LLAMA and self._has_all_forms and name.isidentifier() and isinstance(properties, dict)):
            return
        if not all(key.isidentifier() for key in properties):
            return
        required = [key for key in properties if key in schema.get("required", ())]
        optional = [key for key in properties if key not in required]
        wanted = ' ", " '.join(_keyword(key, properties[key]) for key in required)
        if required:
            arguments = " ".join([wanted, *(f'(", " {_keyword(key, properties[key])})?' for key in optional)])
        else:
            starts = range(len(optional))
            arguments = (
                "(" + " | ".join(_from(optional[start:], properties) for start in starts) + ")?" if starts else ""
            )
        self.python.append(f'{json.dumps(name + ".call(")} {arguments} ")"')


def _tagged(form: ToolForm, functions: _Functions, has_control_tag: bool) -> Iterator[str]:
    if not form.tag:
        return
    inside = ["value", "fenced"]
    if functions.bare:
        names = " | ".join(map(_quoted, functions.bare))
        inside.append(f"open {_quoted('name')} colon ({names}) close")
    inside += [f"({rule})" for rule in functions.python]
    begin = form.tag if has_control_tag else json.dumps(form.tag)
    end = f'"\\n"? {json.dumps(form.end)}' if form.end and not has_control_tag else ""
    yield f'{begin} "\\n"? ({" | ".join(inside)}) {end}'


def _separators(style: dict[str, Any]) -> list[str]:
    """Return the rules for separators and brackets between the parts of a JSON value, in the lexemes of the style."""
    marks = {"open": "{", "close": "}", "open_list": "[", "close_list": "]"}
    pattern = style.get("whitespace_pattern")
    if pattern is None:
        lines = [f"{name}: {json.dumps(mark)}" for name, mark in marks.items()]
        return [*lines, f"comma: /{style['item_separator']}/", f"colon: /{style['key_separator']}/"]
    marks |= {"comma": ",", "colon": ":"}
    around = {name: f"BLANK? {json.dumps(mark)} BLANK?" for name, mark in marks.items()}
    around |= {name: f"{json.dumps(mark)} BLANK?" for name, mark in marks.items() if name.startswith("open")}
    around |= {name: f"BLANK? {json.dumps(mark)}" for name, mark in marks.items() if name.startswith("close")}
    return [*(f"{name}: {rule}" for name, rule in around.items()), f"BLANK: /{pattern}/"]


def _checked(lines: list[str]) -> GrammarSpec:
    return checked_grammar("tools", grammar="\n".join(lines))


def _pairs(value: str) -> str:
    pair = rf'\\"{CHARACTER}*\\": ?{value}'
    return f"({pair}(, ?{pair})*)?"


def _keyword(key: str, schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    rule = PYTHON_RULES.get(kind, "py_value") if isinstance(kind, str) else "py_value"
    values = schema.get("enum") if isinstance(schema, dict) else None
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        rule = f"({' | '.join(json.dumps(json.dumps(value)) for value in values)})"
    return f"{json.dumps(key + '=')} {rule}"


def _from(keys: Sequence[str], properties: JsonSchema) -> str:
    first, *others = (_keyword(key, properties[key]) for key in keys)
    return " ".join([first, *(f'(", " {other})?' for other in others)])


def _quoted(text: str) -> str:
    """Return a JSON string as a Lark literal."""
    return json.dumps(json.dumps(text))


def _any(prefix: str, indices: Sequence[int]) -> str:
    return "|".join(f"{prefix}{index}" for index in indices)
