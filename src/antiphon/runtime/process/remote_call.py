"""`RemoteCall`: the control of a call that runs in the engine process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from antiphon.engine.request import FinishReason
from antiphon.runtime.calls.tasks import TaskRequest
from antiphon.runtime.process.messages import Abort, inputs_of


class RemoteCall:
    """Control with the methods that the call's task declares. Each method sends a message."""

    def __init__(self, request: TaskRequest, send: Callable[[msgspec.Struct], None]) -> None:
        self.id = request.id
        self._control = request.control
        self._send = send

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        self._send(Abort(self.id, reason))

    def __getattr__(self, name: str) -> Callable[..., None]:
        made: Any = inputs_of(self._control).get(name)
        if made is None:
            raise AttributeError(f"a call of {self._control.__name__} has no {name!r}")
        return lambda *arguments, **named: self._send(made(self.id, *arguments, **named))
