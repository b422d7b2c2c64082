"""How much a model reasons before it answers: from a request's effort to the options of the chat template."""

from __future__ import annotations

import re
from typing import Any, Literal

from antiphon.server.serving.models import ReadyModel

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

#: Efforts for which reasoning is turned off, in templates that only know on and off.
OFF = ("none", "minimal")
#: Names that templates give to such a switch.
SWITCHES = ("enable_thinking", "thinking")


def template_options(given: dict[str, Any] | None, effort: str | None, model: ReadyModel) -> dict[str, Any] | None:
    """The template's options with the effort, in the form that the template knows; in none, it has no effect.

    An option that the request sets itself is left as it is.
    """
    if effort is None or model.text.chat_template is None:
        return given
    source = model.text.chat_template.source
    options = dict(given or {})
    if _names(source, "reasoning_effort"):
        options.setdefault("reasoning_effort", effort)
    for switch in SWITCHES:
        if _names(source, switch):
            options.setdefault(switch, effort not in OFF)
    return options or None


def _names(source: str, variable: str) -> bool:
    """Whether the template uses that variable in a tag or an expression."""
    return re.search(r"\{[{%][^{}]*\b" + variable + r"\b", source) is not None
