"""`BoundedWebSocket`: a WebSocket by uvicorn and `websockets`, counted among the server's connections.

`BoundedProtocol` has read the handshake within its limits of size and time before this takes the connection over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
from uvicorn.config import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame

from antiphon.server.http.errors import ApiError

#: Bytes of one message: 15 MiB of sound in base64, and the event around it.
MAX_MESSAGE_BYTES = 21 << 20
#: Frames of one message. Clients send a message in one frame; each has an overhead in memory.
MAX_FRAMES = 4096
#: A connection that does not answer a ping within this time is closed.
PING_SECONDS = 20.0
#: A connection whose client has read nothing for so long is aborted.
STALL_SECONDS = 40.0
TOO_BIG = 1009


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """`on_end` is called once, when the connection is gone."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._on_end = on_end
        self._stall_timer: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """The client does not read. A transport that has something to send does not close, so it is aborted in time."""
        super().pause_writing()
        if self._stall_timer is None:
            self._stall_timer = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_stall_timer()
        super().resume_writing()

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    async def send(self, message: Any) -> None:
        """Waits until the client has read, except with the end: that is the last thing it reads, if it ever does.

        Raises `ClientDisconnected` if the connection is closed, for whatever reason.
        """
        if message["type"] == "websocket.close":
            self.writable.set()
        await self.writable.wait()
        if self.close_sent and self.initial_response is None:  # closed for a missing pong or a malformed frame
            raise ClientDisconnected
        await super().send(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_stall_timer()
        self._on_end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():  # what follows a message that was too large
            return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self._reject_handshake()

    def _reject_handshake(self) -> None:
        """The library does not take these headers: one line is longer, or there are more, than it reads."""
        error = ApiError(431, f"the handshake was not read: {self.conn.handshake_exc}", code="headers_too_large")
        body = orjson.dumps(error.body())
        head = "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.handshake_initiated = self.handshake_complete = self.close_sent = True
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAMES:
            self.conn.fail(TOO_BIG, f"a message has more than {MAX_FRAMES} frames")
            self.handle_parser_exception()
            return
        super().handle_cont(event)
