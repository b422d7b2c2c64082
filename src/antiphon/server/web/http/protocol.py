"""`BoundedProtocol`: HTTP/1.1 by uvicorn and httptools, with limits on the size and speed of a connection's data.

uvicorn itself accepts headers of any size for any time. It also closes a connection at once while a body is still
arriving, so that the client sees a reset instead of the response.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Any

import httptools
import orjson
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from antiphon.server.web.http.connection_limits import ConnectionLimits, Connections
from antiphon.server.web.http.errors import SERVER, ApiError

MAX_HEADER_LINES = 256
#: Maximum requests that one connection may send before the first of them is answered.
MAX_PIPELINED = 16
#: Seconds over which a body's rate is measured.
RATE_SECONDS = 20.0
#: Maximum bytes of chunk sizes and line ends per byte of content; chunks of a single byte have five.
FRAMING_PER_BYTE = 8
#: Maximum connections beyond the limit that get a 503; further ones are closed without a response.
MAX_REFUSALS = 64
#: Limits for reading and discarding the rest of a body after a response, so that the client can read the response.
LINGER_SECONDS = 30.0
LINGER_SILENCE_SECONDS = 5.0
LINGER_BYTES = 128 << 20


class BoundedProtocol(HttpToolsProtocol):
    """Connection of one client: idle, receiving headers or a body, waiting for a response, or lingering."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ConnectionLimits,
        open_connections: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        if config.ws_protocol_class is not None:
            on_end = partial(open_connections.close, self)
            made: Any = partial(config.ws_protocol_class, on_end=on_end)  # type: ignore[call-arg]
            self.ws_protocol_class = made
        self._limits = limits
        self.timeout_keep_alive = limits.idle_seconds
        self._open_connections = open_connections
        #: Requests whose response is not complete, oldest first.
        self._unanswered: deque[RequestResponseCycle] = deque()
        self._head_timer: asyncio.TimerHandle | None = None
        self._rate_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._line_bytes = 0  # bytes of the request line and the headers so far
        self._head_bytes = 0  # bytes since the end of the last request, without the content of its body
        self._body_bytes = 0  # content bytes of the arriving body
        self._rate_mark = 0
        self._was_paused = False
        self._in_body = False
        self._has_completed = False  # whether a request ended in the data being parsed
        self._refusal: ApiError | None = None
        self._is_dropping = False  # data is discarded without parsing
        self._must_close = False
        self._linger_until = 0.0
        self._num_dropped = 0

    # -- the connection -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._open_connections.open(self):
            self.timeout_keep_alive_task = self.loop.call_later(self._limits.idle_seconds, self.evict)
            return
        if len(self._open_connections) > self._limits.connections + MAX_REFUSALS:
            self.transport.abort()
            return
        message = f"the server has {self._limits.connections:,} connections, which is its limit"
        retry = {"retry-after": "1"}
        self._refuse(ApiError(503, message, code="too_many_connections", kind=SERVER, headers=retry))

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_connections.close(self)
        self._unset_keepalive_if_required()
        for timer in (self._head_timer, self._rate_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        for cycle in self._unanswered:  # the base class only knows the last one
            cycle.disconnected = True
            cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def evict(self) -> None:
        """Close the connection while it is idle."""
        self.transport.close()

    # -- what arrives -------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._linger_timer is not None and self._lingers_too_long(len(data)):
            self.transport.close()
            return
        if self._is_dropping:
            return
        if self._head_timer is None and not self._in_body and not self._unanswered:
            self._start_head()
        self._has_completed = False
        body_bytes = self._body_bytes
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
                return
            if self._unanswered:  # unsupported: answer the last request as a plain one
                self._unanswered[-1].keep_alive = False
            self._is_dropping = True
            return
        except httptools.HttpParserError:
            self._refuse(self._refusal or ApiError(400, "this is not valid HTTP/1.1", code="invalid_http"))
            return
        if not self._has_completed:
            self._head_bytes += len(data) - (self._body_bytes - body_bytes)
            if self._head_bytes > self._limits.header_bytes + FRAMING_PER_BYTE * self._body_bytes:
                self._refuse(self._headers_too_large())

    def _start_head(self) -> None:
        limit = self._limits.header_seconds
        message = f"the headers did not arrive within {limit:g} s"
        self._head_timer = self.loop.call_later(limit, self._refuse, ApiError(408, message, code="request_timeout"))

    def _stop_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _headers_too_large(self) -> ApiError:
        message = f"the headers have more than {self._limits.header_bytes:,} bytes or {MAX_HEADER_LINES} lines"
        return ApiError(431, message, code="headers_too_large", headers={"connection": "close"})

    # -- what the parser finds ----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._head_timer is None:
            self._start_head()
        self._line_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count_line(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:  # a trailer must not be taken for a header
            return
        self._count_line(len(name) + len(value) + 4)
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADER_LINES:
            self._reject(self._headers_too_large())

    def _count_line(self, size: int) -> None:
        self._line_bytes += size
        if self._line_bytes > self._limits.header_bytes:
            self._reject(self._headers_too_large())

    def _reject(self, error: ApiError) -> None:
        """Stop the parser and keep the error as the response."""
        self._refusal = error
        raise error

    def on_headers_complete(self) -> None:
        if len(self._unanswered) >= MAX_PIPELINED:
            message = f"more than {MAX_PIPELINED} requests were sent before the first was answered"
            self._reject(ApiError(429, message, code="too_many_requests"))
        self._stop_head()
        super().on_headers_complete()
        self._open_connections.work(self)
        if self.parser.should_upgrade() and self._should_upgrade():
            return
        self._unanswered.append(self.cycle)
        self.cycle.transport = _ResponseTransport(self)  # type: ignore[assignment]
        self._in_body = True
        self._rate_mark = 0
        if self._limits.body_rate:
            self._rate_timer = self.loop.call_later(RATE_SECONDS, self._check_rate)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)
        self._was_paused = self._was_paused or self.flow.read_paused

    def on_message_complete(self) -> None:
        self._in_body = False
        self._has_completed = True
        self._head_bytes = self._body_bytes = 0
        if self.parser.should_upgrade() and self._should_upgrade():
            return
        if self._rate_timer is not None:
            self._rate_timer.cancel()
            self._rate_timer = None
        self.cycle.more_body = False
        super().on_message_complete()
        if self._linger_timer is not None:
            self._stop_lingering()

    def _check_rate(self) -> None:
        """Refuse a body that arrives too slowly, unless this server did not read it."""
        arrived = self._body_bytes - self._rate_mark
        if arrived < self._limits.body_rate * RATE_SECONDS and not self._was_paused and not self.flow.read_paused:
            message = f"the body arrived at less than {self._limits.body_rate:g} bytes per second"
            self._refuse(ApiError(408, message, code="request_timeout"))
            return
        self._rate_mark, self._was_paused = self._body_bytes, False
        self._rate_timer = self.loop.call_later(RATE_SECONDS, self._check_rate)

    # -- the end of a request -----------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        cycle = self._unanswered.popleft()
        if self._must_close:
            self.server_state.total_requests += 1
            self.pipeline.clear()
            return
        if not self._unanswered:
            self._open_connections.wait(self)
        super().on_response_complete()
        if cycle.more_body and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._linger()

    def close_after_response(self) -> None:
        """Close the connection once the client has had time to read the response."""
        self._must_close = True
        if self.transport.is_closing():
            return
        if self._in_body or self._is_dropping:
            self._linger()
            if self.transport.can_write_eof():
                self.transport.write_eof()
        else:
            self.transport.close()

    def _refuse(self, error: ApiError) -> None:
        """Send an error and stop reading. A response in progress is cut off."""
        self._is_dropping = True
        self._stop_head()
        if self.transport.is_closing() or any(cycle.response_started for cycle in self._unanswered):
            self.transport.close()
            return
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.write(_raw_response(error, self.server_state.default_headers))
        self.close_after_response()

    def _linger(self) -> None:
        if self._rate_timer is not None:
            self._rate_timer.cancel()
            self._rate_timer = None
        if self._linger_timer is None:
            self._linger_until = self.loop.time() + LINGER_SECONDS
            self._num_dropped = 0
            self._linger_timer = self.loop.call_later(LINGER_SILENCE_SECONDS, self.transport.close)
            self.flow.resume_reading()

    def _lingers_too_long(self, num_bytes: int) -> bool:
        assert self._linger_timer is not None
        self._num_dropped += num_bytes
        self._linger_timer.cancel()
        seconds = min(LINGER_SILENCE_SECONDS, self._linger_until - self.loop.time())
        self._linger_timer = self.loop.call_later(max(seconds, 0), self.transport.close)
        return seconds <= 0 or self._num_dropped > LINGER_BYTES

    def _stop_lingering(self) -> None:
        """Stop discarding the complete body. The connection may serve another request, unless its response ended it."""
        assert self._linger_timer is not None
        self._linger_timer.cancel()
        self._linger_timer = None
        if self._must_close:
            self.transport.close()
        elif not self._unanswered:
            self.timeout_keep_alive_task = self.loop.call_later(self._limits.idle_seconds, self.evict)

    def _should_upgrade(self) -> bool:
        """Return whether to start a WebSocket: not while a response is in progress, and not with a body."""
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)
        is_plain = self.scope["method"] == "GET" and not has_body and not self._unanswered
        return is_plain and super()._should_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Suppress the base class's advice to install a library."""


class _ResponseTransport:
    def __init__(self, protocol: BoundedProtocol) -> None:
        self._protocol = protocol
        self.write = protocol.transport.write

    def is_closing(self) -> bool:
        return self._protocol.transport.is_closing()

    def close(self) -> None:
        self._protocol.close_after_response()


def _raw_response(error: ApiError, default_headers: list[tuple[bytes, bytes]]) -> bytes:
    body = orjson.dumps(error.body())
    headers = {"content-type": "application/json", "content-length": str(len(body)), **error.headers}
    own = [(name.encode(), value.encode()) for name, value in {**headers, "connection": "close"}.items()]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in [*default_headers, *own])
    return STATUS_LINE[error.status] + lines + b"\r\n" + body
