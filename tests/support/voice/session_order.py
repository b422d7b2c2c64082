"""Checker of a session's event order, written from the order that the Realtime service documents."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from antiphon.runtime.voice import events as e
from antiphon.runtime.voice.items import FunctionCall, ItemStatus, Message, SoundPart
from antiphon.runtime.voice.settings import Modality


@dataclass
class _Output:
    """Output item of a response. `stage` is its last event that was not a delta."""

    item_id: str
    is_call: bool
    stage: str = "added"
    text: str = ""


@dataclass
class _Response:
    state: e.ResponseState
    outputs: list[_Output] = field(default_factory=list)

    @property
    def open(self) -> _Output:
        assert self.outputs and self.outputs[-1].stage != "done", "no output item is open"
        return self.outputs[-1]


class SessionOrder:
    """Checker of a session's events: call `take` for each event, and `finish` once the session has come to rest."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.responses: dict[str, _Response] = {}
        self.num_events = 0
        self._expected: list[Callable[[e.SessionEvent], bool]] = []
        self._ids: set[str] = set()
        self._undone: set[str] = set()
        self._speaking: str | None = None
        self._spoken: set[str] = set()  # stopped, or committed without speech
        self._transcripts: dict[str, str] = {}
        self._transcribed: set[str] = set()
        self._committed: set[str] = set()
        self._done: set[str] = set()

    def take(self, event: e.SessionEvent) -> None:
        self.num_events += 1
        if self._expected:
            assert self._expected.pop(0)(event), f"not expected here: {event}"
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
        handler = getattr(self, f"_on_{name}", None)
        if handler is not None:
            handler(event)

    def finish(self, has_transcripts: bool = True) -> None:
        assert not self._expected, "an event is missing"
        assert not self._undone, f"items without an end: {self._undone}"
        assert not self.responses, f"responses without an end: {list(self.responses)}"
        if has_transcripts:
            assert self._committed == self._transcribed, f"no transcript of {self._committed - self._transcribed}"

    # -- the input ----------------------------------------------------------------------------------------------

    def _on_user_speech_started(self, event: e.UserSpeechStarted) -> None:
        assert self._speaking is None and event.item_id not in self._ids | self._spoken
        self._speaking = event.item_id

    def _on_user_speech_stopped(self, event: e.UserSpeechStopped) -> None:
        assert self._speaking == event.item_id
        self._speaking = None
        self._spoken.add(event.item_id)

    def _on_buffer_committed(self, event: e.BufferCommitted) -> None:
        assert event.item_id != self._speaking and event.item_id not in self._ids
        assert event.previous_item_id == (self.items[-1] if self.items else None)
        self._expected = [
            lambda next: isinstance(next, e.ItemAdded) and next.item.id == event.item_id,
            lambda next: isinstance(next, e.ItemDone) and next.item.id == event.item_id,
        ]
        if event.item_id not in self._transcribed:  # the item of an idle timeout is already in both sets
            self._committed.add(event.item_id)

    def _on_idle_timed_out(self, event: e.IdleTimedOut) -> None:
        assert self._speaking is None and event.start_ms <= event.end_ms
        self._transcribed.add(event.item_id)
        self._committed.add(event.item_id)
        self._expected = [lambda next: isinstance(next, e.BufferCommitted) and next.item_id == event.item_id]

    def _on_transcript_delta(self, event: e.TranscriptDelta) -> None:
        known = event.item_id == self._speaking or event.item_id in self._committed
        assert known and event.item_id not in self._transcribed and event.text
        self._transcripts[event.item_id] = self._transcripts.get(event.item_id, "") + event.text

    def _on_transcript_unsettled(self, event: e.TranscriptUnsettled) -> None:
        known = event.item_id == self._speaking or event.item_id in self._committed
        assert known and event.item_id not in self._transcribed

    def _on_transcript_done(self, event: e.TranscriptDone) -> None:
        self._on_transcript_failed(event)
        deltas = self._transcripts.get(event.item_id)
        assert deltas is None or deltas == event.text

    def _on_transcript_failed(self, event: e.TranscriptFailed | e.TranscriptDone) -> None:
        assert event.item_id in self._ids and event.item_id not in self._transcribed
        if event.item_id in self._committed:
            self._transcribed.add(event.item_id)

    # -- items --------------------------------------------------------------------------------------------------

    def _on_item_added(self, event: e.ItemAdded) -> None:
        item_id = event.item.id
        assert item_id not in self._ids
        index = 0 if event.previous_item_id is None else self.items.index(event.previous_item_id) + 1
        self.items.insert(index, item_id)
        self._ids.add(item_id)
        self._undone.add(item_id)

    def _on_item_done(self, event: e.ItemDone) -> None:
        self._undone.remove(event.item.id)
        assert event.item.status is not ItemStatus.IN_PROGRESS

    def _on_item_deleted(self, event: e.ItemDeleted) -> None:
        self.items.remove(event.item_id)

    def _on_item_truncated(self, event: e.ItemTruncated) -> None:
        assert event.item_id in self.items

    def _on_item_retrieved(self, event: e.ItemRetrieved) -> None:
        assert event.item.id in self.items

    # -- responses ----------------------------------------------------------------------------------------------

    def _on_response_started(self, event: e.ResponseStarted) -> None:
        state = event.response
        assert state.id not in self.responses and state.id not in self._done
        if state.in_conversation:
            assert not any(other.state.in_conversation for other in self.responses.values())
        assert state.status is e.ResponseStatus.IN_PROGRESS and state.output == ()
        self.responses[state.id] = _Response(state)

    def _on_response_done(self, event: e.ResponseDone) -> None:
        state = event.response
        response = self.responses.pop(state.id)
        self._done.add(state.id)
        assert all(output.stage == "done" for output in response.outputs)
        assert [item.id for item in state.output] == [output.item_id for output in response.outputs]
        reasons = {
            e.ResponseStatus.COMPLETED: {None},
            e.ResponseStatus.FAILED: {None},
            e.ResponseStatus.CANCELLED: {e.EndReason.TURN_DETECTED, e.EndReason.CLIENT_CANCELLED},
            e.ResponseStatus.INCOMPLETE: {e.EndReason.MAX_TOKENS, e.EndReason.REPETITION},
        }
        assert state.reason in reasons[state.status]
        assert (state.error is not None) == (state.status is e.ResponseStatus.FAILED)
        if state.reason is e.EndReason.TURN_DETECTED:
            assert self._speaking is not None and state.in_conversation
        if state.status is e.ResponseStatus.COMPLETED:
            assert all(item.status is ItemStatus.COMPLETED for item in state.output)

    def _on_output_item_added(self, event: e.OutputItemAdded) -> None:
        response = self.responses[event.response_id]
        assert all(output.stage == "done" for output in response.outputs), "two output items are open"
        assert event.output_index == len(response.outputs)
        assert event.item.status is ItemStatus.IN_PROGRESS
        assert isinstance(event.item, FunctionCall) or (isinstance(event.item, Message) and not event.item.parts)
        response.outputs.append(_Output(event.item.id, isinstance(event.item, FunctionCall)))
        if response.state.in_conversation:
            self._expected = [lambda next: isinstance(next, e.ItemAdded) and next.item.id == event.item.id]

    def _on_output_item_done(self, event: e.OutputItemDone) -> None:
        response = self.responses[event.response_id]
        output = response.open
        assert (output.item_id, event.output_index) == (event.item.id, len(response.outputs) - 1)
        assert output.stage == ("arguments done" if output.is_call else "part done")
        assert event.item.id not in self._undone, "the conversation's item is done first"
        output.stage = "done"

    def _step(self, place: e.PartPlace, before: str, after: str) -> _Output:
        response = self.responses[place.response_id]
        output = response.open
        assert (output.item_id, len(response.outputs) - 1, 0) == (
            place.item_id,
            place.output_index,
            place.content_index,
        )
        assert not output.is_call and output.stage == before, f"{after} after {output.stage}"
        output.stage = after
        return output

    def _is_spoken(self, place: e.PartPlace) -> bool:
        return self.responses[place.response_id].state.settings.modality is Modality.AUDIO

    def _on_part_added(self, event: e.PartAdded) -> None:
        self._step(event.place, "added", "part")
        assert (event.modality is Modality.AUDIO) == self._is_spoken(event.place)

    def _on_written_text_delta(self, event: e.WrittenTextDelta) -> None:
        assert not self._is_spoken(event.place)
        self._step(event.place, "part", "part").text += event.text

    def _on_spoken_text_delta(self, event: e.SpokenTextDelta) -> None:
        assert self._is_spoken(event.place)
        self._step(event.place, "part", "part").text += event.text

    def _on_sound_delta(self, event: e.SoundDelta) -> None:
        assert self._is_spoken(event.place) and len(event.samples)
        self._step(event.place, "part", "part")

    def _on_written_text_done(self, event: e.WrittenTextDone) -> None:
        assert not self._is_spoken(event.place)
        assert self._step(event.place, "part", "text done").text == event.text

    def _on_sound_done(self, event: e.SoundDone) -> None:
        assert self._is_spoken(event.place)
        self._step(event.place, "part", "sound done")

    def _on_spoken_text_done(self, event: e.SpokenTextDone) -> None:
        assert self._step(event.place, "sound done", "text done").text == event.text

    def _on_part_done(self, event: e.PartDone) -> None:
        output = self._step(event.place, "text done", "part done")
        text = event.part.transcript if isinstance(event.part, SoundPart) else event.part.text
        assert text is not None and output.text.startswith(text), "what was heard is no part of what was written"
        response = self.responses[event.place.response_id]
        if response.state.in_conversation:
            self._expected = [
                lambda next: isinstance(next, e.ItemDone) and next.item.id == event.place.item_id,
                lambda next: isinstance(next, e.OutputItemDone) and next.item.id == event.place.item_id,
            ]

    def _on_arguments_delta(self, event: e.ArgumentsDelta) -> None:
        output = self.responses[event.response_id].open
        assert output.is_call and output.stage == "added" and output.item_id == event.item_id
        output.text += event.text

    def _on_arguments_done(self, event: e.ArgumentsDone) -> None:
        output = self.responses[event.response_id].open
        assert output.is_call and output.stage == "added" and output.item_id == event.item_id
        assert (output.text or "{}") == event.arguments
        output.stage = "arguments done"
