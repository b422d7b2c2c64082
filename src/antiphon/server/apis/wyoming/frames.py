"""Frames of the Wyoming protocol: a line of JSON, then further data as JSON, then a payload of bytes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import orjson

#: Version of the protocol.
VERSION = "1.10.2"


@dataclass(frozen=True)
class Frame:
    """An event: its type, its data, and its payload."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""

    def encoded(self) -> bytes:
        """Return the bytes of the frame, with its data after the line."""
        header: dict[str, Any] = {"type": self.type, "version": VERSION}
        data = orjson.dumps(self.data) if self.data else b""
        if data:
            header["data_length"] = len(data)
        if self.payload:
            header["payload_length"] = len(self.payload)
        return b"".join((orjson.dumps(header), b"\n", data, self.payload))


@dataclass(frozen=True)
class FrameLimits:
    """Maximum sizes of a frame's line, data and payload in bytes, and seconds in which a frame must arrive."""

    line_bytes: int = 64 << 10
    data_bytes: int = 1 << 20
    payload_bytes: int = 4 << 20
    type_characters: int = 100
    seconds: float = 30.0


class FrameError(Exception):
    """An unreadable frame, after which nothing more can be read."""

    def __init__(self, message: str, code: str = "invalid_frame") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


async def read_frame(stream: asyncio.StreamReader, limits: FrameLimits) -> Frame | None:
    """Return the next frame, or None if the stream ends, even within a frame.

    The stream's limit must be `line_bytes`. Waits without a limit for the first byte of a frame, but not for the
    others.
    """
    first = await stream.read(1)
    if not first:
        return None
    try:
        async with asyncio.timeout(limits.seconds):
            return await _read_rest(first, stream, limits)
    except TimeoutError:
        raise FrameError(f"a frame took longer than {limits.seconds:g} s to arrive", "timeout") from None
    except asyncio.IncompleteReadError:
        return None


async def _read_rest(first: bytes, stream: asyncio.StreamReader, limits: FrameLimits) -> Frame:
    try:
        line = first if first == b"\n" else first + await stream.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        raise FrameError(f"the line of a frame is longer than {limits.line_bytes:,} bytes", "frame_too_large") from None
    header = _parsed(line, "the line of a frame")
    kind = header.get("type")
    if not isinstance(kind, str) or not 0 < len(kind) <= limits.type_characters:
        raise FrameError(f"a frame needs a type of 1 to {limits.type_characters} characters")
    inline = header.get("data")
    if inline is not None and not isinstance(inline, dict):
        raise FrameError(f"data of a frame is {_kind(inline)}; it must be an object")
    data_length = _length(header, "data_length", limits.data_bytes)
    payload_length = _length(header, "payload_length", limits.payload_bytes)
    data = dict(inline or {})
    if data_length:
        data |= _parsed(await stream.readexactly(data_length), "the data of a frame")
    payload = await stream.readexactly(payload_length) if payload_length else b""
    return Frame(kind, data, payload)


def _parsed(text: bytes, name: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FrameError(f"{name} is not JSON: {error.msg} at position {error.pos}") from None
    if not isinstance(value, dict):
        raise FrameError(f"{name} is {_kind(value)}; it must be an object")
    return value


def _length(header: dict[str, Any], name: str, limit: int) -> int:
    length = header.get(name)
    if length is None:
        return 0
    if type(length) is not int or length < 0:
        raise FrameError(f"{name} must be a whole number of bytes")
    if length > limit:
        raise FrameError(f"{name} is {length:,}; at most {limit:,} bytes are taken", "frame_too_large")
    return length


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")
