"""From the messages of a chat to a prompt, by the model's chat template."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from antiphon.server.http.errors import invalid
from antiphon.server.serving.models import ReadyModel
from antiphon.server.text.messages import (
    AssistantMessage,
    InputAudioPart,
    Message,
    TextContent,
    TextPart,
    Tool,
    ToolMessage,
)
from antiphon.server.tool_calls.forms import takes_one_call
from antiphon.text.chat_template import ChatPrompt, ChatTemplate

RESERVED = {"messages", "tools", "add_generation_prompt", "max_tokens", "tokenizer", "self"}


def render(
    model: ReadyModel,
    messages: Sequence[Message],
    tools: Sequence[Tool] = (),
    add_generation_prompt: bool = True,
    options: dict[str, Any] | None = None,
) -> str:
    """The conversation as text, for display. Blocking."""
    return _template(model).render(*_chat(model, messages, tools, options), add_generation_prompt, **(options or {}))


def chat_prompt(
    model: ReadyModel,
    messages: Sequence[Message],
    tools: Sequence[Tool] = (),
    add_generation_prompt: bool = True,
    options: dict[str, Any] | None = None,
    max_tokens: int | None = None,
) -> ChatPrompt:
    """The conversation as text and as token ids; nothing in a message becomes a control token. Blocking.

    One of more than `max_tokens` is a `TooManyTokensError`.
    """
    plain, listed = _chat(model, messages, tools, options)
    template, tokenizer = _template(model), model.text.tokenizer
    return template.prompt(tokenizer, plain, listed, add_generation_prompt, max_tokens, **(options or {}))


def _template(model: ReadyModel) -> ChatTemplate:
    if model.text.chat_template is None:
        message = f"model {model.name!r} has no chat template; use /v1/completions"
        raise invalid(message, "messages", "invalid_template")
    return model.text.chat_template


def _chat(
    model: ReadyModel, messages: Sequence[Message], tools: Sequence[Tool], options: dict[str, Any] | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
    """Messages and tools as templates expect them."""
    taken = sorted(RESERVED & (options or {}).keys())
    if taken:
        raise invalid(f"chat_template_kwargs cannot set {taken[0]}", "chat_template_kwargs")
    plain = [plain_message(message) for message in messages]
    if takes_one_call(model.text.chat_template):
        plain = one_call_each(plain)
    return plain, [_plain_tool(tool) for tool in tools] or None


def one_call_each(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For templates that allow one call per message: split a message of several calls, each followed by its result."""
    made: list[dict[str, Any]] = []
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        calls = message.get("tool_calls", ())
        if len(calls) < 2:
            made.append(message)
            continue
        results = []
        while place < len(messages) and messages[place]["role"] == "tool":
            results.append(messages[place])
            place += 1
        for index, call in enumerate(calls):
            made.append({**message, "content": "" if index else message["content"], "tool_calls": [call]})
            made += [result for result in results if result.get("tool_call_id") == call["id"]]
        known = {call["id"] for call in calls}
        made += [result for result in results if result.get("tool_call_id") not in known]
    return made


def plain_message(message: Message) -> dict[str, Any]:
    """A message as templates expect it: text joined, `developer` as `system`, arguments of calls as objects."""
    role = "system" if message.role == "developer" else message.role
    plain: dict[str, Any] = {"role": role, "content": _text(message.content)}
    if isinstance(message, AssistantMessage) and message.refusal and not plain["content"]:
        plain["content"] = message.refusal
    if isinstance(message, AssistantMessage) and message.audio is not None and not plain["content"]:
        raise invalid("audio of a message is looked up by /v1/chat/completions only", "messages", "unsupported_value")
    if message.name is not None:
        plain["name"] = message.name
    if isinstance(message, ToolMessage):
        plain["tool_call_id"] = message.tool_call_id
    if isinstance(message, AssistantMessage):
        if message.reasoning_content is not None:
            plain["reasoning_content"] = message.reasoning_content
        if message.tool_calls:
            plain["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": _arguments(call.function.arguments)},
                }
                for call in message.tool_calls
            ]
    return plain


def _text(content: TextContent | Sequence[TextPart | InputAudioPart] | None) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = [part.text for part in content if isinstance(part, TextPart)]
    if len(texts) < len(content):
        raise invalid("input_audio is supported by /v1/chat/completions only", "messages", "unsupported_value")
    return "".join(texts)


def _arguments(text: str) -> Any:
    """Templates format arguments as JSON themselves; text that is not a JSON object is passed unchanged."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _plain_tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.function.name}
    if tool.function.description is not None:
        function["description"] = tool.function.description
    if tool.function.parameters is not None:
        function["parameters"] = tool.function.parameters
    return {"type": "function", "function": function}
