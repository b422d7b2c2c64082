"""Wyoming server beside a running HTTP server or alone, and helpers for clients of the `wyoming` package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event

from antiphon.runtime.process.client import EngineClient
from antiphon.server.apis.wyoming.server import WyomingLimits, WyomingServer
from antiphon.server.serving.serving import Serving
from antiphon.server.serving.setup.config import ServerConfig
from antiphon.server.web.http.listener import bind
from support.server.http_server import RunningServer
from support.waiting import PATIENCE_SECONDS


@contextmanager
def wyoming_beside(running: RunningServer) -> Iterator[int]:
    """Run a Wyoming server over the same models, in the server's event loop; yield its port."""
    listener = bind("127.0.0.1", 0)
    loop: asyncio.AbstractEventLoop = running.loop
    server = WyomingServer(running.serving, listener)
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(PATIENCE_SECONDS)
    try:
        yield listener.getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(PATIENCE_SECONDS)
        listener.close()


@asynccontextmanager
async def wyoming_without_engine(
    config: ServerConfig, limits: WyomingLimits | None = None
) -> AsyncIterator[tuple[int, Serving]]:
    """Run a Wyoming server whose engine never starts; yield its port and its `Serving`."""
    listener = bind("127.0.0.1", 0)
    serving = Serving(config, EngineClient({}))
    server = WyomingServer(serving, listener, limits)
    await server.start()
    try:
        yield listener.getsockname()[1], serving
    finally:
        await server.stop()


def client_of(port: int) -> AsyncTcpClient:
    return AsyncTcpClient("127.0.0.1", port, connect_timeout=PATIENCE_SECONDS, read_timeout=PATIENCE_SECONDS)


async def events_until(client: AsyncTcpClient, *last: str) -> list[Event]:
    """Read events up to the first of one of these types; fail if the connection ends before."""
    events: list[Event] = []
    while not events or events[-1].type not in last:
        event = await client.read_event()
        assert event is not None, [event.type for event in events]
        events.append(event)
    return events


async def send_sound(client: AsyncTcpClient, audio: bytes, step: int = 3200, **format: int) -> None:
    """Send a recording: start, chunks of `step` bytes, stop. 16-bit mono at 16 kHz unless `format` differs."""
    form: dict[str, Any] = {"rate": 16_000, "width": 2, "channels": 1} | format
    await client.write_event(AudioStart(**form).event())
    for start in range(0, len(audio), step):
        await client.write_event(AudioChunk(**form, audio=audio[start : start + step]).event())
    await client.write_event(AudioStop().event())


def sound_of(events: list[Event]) -> bytes:
    return b"".join(event.payload or b"" for event in events if event.type == "audio-chunk")


def run_client(port: int, session: Callable[[AsyncTcpClient], Any]) -> Any:
    """Connect a client, run `session` on it, and return its result."""

    async def main() -> Any:
        async with client_of(port) as client:
            return await session(client)

    return asyncio.run(main())
