"""`SpeakStream`: what comes back from the engine process for one synthesis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from antiphon.runtime.messages import AppendText, EndText, SpeechPart, Spoken, TakePart
from antiphon.runtime.reply_stream import ReplyStream


class SpeakStream(ReplyStream[SpeechPart | Spoken]):
    """Parts of speech, and last what it cost. The engine sends a few parts ahead and waits when they are not read."""

    def __init__(
        self, call_id: str, send: Callable[[msgspec.Struct], None], abort: Callable[[SpeakStream], None]
    ) -> None:
        super().__init__(call_id, abort)
        self._send = send

    async def accepted(self) -> None:
        """Return when it was taken; raise what refused it."""
        await asyncio.wait([self._taken])
        if self._error is not None and not self._items:
            raise self._raised()

    def append(self, text: str) -> None:
        """More text, of a synthesis that is open."""
        if not self._is_done:
            self._send(AppendText(self.id, text))

    def end_text(self) -> None:
        """No more text will come."""
        if not self._is_done:
            self._send(EndText(self.id))

    @staticmethod
    def _ends(part: SpeechPart | Spoken) -> bool:
        return isinstance(part, Spoken)

    def _read(self, part: SpeechPart | Spoken) -> None:
        if isinstance(part, SpeechPart) and not self._is_done:
            self._send(TakePart(self.id))
