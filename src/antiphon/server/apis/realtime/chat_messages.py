"""Conversion of a voice conversation into the body of a chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.engine.request import Priority
from antiphon.runtime.voice.chat_history import chat_messages
from antiphon.runtime.voice.items import Item
from antiphon.runtime.voice.settings import ToolChoice, ToolDefinition, VoiceSettings
from antiphon.server.generation.parameters.chat_schemas import ChatBody


def chat_body(items: Sequence[Item], settings: VoiceSettings, model: str, *, is_prefill: bool = False) -> ChatBody:
    """Build the chat, without reasoning, which the user would hear as silence.

    The prompt of a prefill ends with the last message.
    """
    messages = chat_messages(items, settings.instructions)
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "reasoning_effort": "none",
        "priority": int(Priority.LOW if is_prefill else Priority.HIGH),
        "max_completion_tokens": 1 if is_prefill else settings.token_limit,
        "temperature": settings.temperature,
    }
    if settings.tools:
        body["tools"] = [_tool(tool) for tool in settings.tools]
        # Only the choice `none` changes the prompt: it removes the tools.
        is_free = is_prefill and settings.tool_choice is not ToolChoice.NONE
        body["parallel_tool_calls"] = settings.parallel_tools
        body["tool_choice"] = "auto" if is_free else _tool_choice(settings)
    if is_prefill:
        body["add_generation_prompt"] = False
    return ChatBody.model_validate(body)


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.parameters:
        function["parameters"] = dict(tool.parameters)
    return {"type": "function", "function": function}


def _tool_choice(settings: VoiceSettings) -> Any:
    if settings.tool_name is not None and settings.tool_choice is ToolChoice.REQUIRED:
        return {"type": "function", "function": {"name": settings.tool_name}}
    return str(settings.tool_choice)
