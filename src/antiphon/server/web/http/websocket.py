"""`BoundedWebSocket`: a WebSocket by uvicorn and `websockets`, counted among the server's connections.

`BoundedProtocol` reads the handshake within its limits of size and time, then hands the connection over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from uvicorn.config import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame

from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.message_memory import MIN_BYTES_PER_SECOND, MessageLease, MessageMemory

#: Maximum bytes of one message: 15 MiB of sound in base64, and the event around it.
MAX_MESSAGE_BYTES = 21 << 20
#: Maximum frames of one message. Clients send a message in one frame; each has an overhead in memory.
MAX_FRAMES = 4096
#: Seconds within which a ping must be answered; otherwise the connection is closed.
PING_SECONDS = 20.0
#: Seconds after which a connection is aborted if its client reads nothing.
STALL_SECONDS = 40.0
#: Minimum bytes of a message that needs memory shared by all connections.
LARGE_BYTES = 512 << 10
#: Seconds that a message may wait for memory. The client's own pings are not answered meanwhile.
MEMORY_SECONDS = 15.0
MEMORY_POLL_SECONDS = 1.0
POLICY, TOO_BIG, TRY_AGAIN_LATER = 1008, 1009, 1013


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """WebSocket connection. `on_end` is called once, when it is closed.

    While a large message waits for memory, or for the large one before it to be handled, the connection is not read.
    A received large message has the callbacks `release`, which returns its memory, and `handled`.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        memory: MessageMemory,
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._on_end = on_end
        self._memory = memory
        self._leases: set[MessageLease] = set()
        self._lease: MessageLease | None = None  # lease of the arriving message
        self._queued: deque[MessageLease | None] = deque()  # leases of messages in `queue`
        self._frame_bytes = 0  # bytes in `frames`
        self._unhandled: MessageLease | None = None  # lease of the last large message, until it has been handled
        self._is_held = False  # whether a large message waits for `_unhandled`
        self._memory_timer: asyncio.TimerHandle | None = None
        self._memory_deadline = 0.0
        self._stall_timer: asyncio.TimerHandle | None = None
        self._has_received = False  # any data since the last missing pong

    def pause_writing(self) -> None:
        """Abort the connection if the client does not read for long: a transport with data to send never closes."""
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
        """Send a message after the client has read the previous ones; a close message is sent without waiting.

        Raise `ClientDisconnected` if the connection is closed for any reason.
        """
        if message["type"] == "websocket.close":
            self.writable.set()
            self._stop_receiving()
        await self.writable.wait()
        if self.close_sent and self.initial_response is None:  # closed for a missing pong or a malformed frame
            raise ClientDisconnected
        await super().send(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_stall_timer()
        self._stop_receiving()
        for lease in list(self._leases):
            self._release(lease)
        self._on_end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():  # data after a message that was too large
            return
        self._has_received = True
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self._reject_handshake()
        elif not self.close_sent:
            self._count_arrived()

    def keepalive_timeout(self) -> None:
        """Close the connection, unless its pong may be behind an unread or incomplete message."""
        if self._is_waiting or self.read_paused or self._has_received:
            self._has_received = False
            self.pong_timer = self.loop.call_later(PING_SECONDS, self.keepalive_timeout)
        else:
            super().keepalive_timeout()

    # -- memory of large messages -------------------------------------------------------------------------------

    @property
    def _is_waiting(self) -> bool:
        return self._is_held or (self._lease is not None and not self._lease.is_granted)

    def _count_arrived(self) -> None:
        num_bytes = len(self.conn.reader.buffer) + self._frame_bytes
        if self._lease is None and num_bytes > LARGE_BYTES:
            self._is_held = self._unhandled is not None
            if not self._is_held:
                self._ask_for_memory()
        if self._lease is not None:
            self._lease.num_arrived = num_bytes
        if self._is_waiting:
            self.transport.pause_reading()

    def _ask_for_memory(self) -> None:
        self._lease = self._memory.ask(MAX_MESSAGE_BYTES, self._stop_waiting, self._close_slow)
        self._leases.add(self._lease)
        if not self._lease.is_granted:
            self._memory_deadline = self.loop.time() + MEMORY_SECONDS
            self._memory_timer = self.loop.call_later(MEMORY_POLL_SECONDS, self._poll_memory)

    def _handled(self, lease: MessageLease) -> None:
        self._release(lease)
        if self._unhandled is lease:
            self._unhandled = None
            if self._is_held:
                self._is_held = False
                self._ask_for_memory()
                if not self._is_waiting:
                    self._stop_waiting()

    def _poll_memory(self) -> None:
        assert self._lease is not None
        self._memory_timer = self.loop.call_later(MEMORY_POLL_SECONDS, self._poll_memory)
        self._memory.revoke_slow()
        if not self._lease.is_granted and self.loop.time() >= self._memory_deadline:
            held, most = self._memory.num_bytes >> 20, self._memory.max_bytes >> 20
            self._fail(TRY_AGAIN_LATER, f"large messages of others take {held} of {most} MiB; send it again later")

    def _stop_waiting(self) -> None:
        """Resume reading; called when memory is granted."""
        if self._memory_timer is not None:
            self._memory_timer.cancel()
            self._memory_timer = None
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _stop_receiving(self) -> None:
        """Discard the message that is arriving, and its memory."""
        was_waiting, self._is_held = self._is_waiting, False
        lease, self._lease = self._lease, None
        if lease is not None:
            self._release(lease)
        if was_waiting:
            self._stop_waiting()

    def _release(self, lease: MessageLease) -> None:
        self._leases.discard(lease)
        lease.release()

    def _close_slow(self) -> None:
        rate = MIN_BYTES_PER_SECOND >> 10
        self._fail(POLICY, f"a large message came at less than {rate} KiB/s while others waited for memory")

    def _fail(self, code: int, reason: str) -> None:
        self._stop_receiving()
        self.conn.fail(code, reason)
        self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        lease, self._lease = self._lease, None
        num_bytes = sum(map(len, self.frames))
        num_queued = self.queue.qsize()
        self._frame_bytes = 0
        super().send_receive_event_to_app()
        is_queued = self.queue.qsize() > num_queued
        if is_queued:
            self._queued.append(lease)
        if lease is None:
            return
        if is_queued:
            self._unhandled = lease
            lease.complete(num_bytes)
        else:
            self._release(lease)

    async def receive(self) -> Any:
        message: Any = await super().receive()
        if self._is_waiting:  # the base class resumes reading when its queue is empty
            self.transport.pause_reading()
        if message["type"] == "websocket.receive" and (lease := self._queued.popleft()) is not None:
            message["release"] = partial(self._release, lease)
            message["handled"] = partial(self._handled, lease)
        return message

    # -- frames -------------------------------------------------------------------------------------------------

    def _reject_handshake(self) -> None:
        """Answer 431 to headers that the library rejects: a line is too long, or there are too many."""
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
        self._frame_bytes += len(event.data)
        super().handle_cont(event)

    def handle_text(self, event: Frame) -> None:
        self._frame_bytes = len(event.data)
        super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        self._frame_bytes = len(event.data)
        super().handle_bytes(event)
