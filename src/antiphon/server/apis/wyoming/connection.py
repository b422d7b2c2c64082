"""`WyomingConnection`: one client's connection: reads its events, runs its requests in order, and reports errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from antiphon.server.apis.wyoming import synthesis, transcription
from antiphon.server.apis.wyoming.events import MAX_NAME, WantedTranscript, text, unexpected, wanted_transcript
from antiphon.server.apis.wyoming.frames import Frame, FrameError, FrameLimits, read_frame
from antiphon.server.apis.wyoming.info import LIVE_PROGRAM, PROGRAM, PROGRAMS, info_event
from antiphon.server.apis.wyoming.metrics import WyomingMetrics
from antiphon.server.apis.wyoming.offers import Offers
from antiphon.server.apis.wyoming.request import run_request
from antiphon.server.apis.wyoming.synthesis import WyomingSynthesis
from antiphon.server.apis.wyoming.transcription import WyomingTranscription
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.connection_limits import Connections
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import SERVER, ApiError, invalid
from antiphon.server.web.telemetry.logs import log, log_failure

#: Maximum events that are read ahead.
MAX_UNREAD = 4


@dataclass(frozen=True)
class LinkLimits:
    """Limits of one connection: `idle_seconds` between requests, and `pause_seconds` between a request's events.

    A request whose client has sent nothing for `idle_seconds` is ended if another client needs the slot.
    """

    frames: FrameLimits = field(default_factory=FrameLimits)
    idle_seconds: float = 60.0
    pause_seconds: float = 300.0
    #: Maximum seconds for a client to read what was sent.
    write_seconds: float = 60.0
    #: Maximum seconds for a client to read the last event before its connection is closed.
    linger_seconds: float = 2.0


class WyomingConnection:
    """A client's `Link`. An `error` event ends the connection: clients that ignore errors would wait forever."""

    def __init__(
        self,
        serving: Serving,
        metrics: WyomingMetrics,
        limits: LinkLimits,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        slots: Connections,
    ) -> None:
        self._serving = serving
        self._metrics = metrics
        self._limits = limits
        self._reader = reader
        self._writer = writer
        self._writing = asyncio.Lock()
        self._unread: asyncio.Queue[Frame] = asyncio.Queue(MAX_UNREAD)
        self._wanted = WantedTranscript()
        self._program = PROGRAM
        self._slots = slots
        self._is_evicted = asyncio.Event()
        self._idle_since = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Serve until the client leaves, an error, or an idle timeout. Raises nothing."""
        tasks = [asyncio.create_task(work) for work in (self._read(), self._answer(), self._wait_for_eviction())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                await _cancelled(task)
            for task in tasks:
                if not task.cancelled():
                    task.result()
        except (FrameError, ApiError) as error:
            await self._end_with(error)
        except ConnectionError:
            pass
        except Exception as error:
            log_failure(error, protocol="wyoming")
        finally:
            for task in tasks:
                await _cancelled(task)
            self._writer.close()

    def evict(self) -> None:
        """End the idle connection, because another client needs its slot."""
        self._is_evicted.set()

    async def refuse(self, error: ApiError) -> None:
        """Send the error to a client that is not served, and close the connection."""
        try:
            await self._end_with(error)
        finally:
            self._writer.close()

    # -- for requests -------------------------------------------------------------------------------------------

    async def receive(self) -> Frame:
        limits, since = self._limits, asyncio.get_running_loop().time()
        try:
            return await self._next(since, min(limits.idle_seconds, limits.pause_seconds))
        except TimeoutError:
            self._slots.wait(self)
        try:
            return await self._next(since, limits.pause_seconds)
        except TimeoutError:
            raise _idle(limits.pause_seconds) from None
        finally:
            self._slots.work(self)

    async def send(self, *frames: Frame) -> None:
        async with self._writing:
            self._writer.write(b"".join(frame.encoded() for frame in frames))
            try:
                async with asyncio.timeout(self._limits.write_seconds):
                    await self._writer.drain()
            except TimeoutError:
                self._writer.transport.abort()
                raise ConnectionError("the client does not read") from None

    # -- events -------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Read events until the client leaves; answer those that need no model at once, even during a request."""
        while (frame := await read_frame(self._reader, self._limits.frames)) is not None:
            if frame.type == "describe":
                await self.send(info_event(Offers.of(self._serving)))
            elif frame.type == "ping":
                await self.send(Frame("pong", {"text": text(frame, "text", MAX_NAME)}))
            elif frame.type in HANDLED:
                await self._unread.put(frame)

    async def _next(self, since: float, seconds: float) -> Frame:
        """Return the next queued event with content. Raises `TimeoutError` `seconds` after `since`.

        Events without content do not count: a client that sends nothing else would keep its slot.
        """
        async with asyncio.timeout_at(since + seconds):
            while _is_empty(frame := await self._unread.get()):
                pass
            return frame

    async def _answer(self) -> None:
        while True:
            try:
                frame = await self._next(self._idle_since, self._limits.idle_seconds)
            except TimeoutError:
                raise _idle(self._limits.idle_seconds) from None
            if frame.type == "select-program":
                self._select(frame)
            elif frame.type == "transcribe":
                self._wanted = wanted_transcript(frame)
            elif frame.type in (transcription.AUDIO_START, transcription.AUDIO_CHUNK):
                await self._transcribe(frame)
            elif frame.type in (synthesis.SYNTHESIZE, synthesis.START):
                await self._synthesize(frame)
            else:
                raise unexpected(frame, "a request")

    async def _wait_for_eviction(self) -> None:
        await self._is_evicted.wait()
        message = "the connection did no work, and another client needed its slot"
        raise ApiError(503, message, code="connection_evicted", kind=SERVER)

    def _select(self, frame: Frame) -> None:
        name = text(frame, "name", MAX_NAME)
        if name not in PROGRAMS:
            raise invalid(f"there is no program {name!r}; choose one of: {', '.join(PROGRAMS)}", "name", "not_found")
        self._program = name

    async def _transcribe(self, frame: Frame) -> None:
        wanted, self._wanted = self._wanted, WantedTranscript()
        request = WyomingTranscription(self._serving, self, wanted, is_live=self._program == LIVE_PROGRAM)
        await self._run("transcribe", lambda context: request.run(context, frame))

    async def _synthesize(self, frame: Frame) -> None:
        request = WyomingSynthesis(self._serving, self)
        run = request.run_whole if frame.type == synthesis.SYNTHESIZE else request.run_streamed
        await self._run("synthesize", lambda context: run(context, frame))

    async def _run(self, name: str, work: Callable[[RequestContext], Awaitable[None]]) -> None:
        self._slots.work(self)
        try:
            await run_request(self._serving, self._metrics, name, work)
        finally:
            self._slots.wait(self)
            self._idle_since = asyncio.get_running_loop().time()

    # -- errors -------------------------------------------------------------------------------------------------

    async def _end_with(self, error: FrameError | ApiError) -> None:
        """Send the error, then discard what the client still sends: a reset could delete the error unread."""
        self._metrics.rejected(error.code)
        if error.code not in ("idle_timeout", "connection_evicted"):
            log("Wyoming connection ended", logging.WARNING, code=error.code, cause=error.message)
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(self._limits.linger_seconds):
                await self.send(Frame("error", {"text": error.message, "code": error.code}))
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                while await self._reader.read(1 << 16):
                    pass


#: Events that are handled in order. All others are dropped, as the protocol requires.
HANDLED = {
    "select-program",
    "transcribe",
    transcription.AUDIO_START,
    transcription.AUDIO_CHUNK,
    transcription.AUDIO_STOP,
    synthesis.SYNTHESIZE,
    synthesis.START,
    synthesis.CHUNK,
    synthesis.STOP,
}


def _is_empty(frame: Frame) -> bool:
    """Return whether a chunk has neither sound nor text."""
    is_chunk = frame.type in (transcription.AUDIO_CHUNK, synthesis.CHUNK)
    return is_chunk and not frame.payload and not frame.data.get("text")


def _idle(seconds: float) -> ApiError:
    return ApiError(408, f"the client sent nothing to work on for {seconds:g} s", code="idle_timeout")


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
