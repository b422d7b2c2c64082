"""Reasoning support of a chat template, and the options that control it."""

from __future__ import annotations

import re
from typing import Any

from antiphon.text.chat_template import ChatTemplate

#: Tag that opens the reasoning of models that think before they answer.
THINK = "<think>"
#: Template variables that switch reasoning on and off, and the one that sets its effort.
SWITCHES = ("enable_thinking", "thinking")
EFFORT = "reasoning_effort"


def reasoning_options(template: ChatTemplate | None, is_on: bool, effort: str | None = None) -> dict[str, Any]:
    """Return the template variables that turn reasoning on or off and set its effort; only those the template uses."""
    if template is None:
        return {}
    options: dict[str, Any] = {switch: is_on for switch in SWITCHES if _names(template.source, switch)}
    if effort is not None and _names(template.source, EFFORT):
        options[EFFORT] = effort
    return options


def can_reason(template: ChatTemplate | None) -> bool:
    """Return whether the template supports reasoning: it has a switch, an effort or the tag."""
    if template is None:
        return False
    return THINK in template.source or any(_names(template.source, name) for name in (*SWITCHES, EFFORT))


def _names(source: str, variable: str) -> bool:
    """Return whether the template uses the variable in a tag or an expression."""
    return re.search(r"\{[{%][^{}]*\b" + variable + r"\b", source) is not None
