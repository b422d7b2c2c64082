"""Input items of a response, and their conversion into chat messages."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence

from antiphon.server.apis.responses.compaction import Summary, expanded
from antiphon.server.apis.responses.request_schemas import (
    CompactionItem,
    CustomToolCallItem,
    CustomToolCallOutputItem,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputText,
    Item,
    MessageItem,
    OutputText,
    PlainItem,
    ReasoningItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
)
from antiphon.server.apis.responses.tools import TOOL_SEARCH, ResponseTools, joined_name
from antiphon.server.generation.parameters.messages import (
    AssistantMessage,
    CalledFunction,
    CustomCall,
    CustomToolCall,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from antiphon.server.generation.text.wire_format import WireEvent

CallItem = FunctionCallItem | CustomToolCallItem | ToolSearchCallItem
CALLS = (FunctionCallItem, CustomToolCallItem, ToolSearchCallItem)

PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "reasoning": "rs",
    "compaction": "cmp",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
}
INPUT_TYPES = {"user": "input_text", "system": "input_text", "developer": "input_text", "assistant": "output_text"}


def new_id(kind: str) -> str:
    return f"{PREFIXES[kind]}_{uuid.uuid4().hex}"


def messages(instructions: str | None, items: Sequence[Item]) -> list[Message]:
    """Convert items into chat messages; reasoning, text and calls of one assistant turn become one message.

    A summary begins the next item's message if that is a user's, and otherwise is a user message of its own. Without
    any message, the result is an empty user message.
    """
    made: list[Message] = [] if instructions is None else [SystemMessage(role="system", content=instructions)]
    thought: str | None = None
    summary: Summary | None = None
    for item in expanded(items):
        if isinstance(item, Summary):
            summary = item if summary is None else Summary(f"{summary.text}\n{item.text}")
            continue
        if summary is not None and not _is_users(item):
            made.append(UserMessage(role="user", content=_after(summary, "")))
            summary = None
        last = made[-1] if made else None
        if isinstance(item, ReasoningItem):
            thought = "".join(part.text for part in item.content or ()) or None
            continue
        if thought is not None and not _is_assistants(item):  # the output ended during the reasoning
            made.append(AssistantMessage(role="assistant", content="", reasoning_content=thought))
            thought = None
        if isinstance(item, FunctionCallOutputItem | CustomToolCallOutputItem):
            made.append(ToolMessage(role="tool", content=_text(item.output), tool_call_id=item.call_id))
        elif isinstance(item, ToolSearchOutputItem):
            made.append(ToolMessage(role="tool", content=_found(item), tool_call_id=item.call_id or TOOL_SEARCH))
        elif isinstance(item, CALLS):
            call = _call(item)
            if isinstance(last, AssistantMessage) and thought is None:
                if last.tool_calls is None:
                    last.tool_calls = []
                last.tool_calls.append(call)
            else:
                made.append(AssistantMessage(role="assistant", tool_calls=[call], reasoning_content=thought))
        elif item.role == "assistant":
            made.append(AssistantMessage(role="assistant", content=_text(item.content), reasoning_content=thought))
        elif item.role == "user":
            made.append(UserMessage(role="user", content=_after(summary, _text(item.content))))
            summary = None
        else:
            made.append(SystemMessage(role=item.role, content=_text(item.content)))
        thought = None
    if summary is not None or not made:
        made.append(UserMessage(role="user", content=_after(summary, "")))
    return made


def _call(item: CallItem) -> ToolCall | CustomToolCall:
    if isinstance(item, CustomToolCallItem):
        custom = CustomCall(name=joined_name(item.namespace, item.name), input=item.input)
        return CustomToolCall(id=item.call_id, type="custom", custom=custom)
    if isinstance(item, ToolSearchCallItem):
        function = CalledFunction(name=TOOL_SEARCH, arguments=json.dumps(item.arguments))
        return ToolCall(id=item.call_id or TOOL_SEARCH, function=function)
    function = CalledFunction(name=joined_name(item.namespace, item.name), arguments=item.arguments)
    return ToolCall(id=item.call_id, function=function)


def _found(item: ToolSearchOutputItem) -> str:
    """Name the tools that a search found; their descriptions are among the tools of the prompt."""
    return f"Found tools: {', '.join(ResponseTools(item.tools).called) or 'none'}"


def _after(summary: Summary | None, text: str) -> str:
    return text if summary is None else f"Summary of our conversation so far:\n{summary.text}\n\n{text}".strip()


def transcript(items: Sequence[PlainItem]) -> str:
    """Return a conversation as plain text, without reasoning and tool searches."""
    lines = []
    for item in items:
        if isinstance(item, MessageItem):
            lines.append(f"{item.role}: {_text(item.content)}")
        elif isinstance(item, FunctionCallItem):
            lines.append(f"assistant called {item.name}({item.arguments})")
        elif isinstance(item, CustomToolCallItem):
            lines.append(f"assistant called {item.name}({item.input})")
        elif isinstance(item, FunctionCallOutputItem | CustomToolCallOutputItem):
            lines.append(f"result of the call: {_text(item.output)}")
    return "\n\n".join(lines)


def _is_users(item: PlainItem) -> bool:
    return isinstance(item, MessageItem) and item.role == "user"


def _is_assistants(item: PlainItem) -> bool:
    return isinstance(item, CALLS) or (isinstance(item, MessageItem) and item.role == "assistant")


def _text(content: str | list[InputText] | list[InputText | OutputText]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)


def listed(item: Item) -> WireEvent:
    """Return an input item as the API lists it: with an id, and text as parts."""
    plain: WireEvent = {**item.model_dump(exclude_none=True), "id": item.id or new_id(item.type)}
    if isinstance(item, MessageItem):
        kind = INPUT_TYPES[item.role]
        part: WireEvent = {"type": kind, "text": _text(item.content)}
        plain["content"] = [part | {"annotations": []} if kind == "output_text" else part]
    if isinstance(item, ReasoningItem):
        plain.setdefault("summary", [])
    if not isinstance(item, CompactionItem):
        plain.setdefault("status", "completed")
    return plain
