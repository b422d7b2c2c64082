"""Whether a chat template knows of reasoning, and what turns it on and off."""

from __future__ import annotations

import re
from typing import Any

from antiphon.text.chat_template import ChatTemplate

#: What opens the reasoning of models that think before they answer.
THINK = "<think>"
#: Names that templates give to a switch of reasoning, and to its effort.
SWITCHES = ("enable_thinking", "thinking")
EFFORT = "reasoning_effort"


def reasoning_options(template: ChatTemplate | None, is_on: bool, effort: str | None = None) -> dict[str, Any]:
    """What turns reasoning on or off and sets its effort, by those names of the two that the template uses."""
    if template is None:
        return {}
    options: dict[str, Any] = {switch: is_on for switch in SWITCHES if _names(template.source, switch)}
    if effort is not None and _names(template.source, EFFORT):
        options[EFFORT] = effort
    return options


def can_reason(template: ChatTemplate | None) -> bool:
    """Whether the template knows of reasoning: it has a switch, an effort or the tag."""
    if template is None:
        return False
    return THINK in template.source or any(_names(template.source, name) for name in (*SWITCHES, EFFORT))


def _names(source: str, variable: str) -> bool:
    """Whether the template uses that variable in a tag or an expression."""
    return re.search(r"\{[{%][^{}]*\b" + variable + r"\b", source) is not None
