"""Whisper models in CTranslate2's `model.bin`, with fused matrices split, under Hugging Face's names.

Hand-written: the `ctranslate2` package does not expose tensors; an untrusted file is validated and stays mapped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.checkpoint import Checkpoint, StoredTensor
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.formats.binary_reader import BinaryReader
from antiphon.weights.json_object import read_json_object
from antiphon.weights.mapped import MappedFile
from antiphon.weights.types import TensorType

VERSIONS = (5, 6)
SPEC = "WhisperSpec"
CONFIG_NAME = "config.json"
MAX_RANK = 4
MAX_SIZE = 1 << 24
MAX_VARIABLES = 1 << 16

#: Element types by CTranslate2's number.
TYPES = {
    0: TensorType.F32,
    1: TensorType.I8,
    2: TensorType.I16,
    3: TensorType.I32,
    4: TensorType.F16,
    5: TensorType.BF16,
}
Q8_ELEMENTS = 32

#: Projections by fused variable, in the order of their rows.
SELF_ATTENTION = {"linear_0": ("q_proj", "k_proj", "v_proj"), "linear_1": ("out_proj",)}
CROSS_ATTENTION = {"linear_0": ("q_proj",), "linear_1": ("k_proj", "v_proj"), "linear_2": ("out_proj",)}
FEED_FORWARD = {"linear_0": ("fc1",), "linear_1": ("fc2",)}


def is_ctranslate2(start: bytes) -> bool:
    """Return whether a file starts like a CTranslate2 model: a version, then the name of a specification."""
    if len(start) < 8:
        return False
    version, length = struct.unpack_from("<IH", start)
    return 1 <= version <= 64 and 4 < length <= 56 and start[6 : 6 + length].rstrip(b"\0").endswith(b"Spec")


class CTranslate2Checkpoint(Checkpoint):
    """A converted Whisper in float32, float16, bfloat16 or int8.

    Int8 matrices have one scale per row. They become Q8_0 with the same integers and the row's scale, in float16, in
    every block, so that the Q8_0 kernels compute them. `metadata` is laid out like Hugging Face's `config.json`, plus
    the lists (alignment heads, suppressed tokens) of the folder's own `config.json`.
    """

    format = "ctranslate2-whisper"
    architecture = "whisper"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        variables = _variables(BinaryReader(MappedFile(path)))
        self._tensors = {tensor.name: tensor for tensor in self._renamed(variables)}
        beside = path.with_name(CONFIG_NAME)
        self.metadata: Mapping[str, Any] = {
            **(read_json_object(beside) if beside.is_file() else {}),
            **self._sizes(variables),
        }

    def _renamed(self, variables: Mapping[str, StoredTensor]) -> Iterator[StoredTensor]:
        for name, variable in variables.items():
            if not variable.shape or name.endswith("weight_scale"):
                continue
            module, _, kind = name.rpartition("/")
            if module.endswith("layer_norm"):
                kind = {"gamma": "weight", "beta": "bias"}.get(kind, kind)
            kind = {"encodings": "weight"}.get(kind, kind)
            full = self._dequantizable(name, variable, variables)
            targets = _targets(module)
            rows = full.shape[0] // len(targets)
            if rows * len(targets) != full.shape[0]:
                raise CheckpointError(
                    f"{self._path}: {name!r} has {full.shape[0]} rows, which {len(targets)} do not share"
                )
            width = full.data.numel() // len(targets)
            for index, target in enumerate(targets):
                data = full.data[index * width : (index + 1) * width]
                yield StoredTensor(f"{target}.{kind}", full.type, (rows, *full.shape[1:]), data)

    def _dequantizable(self, name: str, variable: StoredTensor, variables: Mapping[str, StoredTensor]) -> StoredTensor:
        if variable.type.is_float:
            return variable
        scale = variables.get(f"{name}_scale")
        if variable.type is not TensorType.I8 or scale is None or len(variable.shape) != 2:
            raise UnsupportedError(
                f"{self._path}: {name!r} is {variable.type.name} {list(variable.shape)} without scales by row; "
                "float32, float16, bfloat16 and int8 are supported"
            )
        rows, columns = variable.shape
        if scale.shape != (rows,) or columns % Q8_ELEMENTS:
            raise UnsupportedError(
                f"{self._path}: {name!r} is int8 {list(variable.shape)} with {list(scale.shape)} scales"
            )
        divisors = dequantize(scale.data, scale.type)
        return StoredTensor(name, TensorType.Q8_0, variable.shape, to_q8_0(variable.data, divisors, columns))

    def _sizes(self, variables: Mapping[str, StoredTensor]) -> dict[str, Any]:
        def shape(name: str) -> tuple[int, ...]:
            if name not in variables:
                raise CheckpointError(f"{self._path}: has no variable {name!r}")
            return variables[name].shape

        def number(name: str, default: int) -> int:
            if name not in variables:
                return default
            variable = variables[name]
            return int.from_bytes(bytes(variable.data.tolist()), "little", signed=True)

        hidden = shape("decoder/embeddings/weight")[-1]
        layers = {side: _count_layers(variables, side) for side in ("encoder", "decoder")}
        if not all(layers.values()) or len(shape("encoder/conv1/weight")) != 3:
            raise CheckpointError(f"{self._path}: has {layers} layers")
        return {
            "model_type": "whisper",
            "vocab_size": shape("decoder/embeddings/weight")[0],
            "num_mel_bins": shape("encoder/conv1/weight")[1],
            "d_model": hidden,
            "encoder_layers": layers["encoder"],
            "encoder_attention_heads": number("encoder/num_heads", hidden // 64),
            "encoder_ffn_dim": shape("encoder/layer_0/ffn/linear_0/weight")[0],
            "decoder_layers": layers["decoder"],
            "decoder_attention_heads": number("decoder/num_heads", hidden // 64),
            "decoder_ffn_dim": shape("decoder/layer_0/ffn/linear_0/weight")[0],
            "max_source_positions": shape("encoder/position_encodings/encodings")[0],
            "max_target_positions": shape("decoder/position_encodings/encodings")[0],
        }


def to_q8_0(integers: Tensor, divisors: Tensor, columns: int) -> Tensor:
    """Return rows of `integers / divisor` as Q8_0 blocks (a float16 scale and 32 signed bytes), flat uint8."""
    rows = divisors.numel()
    blocks = torch.empty(rows, columns // Q8_ELEMENTS, 2 + Q8_ELEMENTS, dtype=torch.uint8)
    blocks[:, :, 2:] = integers.view(rows, -1, Q8_ELEMENTS)
    scales = torch.where(divisors == 0, 0.0, 1.0 / divisors).to(torch.float16)
    blocks[:, :, :2] = scales.view(torch.uint8).view(rows, 1, 2)
    return blocks.view(-1)


def _count_layers(variables: Mapping[str, StoredTensor], side: str) -> int:
    numbers = {name.split("/")[1] for name in variables if name.startswith(f"{side}/layer_")} - {"layer_norm"}
    return len(numbers)


def _targets(module: str) -> list[str]:
    """Return the modules of Hugging Face's tree whose rows a variable of this module contains."""
    parts = module.split("/")
    if parts[0] not in ("encoder", "decoder") or len(parts) == 1:
        return [module]
    base = f"model.{parts[0]}"
    if parts[1:] == ["layer_norm"]:
        return [f"{base}.layer_norm"]
    if parts[1:] == ["projection"]:
        return ["proj_out"]
    if len(parts) == 2:
        name = {"embeddings": "embed_tokens", "position_encodings": "embed_positions"}.get(parts[1], parts[1])
        return [f"{base}.{name}"]
    layer = f"{base}.layers.{parts[1].removeprefix('layer_')}"
    block, inner = parts[2], parts[3] if len(parts) > 3 else ""
    if block == "ffn":
        return [f"{layer}.{name}" for name in FEED_FORWARD.get(inner, ("final_layer_norm",))]
    attention, table = {
        "self_attention": ("self_attn", SELF_ATTENTION),
        "attention": ("encoder_attn", CROSS_ATTENTION),
    }.get(block, (block, {}))
    if inner == "layer_norm":
        return [f"{layer}.{attention}_layer_norm"]
    return [f"{layer}.{attention}.{name}" for name in table.get(inner, (inner,))]


