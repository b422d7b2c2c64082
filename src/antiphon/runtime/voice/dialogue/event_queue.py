"""`EventQueue`: the events of a session that its reader has not read, up to a limit."""

from __future__ import annotations

import asyncio

from antiphon.runtime.voice import events
from antiphon.runtime.voice.events import SessionEvent
from antiphon.runtime.voice.items import FunctionCall, FunctionOutput, Item, Part, TextPart

#: Maximum bytes of unread events. Almost all is sound, which is made as it is played: this is more than a minute of it.
MAX_UNREAD_BYTES = 8 << 20
#: Bytes counted for an event besides its text or sound.
EVENT_BYTES = 256


class EventQueue:
    """A queue that, when too much is unread, discards all events, closes and sets `overflowed`.

    Any event is accepted while at most `max_bytes` are unread, whatever its own size.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = MAX_UNREAD_BYTES if max_bytes is None else max_bytes
        self._events: asyncio.Queue[SessionEvent | None] = asyncio.Queue()
        self._num_bytes = 0
        self._is_closed = False
        self.overflowed = asyncio.Event()

    def put(self, event: SessionEvent) -> None:
        """Add an event, unless the queue is closed."""
        if self._is_closed:
            return
        if self._num_bytes > self._max_bytes:
            while not self._events.empty():
                self._events.get_nowait()
            self._num_bytes = 0
            self.overflowed.set()
            self.close()
            return
        self._num_bytes += event_bytes(event)
        self._events.put_nowait(event)

    async def get(self) -> SessionEvent | None:
        """Return the next event; None after the last."""
        event = await self._events.get()
        if event is None:
            self._events.put_nowait(None)
        else:
            self._num_bytes -= event_bytes(event)
        return event

    def close(self) -> None:
        """End the queue; its events can still be read."""
        if not self._is_closed:
            self._is_closed = True
            self._events.put_nowait(None)


def event_bytes(event: SessionEvent) -> int:
    """Return roughly the bytes of an event in memory, or on the wire."""
    match event:
        case events.SoundDelta():
            size = event.samples.nbytes
        case events.SettingsChanged():
            settings = event.settings
            size = len(settings.instructions) + sum(len(str(tool.parameters)) for tool in settings.tools)
        case events.ItemAdded() | events.ItemDone() | events.ItemRetrieved():
            size = item_bytes(event.item)
        case events.OutputItemAdded() | events.OutputItemDone():
            size = item_bytes(event.item)
        case events.ResponseStarted() | events.ResponseDone():
            size = sum(map(item_bytes, event.response.output))
        case events.PartDone():
            size = _part_bytes(event.part)
        case events.ArgumentsDone():
            size = len(event.arguments)
        case _:
            size = len(getattr(event, "text", ""))
    return EVENT_BYTES + size


def item_bytes(item: Item) -> int:
    """Return the length of an item's text. Sound that a client gave is not counted, since it is not sent."""
    match item:
        case FunctionCall():
            return len(item.arguments)
        case FunctionOutput():
            return len(item.output)
    return sum(map(_part_bytes, item.parts))


def _part_bytes(part: Part) -> int:
    return len(part.text) if isinstance(part, TextPart) else len(part.transcript or "")
