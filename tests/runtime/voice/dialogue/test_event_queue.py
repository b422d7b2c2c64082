"""Events that wait to be read: in order, and not without a limit."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from antiphon.runtime.voice.dialogue.event_queue import EVENT_BYTES, EventQueue, event_bytes
from antiphon.runtime.voice.events import (
    BufferCleared,
    ItemAdded,
    PartPlace,
    ResponseDone,
    ResponseState,
    SessionEvent,
    SettingsChanged,
    SoundDelta,
    WrittenTextDelta,
)
from antiphon.runtime.voice.items import FunctionOutput, Message, Role, SoundPart, TextPart
from antiphon.runtime.voice.settings import VoiceSettings

PLACE = PartPlace("resp_1", "item_1", 0)
SOUND = np.zeros(1000, np.float32)
SAID = Message("item_1", Role.USER, (TextPart("four"), SoundPart("five5", samples=SOUND)))


@pytest.mark.parametrize(
    ("event", "size"),
    [
        (BufferCleared(), 0),
        (SoundDelta(PLACE, SOUND, 24_000), 4000),
        (WrittenTextDelta(PLACE, "seven77"), 7),
        (ItemAdded(SAID, None), 9),
        (ItemAdded(FunctionOutput("item_2", "call_1", "out"), None), 3),
        (ResponseDone(ResponseState("resp_1", VoiceSettings(), output=(SAID, SAID))), 18),
        (SettingsChanged(VoiceSettings(instructions="Be brief.")), 9),
    ],
)
def test_sizes(event: SessionEvent, size: int) -> None:
    assert event_bytes(event) == EVENT_BYTES + size


def test_what_is_read_makes_room() -> None:
    async def run() -> None:
        queue = EventQueue(max_bytes=10_000)
        for index in range(1000):
            queue.put(WrittenTextDelta(PLACE, str(index)))
            assert await queue.get() == WrittenTextDelta(PLACE, str(index))
        queue.put(SoundDelta(PLACE, np.zeros(1 << 20, np.float32), 24_000))  # one event may be of any size
        assert isinstance(await queue.get(), SoundDelta)
        queue.put(BufferCleared())
        queue.close()
        queue.put(BufferCleared())
        assert [await queue.get() for _ in range(3)] == [BufferCleared(), None, None]
        assert not queue.overflowed.is_set()

    asyncio.run(run())


def test_a_reader_that_does_not_read_loses_everything_at_once() -> None:
    async def run() -> None:
        queue = EventQueue(max_bytes=10_000)
        for _ in range(4):
            assert not queue.overflowed.is_set()
            queue.put(SoundDelta(PLACE, SOUND, 24_000))
        assert queue.overflowed.is_set() and await queue.get() is None

    asyncio.run(run())
