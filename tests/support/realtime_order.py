"""Check the order of events in OpenAI's Realtime API against its documentation, and their fields against its package.

A spoken turn: `speech_started`, `speech_stopped`, `committed`, the item `added` and `done`; transcript deltas at any
time after the speech began, `completed` after the commit. A response: `created`; for each output `output_item.added`,
the item's `conversation.item.added` (unless the response is outside the conversation), `content_part.added`, deltas,
the chain of `done` events, `conversation.item.done`, `output_item.done`; finally `response.done`, and then
`rate_limits.updated`.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, field
from typing import Any

from openai.types.realtime.realtime_server_event import RealtimeServerEvent
from pydantic import BaseModel

Event = dict[str, Any]
#: Session fields that the service sends although its package's types lack them.
SESSION_EXTRAS = {"id", "object", "expires_at", "temperature"}
ITEM = "conversation.item."
TRANSCRIPTION = ITEM + "input_audio_transcription."


def _models() -> dict[str, type[BaseModel]]:
    union = typing.get_args(RealtimeServerEvent)[0]
    return {typing.get_args(model.model_fields["type"].annotation)[0]: model for model in typing.get_args(union)}


MODELS = _models()


def check_fields(event: Event) -> None:
    """Raise unless the package's type for the event accepts it and declares each of its fields."""
    kind = event.get("type")
    assert kind in MODELS, f"there is no server event {kind!r}"
    _check_known(MODELS[kind].model_validate(event), kind)


