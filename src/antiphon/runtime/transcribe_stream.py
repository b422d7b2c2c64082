"""`TranscribeStream`: what comes back from the engine process for one transcription or live session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from antiphon.errors import EngineError
from antiphon.runtime.reply_stream import ReplyStream
from antiphon.runtime.transcript import LiveUpdate, Transcript, TranscriptProgress

Told = TranscriptProgress | LiveUpdate | Transcript
#: Pieces of a recording that is fed which may be on their way at once.
MAX_UNHEARD = 3


class TranscribeStream(ReplyStream[Told]):
    """What is told while sound is transcribed, and last the transcript.

    Of a live session or a recording that is fed, `push` hands sound in and `finish` says that no more will come; the
    latter waits for `room` before it pushes.
    """

    def __init__(
        self,
        call_id: str,
        hear: Callable[[str, bytes], None],
        stop: Callable[[str], None],
        abort: Callable[[TranscribeStream], None],
    ) -> None:
        super().__init__(call_id, abort)
        self._hear, self._stop = hear, stop
        self._num_unheard = 0
        self._feeder: asyncio.Future[None] | None = None

    async def accepted(self) -> None:
        """Of a live session: return when it takes sound; raise what refused it."""
        await asyncio.wait([self._taken])
        if self._error is not None:
            raise self._raised()

    def push(self, samples: bytes) -> None:
        """Mono sound at 16 kHz as float32 bytes in native order."""
        if not self._is_done:
            self._num_unheard += 1
            self._hear(self.id, samples)

    async def room(self) -> bool:
        """Wait until another piece of a recording may be pushed; False if none is wanted any more."""
        while self._num_unheard >= MAX_UNHEARD and not self._is_done:
            self._feeder = self._loop.create_future()
            try:
                await self._feeder
            finally:
                self._feeder = None
        return not self._is_done

    def finish(self) -> None:
        """No more sound will come; the transcript follows."""
        if not self._is_done:
            self._stop(self.id)

    async def wait(self) -> Transcript:
        """Read to the end and return the transcript."""
        async for told in self:
            if isinstance(told, Transcript):
                return told
        raise EngineError(f"transcription {self.id} was ended before its transcript")

    @staticmethod
    def _ends(part: Told) -> bool:
        return isinstance(part, Transcript)

    def _futures(self) -> tuple[asyncio.Future[None] | None, ...]:
        return self._taken, self._waiter, self._feeder

    def heard(self) -> None:
        self._num_unheard -= 1
        self._wake()
