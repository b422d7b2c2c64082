"""Small HTTP/1.1 client for streams: bytes are passed on as they arrive, with their arrival time.

General clients spend tens of microseconds on every piece of a stream, too much for a load tool with hundreds of
streams.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Protocol, cast
from urllib.parse import urlsplit

import httptools

from antiphon.errors import AntiphonError, InvalidRequestError

MAX_HEAD_BYTES = 65536


class TransferError(AntiphonError):
    """Failure of a connection; `kind` is connect, disconnected, timeout or invalid_response."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Receiver(Protocol):
    """Receiver of an answer's status and body."""

    def head(self, status: int) -> None: ...

    def body(self, data: bytes, now: float) -> None:
        """Take a part of the body that arrived at `now`, in seconds of `time.perf_counter`."""


class _Connection(asyncio.Protocol):
    """Connection for an exchange at a time. httptools parses the answer and calls the `on_` methods."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._done: asyncio.Future[None] | None = None
        self._keeps_alive = True
        self.has_answered = False  # a byte of the current answer has arrived
        self.is_open = True
        self._begin()

    def _begin(self) -> None:
        """Reset the state for a new answer."""
        self._parser = httptools.HttpResponseParser(self)
        self._head_bytes = 0
        self._status = 0  # 0 until the head is complete; interim answers are skipped
        self._is_head_reported = False
        self._has_length = False  # False: the body ends with the connection
        self._is_complete = False
        self._pieces: list[bytes] = []  # parts of the body among the bytes being parsed
        self.has_answered = False

    # -- for the client -----------------------------------------------------------------------------------------

    async def exchange(self, request: bytes, receiver: Receiver) -> None:
        """Send a request and read its answer to the end."""
        assert self._transport is not None
        self._begin()
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
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport has the same interface

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._done is None or self._done.done():
            return
        if error is None and self._status and not self._has_length:
            self._done.set_result(None)
        else:
            cause = f": {error}" if error is not None else " before the answer's end"
            self._done.set_exception(TransferError("disconnected", f"the connection was closed{cause}"))

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if self._done is None or self._done.done():
            self._keeps_alive = False  # bytes outside any request
            return
        self.has_answered = True
        try:
            self._read(data, now)
        except TransferError as error:
            self._fail(error)
        except httptools.HttpParserError as error:
            self._fail(TransferError("invalid_response", f"the answer is not valid HTTP/1: {error}"))
        except Exception as error:
            self._fail(TransferError("invalid_response", f"{type(error).__name__}: {error}"))

    def _read(self, data: bytes, now: float) -> None:
        """Parse the bytes, then pass on their part of the body in a single call."""
        assert self._receiver is not None and self._done is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if not self._is_complete:
                raise
            self._keeps_alive = False  # other bytes follow the answer
        if not self._status:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                raise TransferError("invalid_response", f"the answer's head is longer than {MAX_HEAD_BYTES:,} bytes")
            return
        if not self._is_head_reported:
            self._is_head_reported = True
            self._receiver.head(self._status)
        if self._pieces:
            body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces.clear()
            self._receiver.body(body, now)
        if self._is_complete:
            self._done.set_result(None)

    def _fail(self, error: TransferError) -> None:
        self._keeps_alive = False
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)

    # -- for the parser -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_complete:
            raise ValueError("a second answer follows the first")
        self._has_length = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._has_length = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self._status = status
            self._has_length = self._has_length or status in (204, 304)

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self._status:
            self._is_complete = True
            self._keeps_alive = self._parser.should_keep_alive()


class HttpClient:
    """Client of a server that keeps and reuses connections, each for an exchange at a time."""

    def __init__(self, base_url: str, api_key: str | None = None, timeout: float = 600.0) -> None:
        """Parse the base URL, which may end in `/v1`; paths are given without it."""
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
        """Exchange a request and its answer; raise `TransferError` on failure.

        A kept connection that the server has closed meanwhile is replaced.
        """
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


class CollectedAnswer:
    """Receiver that keeps the whole answer."""

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
