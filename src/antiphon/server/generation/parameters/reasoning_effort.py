"""How much a model reasons before it answers: from a request's effort to the options of the chat template."""

from __future__ import annotations

from typing import Any, Literal

from antiphon.server.serving.models import ReadyModel
from antiphon.text.reasoning import reasoning_options

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

#: Efforts for which reasoning is turned off, in templates that only know on and off.
OFF = ("none", "minimal")


def template_options(given: dict[str, Any] | None, effort: str | None, model: ReadyModel) -> dict[str, Any] | None:
    """The template's options with the effort, in the form that the template knows; in none, it has no effect.

    An option that the request sets itself is left as it is.
    """
    if effort is None:
        return given
    return {**reasoning_options(model.text.chat_template, effort not in OFF, effort), **(given or {})} or None
