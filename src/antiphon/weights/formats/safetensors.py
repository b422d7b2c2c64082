"""safetensors folders in Hugging Face's layout, memory-mapped: one file, or shards with an index.

Hand-written: an untrusted header is validated in full, and aligned tensors are views of the mapping.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.checkpoint import Checkpoint, StoredTensor
from antiphon.weights.formats.sentence_transformers import sentence_head
from antiphon.weights.json_object import parse_json_object, read_json_object
from antiphon.weights.mapped import MappedFile
from antiphon.weights.types import TensorType

CONFIG_NAME = "config.json"
GENERATION_NAME = "generation_config.json"
SINGLE_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"

#: Limit of the format itself.
MAX_HEADER_BYTES = 100_000_000
MAX_DIMENSIONS = 16

TYPES = {name: TensorType[name] for name in ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8")}


class SafetensorsFile:
    """A safetensors file: `tensors` of readable types, and the names and types of `unreadable` ones.

    Every tensor lies inside the file and overlaps no other. Its bytes are a view of the mapping, or a copy if the file
    does not align them to the size of their elements.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensors: dict[str, StoredTensor] = {}
        self.unreadable: dict[str, str] = {}
        self.mapped = mapped = MappedFile(path)
        length = int.from_bytes(mapped.buffer[:8], "little")
        if mapped.size < 8 or length > min(mapped.size - 8, MAX_HEADER_BYTES):
            self._reject(f"claims a header of {length} bytes in a file of {mapped.size}")
        header = parse_json_object(path, mapped.buffer[8 : 8 + length], unique_keys=True)
        data = mapped.tensor()[8 + length :]
        spans: list[tuple[int, int, str]] = []
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            type_name, shape, start, stop = self._entry(name, entry, data.numel())
            spans.append((start, stop, name))
            type = TYPES.get(type_name)
            if type is None:
                self.unreadable[name] = type_name
                continue
            needed = prod(shape) * type.block.size
            if needed != stop - start:
                self._reject(f"tensor {name!r} ({type_name} {list(shape)}) has {stop - start} bytes, not {needed}")
            self.tensors[name] = StoredTensor(name, type, shape, _aligned(data[start:stop], type))
        spans.sort()
        for left, right in pairwise(spans):
            if left[1] > right[0]:
                self._reject(f"tensors {left[2]!r} and {right[2]!r} overlap at byte {right[0]} of the data")

    def _reject(self, what: str) -> NoReturn:
        raise CheckpointError(f"{self.path}: {what}")

    def _entry(self, name: str, entry: Any, num_bytes: int) -> tuple[str, tuple[int, ...], int, int]:
        """Return the type's name, the shape, and the span in the data, each checked separately."""
        if not isinstance(entry, dict):
            self._reject(f"tensor {name!r} is described by a {type(entry).__name__}")
        dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
        if not isinstance(dtype, str):
            self._reject(f"tensor {name!r} has the dtype {dtype!r}")
        sizes, span = _sizes(shape), _sizes(offsets)
        if sizes is None:
            self._reject(f"tensor {name!r} has the shape {shape!r}")
        if span is None or len(span) != 2 or not span[0] <= span[1] <= num_bytes:
            self._reject(f"tensor {name!r} has the offsets {offsets!r} in {num_bytes} bytes of data")
        return dtype, sizes, span[0], span[1]


class SafetensorsCheckpoint(Checkpoint):
    """A folder with `config.json` and its weights, in one file or in shards named by an index.

    A tensor of an unreadable type is rejected only when it is requested: checkpoints contain buffers, such as boolean
    masks, that no model needs. For a sentence-transformers folder, the metadata has its pooling under `sentence`.
    """

    format = "hf"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        config = read_json_object(folder / CONFIG_NAME)
        architecture = config.get("model_type")
        if not isinstance(architecture, str) or not architecture:
            raise CheckpointError(f"{folder / CONFIG_NAME}: model_type is {architecture!r}, not a name")
        self.architecture = architecture
        head = sentence_head(folder)
        self.metadata = config if head is None else config | {"sentence": head}
        if architecture == "whisper" and (folder / GENERATION_NAME).exists():
            stated = read_json_object(folder / GENERATION_NAME).get("alignment_heads")
            self.metadata = {**self.metadata, "alignment_heads": stated}
        self._tensors: dict[str, StoredTensor] = {}
        self._unreadable: dict[str, str] = {}
        for file in _open_shards(folder):
            self._maps.append(file.mapped)
            for name in (*file.tensors, *file.unreadable):
                if name in self._tensors or name in self._unreadable:
                    raise CheckpointError(f"{file.path}: tensor {name!r} is in another shard too")
            self._tensors.update(file.tensors)
            self._unreadable.update(file.unreadable)

    def stored(self, name: str, shape: tuple[int, ...] | None = None) -> StoredTensor:
        if name in self._unreadable:
            raise UnsupportedError(f"tensor {name!r} has the type {self._unreadable[name]}, which cannot be loaded")
        return super().stored(name, shape)


def _open_shards(folder: Path) -> list[SafetensorsFile]:
    if (folder / SINGLE_NAME).exists():
        return [SafetensorsFile(folder / SINGLE_NAME)]
    if not (folder / INDEX_NAME).exists():
        found = sorted(folder.glob("*.safetensors"))
        if len(found) == 1:
            return [SafetensorsFile(found[0])]
        others = f"{len(found)} other .safetensors files"
        raise CheckpointError(f"{folder} has neither {SINGLE_NAME} nor {INDEX_NAME}, and {others}")
    index = read_json_object(folder / INDEX_NAME)
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{folder / INDEX_NAME}: its weight_map does not name tensors and their files")
    files: dict[str, SafetensorsFile] = {}
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise CheckpointError(f"{folder / INDEX_NAME}: the index puts {name!r} in {shard!r}, not a file beside it")
        if shard not in files:
            files[shard] = SafetensorsFile(folder / shard)
        if name not in files[shard].tensors and name not in files[shard].unreadable:
            raise CheckpointError(f"{folder / shard}: has no tensor {name!r}, which the index puts there")
    return list(files.values())


def _sizes(value: Any) -> tuple[int, ...] | None:
    """Return a JSON list of sizes as a tuple, or None for any other value."""
    if not isinstance(value, list) or len(value) > MAX_DIMENSIONS:
        return None
    return tuple(value) if all(type(size) is int and 0 <= size < 1 << 63 for size in value) else None


def _aligned(data: Tensor, type: TensorType) -> Tensor:
    return data if data.storage_offset() % type.block.size == 0 else data.clone()
