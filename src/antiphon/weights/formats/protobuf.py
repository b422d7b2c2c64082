"""The wire format of Protocol Buffers, read only, with every length checked before use.

Hand-written: generated parsers copy every field; these are checked views of an untrusted file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
MAX_VARINT_BYTES = 10


class ProtobufError(ValueError):
    """Bytes that are not a Protocol Buffers message; the message has the offset."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message: `value` for the scalar wire types, else the span `start` to `end` of the buffer."""

    number: int
    wire_type: int
    value: int
    start: int
    end: int


class ProtobufMessage:
    """A message in a buffer from `start` to `end`; nothing is copied until it is read."""

    __slots__ = ("buffer", "end", "start")

    def __init__(self, buffer: bytes | mmap, start: int = 0, end: int | None = None) -> None:
        self.buffer = buffer
        self.start = start
        self.end = len(buffer) if end is None else end

    def fields(self) -> Iterator[Field]:
        """Yield every field in order; raise `ProtobufError` at the first malformed one."""
        at = self.start
        while at < self.end:
            begun = at
            key, at = self._varint(at)
            number, wire_type = key >> 3, key & 7
            if not 0 < number < 1 << 29:
                raise ProtobufError(f"field number {number} at byte {begun}")
            if wire_type == VARINT:
                value, at = self._varint(at)
                yield Field(number, wire_type, value, at, at)
                continue
            if wire_type == LENGTH:
                length, at = self._varint(at)
            elif wire_type in (FIXED32, FIXED64):
                length = 4 if wire_type == FIXED32 else 8
            else:
                raise ProtobufError(f"wire type {wire_type} of field {number} at byte {begun}")
            if length > self.end - at:
                raise ProtobufError(f"field {number} at byte {begun} has {length} bytes, {self.end - at} are left")
            value = 0 if wire_type == LENGTH else int.from_bytes(self.buffer[at : at + length], "little")
            yield Field(number, wire_type, value, at, at + length)
            at += length

    def _varint(self, at: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
            if at >= self.end:
                raise ProtobufError(f"a number that begins before byte {at} is cut off")
            byte = self.buffer[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (1 << 64) - 1, at
        raise ProtobufError(f"a number of more than {MAX_VARINT_BYTES} bytes at byte {at}")

    # -- values of fields ---------------------------------------------------------------------------------------

    def message(self, field: Field) -> ProtobufMessage:
        if field.wire_type != LENGTH:
            raise ProtobufError(f"field {field.number} before byte {field.end} is not a message")
        return ProtobufMessage(self.buffer, field.start, field.end)

    def text(self, field: Field, limit: int) -> str:
        """Read a string; reject one of more than `limit` bytes."""
        if field.wire_type != LENGTH or field.end - field.start > limit:
            raise ProtobufError(f"field {field.number} before byte {field.end} is no string of at most {limit} bytes")
        try:
            return bytes(self.buffer[field.start : field.end]).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ProtobufError(f"field {field.number} before byte {field.end} is not UTF-8") from error

    def integers(self, field: Field, limit: int) -> list[int]:
        """Read the signed 64-bit numbers of a repeated field, packed or single; reject more than `limit`."""
        if field.wire_type == VARINT:
            return [_signed(field.value)]
        if field.wire_type != LENGTH or field.end - field.start > limit * MAX_VARINT_BYTES:
            raise ProtobufError(f"field {field.number} before byte {field.end} is no list of at most {limit} numbers")
        packed, values, at = ProtobufMessage(self.buffer, field.start, field.end), [], field.start
        while at < field.end:
            value, at = packed._varint(at)
            values.append(_signed(value))
            if len(values) > limit:
                raise ProtobufError(f"field {field.number} before byte {field.end} has more than {limit} numbers")
        return values

    def array(self, field: Field, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Read the fixed-size numbers of a repeated field, packed or single, into a new array."""
        if field.wire_type == VARINT or (field.end - field.start) % dtype.itemsize:
            raise ProtobufError(f"field {field.number} before byte {field.end} is no array of {dtype}")
        return np.frombuffer(bytes(self.buffer[field.start : field.end]), dtype)

    @staticmethod
    def number(field: Field) -> float:
        """Read a single-precision number."""
        if field.wire_type != FIXED32:
            raise ProtobufError(f"field {field.number} before byte {field.end} is no single-precision number")
        value: float = struct.unpack("<f", field.value.to_bytes(4, "little"))[0]
        return value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
