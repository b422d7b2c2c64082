"""`BinaryReader`: checked, sequential reads of little-endian numbers and strings from a mapped file.

Hand-written: numbers that do not fit an untrusted file must be rejected with the file and the position.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from torch import Tensor

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.mapped import MappedFile
from antiphon.weights.types import TensorType

#: Tensor types by GGUF's number.
TYPES = {int(type): type for type in TensorType}


class BinaryReader:
    """A read position in a file. Reading past the end raises a `CheckpointError` with the offset and the sizes."""

    def __init__(self, mapped: MappedFile) -> None:
        self.path = mapped.path
        self.size = mapped.size
        self.position = 0
        self._buffer = mapped.buffer
        self._data = mapped.tensor()

    @property
    def left(self) -> int:
        return self.size - self.position

    def reject(self, what: str) -> NoReturn:
        raise CheckpointError(f"{self.path}: {what}")

    def skip(self, count: int, what: str) -> int:
        """Skip the next `count` bytes and return their offset."""
        start = self.position
        if count < 0 or count > self.left:
            self.reject(f"{what} needs {count} bytes at offset {start}, the file ends at {self.size}")
        self.position = start + count
        return start

    def number(self, code: str, what: str) -> int:
        """Read an integer by its `struct` format character."""
        size = struct.calcsize("<" + code)
        value: int = struct.unpack_from("<" + code, self._buffer, self.skip(size, what))[0]
        return value

    def bytes(self, count: int, what: str) -> bytes:
        start = self.skip(count, what)
        return self._buffer[start : self.position]

    def text(self, count: int, what: str) -> str:
        start = self.position
        try:
            return self.bytes(count, what).decode("utf-8")
        except UnicodeDecodeError as error:
            self.reject(f"{what} at offset {start} is not UTF-8 ({error.reason} at byte {error.start})")

    def tensor_type(self, number: int, name: str) -> TensorType:
        """Return the tensor type with this number; raise `UnsupportedError` if unknown. `name` is for the message."""
        if number not in TYPES:
            raise UnsupportedError(f"{self.path}: tensor {name!r} has the unknown type {number}")
        return TYPES[number]

    def tensor(self, count: int, what: str, alignment: int) -> Tensor:
        """Read bytes as a uint8 tensor: a view of the mapping, or a copy if the file does not align them."""
        start = self.skip(count, what)
        data = self._data[start : self.position]
        return data if start % alignment == 0 else data.clone()
