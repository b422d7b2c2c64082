"""`WyomingServer`: the server for Wyoming clients, beside the HTTP server and with the same models."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field

from antiphon.server.apis.wyoming.connection import LinkLimits, WyomingConnection
from antiphon.server.apis.wyoming.metrics import WyomingMetrics
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.connection_limits import Connections
from antiphon.server.web.http.errors import unavailable
from antiphon.server.web.http.listener import address
from antiphon.server.web.telemetry.logs import log


@dataclass(frozen=True)
class WyomingLimits:
    """Limits of a server. Beyond `connections`, a new client gets the idlest slot, or is refused if no slot is idle."""

    connections: int = 64
    link: LinkLimits = field(default_factory=LinkLimits)


class WyomingServer:
    """Server whose requests belong to `serving`: they are waited for, listed and cancelled like those over HTTP."""

    def __init__(self, serving: Serving, listener: socket.socket, limits: WyomingLimits | None = None) -> None:
        idle = LinkLimits(idle_seconds=serving.config.connections.idle_seconds)
        self._serving = serving
        self._listener = listener
        self._limits = limits or WyomingLimits(link=idle)
        self._metrics = WyomingMetrics(serving.metrics.registry)
        self._slots = Connections(self._limits.connections)
        self._connections: set[asyncio.Task[None]] = set()  # including those being closed
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return address(self._listener, "tcp")

    async def start(self) -> None:
        line = self._limits.link.frames.line_bytes
        self._server = await asyncio.start_server(self._accept, sock=self._listener, limit=line)
        log("listening for Wyoming", address=self.url)

    async def stop(self) -> None:
        """Close every connection, and cancel the requests that still run."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        most = self._limits.connections
        if len(self._connections) >= 2 * most:  # a flood: half of the connections are already being closed
            writer.transport.abort()
            return
        connection = WyomingConnection(self._serving, self._metrics, self._limits.link, reader, writer, self._slots)
        if self._slots.open(connection):
            work = connection.run()
        else:
            refusal = unavailable(f"{most} clients are connected already and have requests", "too_many_connections")
            work = connection.refuse(refusal)
        task = asyncio.create_task(work)
        self._connections.add(task)
        self._metrics.connections.set(len(self._connections))
        task.add_done_callback(lambda task: self._ended(task, connection))

    def _ended(self, task: asyncio.Task[None], connection: WyomingConnection) -> None:
        self._slots.close(connection)
        self._connections.discard(task)
        self._metrics.connections.set(len(self._connections))
