"""Checks of a request's tools, and custom tools as the functions that templates know."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from antiphon.server.generation.parameters.grammar import checked_grammar
from antiphon.server.generation.parameters.messages import CustomTool, Function, GrammarText, InputGrammar, Tool
from antiphon.server.serving.setup.config import Limits
from antiphon.server.web.http.errors import invalid

#: Only argument of a custom tool that is called as a function.
INPUT = "input"


def tool_name(tool: Tool | CustomTool) -> str:
    return tool.custom.name if isinstance(tool, CustomTool) else tool.function.name


def check_tools(tools: Sequence[Tool | CustomTool], limits: Limits) -> None:
    if len(tools) > limits.tools:
        raise invalid(f"there are {len(tools)} tools; at most {limits.tools} are allowed", "tools")
    names = Counter(tool_name(tool) for tool in tools)
    twice = sorted(name for name, count in names.items() if count > 1)
    if twice:
        raise invalid(f"two tools are called {twice[0]!r}", "tools")
    for index, tool in enumerate(tools):
        if isinstance(tool, CustomTool):
            _check_input(tool, index)
        elif tool.function.parameters is not None:
            schema = json.dumps(tool.function.parameters)
            checked_grammar(f"tools[{index}].function.parameters", json_schema=schema)


def _check_input(tool: CustomTool, index: int) -> None:
    grammar = input_grammar(tool)
    if grammar is None:
        return
    param = f"tools[{index}].custom.format.grammar.definition"
    if grammar.syntax == "regex":
        checked_grammar(param, regex=grammar.definition)
    else:
        checked_grammar(param, grammar=grammar.definition)


def input_grammar(tool: CustomTool) -> InputGrammar | None:
    """Return the grammar that the input must match, or None if any text is allowed."""
    form = tool.custom.format
    return form.grammar if isinstance(form, GrammarText) else None


def as_function(tool: Tool | CustomTool) -> Tool:
    """Return a custom tool as a function of one string. An input with a Lark grammar is called with a code block."""
    if isinstance(tool, Tool):
        return tool
    custom, grammar = tool.custom, input_grammar(tool)
    about = [custom.description] if custom.description else []
    if grammar is not None:
        about.append(f"The input matches this {grammar.syntax} grammar:\n{grammar.definition}")
    if grammar is not None and grammar.syntax == "lark":
        about.append(f"Call it with a code block: ```{custom.name}\n<{INPUT}>\n```")
    schema: dict[str, object] = {"type": "string"}
    parameters = {"type": "object", "properties": {INPUT: schema}, "required": [INPUT], "additionalProperties": False}
    function = Function(name=custom.name, description="\n".join(about) or None, parameters=parameters)
    return Tool(type="function", function=function)
