"""`ChannelSink`: the events of calls as messages to another process, and back to events there."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any, get_args

import msgspec
import numpy as np

from antiphon import errors
from antiphon.engine.core import describe
from antiphon.errors import AntiphonError, EngineError, InvalidRequestError
from antiphon.runtime.calls.events import FINAL_EVENTS, Accepted, Embeddings, Ended, Event, PieceRead, TextDelta
from antiphon.runtime.calls.hearing import HearingEvent
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats
from antiphon.runtime.calls.transcript import LiveUpdate, Transcript, TranscriptProgress
from antiphon.runtime.calls.voice_events import VoiceEvent
from antiphon.runtime.process import messages


class ChannelSink:
    """Sends events by `send`, which any thread may call. Knows the open calls by their ids, until their last event."""

    def __init__(self, send: Callable[[msgspec.Struct], None]) -> None:
        self._send = send
        self._calls: dict[str, Any] = {}
        self._num_unended: dict[str, int] = {}

    def open(self, call: Any, num_samples: int = 1) -> None:
        if call.id in self._calls:
            raise InvalidRequestError(f"request id {call.id!r} is in use")
        self._num_unended[call.id] = num_samples
        self._calls[call.id] = call

    def call(self, call_id: str) -> Any:
        """The open call of that id, or None."""
        return self._calls.get(call_id)

    def put(self, call_id: str, event: Event) -> None:
        if isinstance(event, FINAL_EVENTS):
            self._close(call_id, event)
        self._send(message_of(call_id, event))

    def put_step(self, events: Sequence[tuple[str, Event]]) -> None:
        """All deltas in one message, then the others."""
        deltas = [event for _, event in events if type(event) is TextDelta]
        if deltas:
            self._send(messages.Deltas(deltas))
        for call_id, event in events[len(deltas) :]:
            self.put(call_id, event)

    def _close(self, call_id: str, event: Event) -> None:
        if isinstance(event, Ended):
            call_id = call_id.rpartition("/")[0]
            self._num_unended[call_id] = self._num_unended.get(call_id, 1) - 1
            if self._num_unended[call_id]:
                return
        self._num_unended.pop(call_id, None)
        self._calls.pop(call_id, None)


#: Events that travel as they are. Sound, vectors and errors have messages of their own.
_EVENTS = (
    Accepted,
    Ended,
    LiveUpdate,
    PieceRead,
    SpeechStats,
    Transcript,
    TranscriptProgress,
    *get_args(VoiceEvent),
    *get_args(HearingEvent),
)
_DECODERS: dict[str, msgspec.msgpack.Decoder[Any]] = {
    event.__name__: msgspec.msgpack.Decoder(event) for event in _EVENTS
}


def message_of(call_id: str, event: Event) -> msgspec.Struct:
    """The message for an event. Those of text go by `Deltas`, many at once."""
    match event:
        case SpeechChunk():
            samples = event.samples.tobytes()
            return messages.SpeechPart(call_id, samples, event.rate, event.start, event.text, list(event.words))
        case Embeddings():
            rows = np.stack([vector.float().numpy() for vector in event.vectors])
            return messages.Embedded(call_id, rows.tobytes(), rows.shape[1], event.prompt_tokens)
        case AntiphonError():
            return messages.Rejected(call_id, *kind_and_message(event))
    return messages.CallEvent(call_id, type(event).__name__, msgspec.Raw(messages.encode(event)))


def event_of(message: messages.SpeechPart | messages.CallEvent) -> Event:
    """The event in a message."""
    if isinstance(message, messages.SpeechPart):
        samples = np.frombuffer(message.samples, np.float32)
        return SpeechChunk(samples, message.rate, message.start, message.text, tuple(message.words))
    event: Event = _DECODERS[message.kind].decode(message.event)
    return event


def kind_and_message(error: BaseException) -> tuple[str, str]:
    """An error of ours by its class; anything else is an internal error, and its trace goes to the log."""
    if not isinstance(error, AntiphonError):
        traceback.print_exception(error)
        return "EngineError", describe(error) if isinstance(error, Exception) else type(error).__name__
    known = next(cls for cls in type(error).__mro__ if getattr(errors, cls.__name__, None) is cls)
    return known.__name__, str(error)


def error_of(kind: str, message: str) -> AntiphonError:
    """The error that an engine process named."""
    cls = getattr(errors, kind, None)
    if isinstance(cls, type) and issubclass(cls, AntiphonError):
        return cls(message)
    return EngineError(f"{kind}: {message}")
