"""The chat that a voice conversation becomes, and the one whose prompt is computed ahead of it."""

from __future__ import annotations

import pytest

from antiphon.runtime.voice.settings import ToolChoice, ToolDefinition, VoiceSettings
from antiphon.server.apis.realtime.chat_messages import chat_body
from antiphon.server.apis.realtime.session_config import SessionConfig, response_params

TOOL = ToolDefinition("get_weather", "The weather of a city.", {"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("choice", "ahead"), [(ToolChoice.NONE, "none"), (ToolChoice.AUTO, "auto"), (ToolChoice.REQUIRED, "auto")]
)
def test_a_prefill_has_the_tools_that_the_answer_has(choice: ToolChoice, ahead: str) -> None:
    """With `none` a prompt has no tools; a choice that forces a call would bind the prefill's only token."""
    settings = VoiceSettings(tools=(TOOL,), tool_choice=choice)
    assert chat_body([], settings, "model").tool_choice == choice
    assert chat_body([], settings, "model", is_prefill=True).tool_choice == ahead


def test_a_session_and_a_response_may_ask_for_one_call() -> None:
    tool = {"type": "function", "name": "get_weather"}
    config = SessionConfig("sess_1", "gpt-realtime", 0).updated({"tools": [tool], "tool_choice": "required"})
    assert "parallel_tool_calls" not in config.wire()
    assert chat_body([], config.settings(), "model").parallel_tool_calls is None
    single = config.updated({"parallel_tool_calls": False})
    assert single.wire()["parallel_tool_calls"] is False
    assert chat_body([], single.settings(), "model").parallel_tool_calls is False
    several = single.response_settings(response_params({"parallel_tool_calls": True}))
    assert chat_body([], several, "model").parallel_tool_calls is True