def _variables(reader: BinaryReader) -> dict[str, StoredTensor]:
    version = reader.number("I", "the version")
    if version not in VERSIONS:
        raise UnsupportedError(f"{reader.path}: CTranslate2 format version {version} is not supported, only {VERSIONS}")
    spec = _string(reader, "the specification's name")
    if spec != SPEC:
        raise UnsupportedError(f"{reader.path}: is a {spec} of CTranslate2; only {SPEC} is supported")
    reader.number("I", "the revision")
    count = reader.number("I", "the number of variables")
    if count > MAX_VARIABLES:
        reader.reject(f"claims {count} variables, more than {MAX_VARIABLES}")
    variables: dict[str, StoredTensor] = {}
    for _ in range(count):
        name = _string(reader, "a variable's name")
        if name in variables:
            reader.reject(f"variable {name!r} occurs twice")
        variables[name] = _variable(reader, name)
    for _ in range(reader.number("I", "the number of aliases")):
        alias, name = _string(reader, "an alias"), _string(reader, "the name of an alias")
        if name not in variables or alias in variables:
            reader.reject(f"alias {alias!r} stands for {name!r}, which does not fit its variables")
        if alias != "decoder/projection/weight" or name != "decoder/embeddings/weight":
            variables[alias] = variables[name]
    return variables


def _variable(reader: BinaryReader, name: str) -> StoredTensor:
    rank = reader.number("B", f"the rank of {name!r}")
    if rank > MAX_RANK:
        reader.reject(f"variable {name!r} has {rank} dimensions, more than {MAX_RANK}")
    shape = tuple(reader.number("I", f"the shape of {name!r}") for _ in range(rank))
    type_id, num_bytes = reader.number("B", f"the type of {name!r}"), reader.number("I", f"the size of {name!r}")
    type = TYPES.get(type_id)
    if type is None:
        raise UnsupportedError(f"{reader.path}: variable {name!r} has the unknown type {type_id}")
    if any(not 0 < size <= MAX_SIZE for size in shape) or prod(shape) * type.block.size != num_bytes:
        reader.reject(f"variable {name!r} ({type.name} {list(shape)}) claims {num_bytes} bytes")
    return StoredTensor(name, type, shape, reader.tensor(num_bytes, f"variable {name!r}", type.block.size))


def _string(reader: BinaryReader, what: str) -> str:
    return reader.text(reader.number("H", f"the length of {what}"), what).removesuffix("\0")
