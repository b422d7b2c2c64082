"""`DrainingServer`: an HTTP server that lets running requests finish before it stops."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from antiphon.server.serving.serving import Serving
from antiphon.server.serving.setup import systemd
from antiphon.server.web.http.connection_limits import ConnectionLimits, Connections
from antiphon.server.web.http.errors import unavailable
from antiphon.server.web.http.message_memory import MessageMemory
from antiphon.server.web.http.protocol import BoundedProtocol
from antiphon.server.web.http.websocket import MAX_MESSAGE_BYTES, PING_SECONDS, BoundedWebSocket
from antiphon.server.web.telemetry.logs import log

SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: Seconds for cancelled requests to send their error.
LAST_WORDS_SECONDS = 1.0


def server_settings(app: FastAPI, limits: ConnectionLimits, flush_seconds: int, **more: Any) -> uvicorn.Config:
    """Build uvicorn's settings; clients have `flush_seconds` to read their last response."""
    protocol: Any = partial(BoundedProtocol, limits=limits, open_connections=Connections(limits.connections))
    socket: Any = partial(BoundedWebSocket, memory=MessageMemory())
    return uvicorn.Config(
        app,
        http=protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        ws=socket,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=flush_seconds,
        **more,
    )


class DrainingServer(uvicorn.Server):
    """HTTP server that rejects new requests after the first signal and cancels running ones after the second.

    After the third signal it does not wait for the engine either.
    """

    def __init__(self, config: uvicorn.Config, serving: Serving, grace_seconds: float) -> None:
        super().__init__(config)
        self._serving = serving
        self._grace_seconds = grace_seconds
        self._draining: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    async def main_loop(self) -> None:
        """Notify the watchdog and refresh the Date header once a second; the base class wakes ten times as often."""
        while not await self.on_tick(0):
            systemd.notify(systemd.ALIVE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._ending.wait()

    def end(self) -> None:
        self.should_exit = True
        self._ending.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.drain)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def drain(self) -> None:
        if self._draining is not None:
            self.force_exit = self.should_exit
            self._end_requests()
            self.end()
            return
        self._serving.is_draining = True
        systemd.notify(systemd.STOPPING)
        log(
            "shutting down: waiting for running requests",
            running=len(self._serving.requests),
            grace_seconds=self._grace_seconds,
        )
        for context in self._serving.requests:
            context.announce_draining()
        self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        """Wait for running requests, then end. The server keeps listening, to answer 503 with `Retry-After`."""
        requests = self._serving.requests
        if not await requests.until_idle(self._grace_seconds):
            log("shutting down: ending requests that are still running", running=len(requests))
            self._end_requests()
            await requests.until_idle(LAST_WORDS_SECONDS)
        self.end()

    def _end_requests(self) -> None:
        for context in self._serving.requests:
            context.end_with(unavailable("the server is shutting down", "shutting_down"))
