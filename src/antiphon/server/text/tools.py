"""Checks of the tools in a request."""

from __future__ import annotations

import json
from collections import Counter

from antiphon.server.http.errors import invalid
from antiphon.server.setup.config import Limits
from antiphon.server.text.grammar import checked_grammar
from antiphon.server.text.messages import Tool


def check_tools(tools: list[Tool], limits: Limits) -> None:
    if len(tools) > limits.tools:
        raise invalid(f"there are {len(tools)} tools; at most {limits.tools} are allowed", "tools")
    names = Counter(tool.function.name for tool in tools)
    twice = sorted(name for name, count in names.items() if count > 1)
    if twice:
        raise invalid(f"two tools are called {twice[0]!r}", "tools")
    for index, tool in enumerate(tools):
        if tool.function.parameters is not None:
            schema = json.dumps(tool.function.parameters)
            checked_grammar(f"tools[{index}].function.parameters", json_schema=schema)
