"""`Prefill`: puts the prompt of the next answer into the prefix cache while the person still speaks."""

from __future__ import annotations

import asyncio
import logging

from antiphon.runtime.voice.dialogue.context import SessionContext
from antiphon.runtime.voice.items import Item, ItemStatus, Message, Role, SoundPart

_log = logging.getLogger(__name__)


class Prefill:
    """The session's only prefill; a newer one replaces it. A failure only costs time."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._task: asyncio.Task[None] | None = None

    def ask(self, item_id: str, settled: str) -> None:
        """Prefill the conversation with a turn's settled text. Skipped while earlier transcripts are unknown."""
        if self._context.transcripts:
            return
        self.drop()
        items: list[Item] = list(self._context.conversation.items)
        if settled:
            items.append(Message(item_id, Role.USER, (SoundPart(settled),), ItemStatus.IN_PROGRESS))
        self._task = self._context.tasks.start(self._run(items))

    def drop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self, items: list[Item]) -> None:
        try:
            await self._context.services.prefill(items, self._context.settings)
        except Exception as error:
            _log.debug("a prefill failed: %s", error)
