"""`TaskCall`: the interface that the calls of all tasks have for the engine that opens them."""

from __future__ import annotations

from typing import Any, Protocol

from antiphon.engine.request import FinishReason
from antiphon.runtime.calls.sinks import Sink


class TaskCall(Protocol):
    """A call of a task. It emits events to the sink under its id."""

    #: Prefix of new ids.
    id_prefix: str
    id: str

    def __init__(self, call_id: str, sink: Sink) -> None: ...

    def begin(self, engine: Any, request: Any) -> None:
        """Begin the task's request, or raise the error that rejects it. Events may follow in any thread."""

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        """End the call. May be called at any time, also before `begin`."""
