"""`ResponseTools`: converts a response's tools into a chat's tools, which have no namespaces, and their calls back."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.server.apis.responses.request_schemas import (
    AnyResponseTool,
    HostedTool,
    InputGrammarFormat,
    Item,
    NamespaceTool,
    ResponseBody,
    ResponseCustomTool,
    ResponseTool,
    ToolSearchOutputItem,
    ToolSearchTool,
)
from antiphon.server.generation.parameters.messages import Custom, CustomTool, Function, GrammarText, InputGrammar, Tool
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import invalid

#: Name of the function that searches for tools.
TOOL_SEARCH = "tool_search"
MAX_NAME = 64
SEPARATOR = "__"
DIGEST = 8


@dataclass(frozen=True)
class CalledTool:
    """Item type, tool name and namespace with which this API shows a call of a chat's tool."""

    kind: str
    name: str
    namespace: str | None = None


class ResponseTools:
    """Tools of a response.

    `chat` has them as tools of a chat; `called` maps their names in calls to what this API shows. Tools `found` by a
    search are added unless their names are known already.
    """

    def __init__(self, tools: Sequence[AnyResponseTool], found: Sequence[AnyResponseTool] = ()) -> None:
        self.chat: list[Tool | CustomTool] = []
        self.called: dict[str, CalledTool] = {}
        for tool in tools:
            self._add_any(tool)
        for tool in found:
            self._add_any(tool, self.called)

    def _add_any(self, tool: AnyResponseTool, known: Collection[str] = ()) -> None:
        if isinstance(tool, NamespaceTool):
            for inner in tool.tools:
                self._add(inner, tool.name, known)
        elif isinstance(tool, ToolSearchTool):
            function = Function(name=TOOL_SEARCH, description=tool.description, parameters=tool.parameters)
            self.chat.append(Tool(type="function", function=function))
            self.called[TOOL_SEARCH] = CalledTool("tool_search_call", TOOL_SEARCH)
        elif not isinstance(tool, HostedTool):
            self._add(tool, None, known)

    def _add(self, tool: ResponseTool | ResponseCustomTool, namespace: str | None, known: Collection[str]) -> None:
        name = joined_name(namespace, tool.name)
        if name in known:
            return
        if isinstance(tool, ResponseTool):
            function = Function(name=name, description=tool.description, parameters=tool.parameters, strict=tool.strict)
            self.chat.append(Tool(type="function", function=function))
            kind = "function_call"
        else:
            custom = Custom(name=name, description=tool.description, format=_format(tool))
            self.chat.append(CustomTool(type="custom", custom=custom))
            kind = "custom_tool_call"
        self.called[name] = CalledTool(kind, tool.name, namespace)


def response_tools(body: ResponseBody, items: Sequence[Item]) -> ResponseTools:
    """Return the tools of a request, including those that its searches found."""
    found = [tool for item in items if isinstance(item, ToolSearchOutputItem) for tool in item.tools]
    return ResponseTools(body.tools or (), found)


def joined_name(namespace: str | None, name: str) -> str:
    """Join the names of a namespace and a tool; a digest replaces the end of a name that is invalid for a function."""
    if not namespace:
        return name
    whole = namespace + name if namespace.endswith((SEPARATOR, ".", "/")) else f"{namespace}{SEPARATOR}{name}"
    plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "_.-") else "_" for sign in whole)
    if plain == whole and len(whole) <= MAX_NAME:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:DIGEST]
    return f"{plain[: MAX_NAME - DIGEST - 1]}_{digest}"


def with_available_tools(body: ResponseBody, context: RequestContext) -> ResponseBody:
    """Return the request without the tools that OpenAI's service runs; a strict server rejects them."""
    kept: list[AnyResponseTool] = []
    for index, tool in enumerate(body.tools or ()):
        is_hosted = isinstance(tool, HostedTool) or (isinstance(tool, ToolSearchTool) and tool.execution != "client")
        if is_hosted and context.is_strict:
            message = (
                f"tools[{index}]: this server has no {tool.type} tool; functions and custom tools run in the client"
            )
            raise invalid(message, f"tools[{index}].type", "unsupported_value")
        if is_hosted:
            context.ignored.add(f"tools[{tool.type}]")
        else:
            kept.append(tool)
    return body if len(kept) == len(body.tools or ()) else body.model_copy(update={"tools": kept})


def _format(tool: ResponseCustomTool) -> GrammarText | Any:
    if not isinstance(tool.format, InputGrammarFormat):
        return tool.format
    grammar = InputGrammar(syntax=tool.format.syntax, definition=tool.format.definition)
    return GrammarText(type="grammar", grammar=grammar)
