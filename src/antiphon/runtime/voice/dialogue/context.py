"""`SessionContext`: the state that the parts of a session share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from antiphon.errors import EngineError
from antiphon.runtime.voice.dialogue.conversation import Conversation
from antiphon.runtime.voice.dialogue.event_queue import EventQueue
from antiphon.runtime.voice.dialogue.tasks import Tasks
from antiphon.runtime.voice.events import SessionEvent
from antiphon.runtime.voice.items import Item, ItemStatus
from antiphon.runtime.voice.services import VoiceServices
from antiphon.runtime.voice.settings import VoiceSettings


class SessionContext:
    """Settings, conversation, tasks and unread events of a session. After `close` nothing is emitted."""

    def __init__(self, services: VoiceServices, settings: VoiceSettings, clock: Callable[[], float]) -> None:
        self.services = services
        self.settings = settings
        self.clock = clock
        self.conversation = Conversation()
        self.tasks = Tasks()
        #: Transcriptions in progress by item id; the result is the error message, or None.
        self.transcripts: dict[str, asyncio.Future[str | None]] = {}
        self.is_closed = False
        self.events = EventQueue()

    def emit(self, event: SessionEvent) -> None:
        self.events.put(event)

    def close(self) -> None:
        """Stop emitting events; earlier events can still be read."""
        self.is_closed = True
        self.events.close()

    # -- transcripts --------------------------------------------------------------------------------------------

    def expect_transcript(self, item_id: str) -> None:
        self.transcripts[item_id] = asyncio.get_running_loop().create_future()

    def end_transcript(self, item_id: str, failure: str | None = None) -> None:
        """End the transcription of an item, with its error message if it failed."""
        waiting = self.transcripts.pop(item_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(failure)

    def complete_ids(self) -> list[str]:
        """Return the ids of all items that are not in progress."""
        return [item.id for item in self.conversation.items if item.status is not ItemStatus.IN_PROGRESS]

    async def transcribed(self, ids: Sequence[str]) -> Sequence[Item]:
        """Wait for the transcripts of these items, and return the items that still exist.

        Raise EngineError if a transcription failed.
        """
        for item_id in ids:
            waiting = self.transcripts.get(item_id)
            if waiting is not None:
                await asyncio.wait([waiting])
                failure = waiting.result()
                if failure is not None:
                    raise EngineError(f"the transcription of {item_id} failed: {failure}")
        found = (self.conversation.get(item_id) for item_id in ids)
        return [item for item in found if item is not None]
