"""Small HTTP client for OpenAI-compatible servers on the standard library, which imports in milliseconds.

Every failure is a `ServerError` whose message names the server and a remedy.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from antiphon import __version__
from antiphon.cli.remote.address import ServerAddress
from antiphon.errors import AntiphonError

CONNECT_SECONDS = 10.0
#: Read timeout in seconds; longer than a server's own limit for a request.
SILENCE_SECONDS = 900.0
MAX_ERROR_BYTES = 1 << 16
PIECE_BYTES = 1 << 16


class ServerError(AntiphonError):
    """Error for an unreachable server, a rejected request or a broken connection.

    `status` is 0 without an answer; `code` is the server's code of the error, if it gave one.
    """

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class UnreachableError(ServerError):
    """Error for a server to which no connection could be opened, so that nothing was sent."""


class Client:
    """Client of a server that opens a connection per request. Safe to use from several threads.

    `seconds` limits both connecting and each read; by default the limits are CONNECT_SECONDS and SILENCE_SECONDS.
    """

    def __init__(self, address: ServerAddress, seconds: float | None = None) -> None:
        self.address = address
        self._connect_seconds = seconds or CONNECT_SECONDS
        self._silence_seconds = seconds or SILENCE_SECONDS
        self._sockets: set[socket.socket] = set()
        self._is_closed = False

    def close(self) -> None:
        """Cut off running requests and reject new ones."""
        self._is_closed = True
        for open_socket in list(self._sockets):
            _shut_down(open_socket)

    def get(self, path: str) -> ServerResponse:
        return self._exchange("GET", path, None, {})

    def post(self, path: str, body: Mapping[str, Any]) -> ServerResponse:
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return self._exchange("POST", path, data, {"Content-Type": "application/json"})

    def send(self, path: str, content: Iterable[bytes], size: int, content_type: str) -> ServerResponse:
        """Send a POST request whose body of `size` bytes comes in pieces."""
        headers = {"Content-Type": content_type, "Content-Length": str(size)}
        return self._exchange("POST", path, content, headers)

    def _exchange(
        self, method: str, path: str, body: bytes | Iterable[bytes] | None, headers: dict[str, str]
    ) -> ServerResponse:
        """Return the answer with its body unread; raise ServerError unless its status is a success."""
        connection = self._connect()
        raw = connection.sock
        assert raw is not None
        try:
            # A server may answer before it has read the whole body.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, self.address.prefix + path, body, headers | self._headers())
            answer = connection.getresponse()
        except BaseException as error:  # including Ctrl-C while waiting for the answer
            self._sockets.discard(raw)
            connection.close()
            if isinstance(error, OSError | http.client.HTTPException | ValueError):
                raise self._broken(error) from error
            raise
        response = ServerResponse(self.address, connection, raw, answer, lambda: self._sockets.discard(raw))
        if not 200 <= answer.status < 300:
            with response:
                raise self._rejection(method, path, answer, response.head(MAX_ERROR_BYTES))
        return response

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "*/*", "Connection": "close", "User-Agent": f"antiphon/{__version__}"}
        if self.address.api_key is not None:
            headers["Authorization"] = f"Bearer {self.address.api_key}"
        return headers

    def _connect(self) -> http.client.HTTPConnection:
        address = self.address
        connection: http.client.HTTPConnection
        if address.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                address.host, address.port, timeout=self._connect_seconds, context=context
            )
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=self._connect_seconds)
        try:
            connection.connect()
        except OSError as error:
            raise connection_error(address, error) from error
        assert connection.sock is not None
        connection.sock.settimeout(self._silence_seconds)
        self._sockets.add(connection.sock)
        if self._is_closed:  # closed while connecting
            connection.close()
            raise ServerError(f"the request to {address.url} was cancelled")
        return connection

    def _broken(self, error: Exception) -> ServerError:
        url = self.address.url
        if isinstance(error, TimeoutError):
            return ServerError(f"{url} did not answer within {self._silence_seconds:g} s; try again later")
        if isinstance(error, http.client.RemoteDisconnected | ConnectionError):
            return ServerError(f"{url} closed the connection without an answer; see the server's log, or try again")
        if isinstance(error, http.client.HTTPException):
            return ServerError(f"{url} does not answer as an HTTP server; {_https_hint(self.address)}")
        return ServerError(f"the connection to {url} failed: {error}; try again")

    def _rejection(self, method: str, path: str, answer: http.client.HTTPResponse, body: bytes) -> ServerError:
        url, status, message = self.address.url, answer.status, error_message(body)
        if 300 <= status < 400:
            target = answer.getheader("location") or "another address"
            return ServerError(f"{url} redirects to {target[:200]}; give that server as --base-url", status)
        if message is None and status in (404, 405):
            return ServerError(
                f"{url} has no {method} {path} (status {status}): "
                "it is not an OpenAI-compatible API, or lacks this route",
                status,
            )
        told = message or f"status {status} {answer.reason}".rstrip()
        code = error_field(body, "code") or ""
        return ServerError(f"{url}: {told}{advice(status, path, answer.getheader('retry-after'))}", status, code)


def connection_error(address: ServerAddress, error: OSError) -> UnreachableError:
    """Build an error with the reason why a server cannot be reached, and a remedy."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return UnreachableError(
            f"the certificate of {address.url} is not trusted: {error.verify_message}; "
            "name the file of its authority in SSL_CERT_FILE"
        )
    if isinstance(error, ssl.SSLError):
        return UnreachableError(
            f"{address.url} does not answer over TLS ({error.reason}); if it serves plain HTTP, write http://"
        )
    if isinstance(error, TimeoutError):
        return UnreachableError(
            f"cannot connect to {address.url}: no answer within {CONNECT_SECONDS:g} s; check the address"
        )
    hint = "check the address, or start a server with `antiphon serve`"
    return UnreachableError(f"cannot connect to {address.url}: {error.strerror or error}; {hint}")


