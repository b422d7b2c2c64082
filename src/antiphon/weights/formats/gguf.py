"""GGUF files, memory-mapped; every number in the header is validated before use.

Hand-written: the `gguf` package does not validate untrusted headers in full, and tensors must stay mapped.
"""

from __future__ import annotations

import re
import struct
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.checkpoint import Checkpoint, StoredTensor
from antiphon.weights.formats.binary_reader import BinaryReader
from antiphon.weights.mapped import MappedFile
from antiphon.weights.types import TensorType

MAGIC = b"GGUF"
VERSIONS = (2, 3)

DEFAULT_ALIGNMENT = 32
MAX_ALIGNMENT = 1 << 20
MAX_DIMENSIONS = 4
MAX_NAME_BYTES = 65_535
MAX_ARRAY_DEPTH = 4
#: Maximum elements of all arrays of a file together. The largest published vocabularies need about a million.
MAX_ARRAY_ELEMENTS = 1 << 23

SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})\.gguf")


#: GGUF's type numbers of metadata values.
STRING, ARRAY = 8, 9
SCALARS: dict[int, np.dtype[Any]] = {
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    7: np.dtype("?"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}

#: Minimum bytes of a string, an array, a key-value pair and a tensor's entry.
STRING_BYTES = 8
ARRAY_BYTES = 12
PAIR_BYTES = 8 + 4 + 1
ENTRY_BYTES = 8 + 4 + 4 + 8


class GGUFCheckpoint(Checkpoint):
    """A model in GGUF, in one file or split into parts; `path` may be any of the parts."""

    format = "gguf"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.files = _open_parts(path)
        self._maps = [file.mapped for file in self.files]
        first = self.files[0]
        self.metadata = first.metadata
        architecture = first.metadata.get("general.architecture")
        if not isinstance(architecture, str) or not architecture:
            raise CheckpointError(f"{first.path}: general.architecture is {architecture!r}, not a name")
        self.architecture = architecture
        self._tensors: dict[str, StoredTensor] = {}
        for file in self.files:
            for name, tensor in file.tensors.items():
                if name in self._tensors:
                    raise CheckpointError(f"{file.path}: tensor {name!r} is in an earlier part too")
                self._tensors[name] = tensor
        expected = first.metadata.get("split.tensors.count", len(self._tensors)) if len(self.files) > 1 else None
        if expected is not None and expected != len(self._tensors):
            raise CheckpointError(f"{first.path}: its parts hold {len(self._tensors)} tensors, not {expected}")


def _open_parts(path: Path) -> list[GGUFFile]:
    """Open all parts of a split file, in order, given any of them; any other file is its only part."""
    given = GGUFFile(path)
    count = given.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return [given]
    match = SPLIT_NAME.fullmatch(path.name)
    if match is None or int(match["count"]) != count:
        raise CheckpointError(
            f"{path} is one of {count} parts, but its name does not end in -NNNNN-of-{count:05}.gguf, "
            "so the others cannot be found"
        )
    paths = [path.with_name(f"{match['stem']}-{part:05}-of-{count:05}.gguf") for part in range(1, count + 1)]
    missing = next((part for part in paths if not part.is_file()), None)
    if missing is not None:
        raise CheckpointError(f"{path} is one of {count} parts, and {missing.name} is not beside it")
    files = [given if part == path else GGUFFile(part) for part in paths]
    for number, file in enumerate(files):
        if file.metadata.get("split.no") != number or file.metadata.get("split.count") != count:
            raise CheckpointError(
                f"{file.path} says it is part {file.metadata.get('split.no')} of {file.metadata.get('split.count')}, "
                f"not {number} of {count}"
            )
    return files


class GGUFFile(BinaryReader):
    """A GGUF file, versions 2 and 3, little-endian. A fault in its header raises an error with the offset.

    `metadata` has plain Python values: arrays are lists. Every tensor lies inside the file and overlaps no other; its
    bytes are a view of the mapping.
    """

    def __init__(self, path: Path) -> None:
        self.mapped = MappedFile(path)
        super().__init__(self.mapped)
        self._elements_left = MAX_ARRAY_ELEMENTS
        self.version = self._preamble()
        num_tensors = self._count("tensors", ENTRY_BYTES)
        num_pairs = self._count("metadata pairs", PAIR_BYTES)
        self.metadata: dict[str, Any] = {}
        for _ in range(num_pairs):
            self._pair()
        self._alignment = self._checked_alignment()
        descriptions = [self._description() for _ in range(num_tensors)]
        data_start = -(-self.position // self._alignment) * self._alignment
        self.tensors: dict[str, StoredTensor] = {}
        for name, type, shape, offset in descriptions:
            if name in self.tensors:
                self.reject(f"tensor {name!r} occurs twice")
            self.tensors[name] = self._located(name, type, shape, offset, data_start)
        self._check_overlap()

    def _preamble(self) -> int:
        magic = self.bytes(4, "the magic")
        if magic != MAGIC:
            self.reject(f"starts with {magic!r}, not {MAGIC!r}")
        version = self.number("I", "the version")
        if version & 0xFFFF == 0 and version:
            raise UnsupportedError(f"{self.path}: big-endian GGUF files are not supported")
        if version not in VERSIONS:
            raise UnsupportedError(f"{self.path}: GGUF version {version} is not supported, only 2 and 3")
        return version

    def _count(self, what: str, least_bytes: int) -> int:
        count = self.number("Q", f"the number of {what}")
        if count * least_bytes > self.left:
            self.reject(f"claims {count} {what}, of at least {least_bytes} bytes each, with {self.left} bytes left")
        return count

    def _string(self, what: str, most: int | None = None) -> str:
        length = self.number("Q", f"the length of {what}")
        if most is not None and length > most:
            self.reject(f"{what} at offset {self.position} has {length} bytes, more than {most}")
        return self.text(length, what)

    def _pair(self) -> None:
        key = self._string("a metadata key", MAX_NAME_BYTES)
        if key in self.metadata:
            self.reject(f"metadata key {key!r} occurs twice")
        self.metadata[key] = self._value(key, self.number("I", f"the type of {key!r}"))

    def _value(self, key: str, type: int) -> Any:
        dtype = SCALARS.get(type)
        if dtype is not None:
            start = self.skip(dtype.itemsize, f"the value of {key!r}")
            return np.frombuffer(self._buffer, dtype, 1, start).item()
        if type == STRING:
            return self._string(f"the value of {key!r}")
        if type == ARRAY:
            return self._array(key, depth=1)
        self.reject(f"metadata key {key!r} has a value of unknown type {type}")

    def _array(self, key: str, depth: int) -> list[Any]:
        if depth > MAX_ARRAY_DEPTH:
            self.reject(f"metadata key {key!r} has arrays nested more than {MAX_ARRAY_DEPTH} deep")
        type = self.number("I", f"the element type of {key!r}")
        dtype = SCALARS.get(type)
        if dtype is None and type not in (STRING, ARRAY):
            self.reject(f"metadata key {key!r} is an array of unknown type {type}")
        least = dtype.itemsize if dtype is not None else STRING_BYTES if type == STRING else ARRAY_BYTES
        count = self._count(f"elements of {key!r}", least)
        if count > self._elements_left:
            self.reject(f"{count} elements of {key!r} bring the arrays to more than {MAX_ARRAY_ELEMENTS} elements")
        self._elements_left -= count
        if dtype is not None:
            start = self.skip(count * dtype.itemsize, f"the array {key!r}")
            return list(np.frombuffer(self._buffer, dtype, count, start).tolist())
        if type == STRING:
            return self._strings(key, count)
        return [self._array(key, depth + 1) for _ in range(count)]

    def _strings(self, key: str, count: int) -> list[str]:
        """Read `count` strings in one tight loop, since vocabularies have hundreds of thousands."""
        buffer, size, position = self._buffer, self.size, self.position
        length_at = struct.Struct("<Q").unpack_from
        strings: list[str] = []
        try:
            for _ in range(count):
                start = position + 8
                position = start + length_at(buffer, position)[0]
                if position > size:
                    self.reject(f"element {len(strings)} of {key!r} ends at {position}, the file at {size}")
                strings.append(str(buffer[start:position], "utf-8"))
        except struct.error:
            self.reject(f"element {len(strings)} of {key!r} begins at {position}, the file ends at {size}")
        except UnicodeDecodeError as error:
            self.reject(f"element {len(strings)} of {key!r} is not UTF-8 ({error.reason} at byte {error.start})")
        self.position = position
        return strings

    def _checked_alignment(self) -> int:
        alignment = self.metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or not 8 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
            self.reject(f"general.alignment is {alignment!r}, not a power of two from 8 to {MAX_ALIGNMENT}")
        return alignment

    def _description(self) -> tuple[str, TensorType, tuple[int, ...], int]:
        """Read the name, type, shape and offset in the data section of the next tensor."""
        name = self._string("a tensor's name", MAX_NAME_BYTES)
        num_dimensions = self.number("I", f"the rank of tensor {name!r}")
        if num_dimensions > MAX_DIMENSIONS:
            self.reject(f"tensor {name!r} has {num_dimensions} dimensions, more than {MAX_DIMENSIONS}")
        shape = tuple(self.number("Q", f"the shape of tensor {name!r}") for _ in range(num_dimensions))[::-1]
        type_id = self.number("I", f"the type of tensor {name!r}")
        offset = self.number("Q", f"the offset of tensor {name!r}")
        type = self.tensor_type(type_id, name)
        if 0 in shape:
            self.reject(f"tensor {name!r} of shape {list(shape)} has no elements")
        if (shape[-1] if shape else 1) % type.block.elements:
            self.reject(
                f"tensor {name!r} of shape {list(shape)} has rows that are not whole {type.name} blocks "
                f"of {type.block.elements}"
            )
        return name, type, shape, offset

    def _located(
        self, name: str, type: TensorType, shape: tuple[int, ...], offset: int, data_start: int
    ) -> StoredTensor:
        if offset % self._alignment:
            self.reject(f"tensor {name!r} is at offset {offset}, not a multiple of {self._alignment}")
        start = data_start + offset
        stop = start + prod(shape) // type.block.elements * type.block.size
        if stop > self.size:
            self.reject(
                f"tensor {name!r} ({type.name} {list(shape)}) takes bytes {start} to {stop}, "
                f"the file ends at {self.size}: it is truncated or its header is wrong"
            )
        return StoredTensor(name, type, shape, self._data[start:stop])

    def _check_overlap(self) -> None:
        ordered = sorted(self.tensors.values(), key=lambda tensor: tensor.data.storage_offset())
        for left, right in pairwise(ordered):
            start = right.data.storage_offset()
            if left.data.storage_offset() + left.nbytes > start:
                self.reject(f"tensors {left.name!r} and {right.name!r} overlap at byte {start}")
