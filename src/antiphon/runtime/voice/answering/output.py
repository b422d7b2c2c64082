"""`Output`: the items of one response as they are made, with their events in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.voice.answering.listener import Listener
from antiphon.runtime.voice.answering.playback import Playback
from antiphon.runtime.voice.dialogue.conversation import Conversation
from antiphon.runtime.voice.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ItemAdded,
    ItemDone,
    OutputItemAdded,
    OutputItemDone,
    PartAdded,
    PartDone,
    PartPlace,
    SessionEvent,
    SoundDelta,
    SoundDone,
    SpokenTextDelta,
    SpokenTextDone,
    WrittenTextDelta,
    WrittenTextDone,
)
from antiphon.runtime.voice.items import FunctionCall, Item, ItemStatus, Message, Role, SoundPart, TextPart, new_id
from antiphon.runtime.voice.settings import Modality


@dataclass
class _OpenMessage:
    place: PartPlace
    playback: Playback


@dataclass
class _OpenCall:
    call: FunctionCall
    index: int


class Output:
    """Items of a response, at most one of them open. A response outside the conversation has no `conversation`.

    `playbacks` are the playbacks of spoken messages by item id.
    """

    def __init__(
        self,
        response_id: str,
        modality: Modality,
        conversation: Conversation | None,
        listener: Listener,
        emit: Callable[[SessionEvent], None],
        clock: Callable[[], float],
    ) -> None:
        self._response_id = response_id
        self._modality = modality
        self._conversation = conversation
        self._listener = listener
        self._emit = emit
        self._clock = clock
        self._open: _OpenMessage | _OpenCall | None = None
        self.items: list[Item] = []
        self.playbacks: dict[str, Playback] = {}

    @property
    def seconds(self) -> float:
        """Seconds of sound sent."""
        return sum(playback.seconds for playback in self.playbacks.values())

    # -- messages -----------------------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        """Append text to the open message; open one if necessary."""
        message = self._message()
        message.playback.write(text)
        delta = SpokenTextDelta if self._modality is Modality.AUDIO else WrittenTextDelta
        self._emit(delta(message.place, text))

    def send(self, chunk: SpeechChunk) -> float:
        """Send sound of the open message; return the seconds until a listener hears it."""
        message = self._message()
        wait = message.playback.send(chunk, self._clock())
        self._emit(SoundDelta(message.place, chunk.samples, chunk.rate))
        return wait

    def _message(self) -> _OpenMessage:
        if isinstance(self._open, _OpenMessage):
            return self._open
        self.close()
        item = Message(new_id("item"), Role.ASSISTANT, (), ItemStatus.IN_PROGRESS)
        index = self._add(item)
        message = self._open = _OpenMessage(PartPlace(self._response_id, item.id, index), Playback(self._listener))
        if self._modality is Modality.AUDIO:
            self.playbacks[item.id] = message.playback
        self._emit(PartAdded(message.place, self._modality))
        return message

    # -- calls --------------------------------------------------------------------------------------------------

    def call(self, name: str) -> None:
        """Open a function call."""
        self.close()
        call = FunctionCall(new_id("item"), new_id("call"), name, "", ItemStatus.IN_PROGRESS)
        self._open = _OpenCall(call, self._add(call))

    def add_arguments(self, text: str) -> None:
        opened = self._open
        assert isinstance(opened, _OpenCall)
        opened.call = replace(opened.call, arguments=opened.call.arguments + text)
        call = opened.call
        self._emit(ArgumentsDelta(self._response_id, call.id, opened.index, call.call_id, text))

    # -- ends ---------------------------------------------------------------------------------------------------

    def close(self, status: ItemStatus = ItemStatus.COMPLETED) -> None:
        """End the open item, if any. A message that is not completed keeps only what was heard."""
        opened, self._open = self._open, None
        if isinstance(opened, _OpenMessage):
            self._close_message(opened, status)
        elif opened is not None:
            call = replace(opened.call, arguments=opened.call.arguments or "{}", status=status)
            self._emit(ArgumentsDone(self._response_id, call.id, opened.index, call.call_id, call.name, call.arguments))
            self._finish(call, opened.index)

    def _close_message(self, message: _OpenMessage, status: ItemStatus) -> None:
        place, playback = message.place, message.playback
        part: TextPart | SoundPart
        if self._modality is Modality.AUDIO:
            if status is ItemStatus.COMPLETED:
                playback.complete()
            part = SoundPart(playback.heard_text, playback.seconds)
            self._emit(SoundDone(place))
            self._emit(SpokenTextDone(place, playback.text))
        else:
            part = TextPart(playback.text)
            self._emit(WrittenTextDone(place, playback.text))
        self._emit(PartDone(place, part))
        self._finish(Message(place.item_id, Role.ASSISTANT, (part,), status), place.output_index)

    def stop(self) -> None:
        """Stop playback of the open message."""
        if isinstance(self._open, _OpenMessage):
            self._open.playback.stop(self._clock())

    def _add(self, item: Item) -> int:
        index = len(self.items)
        self.items.append(item)
        self._emit(OutputItemAdded(self._response_id, index, item))
        if self._conversation is not None:
            previous_id = self._conversation.last_id
            self._conversation.add(item)
            self._emit(ItemAdded(item, previous_id))
        return index

    def _finish(self, item: Item, index: int) -> None:
        self.items[index] = item
        if self._conversation is not None:
            self._conversation.replace(item)
            self._emit(ItemDone(item, self._conversation.previous_id(item.id)))
        self._emit(OutputItemDone(self._response_id, index, item))