def _shut_down(open_socket: socket.socket) -> None:
    """End all reads from the socket."""
    with contextlib.suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)


def _https_hint(address: ServerAddress) -> str:
    return "check the address" + ("; if it serves HTTPS, write https://" if address.scheme == "http" else "")


def advice(status: int, path: str, after: str | None) -> str:
    """Return a remedy for an error status, to append to its message."""
    again = f"; try again in {after} s" if after is not None and after.isdecimal() else "; try again later"
    match status:
        case 401 if path.startswith("/admin"):
            return "; give an admin key with --admin-key-file or ANTIPHON_ADMIN_KEY"
        case 401:
            return "; give a key with --api-key-file or ANTIPHON_API_KEY"
        case 429 | 503:
            return again
        case 413:
            return "; send less at once"
        case 502 | 504:
            return "; see the server's log, or try again"
    return ""


def error_message(body: bytes) -> str | None:
    """Return the message of an error's body in any of the servers' formats, or None for another body."""
    return error_field(body, "message") or error_field(body, "detail")


def error_field(body: bytes, name: str) -> str | None:
    """Return a text of an error's body, or None; an error that is a text is its own message."""
    try:
        content = json.loads(body)
    except ValueError:
        return None
    error = content.get("error", content) if isinstance(content, dict) else None
    text = error.get(name) if isinstance(error, dict) else error if name == "message" else None
    return text if isinstance(text, str) and text else None


class ServerResponse:
    """Answer whose body is read as it arrives. Closing it ends the connection, which cancels the request."""

    def __init__(
        self,
        address: ServerAddress,
        connection: http.client.HTTPConnection,
        raw: socket.socket,
        answer: http.client.HTTPResponse,
        on_close: Callable[[], None],
    ) -> None:
        self._address = address
        self._connection = connection
        self._socket = raw
        self._answer = answer
        self._on_close = on_close
        self._size = answer.length  # None for a body without a known length
        self._num_read = 0
        self.is_closed = False

    @property
    def content_type(self) -> str:
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def header(self, name: str) -> str | None:
        return self._answer.getheader(name)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the body in pieces as they arrive.

        Raise ServerError if the connection breaks before the end or `close`.
        """
        while data := self._read():
            self._num_read += len(data)
            yield data
        left = 0 if self._size is None else self._size - self._num_read
        if left and not self.is_closed:
            url = self._address.url
            raise ServerError(f"{url} closed the connection {left:,} bytes before the answer's end; try again")

    def _read(self) -> bytes:
        try:
            return b"" if self.is_closed or self._num_read == self._size else self._answer.read1(PIECE_BYTES)
        except (OSError, ValueError, http.client.HTTPException) as error:
            if self.is_closed:
                return b""
            url = self._address.url
            if isinstance(error, TimeoutError):
                raise ServerError(f"{url} sent nothing for {SILENCE_SECONDS:g} s; the answer is incomplete") from error
            raise ServerError(f"{url} closed the connection before the answer was complete; try again") from error

    def read(self) -> bytes:
        return b"".join(self)

    def head(self, limit: int) -> bytes:
        """Return up to `limit` bytes of the body, or fewer if the connection breaks."""
        data = b""
        with contextlib.suppress(ServerError):
            for piece in self:
                data += piece
                if len(data) >= limit:
                    break
        return data[:limit]

    def json(self) -> Any:
        try:
            return json.loads(self.read())
        except ValueError:
            kind = self.content_type or "of no type"
            raise ServerError(
                f"{self._address.url} answered with content that is not JSON ({kind}): "
                "it is not an OpenAI-compatible API"
            ) from None

    def abort(self) -> None:
        """End the connection, and with it an iteration in another thread."""
        self.is_closed = True
        _shut_down(self._socket)

    def close(self) -> None:
        self.abort()
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # a read interrupted by Ctrl-C holds a lock
            self._answer.close()
        self._connection.close()
        self._on_close()

    def __enter__(self) -> ServerResponse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
