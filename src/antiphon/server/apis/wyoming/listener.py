"""`WyomingListener`: the socket and the options with which a Wyoming server is started."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from antiphon.server.apis.wyoming.discovery import Announcement
from antiphon.server.apis.wyoming.server import WyomingServer
from antiphon.server.serving.serving import Serving
from antiphon.server.web.telemetry.logs import log


@dataclass(frozen=True)
class WyomingListener:
    """A bound socket; `on_listening` receives the address at which the server listens."""

    listener: socket.socket
    is_announced: bool
    on_listening: Callable[[str], None]

    @asynccontextmanager
    async def serving(self, serving: Serving) -> AsyncIterator[WyomingServer]:
        """Serve while the context is entered, even if the announcement on the network fails."""
        server = WyomingServer(serving, self.listener)
        await server.start()
        self.on_listening(server.url)
        announcement = await self._announced() if self.is_announced else None
        try:
            yield server
        finally:
            if announcement is not None:
                await announcement.stop()
            await server.stop()

    async def _announced(self) -> Announcement | None:
        host, port = self.listener.getsockname()[:2]
        try:
            announcement = Announcement(host, port)
            await announcement.start()
        except Exception as error:  # socket errors, and the package's own
            log("the Wyoming server is not announced", logging.WARNING, cause=str(error) or type(error).__name__)
            return None
        return announcement
