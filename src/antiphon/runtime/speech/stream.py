"""`AsyncSynthesis`: speech for an asyncio reader, from a call in this process or in the engine process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable

import numpy as np

from antiphon.audio.samples import Floats
from antiphon.engine.request import FinishReason
from antiphon.errors import EngineError
from antiphon.runtime.calls.async_reader import AsyncReader
from antiphon.runtime.calls.control import SpeechControl
from antiphon.runtime.calls.events import Event
from antiphon.runtime.calls.sinks import ThreadSink
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats


class AsyncSynthesis(AsyncReader[SpeechChunk]):
    """An asynchronous iterator of chunks. Leaving it early (break, cancellation, `aclose`) cancels the rest.

    A few chunks are made ahead; then the synthesis waits for the reader.
    """

    _control: SpeechControl

    def __init__(self, control: SpeechControl, sink: ThreadSink, rate: int = 0) -> None:
        super().__init__(control, sink)
        self._rate = rate
        self._stats: SpeechStats | None = None
        self._feeding: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    @property
    def rate(self) -> int:
        """Samples per second; 0 before the first chunk of a synthesis in the engine process."""
        return self._rate

    @property
    def stats(self) -> SpeechStats:
        """Statistics of the synthesis, once it has ended."""
        if self._stats is None:
            raise EngineError(f"synthesis {self.id} has not come to its end")
        return self._stats

    async def wait(self) -> Floats:
        """Read to the end and return all samples."""
        pieces = [chunk.samples async for chunk in self]
        if self._stats is None:
            raise EngineError(f"synthesis {self.id} was closed")
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    def append(self, text: str) -> None:
        """Append to a text that is spoken while it is written."""
        if not self._is_done:
            self._control.append(text)

    def end_text(self) -> None:
        """Declare the text complete."""
        if not self._is_done:
            self._control.end_text()

    def feed(self, text: AsyncIterable[str]) -> None:
        """Append all text that the iterator yields, as it comes. Its exceptions are raised to the reader."""
        self._feeding = self._loop.create_task(self._feed(text))

    async def _feed(self, text: AsyncIterable[str]) -> None:
        try:
            async for piece in text:
                self.append(piece)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._failure = error
            self._control.cancel()
        finally:
            self.end_text()

    def close(self, reason: FinishReason = FinishReason.DISCONNECTED) -> None:
        if self._feeding is not None:
            self._feeding.cancel()
        super().close(reason)

    def put(self, event: Event) -> None:
        if isinstance(event, SpeechStats):
            self._stats, self._is_done = event, True
            self._wake()
        else:
            super().put(event)

    def _raised(self) -> BaseException:
        return self._failure or super()._raised()

    def _is_last(self, item: SpeechChunk) -> bool:
        self._rate = item.rate
        return False

    def _on_read(self, item: SpeechChunk) -> None:
        if not self._is_done:
            self._control.release()
