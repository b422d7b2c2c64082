"""Synthesis for asyncio: text from strings or an asynchronous iterator, chunks read from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator

import numpy as np

from antiphon.audio.samples import Floats
from antiphon.errors import AntiphonError
from antiphon.runtime.speech import SpeechChunk, SpeechStats
from antiphon.runtime.speech_options import SpeechOptions
from antiphon.runtime.speech_text import Speaker
from antiphon.runtime.synthesis import SpeechPort, Synthesis
from antiphon.runtime.text_feed import TextFeed


class AsyncSynthesis:
    """An asynchronous iterator of chunks. Leaving it early (break, cancellation, `aclose`) cancels the rest."""

    def __init__(
        self, speaker: Speaker, port: SpeechPort, text: str | AsyncIterable[str], options: SpeechOptions
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[SpeechChunk | AntiphonError | None] = asyncio.Queue()
        self._feeding: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        if isinstance(text, str):
            self._synthesis = Synthesis(speaker, port, text, options, self._take)
        else:
            feed = TextFeed()
            self._synthesis = Synthesis(speaker, port, feed, options, self._take)
            self._feeding = self._loop.create_task(self._feed(text, feed))

    async def _feed(self, text: AsyncIterable[str], feed: TextFeed) -> None:
        try:
            async for piece in text:
                feed.push(piece)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._failure = error
            self._synthesis.close()
        finally:
            feed.finish()

    def _take(self, item: SpeechChunk | AntiphonError | None) -> None:
        """In the synthesis' thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)

    @property
    def id(self) -> str:
        """The synthesis' id, as in traces."""
        return self._synthesis.id

    @property
    def rate(self) -> int:
        """Samples a second."""
        return self._synthesis.rate

    @property
    def stats(self) -> SpeechStats:
        """What the synthesis cost, once it has ended."""
        return self._synthesis.stats

    def __aiter__(self) -> AsyncIterator[SpeechChunk]:
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[SpeechChunk]:
        try:
            while True:
                item = await self._items.get()
                if isinstance(item, SpeechChunk):
                    self._synthesis.release()
                    yield item
                elif item is None:
                    return
                else:
                    raise self._failure or item
        finally:
            self.close()

    async def wait(self) -> Floats:
        """Read to the end and return all samples."""
        pieces = [chunk.samples async for chunk in self]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    def close(self) -> None:
        """Cancel the rest."""
        if self._feeding is not None:
            self._feeding.cancel()
        self._synthesis.close()

    async def aclose(self) -> None:
        """The same as `close`, for `contextlib.aclosing`."""
        self.close()
