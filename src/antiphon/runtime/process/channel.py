"""`ChannelSink`: events of calls as messages to another process, and the conversion back to events."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from antiphon import errors
from antiphon.engine.core import describe
from antiphon.errors import AntiphonError, EngineError, InvalidRequestError
from antiphon.runtime.calls.events import FINAL_EVENTS, Accepted, Ended, Event, TextDelta
from antiphon.runtime.calls.task_call import TaskCall
from antiphon.runtime.calls.tasks import TASKS, TaskRequest
from antiphon.runtime.process import messages


@dataclass
class OpenCall:
    """Open call, its request, and the number of its samples that have not ended."""

    call: TaskCall
    request: TaskRequest
    num_unended: int


class ChannelSink:
    """Sink that sends events through `send`, which any thread may call.

    It keeps each open call by its id until the call's last event.
    """

    def __init__(self, send: Callable[[msgspec.Struct], None]) -> None:
        self._send = send
        self._calls: dict[str, OpenCall] = {}

    def open(self, call: TaskCall, request: TaskRequest) -> None:
        if call.id in self._calls:
            raise InvalidRequestError(f"request id {call.id!r} is in use")
        self._calls[call.id] = OpenCall(call, request, request.num_samples)

    def find(self, call_id: str) -> OpenCall | None:
        return self._calls.get(call_id)

    def put(self, call_id: str, event: Event) -> None:
        if isinstance(event, FINAL_EVENTS):
            self._close(call_id, event)
        self._send(message_of(call_id, event))

    def put_step(self, events: Sequence[tuple[str, Event]]) -> None:
        """Send all deltas in one message, then the other events."""
        deltas = [event for _, event in events if type(event) is TextDelta]
        if deltas:
            self._send(messages.Deltas(deltas))
        for call_id, event in events[len(deltas) :]:
            self.put(call_id, event)

    def _close(self, call_id: str, event: Event) -> None:
        if isinstance(event, Ended):
            call_id = call_id.rpartition("/")[0]
            call = self._calls.get(call_id)
            if call is not None:
                call.num_unended -= 1
                if call.num_unended:
                    return
        self._calls.pop(call_id, None)


def message_of(call_id: str, event: Event) -> msgspec.Struct:
    """Return the message for an event. Text deltas are sent as `Deltas` instead, many at once."""
    if isinstance(event, AntiphonError):
        return messages.Rejected(call_id, *kind_and_message(event))
    return messages.EventMessage(call_id, type(event).__name__, msgspec.Raw(messages.encode(event)))


def event_of(message: messages.EventMessage) -> Event:
    event: Event = _decoder(message.kind).decode(message.event)
    return event


@cache
def _decoder(kind: str) -> msgspec.msgpack.Decoder[Any]:
    known = {event.__name__: event for task in TASKS for event in (Accepted, *task.yields)}
    return messages.decoder(known[kind])


def kind_and_message(error: BaseException) -> tuple[str, str]:
    """Return an AntiphonError's class name and text; log another error's trace and name it an EngineError."""
    if not isinstance(error, AntiphonError):
        traceback.print_exception(error)
        return "EngineError", describe(error) if isinstance(error, Exception) else type(error).__name__
    known = next(cls for cls in type(error).__mro__ if getattr(errors, cls.__name__, None) is cls)
    return known.__name__, str(error)


def error_of(kind: str, message: str) -> AntiphonError:
    """Return the error that an engine process named."""
    cls = getattr(errors, kind, None)
    if isinstance(cls, type) and issubclass(cls, AntiphonError):
        return cls(message)
    return EngineError(f"{kind}: {message}")
