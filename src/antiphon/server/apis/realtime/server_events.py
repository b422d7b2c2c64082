"""`ServerEvents`: converts the events of a voice session into those of the wire format."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import singledispatchmethod
from typing import Any

import orjson

from antiphon.runtime.transcription.captions import word_fields
from antiphon.runtime.voice import events
from antiphon.runtime.voice.events import PartPlace, ResponseState, SessionEvent
from antiphon.runtime.voice.items import Part, TextPart
from antiphon.runtime.voice.settings import Modality, VoiceSettings
from antiphon.server.apis.realtime.audio_format import AudioFormat, SoundOutput
from antiphon.server.apis.realtime.session_config import wire_format
from antiphon.server.apis.realtime.wire_errors import error_event, event_id
from antiphon.server.apis.realtime.wire_items import wire_item
from antiphon.server.web.http.errors import INVALID, SERVER

#: Metadata key of `response.done` for the turn's marks in milliseconds since the end of speech, as JSON.
WATERFALL = "antiphon.waterfall"
Event = dict[str, Any]


class ServerEvents:
    """Converter of one session's events.

    `session` returns the effective session, `format_of` a response's sound format by its settings, and `rate_limits`
    the limits of the client's key.
    """

    def __init__(
        self,
        conversation_id: str,
        session: Callable[[], Event],
        format_of: Callable[[VoiceSettings], AudioFormat],
        rate_limits: Callable[[], list[Event]],
    ) -> None:
        self._conversation_id = conversation_id
        self._session = session
        self._format_of = format_of
        self._rate_limits = rate_limits
        #: Sound formats of the responses in progress, by response id.
        self._formats: dict[str, AudioFormat] = {}
        #: Converters of the sounds in progress, by item id.
        self._sounds: dict[str, SoundOutput] = {}

    @property
    def num_responses(self) -> int:
        """Number of responses in progress."""
        return len(self._formats)

    def of(self, event: SessionEvent) -> Iterator[Event]:
        """Yield the wire's events for an event of the session, in order."""
        for kind, fields in self._made(event):
            yield {"type": kind, "event_id": event_id(), **fields}

    @singledispatchmethod
    def _made(self, event: Any) -> Iterator[tuple[str, Event]]:
        raise AssertionError(f"unknown event {type(event).__name__}")

    # -- the session and its input ------------------------------------------------------------------------------

    @_made.register
    def _(self, event: events.SettingsChanged) -> Iterator[tuple[str, Event]]:
        yield "session.updated", {"session": self._session()}

    @_made.register
    def _(self, event: events.UserSpeechStarted) -> Iterator[tuple[str, Event]]:
        fields = {"audio_start_ms": event.start_ms, "item_id": event.item_id}
        yield "input_audio_buffer.speech_started", fields

    @_made.register
    def _(self, event: events.UserSpeechStopped) -> Iterator[tuple[str, Event]]:
        yield "input_audio_buffer.speech_stopped", {"audio_end_ms": event.end_ms, "item_id": event.item_id}

    @_made.register
    def _(self, event: events.BufferCommitted) -> Iterator[tuple[str, Event]]:
        fields = {"previous_item_id": event.previous_item_id, "item_id": event.item_id}
        yield "input_audio_buffer.committed", fields

    @_made.register
    def _(self, event: events.BufferCleared) -> Iterator[tuple[str, Event]]:
        yield "input_audio_buffer.cleared", {}

    @_made.register
    def _(self, event: events.IdleTimedOut) -> Iterator[tuple[str, Event]]:
        fields = {"audio_start_ms": event.start_ms, "audio_end_ms": event.end_ms, "item_id": event.item_id}
        yield "input_audio_buffer.timeout_triggered", fields

    # -- items --------------------------------------------------------------------------------------------------

    @_made.register
    def _(self, event: events.ItemAdded) -> Iterator[tuple[str, Event]]:
        fields = {"previous_item_id": event.previous_item_id, "item": wire_item(event.item)}
        yield "conversation.item.added", fields

    @_made.register
    def _(self, event: events.ItemDone) -> Iterator[tuple[str, Event]]:
        fields = {"previous_item_id": event.previous_item_id, "item": wire_item(event.item)}
        yield "conversation.item.done", fields

    @_made.register
    def _(self, event: events.ItemDeleted) -> Iterator[tuple[str, Event]]:
        yield "conversation.item.deleted", {"item_id": event.item_id}

    @_made.register
    def _(self, event: events.ItemTruncated) -> Iterator[tuple[str, Event]]:
        fields = {"item_id": event.item_id, "content_index": event.content_index, "audio_end_ms": event.end_ms}
        yield "conversation.item.truncated", fields

    @_made.register
    def _(self, event: events.ItemRetrieved) -> Iterator[tuple[str, Event]]:
        yield "conversation.item.retrieved", {"item": wire_item(event.item)}

    @_made.register
    def _(self, event: events.TranscriptDelta) -> Iterator[tuple[str, Event]]:
        fields = {"item_id": event.item_id, "content_index": event.content_index, "delta": event.text}
        yield "conversation.item.input_audio_transcription.delta", fields

    @_made.register
    def _(self, event: events.TranscriptUnsettled) -> Iterator[tuple[str, Event]]:
        fields = {"item_id": event.item_id, "content_index": event.content_index, "text": event.text}
        yield "conversation.item.input_audio_transcription.unsettled", fields

    @_made.register
    def _(self, event: events.TranscriptDone) -> Iterator[tuple[str, Event]]:
        place = {"item_id": event.item_id, "content_index": event.content_index}
        usage = {"type": "duration", "seconds": round(event.seconds, 3)}
        fields = {**place, "transcript": event.text, "usage": usage}
        words = [word_fields(word) for segment in event.segments for word in segment.words]
        if words:
            fields["words"] = words
        yield "conversation.item.input_audio_transcription.completed", fields

    @_made.register
    def _(self, event: events.TranscriptFailed) -> Iterator[tuple[str, Event]]:
        error = {"type": "transcription_error", "code": "transcription_failed", "message": event.message, "param": None}
        fields = {"item_id": event.item_id, "content_index": event.content_index, "error": error}
        yield "conversation.item.input_audio_transcription.failed", fields

    # -- responses ----------------------------------------------------------------------------------------------

    @_made.register
    def _(self, event: events.ResponseStarted) -> Iterator[tuple[str, Event]]:
        self._formats[event.response.id] = self._format_of(event.response.settings)
        yield "response.created", {"response": self._response(event.response)}

    @_made.register
    def _(self, event: events.ResponseDone) -> Iterator[tuple[str, Event]]:
        response = self._response(event.response)
        marks = event.response.waterfall.milliseconds()
        if marks:
            response["metadata"] = {**(response["metadata"] or {}), WATERFALL: orjson.dumps(marks).decode()}
        yield "response.done", {"response": response}
        yield "rate_limits.updated", {"rate_limits": self._rate_limits()}
        self._formats.pop(event.response.id, None)  # only after its end has been sent

    @_made.register
    def _(self, event: events.OutputItemAdded) -> Iterator[tuple[str, Event]]:
        place = {"response_id": event.response_id, "output_index": event.output_index}
        yield "response.output_item.added", {**place, "item": wire_item(event.item)}

    @_made.register
    def _(self, event: events.OutputItemDone) -> Iterator[tuple[str, Event]]:
        place = {"response_id": event.response_id, "output_index": event.output_index}
        yield "response.output_item.done", {**place, "item": wire_item(event.item)}

    @_made.register
    def _(self, event: events.PartAdded) -> Iterator[tuple[str, Event]]:
        is_sound = event.modality is Modality.AUDIO
        part = {"type": "audio", "transcript": ""} if is_sound else {"type": "text", "text": ""}
        yield "response.content_part.added", {**_place(event.place), "part": part}

    @_made.register
    def _(self, event: events.PartDone) -> Iterator[tuple[str, Event]]:
        yield "response.content_part.done", {**_place(event.place), "part": _part(event.part)}

    @_made.register
    def _(self, event: events.WrittenTextDelta) -> Iterator[tuple[str, Event]]:
        yield "response.output_text.delta", {**_place(event.place), "delta": event.text}

    @_made.register
    def _(self, event: events.WrittenTextDone) -> Iterator[tuple[str, Event]]:
        yield "response.output_text.done", {**_place(event.place), "text": event.text}

    @_made.register
    def _(self, event: events.SpokenTextDelta) -> Iterator[tuple[str, Event]]:
        yield "response.output_audio_transcript.delta", {**_place(event.place), "delta": event.text}

    @_made.register
    def _(self, event: events.SpokenTextDone) -> Iterator[tuple[str, Event]]:
        yield "response.output_audio_transcript.done", {**_place(event.place), "transcript": event.text}

    @_made.register
    def _(self, event: events.SoundDelta) -> Iterator[tuple[str, Event]]:
        sound = self._sounds.get(event.place.item_id)
        if sound is None:
            format = self._formats.get(event.place.response_id, AudioFormat.PCM)
            sound = self._sounds[event.place.item_id] = SoundOutput(format, event.rate)
        yield from _sound_delta(event.place, sound.push(event.samples))

    @_made.register
    def _(self, event: events.SoundDone) -> Iterator[tuple[str, Event]]:
        sound = self._sounds.pop(event.place.item_id, None)
        if sound is not None:
            yield from _sound_delta(event.place, sound.finish())
        yield "response.output_audio.done", _place(event.place)

    @_made.register
    def _(self, event: events.ArgumentsDelta) -> Iterator[tuple[str, Event]]:
        yield "response.function_call_arguments.delta", {**_call(event), "delta": event.text}

    @_made.register
    def _(self, event: events.ArgumentsDone) -> Iterator[tuple[str, Event]]:
        fields = {**_call(event), "name": event.name, "arguments": event.arguments}
        yield "response.function_call_arguments.done", fields

    @_made.register
    def _(self, event: events.SessionError) -> Iterator[tuple[str, Event]]:
        kind = INVALID if event.is_request else SERVER
        made = error_event(event.message, event.code, kind, event.param, event.tag)
        yield "error", {"error": made["error"]}

    def _response(self, state: ResponseState) -> Event:
        settings = state.settings
        response = {
            "object": "realtime.response",
            "id": state.id,
            "status": str(state.status),
            "status_details": _status_details(state),
            "output": [wire_item(item) for item in state.output],
            "conversation_id": self._conversation_id if state.in_conversation else None,
            "output_modalities": [str(settings.modality)],
            "max_output_tokens": "inf" if settings.token_limit is None else settings.token_limit,
            "audio": {"output": {"format": wire_format(self._formats[state.id]), "voice": settings.voice}},
            "usage": None,
            "metadata": None if state.metadata is None else dict(state.metadata),
        }
        if state.status is not events.ResponseStatus.IN_PROGRESS:
            response["usage"] = _usage(state.usage)
        return response


