"""safetensors folders against the `safetensors` package, and against headers that lie."""

from __future__ import annotations

import json
import random
import struct
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from antiphon.errors import AntiphonError, CheckpointError, UnsupportedError
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.formats.safetensors import SafetensorsCheckpoint, SafetensorsFile
from antiphon.weights.types import TensorType

CONFIG = {"model_type": "bert", "hidden_size": 8}


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "a.weight": torch.randn(4, 8, generator=generator),
        "b.weight": torch.randn(3, 5, generator=generator).half(),
        "c.weight": torch.randn(2, 3, 4, generator=generator).bfloat16(),
        "scalar": torch.tensor(2.5),
        "position_ids": torch.arange(7),
    }


def write_folder(folder: Path, shards: dict[str, dict[str, torch.Tensor]], config: Any = CONFIG) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    for name, content in shards.items():
        save_file(content, folder / name)
    if len(shards) > 1:
        weight_map = {name: shard for shard, content in shards.items() for name in content}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def raw(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_one_file(tmp_path: Path) -> None:
    expected = tensors()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint = SafetensorsCheckpoint(write_folder(tmp_path, {"model.safetensors": expected}))
    assert (checkpoint.format, checkpoint.architecture, checkpoint.metadata) == ("hf", "bert", CONFIG)
    assert checkpoint.tensors().keys() == expected.keys()
    for name, tensor in expected.items():
        assert checkpoint.stored(name).shape == tuple(tensor.shape)
        if tensor.is_floating_point():
            assert torch.equal(checkpoint.tensor(name, tuple(tensor.shape)), tensor.float())
    weight = checkpoint.weight("b.weight", (3, 5))
    assert weight.parts[0].type is TensorType.F16
    assert torch.equal(weight.parts[0].data.view(torch.float16), expected["b.weight"])


def test_shards(tmp_path: Path) -> None:
    expected = tensors()
    names = sorted(expected)
    first, second = ({name: expected[name] for name in part} for part in (names[:2], names[2:]))
    shards = {"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second}
    checkpoint = SafetensorsCheckpoint(write_folder(tmp_path, shards))
    assert checkpoint.tensors().keys() == expected.keys()
    assert torch.equal(checkpoint.tensor("c.weight", (2, 3, 4)), expected["c.weight"].float())
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"cannot read .*model-00002-of-00002"):
        SafetensorsCheckpoint(tmp_path)


def test_any_single_file_name(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, {"model.fp16.safetensors": tensors()})
    assert SafetensorsCheckpoint(folder).has("a.weight")
    (folder / "other.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"neither model.safetensors nor .* and 2 other"):
        SafetensorsCheckpoint(folder)


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"a": "../secret.safetensors"}, "not a file beside it"),
        ({"a": 3}, "not a file beside it"),
        ({}, "weight_map does not name"),
        (None, "weight_map does not name"),
        ({"z": "one.safetensors"}, "has no tensor 'z'"),
    ],
)
def test_bad_index(tmp_path: Path, weight_map: Any, message: str) -> None:
    write_folder(tmp_path, {"one.safetensors": {"a": torch.zeros(2)}})
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CheckpointError, match=message):
        SafetensorsCheckpoint(tmp_path)


