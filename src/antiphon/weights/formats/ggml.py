"""Whisper models in whisper.cpp's ggml format: sizes, mel filters, vocabulary, then tensors under OpenAI's names.

Hand-written: no package reads this format; an untrusted file is validated and aligned tensors stay mapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from antiphon.weights.checkpoint import Checkpoint, StoredTensor
from antiphon.weights.formats.binary_reader import BinaryReader
from antiphon.weights.mapped import MappedFile
from antiphon.weights.types import TensorType

#: 0x67676d6c, little-endian.
MAGIC = b"lmgg"

#: Names of the header's sizes in their order, as in OpenAI's `dims`.
DIMENSIONS = (
    "n_vocab",
    "n_audio_ctx",
    "n_audio_state",
    "n_audio_head",
    "n_audio_layer",
    "n_text_ctx",
    "n_text_state",
    "n_text_head",
    "n_text_layer",
    "n_mels",
)
MAX_SIZE = 1 << 20
MAX_NAME_BYTES = 256
MAX_TOKEN_BYTES = 1 << 16
MAX_DIMENSIONS = 4
MEL_BANDS = (80, 128)


class GgmlWhisperCheckpoint(Checkpoint):
    """The tensors of a file, as floats or in ggml's blocks.

    `metadata` has OpenAI's dimensions, and under `tokens` the vocabulary's byte strings by id. The file does not spell
    special tokens; they follow from the vocabulary's size.
    """

    format = "ggml-whisper"
    architecture = "whisper"

    def __init__(self, path: Path) -> None:
        super().__init__()
        reader = BinaryReader(MappedFile(path))
        if reader.bytes(4, "the magic") != MAGIC:
            reader.reject(f"does not start with {MAGIC!r}")
        dims = _dimensions(reader)
        _skip_filters(reader)
        tokens = _tokens(reader)
        if len(tokens) > dims["n_vocab"]:
            reader.reject(f"spells {len(tokens)} tokens, its vocabulary has {dims['n_vocab']}")
        self.metadata: Mapping[str, Any] = {**dims, "tokens": tokens}
        self._tensors: dict[str, StoredTensor] = {}
        while reader.left:
            tensor = _tensor(reader)
            if tensor.name in self._tensors:
                reader.reject(f"tensor {tensor.name!r} occurs twice")
            self._tensors[tensor.name] = tensor


def _dimensions(reader: BinaryReader) -> dict[str, int]:
    dims = {name: reader.number("i", name) for name in DIMENSIONS}
    reader.number("i", "the file type")  # each tensor states its own type
    for name, value in dims.items():
        if not 0 < value <= MAX_SIZE:
            reader.reject(f"{name} is {value}, not a size between 1 and {MAX_SIZE}: not a Whisper model")
    if dims["n_mels"] not in MEL_BANDS:
        reader.reject(f"n_mels is {dims['n_mels']}, not one of {MEL_BANDS}: not a Whisper model")
    return dims


def _skip_filters(reader: BinaryReader) -> None:
    """Check the size of the mel filters and skip them: they are the standard ones, which are computed."""
    bands, bins = reader.number("i", "the number of mel bands"), reader.number("i", "the number of bins")
    if not 0 < bands <= MAX_SIZE or not 0 < bins <= MAX_SIZE:
        reader.reject(f"has mel filters of {bands} bands and {bins} bins")
    reader.skip(4 * bands * bins, "the mel filters")


def _tokens(reader: BinaryReader) -> list[bytes]:
    count = reader.number("i", "the number of tokens")
    if count < 1 or count * 4 > reader.left:
        reader.reject(f"claims {count} tokens of at least 4 bytes each, with {reader.left} bytes left")
    tokens = []
    for index in range(count):
        length = reader.number("I", f"the length of token {index}")
        if length > MAX_TOKEN_BYTES:
            reader.reject(f"token {index} of {count} has {length} bytes, more than {MAX_TOKEN_BYTES}")
        tokens.append(reader.bytes(length, f"token {index}"))
    return tokens


def _tensor(reader: BinaryReader) -> StoredTensor:
    start = reader.position
    rank = reader.number("i", "a tensor's rank")
    length = reader.number("i", "the length of a tensor's name")
    type_id = reader.number("i", "a tensor's type")
    if not 0 < rank <= MAX_DIMENSIONS or not 0 < length <= MAX_NAME_BYTES:
        reader.reject(f"the tensor at offset {start} claims {rank} dimensions and a name of {length} bytes")
    dims = [reader.number("i", "a tensor's shape") for _ in range(rank)]
    name = reader.text(length, "a tensor's name")
    type = reader.tensor_type(type_id, name)
    shape = tuple(reversed(dims))
    if min(shape) < 1 or max(shape) > MAX_SIZE:
        reader.reject(f"tensor {name!r} has the shape {list(shape)}")
    if shape[-1] % type.block.elements and prod(shape) > shape[0]:
        reader.reject(
            f"tensor {name!r} of shape {list(shape)} has rows that are not whole {type.name} blocks "
            f"of {type.block.elements}"
        )
    count = prod(shape) // type.block.elements * type.block.size
    data = reader.tensor(count, f"tensor {name!r} ({type.name} {list(shape)})", 4 if type is TensorType.F32 else 2)
    if len(shape) == 2 and shape[1] == 1:
        shape = shape[:1]  # biases of convolutions are stored as columns
    return StoredTensor(name, type, shape, data)