def _place(place: PartPlace) -> Event:
    return {
        "response_id": place.response_id,
        "item_id": place.item_id,
        "output_index": place.output_index,
        "content_index": place.content_index,
    }


def _call(event: events.ArgumentsDelta | events.ArgumentsDone) -> Event:
    place = {"response_id": event.response_id, "item_id": event.item_id, "output_index": event.output_index}
    return {**place, "call_id": event.call_id}


def _part(part: Part) -> Event:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "audio", "transcript": part.transcript or ""}


def _sound_delta(place: PartPlace, data: bytes) -> Iterator[tuple[str, Event]]:
    if data:
        yield "response.output_audio.delta", {**_place(place), "delta": base64.b64encode(data).decode()}


def _status_details(state: ResponseState) -> Event | None:
    if state.error is not None:
        code, message = state.error
        return {"type": "failed", "error": {"type": SERVER, "code": code, "message": message}}
    if state.reason is None:
        return None
    return {"type": str(state.status), "reason": str(state.reason)}


def _usage(usage: events.Usage) -> Event:
    """Return the usage. All tokens count as text, because sound enters and leaves the chat as text."""
    cached = {"text_tokens": usage.cached_tokens, "audio_tokens": 0, "image_tokens": 0}
    given = {"text_tokens": usage.input_tokens, "audio_tokens": 0, "image_tokens": 0}
    return {
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "input_token_details": {**given, "cached_tokens": usage.cached_tokens, "cached_tokens_details": cached},
        "output_token_details": {"text_tokens": usage.output_tokens, "audio_tokens": 0},
    }