def _check_known(value: Any, path: str) -> None:
    if isinstance(value, BaseModel):
        extra = set(value.model_extra or {}) - (SESSION_EXTRAS if path.endswith(".session") else set())
        assert not extra, f"{path} has fields that its type does not have: {sorted(extra)}"
        for name in type(value).model_fields:
            _check_known(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            _check_known(item, f"{path}[]")


@dataclass
class _Output:
    """An output of a response, and the events received for it."""

    item_id: str
    kind: str
    steps: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass
class _Response:
    in_conversation: bool
    outputs: list[_Output] = field(default_factory=list)


class RealtimeOrder:
    """Checker of a server's event order: `take` raises `AssertionError` at the first event that is out of order."""

    def __init__(self, *, check_types: bool = True) -> None:
        self.events: list[Event] = []
        self.items: list[str] = []
        self.transcripts: dict[str, str] = {}
        self.responses: dict[str, Event] = {}
        self._check_types = check_types
        self._event_ids: set[str] = set()
        self._open_items: set[str] = set()
        self._speaking: str | None = None
        self._spoken: set[str] = set()
        self._committed: set[str] = set()
        self._active: dict[str, _Response] = {}

    def take(self, event: Event) -> None:
        kind = event["type"]
        if self._check_types:
            check_fields(event)
        assert event["event_id"] not in self._event_ids, f"the id {event['event_id']} came twice"
        self._event_ids.add(event["event_id"])
        assert (kind == "session.created") == (not self.events), f"{kind} is event {len(self.events)}"
        self.events.append(event)
        if kind.startswith("input_audio_buffer."):
            self._take_input(kind, event)
        elif kind.startswith(TRANSCRIPTION):
            self._take_transcript(kind.removeprefix(TRANSCRIPTION), event)
        elif kind.startswith(ITEM):
            self._take_item(kind.removeprefix(ITEM), event)
        elif kind.startswith("response."):
            self._take_response(kind.removeprefix("response."), event)
        elif kind == "error":
            assert event["error"]["message"] and event["error"]["type"] and event["error"]["code"]
        elif kind == "rate_limits.updated":
            assert self.kinds.count(kind) <= len(self.responses), f"{kind} without a response"
        else:
            assert kind in ("session.created", "session.updated"), kind

    def finish(self) -> None:
        """Raise if a response or an item is still open."""
        assert not self._active, f"responses without an end: {list(self._active)}"
        assert not self._open_items, f"items that are not done: {self._open_items}"

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    # -- input --------------------------------------------------------------------------------------------------

    def _take_input(self, kind: str, event: Event) -> None:
        item_id = event.get("item_id", "")
        match kind.removeprefix("input_audio_buffer."):
            case "speech_started":
                assert self._speaking is None, f"speech started in {item_id} while {self._speaking} goes on"
                assert item_id not in self._spoken | self._committed, f"{item_id} began twice"
                self._speaking = item_id
            case "speech_stopped":
                assert self._speaking == item_id, f"speech stopped in {item_id}, but {self._speaking} had started"
                self._speaking = None
                self._spoken.add(item_id)
            case "committed":
                assert self._speaking != item_id, f"{item_id} was committed before its speech stopped"
                assert item_id not in self._committed, f"{item_id} was committed twice"
                self._committed.add(item_id)
                self._check_previous(event)
            case "timeout_triggered":
                assert event["audio_start_ms"] <= event["audio_end_ms"]
            case other:
                assert other == "cleared", other
                if self._speaking is not None:  # the server has discarded the turn
                    self._speaking = None

    def _take_transcript(self, step: str, event: Event) -> None:
        item_id = event["item_id"]
        assert item_id not in self.transcripts, f"{step} of {item_id} after its transcript"
        if step == "delta":
            return
        assert step in ("completed", "failed"), step
        assert item_id in self._committed or item_id in self.items, f"the transcript of {item_id} before its commit"
        self.transcripts[item_id] = event.get("transcript", "")

    # -- items --------------------------------------------------------------------------------------------------

    def _take_item(self, step: str, event: Event) -> None:
        item_id = event["item"]["id"] if "item" in event else event["item_id"]
        match step:
            case "added":
                assert item_id not in self.items, f"{item_id} was added twice"
                self._check_previous(event)
                self.items.append(item_id)
                self._open_items.add(item_id)
                self._note_step(item_id, "item_added")
            case "done":
                assert item_id in self._open_items, f"{item_id} is done, but was not added or done before"
                self._open_items.discard(item_id)
                self._note_step(item_id, "item_done")
            case "deleted":
                assert item_id in self.items, f"{item_id} was deleted, but was not there"
                self.items.remove(item_id)
                self._open_items.discard(item_id)
            case other:
                assert other in ("truncated", "retrieved"), other
                assert item_id in self.items, f"{item_id} was {other}, but was not there"

    def _check_previous(self, event: Event) -> None:
        previous = event.get("previous_item_id")
        assert previous is None or previous in self.items, f"the previous item {previous} is not known"

    def _note_step(self, item_id: str, step: str) -> None:
        for response in self._active.values():
            for output in response.outputs:
                if output.item_id == item_id:
                    assert response.in_conversation, f"{step} of {item_id}, which is outside of the conversation"
                    self._step(response, output, step)

    # -- responses ----------------------------------------------------------------------------------------------

    def _take_response(self, step: str, event: Event) -> None:
        if step == "created":
            self._create(event["response"])
            return
        response_id = event["response"]["id"] if step == "done" else event["response_id"]
        assert response_id in self._active, f"{step} of {response_id}, which is not in progress"
        response = self._active[response_id]
        if step == "done":
            self._end(response, event["response"])
        elif step == "output_item.added":
            assert event["output_index"] == len(response.outputs), f"output {event['output_index']} is out of order"
            assert all(output.steps[-1] == "output_done" for output in response.outputs), "two outputs are open"
            assert event["item"]["status"] == "in_progress"
            response.outputs.append(_Output(event["item"]["id"], event["item"]["type"]))
        else:
            self._take_output(response, step, event)

    def _create(self, response: Event) -> None:
        assert response["id"] not in self._active and response["id"] not in self.responses, "a response began twice"
        assert response["status"] == "in_progress"
        in_conversation = response["conversation_id"] is not None
        others = [one for one in self._active.values() if one.in_conversation]
        assert not (in_conversation and others), "two responses of one conversation are in progress"
        self._active[response["id"]] = _Response(in_conversation)

    def _take_output(self, response: _Response, step: str, event: Event) -> None:
        output = response.outputs[event["output_index"]]
        item_id = event["item"]["id"] if "item" in event else event["item_id"]
        assert output.item_id == item_id, f"{step} of {item_id} at the place of {output.item_id}"
        if step == "output_item.done":
            self._step(response, output, "output_done")
            return
        name, _, stage = step.rpartition(".")
        if stage == "delta":
            assert "part_added" in output.steps or output.kind == "function_call", f"{step} without a part"
            assert f"{name}.done" not in output.steps, f"{step} after {name}.done"
            output.texts[name] = output.texts.get(name, "") + event["delta"]
            return
        self._step(
            response, output, {"content_part.added": "part_added", "content_part.done": "part_done"}.get(step, step)
        )
        for key in ("transcript", "text", "arguments"):
            if key in event and "part" not in event:
                assert event[key] == output.texts.get(name, ""), f"{step} differs from its deltas"

    def _step(self, response: _Response, output: _Output, step: str) -> None:
        output.steps.append(step)
        orders = [self._chain(response, kind) for kind in ("audio", "text", "function_call", "empty")]
        fits = any(chain[: len(output.steps)] == output.steps for chain in orders)
        assert fits, f"{step} of {output.item_id} is out of order: {output.steps}"

    @staticmethod
    def _chain(response: _Response, kind: str) -> list[str]:
        middle = {
            "audio": ["part_added", "output_audio.done", "output_audio_transcript.done", "part_done"],
            "text": ["part_added", "output_text.done", "part_done"],
            "function_call": ["function_call_arguments.done"],
            "empty": [],
        }[kind]
        added, done = (["item_added"], ["item_done"]) if response.in_conversation else ([], [])
        return [*added, *middle, *done, "output_done"]

    def _end(self, response: _Response, state: Event) -> None:
        status = state["status"]
        assert status in ("completed", "cancelled", "incomplete", "failed"), status
        assert all(output.steps[-1:] == ["output_done"] for output in response.outputs), "an output is still open"
        assert [item["id"] for item in state["output"]] == [output.item_id for output in response.outputs]
        if status == "cancelled":
            assert state["status_details"]["reason"] in ("turn_detected", "client_cancelled")
        if status == "completed":
            assert all(item["status"] == "completed" for item in state["output"])
        del self._active[state["id"]]
        self.responses[state["id"]] = state
