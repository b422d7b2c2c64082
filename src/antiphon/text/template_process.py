"""Compiling and rendering an untrusted chat template in a process with limits."""

from __future__ import annotations

import pickle
from typing import Any

from antiphon.errors import TemplateError
from antiphon.text.limited_process import LimitedProcesses, LimitExceededError, limited_processes

MODULE = "antiphon.text.template_worker"
#: Timeout in seconds for one rendering, or for compiling. An ordinary rendering takes less than a millisecond, 8 MB of
#: messages less than a second, and compiling some ten milliseconds.
RENDER_SECONDS = 5.0
MAX_PROCESSES = 3
RENDERED = b"r"


def render_in_process(
    source: str,
    variables: dict[str, Any],
    guard: str = "",
    seconds: float = RENDER_SECONDS,
    processes: LimitedProcesses | None = None,
) -> str:
    """Return the rendered text, or raise `TemplateError` if the template fails or after `seconds`."""
    return _ask((source, variables, guard), seconds, processes)


def compile_in_process(source: str, seconds: float = RENDER_SECONDS, processes: LimitedProcesses | None = None) -> None:
    """Raise `TemplateError` if the template does not compile within `seconds`."""
    _ask((source, None, ""), seconds, processes)


def _ask(request: tuple[str, dict[str, Any] | None, str], seconds: float, processes: LimitedProcesses | None) -> str:
    try:
        answer = (processes or limited_processes(MODULE, MAX_PROCESSES)).ask(pickle.dumps(request, protocol=5), seconds)
    except LimitExceededError as error:
        raise TemplateError(f"the chat template {error}") from None
    text = answer[1:].decode("utf-8", "surrogatepass")
    if answer[:1] != RENDERED:
        raise TemplateError(text)
    return text
