"""How much a model reasons before it answers: from a request's effort to the options of the chat template."""

from __future__ import annotations

import re
from typing import Any, Literal

from antiphon.server.serving.models import ReadyModel
from antiphon.server.tool_calls.forms import THINK
from antiphon.text.chat_template import ChatTemplate

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

#: Efforts for which reasoning is turned off, in templates that only know on and off.
OFF = ("none", "minimal")
#: Names that templates give to such a switch, and to the effort.
SWITCHES = ("enable_thinking", "thinking")
EFFORT = "reasoning_effort"


def template_options(given: dict[str, Any] | None, effort: str | None, model: ReadyModel) -> dict[str, Any] | None:
    """The template's options with the effort, in the form that the template knows; in none, it has no effect.

    An option that the request sets itself is left as it is.
    """
    if effort is None:
        return given
    return {**reasoning_options(model, effort not in OFF, effort), **(given or {})} or None


def reasoning_options(model: ReadyModel, is_on: bool, effort: str | None = None) -> dict[str, Any]:
    """What turns reasoning on or off and sets its effort, by those names of the two that the template uses."""
    template = model.text.chat_template
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