def test_a_tensor_in_two_shards(tmp_path: Path) -> None:
    shards = {"one.safetensors": {"a": torch.zeros(2)}, "two.safetensors": {"a": torch.ones(2), "b": torch.ones(1)}}
    write_folder(tmp_path, shards)
    weight_map = {"a": "one.safetensors", "b": "two.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CheckpointError, match="'a' is in another shard too"):
        SafetensorsCheckpoint(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"), [([], "not an object"), ({}, "model_type is None"), ({"model_type": 3}, "model_type is 3")]
)
def test_bad_config(tmp_path: Path, config: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        SafetensorsCheckpoint(write_folder(tmp_path, {"model.safetensors": tensors()}, config))


def test_unreadable_types_are_rejected_when_asked_for(tmp_path: Path) -> None:
    mask = torch.ones(3, 3, dtype=torch.bool)
    checkpoint = SafetensorsCheckpoint(write_folder(tmp_path, {"model.safetensors": tensors() | {"attn.mask": mask}}))
    assert torch.equal(checkpoint.tensor("a.weight", (4, 8)), tensors()["a.weight"])
    assert "attn.mask" not in checkpoint.unused()
    with pytest.raises(UnsupportedError, match=r"'attn.mask' has the type BOOL"):
        checkpoint.stored("attn.mask")


def test_tensors_that_the_file_does_not_align(tmp_path: Path) -> None:
    values = torch.tensor([1.5, -2.5])
    path = tmp_path / "odd.safetensors"
    for padding in range(4):
        text = json.dumps({"w": entry()}).encode() + b" " * padding
        path.write_bytes(raw(text, values.numpy().tobytes()))
        stored = SafetensorsFile(path).tensors["w"]
        assert torch.equal(stored.data.view(torch.float32), values)


DEEP = b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"

HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "short": (b"\x01\x02", "claims a header of 513 bytes in a file of 2"),
    "length": (raw({}, length=2**63), "claims a header of 9223372036854775808 bytes"),
    "not json": (raw(b"{nonsense}"), "is not valid JSON"),
    "not utf-8": (raw(b"\xff\xfe{}"), "is not valid JSON"),
    "deep": (raw(DEEP), "is not valid JSON"),
    "long number": (raw(b'{"a": ' + b"9" * 5000 + b"}"), "is not valid JSON"),
    "a list": (raw([]), "not an object"),
    "twice": (raw(b'{"w": 1, "w": 2}'), "'w' occurs twice"),
    "entry": (raw({"w": 3}), "'w' is described by a int"),
    "dtype": (raw({"w": entry(dtype=None)}), "'w' has the dtype None"),  # type: ignore[arg-type]
    "shape": (raw({"w": entry(shape=[-1])}, bytes(8)), r"'w' has the shape \[-1\]"),
    "shape of floats": (raw({"w": entry(shape=[2.0])}, bytes(8)), r"'w' has the shape \[2.0\]"),
    "rank": (raw({"w": entry(shape=[1] * 17)}, bytes(8)), "'w' has the shape"),
    "product": (raw({"w": entry(shape=[2**62] * 16)}, bytes(8)), "'w' .* has 8 bytes, not"),
    "truncated": (raw({"w": entry()}, bytes(7)), r"'w' has the offsets \[0, 8\] in 7 bytes"),
    "backwards": (raw({"w": entry(offsets=[8, 0])}, bytes(8)), r"offsets \[8, 0\]"),
    "three offsets": (raw({"w": entry(offsets=[0, 8, 8])}, bytes(8)), r"offsets \[0, 8, 8\]"),
    "size": (raw({"w": entry(shape=[3])}, bytes(8)), r"'w' \(F32 \[3\]\) has 8 bytes, not 12"),
    "overlap": (raw({"a": entry(), "b": entry(offsets=[4, 12])}, bytes(12)), "'a' and 'b' overlap at byte 4"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_headers_are_rejected_with_name_and_numbers(tmp_path: Path, case: str) -> None:
    content, message = HOSTILE[case]
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        SafetensorsFile(path)


def test_headers_mutated(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / "whole.safetensors")
    content = (tmp_path / "whole.safetensors").read_bytes()
    header_size = 8 + int.from_bytes(content[:8], "little")
    chance = random.Random(0)
    loaded = 0
    for number in range(1000):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 3)):
            position = chance.randrange(header_size)
            damaged[position] = chance.choice((chance.randrange(256), chance.choice(b'0123456789[]{},:"')))
        path = tmp_path / f"{number}.safetensors"
        path.write_bytes(damaged[: chance.choice((len(damaged), chance.randrange(1, len(damaged))))])
        try:
            file = SafetensorsFile(path)
            for tensor in file.tensors.values():
                dequantize(tensor.data, tensor.type)
            loaded += 1
        except AntiphonError:
            pass
    assert 0 < loaded < 1000
