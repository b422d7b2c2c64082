"""The deprecated form of tools: `functions` and `function_call` are converted to tools."""

from __future__ import annotations

from typing import Literal

from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.messages import FunctionReference, NamedTool, Tool
from antiphon.server.web.http.errors import invalid


def with_tools(body: ChatBody) -> ChatBody:
    """Return the chat with functions converted to tools. As in the deprecated form, at most one is called."""
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if getattr(body, old) is not None and getattr(body, new) is not None:
            raise invalid(f"{old} and {new} were given; give {new}", old)
    if body.functions is None:
        if body.function_call is not None:
            raise invalid("function_call requires functions", "function_call")
        return body
    choice: Literal["none", "auto"] | NamedTool | None
    if isinstance(body.function_call, FunctionReference):
        known = [function.name for function in body.functions]
        if body.function_call.name not in known:
            message = f"function_call names {body.function_call.name!r}, which is no function here"
            raise invalid(message, "function_call")
        choice = NamedTool(type="function", function=body.function_call)
    else:
        choice = body.function_call
    tools = [Tool(type="function", function=function) for function in body.functions]
    return body.model_copy(update={"tools": tools, "tool_choice": choice, "parallel_tool_calls": False})
