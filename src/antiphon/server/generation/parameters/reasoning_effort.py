"""Reasoning effort of a request, as options of the chat template."""

from __future__ import annotations

from typing import Any, Literal

from antiphon.server.serving.models import ReadyModel
from antiphon.text.reasoning import reasoning_options

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

#: Efforts that turn reasoning off, in templates that only know on and off.
OFF = ("none", "minimal")


def template_options(given: dict[str, Any] | None, effort: str | None, model: ReadyModel) -> dict[str, Any] | None:
    """Return the template's options with the effort added, in the form that the template knows, if it knows one.

    An option that the request sets itself is kept.
    """
    if effort is None:
        return given
    return {**reasoning_options(model.text.chat_template, effort not in OFF, effort), **(given or {})} or None
