"""Requests as bytes and responses parsed from bytes, since clients of a soak also send what no library would."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import orjson

JSON = "application/json"


@dataclass(frozen=True)
class Response:
    """HTTP response. `status` is 0 if the connection was closed without a response."""

    status: int
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


def request_bytes(path: str, body: bytes, key: str, kind: str = JSON, **headers: str) -> bytes:
    """Build a request with `connection: close`. `headers` replace the default ones; _ in their names stands for -."""
    fields = {"host": "localhost", "authorization": f"Bearer {key}", "content-type": kind, "connection": "close"}
    fields |= {"content-length": str(len(body))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def form_bytes(fields: dict[str, str], file: bytes, boundary: str = "the-boundary") -> tuple[bytes, str]:
    """Build a multipart form with a file; return it with its content type."""
    parts = [f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
             for name, value in fields.items()]  # fmt: skip
    head = "".join(parts) + f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    return head.encode() + file + f"\r\n--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def parsed(data: bytes) -> Response:
    """Parse the response read until the connection's end; raise if it is incomplete."""
    if not data:
        return Response(0, b"")
    head, _, rest = data.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    if b"transfer-encoding: chunked" in head.lower():
        rest = dechunked(rest)
    return Response(status, rest)


def dechunked(rest: bytes) -> bytes:
    parts = []
    while True:
        size, found, rest = rest.partition(b"\r\n")
        assert found, "the answer was cut off"
        count = int(size, 16)
        if not count:
            return b"".join(parts)
        parts.append(rest[:count])
        assert rest[count : count + 2] == b"\r\n", "the answer was cut off"
        rest = rest[count + 2 :]


def events(body: bytes) -> list[Any]:
    """Return the server-sent events of a body, with None for the end marker."""
    lines = [line for line in body.split(b"\n") if line.startswith(b"data: ")]
    return [None if line == b"data: [DONE]" else orjson.loads(line.removeprefix(b"data: ")) for line in lines]


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
