"""`SpeakStream`: a synthesis, for one asyncio reader."""

from __future__ import annotations

from antiphon.runtime.calls.async_reader import AsyncReader
from antiphon.runtime.calls.control import SpeechControl
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats


class SpeakStream(AsyncReader[SpeechChunk | SpeechStats]):
    """Chunks of speech, and last what it cost. A few chunks are made ahead; then the synthesis waits for the reader."""

    _control: SpeechControl

    def append(self, text: str) -> None:
        """More text, of a synthesis whose text is still being written."""
        if not self._is_done:
            self._control.append(text)

    def end_text(self) -> None:
        """No more text will come."""
        if not self._is_done:
            self._control.end_text()

    def _is_last(self, item: SpeechChunk | SpeechStats) -> bool:
        return isinstance(item, SpeechStats)

    def _on_read(self, item: SpeechChunk | SpeechStats) -> None:
        if isinstance(item, SpeechChunk) and not self._is_done:
            self._control.release()
