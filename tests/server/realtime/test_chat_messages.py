"""The chat that a voice conversation becomes, and the one whose prompt is computed ahead of it."""

from __future__ import annotations

import pytest

from antiphon.runtime.voice.settings import ToolChoice, ToolDefinition, VoiceSettings
from antiphon.server.realtime.chat_messages import chat_body

TOOL = ToolDefinition("get_weather", "The weather of a city.", {"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("choice", "ahead"), [(ToolChoice.NONE, "none"), (ToolChoice.AUTO, "auto"), (ToolChoice.REQUIRED, "auto")]
)
def test_a_prefill_has_the_tools_that_the_answer_has(choice: ToolChoice, ahead: str) -> None:
    """With `none` a prompt has no tools; a choice that forces a call would bind the prefill's only token."""
    settings = VoiceSettings(tools=(TOOL,), tool_choice=choice)
    assert chat_body([], settings, "model").tool_choice == choice
    assert chat_body([], settings, "model", is_prefill=True).tool_choice == ahead
