"""Frames: what is written is read again, also by the protocol's own package, and nothing that is sent can do harm."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wyoming.event import Event, async_read_event, async_write_event

from antiphon.server.apis.wyoming.frames import Frame, FrameError, FrameLimits, read_frame

LIMITS = FrameLimits(line_bytes=4096, data_bytes=4096, payload_bytes=8192, seconds=5.0)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
DATA = st.dictionaries(st.text(max_size=8), VALUES, max_size=5)


def stream_of(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=LIMITS.line_bytes)
    reader.feed_data(data)
    reader.feed_eof()
    return reader


def frames_in(data: bytes) -> list[Frame]:
    async def read() -> list[Frame]:
        reader, frames = stream_of(data), []
        while (frame := await read_frame(reader, LIMITS)) is not None:
            frames.append(frame)
        return frames

    return asyncio.run(read())


class Written:
    """What the package writes to."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def writelines(self, pieces: tuple[bytes, ...]) -> None:
        self.data += b"".join(pieces)

    async def drain(self) -> None:
        pass


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["describe", "audio-chunk", "x"]), DATA, st.binary(max_size=100)), max_size=4)
)
def test_both_sides_read_what_the_other_writes(given_frames: list[tuple[str, dict[str, Any], bytes]]) -> None:
    async def exchange() -> tuple[bytes, list[Event]]:
        written = Written()
        for kind, data, payload in given_frames:
            await async_write_event(Event(kind, data, payload), written)  # type: ignore[arg-type]
        reader = stream_of(b"".join(Frame(*frame).encoded() for frame in given_frames))
        return written.data, [event for _ in given_frames if (event := await async_read_event(reader)) is not None]

    theirs, read = asyncio.run(exchange())
    assert [(frame.type, frame.data, frame.payload) for frame in frames_in(theirs)] == given_frames
    assert [(event.type, event.data or {}, event.payload or b"") for event in read] == given_frames


def test_data_after_the_line_is_merged_over_that_in_it() -> None:
    more = b'{"b": 3, "c": 4}'
    line = json.dumps({"type": "t", "data": {"a": 1, "b": 2}, "data_length": len(more), "payload_length": 2})
    (frame,) = frames_in(line.encode() + b"\n" + more + b"xy")
    assert frame == Frame("t", {"a": 1, "b": 3, "c": 4}, b"xy")


@pytest.mark.parametrize(
    ("data", "told", "code"),
    [
        (b"hello\n", "not JSON", "invalid_frame"),
        (b"\n", "not JSON", "invalid_frame"),
        (b"\xff\xfe\n", "not JSON", "invalid_frame"),
        (b"[1]\n", "is a list; it must be an object", "invalid_frame"),
        (b"null\n", "is null; it must be an object", "invalid_frame"),
        (b"{}\n", "needs a type", "invalid_frame"),
        (b'{"type": 5}\n', "needs a type", "invalid_frame"),
        (b'{"type": ""}\n', "needs a type", "invalid_frame"),
        (b'{"type": "' + b"t" * 101 + b'"}\n', "needs a type", "invalid_frame"),
        (b'{"type": "t", "data": [1]}\n', "data of a frame is a list", "invalid_frame"),
        (b'{"type": "t", "data_length": 3}\nabc', "the data of a frame is not JSON", "invalid_frame"),
        (b'{"type": "t", "data_length": 2}\n[]', "the data of a frame is a list", "invalid_frame"),
        (b'{"type": "t", "data_length": -1}\n', "data_length must be a whole number", "invalid_frame"),
        (b'{"type": "t", "data_length": 1.5}\n', "data_length must be a whole number", "invalid_frame"),
        (b'{"type": "t", "payload_length": true}\n', "payload_length must be a whole number", "invalid_frame"),
        (b'{"type": "t", "payload_length": "9"}\n', "payload_length must be a whole number", "invalid_frame"),
        (b'{"type": "t", "payload_length": 8193}\n', "payload_length is 8,193; at most 8,192", "frame_too_large"),
        (b'{"type": "t", "data_length": 99999999999999}\n', "at most 4,096 bytes", "frame_too_large"),
        (b'{"type": "' + b"t" * 5000 + b'"}\n', "longer than 4,096 bytes", "frame_too_large"),
        (b"x" * 10_000, "longer than 4,096 bytes", "frame_too_large"),
        (b'{"type": "t", "data": ' + b"[" * 2000 + b"]" * 2000 + b"}\n", "not JSON", "invalid_frame"),
    ],
)
def test_malformed_frames(data: bytes, told: str, code: str) -> None:
    with pytest.raises(FrameError, match=told) as caught:
        frames_in(data)
    assert caught.value.code == code


def test_a_frame_that_is_cut_short_ends_the_stream() -> None:
    whole = Frame("audio-chunk", {"rate": 16_000}, b"12345678").encoded()
    for end in range(len(whole)):
        assert frames_in(whole[:end]) == []
    assert len(frames_in(whole + whole)) == 2


def test_a_frame_that_does_not_come_to_its_end() -> None:
    async def read() -> None:
        reader = asyncio.StreamReader(limit=LIMITS.line_bytes)
        reader.feed_data(b'{"type": "t", "payload_length": 4}\nab')
        await read_frame(reader, FrameLimits(seconds=0.01))

    with pytest.raises(FrameError, match=r"longer than 0\.01 s") as caught:
        asyncio.run(read())
    assert caught.value.code == "timeout"


GOOD = Frame("audio-chunk", {"rate": 16_000, "width": 2, "channels": 1}, b"\x01\x02" * 50).encoded()


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300) | st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=6))
def test_any_bytes_give_frames_or_an_error(change: bytes | list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    if isinstance(change, bytes):
        data = bytearray(change)
    else:
        for offset, value in change:
            data[offset] = value
    try:
        for frame in frames_in(bytes(data)):
            assert isinstance(frame.data, dict) and len(frame.payload) <= LIMITS.payload_bytes
    except FrameError as error:
        assert error.message and error.code in ("invalid_frame", "frame_too_large")
