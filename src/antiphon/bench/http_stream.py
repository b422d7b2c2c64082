"""A small HTTP/1.1 client for streams: bytes are handed on the moment they arrive, with the time they arrived.

General clients spend tens of microseconds on every piece of a stream; a load tool with hundreds of streams must not.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Protocol, cast
from urllib.parse import urlsplit

from antiphon.errors import AntiphonError, InvalidRequestError

MAX_HEAD_BYTES = 65536


class TransferError(AntiphonError):
    """A connection that failed; `kind` is one of connect, disconnected, timeout, invalid_response."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Receiver(Protocol):
    """Who reads an answer."""

    def head(self, status: int) -> None: ...

    def body(self, data: bytes, now: float) -> None:
        """A part of the body that arrived at `now`, in seconds of `time.perf_counter`."""


class _Connection(asyncio.Protocol):
    """One connection, one exchange at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._done: asyncio.Future[None] | None = None
        self._buffer = b""
        self._read_body: Callable[[bytes, float], None] | None = None  # None while the head is read
        self._left = 0
        self._ends_at_close = False
        self._keeps_alive = True
        self.has_answered = False  # a byte of the present answer has come
        self.is_open = True

    # -- for the client -----------------------------------------------------------------------------------------

    async def exchange(self, request: bytes, receiver: Receiver) -> None:
        """Send and read to the end of the answer."""
        assert self._transport is not None
        self._buffer, self._read_body, self.has_answered = b"", None, False
        if not self.is_open:
            raise TransferError("disconnected", "the server closed the connection")
        self._receiver, self._done = receiver, asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            await self._done
        finally:
            self._receiver = self._done = None

    @property
    def is_reusable(self) -> bool:
        return self.is_open and self._keeps_alive and self._done is None

    def close(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    # -- for the event loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._done is None or self._done.done():
            return
        if self._ends_at_close and self._read_body is not None and error is None:
            self._done.set_result(None)
        else:
            cause = f": {error}" if error is not None else " before the answer's end"
            self._done.set_exception(TransferError("disconnected", f"the connection was closed{cause}"))

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if self._done is None or self._done.done():
            self._keeps_alive = False  # bytes that nobody asked for
            return
        self.has_answered = True
        try:
            if self._read_body is not None:
                self._read_body(data, now)
            else:
                self._read_head(data, now)
        except TransferError as error:
            self._fail(error)
        except Exception as error:
            self._fail(TransferError("invalid_response", f"{type(error).__name__}: {error}"))

    # -- the answer ---------------------------------------------------------------------------------------------

    def _fail(self, error: TransferError) -> None:
        self._keeps_alive = False
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)

    def _end(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def _read_head(self, data: bytes, now: float) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            if len(head) > MAX_HEAD_BYTES:
                raise TransferError("invalid_response", f"the answer's head is longer than {MAX_HEAD_BYTES:,} bytes")
            return
        self._buffer = b""
        first, *lines = head.split(b"\r\n")
        version, _, status = first.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            raise TransferError("invalid_response", f"the server does not speak HTTP/1: {first[:40]!r}")
        code = int(status[:3])
        if code < 200:  # an interim answer: the real one follows
            self._read_head(rest, now)
            return
        headers = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip()
        connection = headers.get(b"connection", b"").lower()
        self._keeps_alive = connection != b"close" and (version != b"HTTP/1.0" or connection == b"keep-alive")
        self._ends_at_close = False
        assert self._receiver is not None
        self._receiver.head(code)
        if headers.get(b"transfer-encoding", b"").lower().endswith(b"chunked"):
            self._read_body = self._read_chunks
        elif b"content-length" in headers or code in (204, 304):
            self._left = int(headers.get(b"content-length", b"0"))
            self._read_body = self._read_counted
        else:
            self._ends_at_close, self._keeps_alive = True, False
            self._read_body = self._receiver.body
        if rest or self._read_body == self._read_counted:
            self._read_body(rest, now)

    def _read_counted(self, data: bytes, now: float) -> None:
        assert self._receiver is not None
        self._left -= len(data)
        if data:
            self._receiver.body(data, now)
        if self._left <= 0:
            self._keeps_alive = self._keeps_alive and self._left == 0
            self._end()

    def _read_chunks(self, data: bytes, now: float) -> None:
        if self._buffer:
            data = self._buffer + data
        pieces = []
        place = 0
        is_last = False
        while (line := data.find(b"\r\n", place)) >= 0:
            size = int(data[place:line].partition(b";")[0], 16)
            end = line + 2 + size
            if len(data) < end + 2:
                break
            if not size:
                is_last = True
                break
            pieces.append(data[line + 2 : end])
            place = end + 2
        self._buffer = data[place:]
        if pieces:
            assert self._receiver is not None
            self._receiver.body(pieces[0] if len(pieces) == 1 else b"".join(pieces), now)
        if is_last:
            self._end()


class HttpClient:
    """Requests to one server. Connections are kept and used again; there are as many as exchanges at a time."""

    def __init__(self, base_url: str, api_key: str | None = None, timeout: float = 600.0) -> None:
        """`base_url` may end in `/v1`; paths are given without it."""
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequestError(f"the base URL is {base_url!r}; it is written as http://host:port")
        try:
            self._port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as error:
            raise InvalidRequestError(f"the base URL is {base_url!r}: {error}") from None
        self._host = parts.hostname
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/").removesuffix("/v1")
        self._timeout = timeout
        name = f"[{self._host}]" if ":" in self._host else self._host
        key = "" if api_key is None else f"Authorization: Bearer {api_key}\r\n"
        self._headers = f"Host: {name}:{self._port}\r\nAccept: */*\r\n{key}Content-Type: application/json\r\n"
        self._idle: list[_Connection] = []
        self.name = f"{name}:{self._port}"

    async def request(self, method: str, path: str, content: bytes, receiver: Receiver) -> None:
        """One exchange; raises `TransferError`. A kept connection that the server had closed is replaced once."""
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._headers}Content-Length: {len(content)}\r\n\r\n"
        data = head.encode() + content
        try:
            async with asyncio.timeout(self._timeout):
                while self._idle:
                    connection = self._idle.pop()
                    if connection.is_reusable and await self._used_again(connection, data, receiver):
                        return
                await self._exchange(await self._connect(), data, receiver)
        except TimeoutError:
            raise TransferError("timeout", f"no whole answer within {self._timeout:g} s") from None

    async def _used_again(self, connection: _Connection, data: bytes, receiver: Receiver) -> bool:
        try:
            await self._exchange(connection, data, receiver)
        except TransferError as error:
            if error.kind == "disconnected" and not connection.has_answered:
                return False
            raise
        return True

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(_Connection, self._host, self._port, ssl=self._ssl)
        except OSError as error:
            raise TransferError("connect", f"cannot connect to {self.name}: {error.strerror or error}") from error
        return connection

    async def _exchange(self, connection: _Connection, data: bytes, receiver: Receiver) -> None:
        try:
            await connection.exchange(data, receiver)
        except BaseException:
            connection.close()
            raise
        if connection.is_reusable:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()


class WholeAnswer:
    """A receiver that keeps everything."""

    def __init__(self) -> None:
        self.status = 0
        self._parts: list[bytes] = []

    def head(self, status: int) -> None:
        self.status = status

    def body(self, data: bytes, now: float) -> None:
        self._parts.append(data)

    @property
    def content(self) -> bytes:
        return b"".join(self._parts)
