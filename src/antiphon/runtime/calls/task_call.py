"""`TaskCall`: what the calls of all tasks have in common, for the engine that opens them."""

from __future__ import annotations

from typing import Any, Protocol

from antiphon.engine.request import FinishReason
from antiphon.runtime.calls.sinks import Sink


class TaskCall(Protocol):
    """One call of a task: it emits events to the sink, under its id."""

    #: What new ids begin with.
    id_prefix: str
    id: str

    def __init__(self, call_id: str, sink: Sink) -> None: ...

    def begin(self, engine: Any, request: Any) -> None:
        """Do what the task's request asks, or raise what is wrong with it. Events may follow in any thread."""

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        """End the call. May come at any time, also before `begin`."""
