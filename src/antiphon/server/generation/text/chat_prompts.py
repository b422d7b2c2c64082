"""Prompts made from the messages of a chat by the model's chat template."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from antiphon.server.generation.parameters.messages import (
    AssistantMessage,
    CustomTool,
    CustomToolCall,
    FunctionMessage,
    InputAudioPart,
    Message,
    TextContent,
    TextContentPart,
    Tool,
    ToolCall,
    ToolMessage,
)
from antiphon.server.generation.parameters.tools import INPUT, as_function
from antiphon.server.generation.tools.generic_tools import generic_messages
from antiphon.server.serving.models import ReadyModel
from antiphon.server.web.http.errors import invalid
from antiphon.text.chat_template import ChatPrompt, ChatTemplate
from antiphon.text.tool_calls.forms import ToolForm, takes_one_call, tool_form

ROLES = {"developer": "system", "function": "tool"}
RESERVED = {"messages", "tools", "add_generation_prompt", "max_tokens", "tokenizer", "self"}


def render(
    model: ReadyModel,
    messages: Sequence[Message],
    tools: Sequence[Tool | CustomTool] = (),
    add_generation_prompt: bool = True,
    options: dict[str, Any] | None = None,
) -> str:
    """Return the conversation as text, for display. Blocks."""
    return _template(model).render(*_chat(model, messages, tools, options), add_generation_prompt, **(options or {}))


def chat_prompt(
    model: ReadyModel,
    messages: Sequence[Message],
    tools: Sequence[Tool | CustomTool] = (),
    add_generation_prompt: bool = True,
    options: dict[str, Any] | None = None,
    max_tokens: int | None = None,
    continue_final_message: bool = False,
    form: ToolForm | None = None,
) -> ChatPrompt:
    """Return the conversation as text and token ids, in which no message contains control tokens. Blocks.

    `form` is the notation of calls and text, by default the template's. `continue_final_message` leaves the last
    message open, so that the answer continues it. Raise `TooManyTokensError` if the prompt has more than `max_tokens`.
    """
    plain, listed = _chat(model, messages, tools, options, form)
    template, tokenizer, more = _template(model), model.text.tokenizer, options or {}
    if continue_final_message:
        return template.open_prompt(tokenizer, plain, listed, max_tokens, **more)
    return template.prompt(tokenizer, plain, listed, add_generation_prompt, max_tokens, **more)


def _template(model: ReadyModel) -> ChatTemplate:
    if model.text.chat_template is None:
        message = f"model {model.name!r} has no chat template; use /v1/completions"
        raise invalid(message, "messages", "invalid_template")
    return model.text.chat_template


def _chat(
    model: ReadyModel,
    messages: Sequence[Message],
    tools: Sequence[Tool | CustomTool],
    options: dict[str, Any] | None,
    form: ToolForm | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
    """Return messages and tools as templates expect them."""
    taken = sorted(RESERVED & (options or {}).keys())
    if taken:
        raise invalid(f"chat_template_kwargs cannot set {taken[0]}", "chat_template_kwargs")
    template = _template(model)
    plain = [plain_message(message) for message in messages]
    listed = [_plain_tool(as_function(tool)) for tool in tools]
    form = form or tool_form(template)
    if form.is_generic:
        return generic_messages(plain, listed, template, form), None
    if takes_one_call(template):
        plain = one_call_each(plain)
    return plain, listed or None


def one_call_each(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Split messages with several calls, each followed by its result, for templates that allow one call per message."""
    made: list[dict[str, Any]] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        calls = message.get("tool_calls", ())
        if len(calls) < 2:
            made.append(message)
            continue
        results = []
        while position < len(messages) and messages[position]["role"] == "tool":
            results.append(messages[position])
            position += 1
        for index, call in enumerate(calls):
            made.append({**message, "content": "" if index else message["content"], "tool_calls": [call]})
            made += [result for result in results if result.get("tool_call_id") == call["id"]]
        known = {call["id"] for call in calls}
        made += [result for result in results if result.get("tool_call_id") not in known]
    return made


def plain_message(message: Message) -> dict[str, Any]:
    """Return a message as templates expect it: text joined, `developer` as `system`, arguments of calls as objects."""
    role = ROLES.get(message.role, message.role)
    plain: dict[str, Any] = {"role": role, "content": _text(message.content)}
    if isinstance(message, AssistantMessage) and message.refusal and not plain["content"]:
        plain["content"] = message.refusal
    if isinstance(message, AssistantMessage) and message.audio is not None and not plain["content"]:
        raise invalid("audio of a message is looked up by /v1/chat/completions only", "messages", "unsupported_value")
    if message.name is not None:
        plain["name"] = message.name
    if isinstance(message, ToolMessage):
        plain["tool_call_id"] = message.tool_call_id
    if isinstance(message, FunctionMessage):
        plain["tool_call_id"] = _function_call_id(message.name)
    if isinstance(message, AssistantMessage):
        if message.reasoning_content is not None:
            plain["reasoning_content"] = message.reasoning_content
        calls = [_plain_call(call) for call in message.tool_calls or ()]
        if message.function_call is not None:
            function = message.function_call
            call_id = _function_call_id(function.name)
            calls.append(_plain_function(call_id, function.name, _arguments(function.arguments)))
        if calls:
            plain["tool_calls"] = calls
    return plain


def _function_call_id(name: str) -> str:
    """Return an id for a call of the deprecated form, which has none: its result refers to the call by name."""
    return f"call_{name}"


def _plain_call(call: ToolCall | CustomToolCall) -> dict[str, Any]:
    """Return a call as templates expect it: calls of custom tools are rendered as function calls."""
    if isinstance(call, CustomToolCall):
        return _plain_function(call.id, call.custom.name, {INPUT: call.custom.input})
    return _plain_function(call.id, call.function.name, _arguments(call.function.arguments))


def _plain_function(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _text(content: TextContent | Sequence[TextContentPart | InputAudioPart] | None) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = [part.text for part in content if isinstance(part, TextContentPart)]
    if len(texts) < len(content):
        raise invalid("input_audio is supported by /v1/chat/completions only", "messages", "unsupported_value")
    return "".join(texts)


def _arguments(text: str) -> Any:
    """Parse a JSON object, which templates format themselves. Return any other text unchanged."""
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
