"""The GGUF reader against the `gguf` package's, and against headers that lie."""

from __future__ import annotations

import struct
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import quants

from antiphon.errors import AntiphonError, CheckpointError, UnsupportedError
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.formats.gguf import MAX_ARRAY_ELEMENTS, GGUFCheckpoint, GGUFFile
from antiphon.weights.types import TensorType


def assert_equals_reader(checkpoint: GGUFCheckpoint, reader: gguf.GGUFReader) -> None:
    """Metadata, names, types, shapes, bytes and decoded values are those of the `gguf` package's reader."""
    theirs = {key: field for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    assert set(checkpoint.metadata) == set(theirs)
    for key, field in theirs.items():
        if field.types[:2] == [gguf.GGUFValueType.ARRAY] * 2:
            continue  # their reader flattens nested arrays
        assert checkpoint.metadata[key] == field.contents(), key
    assert list(checkpoint.tensors()) == [tensor.name for tensor in reader.tensors]
    for tensor in reader.tensors:
        ours = checkpoint.stored(tensor.name)
        assert int(ours.type) == int(tensor.tensor_type)
        assert ours.shape == tuple(int(size) for size in reversed(tensor.shape))
        assert np.array_equal(ours.data.numpy(), tensor.data.reshape(-1).view(np.uint8))


def test_equals_the_gguf_package(sample_gguf: Path) -> None:
    checkpoint = GGUFCheckpoint(sample_gguf)
    reader = gguf.GGUFReader(sample_gguf)
    assert_equals_reader(checkpoint, reader)
    for tensor in reader.tensors:
        ours = checkpoint.stored(tensor.name)
        theirs = quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(ours.shape)
        assert np.array_equal(checkpoint.tensor(tensor.name, ours.shape).numpy(), theirs)


def test_metadata_has_plain_values(sample_gguf: Path) -> None:
    checkpoint = GGUFCheckpoint(sample_gguf)
    assert (checkpoint.format, checkpoint.architecture) == ("gguf", "llama")
    metadata = checkpoint.metadata
    assert metadata["sample.nested"] == [[1, 2], [3]]
    assert metadata["sample.uint64"] == 2**63 + 1
    assert metadata["sample.bool"] is True and metadata["sample.bools"] == [True, False, True]
    assert metadata["sample.string"] == "Grüße, 世界 🌍"
    assert type(metadata["tokenizer.ggml.tokens"]) is list and metadata["tokenizer.ggml.tokens"][39] == "token39é"
    assert type(metadata["tokenizer.ggml.scores"][1]) is float


def test_tensors_are_views_of_one_mapping(sample_gguf: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint = GGUFCheckpoint(sample_gguf)
    assert len({tensor.data.untyped_storage().data_ptr() for tensor in checkpoint.tensors().values()}) == 1
    weight = checkpoint.weight("Q8_0.weight", (4, 64))
    assert weight.parts[0].data.data_ptr() == checkpoint.stored("Q8_0.weight").data.data_ptr()
    assert checkpoint.stored("Q8_0.weight").data.is_contiguous()


def test_mapping_outlives_the_checkpoint(sample_gguf: Path) -> None:
    data = GGUFCheckpoint(sample_gguf).stored("norm.weight").data
    assert torch.isfinite(dequantize(data, TensorType.F32)).all()


def test_missing_and_misshaped_tensors_are_named(sample_gguf: Path) -> None:
    checkpoint = GGUFCheckpoint(sample_gguf)
    with pytest.raises(CheckpointError, match=r"no tensor 'output.weight'"):
        checkpoint.tensor("output.weight", (1,))
    with pytest.raises(CheckpointError, match=r"'norm.weight' has shape \[7\], the model needs \[8\]"):
        checkpoint.tensor("norm.weight", (8,))


@pytest.mark.parametrize("given", [0, 1, 2])
def test_a_split_file_opens_from_any_part(split_gguf: list[Path], sample_gguf: Path, given: int) -> None:
    assert [path.name for path in split_gguf] == [f"sample-0000{part}-of-00003.gguf" for part in (1, 2, 3)]
    split, whole = GGUFCheckpoint(split_gguf[given]), GGUFCheckpoint(sample_gguf)
    assert (
        split.architecture == "llama"
        and split.metadata["tokenizer.ggml.tokens"] == whole.metadata["tokenizer.ggml.tokens"]
    )
    assert split.tensors().keys() == whole.tensors().keys()
    for name, tensor in whole.tensors().items():
        assert torch.equal(split.stored(name, tensor.shape).data, tensor.data)


def test_split_files_that_do_not_belong_together(split_gguf: list[Path]) -> None:
    first, second, third = split_gguf
    with pytest.raises(CheckpointError, match="is one of 3 parts, but its name does not end in"):
        GGUFCheckpoint(second.rename(second.with_name("second.gguf")))
    with pytest.raises(CheckpointError, match=r"sample-00002-of-00003.gguf is not beside it"):
        GGUFCheckpoint(first)
    second.write_bytes(third.read_bytes())
    with pytest.raises(CheckpointError, match="says it is part 2 of 3, not 1 of 3"):
        GGUFCheckpoint(first)


# Headers written by hand.

Pair = tuple[str, int, bytes]
Entry = tuple[str, tuple[int, ...], int, int]

ARCHITECTURE: Pair = ("general.architecture", 8, struct.pack("<Q", 5) + b"llama")


def string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def header(
    pairs: list[Pair] | None = None,
    entries: list[Entry] | None = None,
    *,
    num_tensors: int | None = None,
    num_pairs: int | None = None,
    version: int = 3,
    data: bytes = b"",
    alignment: int = 32,
) -> bytes:
    """A GGUF file of (key, type, value bytes) and (name, dims as stored, type, offset), true or not."""
    pairs = [ARCHITECTURE] if pairs is None else pairs
    entries = entries or []
    content = b"GGUF" + struct.pack("<I", version)
    content += struct.pack("<Q", len(entries) if num_tensors is None else num_tensors)
    content += struct.pack("<Q", len(pairs) if num_pairs is None else num_pairs)
    for key, type, value in pairs:
        content += string(key) + struct.pack("<I", type) + value
    for name, dims, type, offset in entries:
        content += string(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        content += struct.pack("<IQ", type, offset)
    return content + b"\0" * (-len(content) % alignment) + data


HUGE = 2**64 - 1
DATA = bytes(4096)
NESTED = struct.pack("<IQ", 9, 1) * 5 + struct.pack("<IQ", 4, 1) + struct.pack("<I", 7)

HOSTILE: dict[str, tuple[bytes, str]] = {
    "short": (b"GGUF\x03", "the version needs 4 bytes at offset 4, the file ends at 5"),
    "magic": (b"GGUX" + bytes(100), "starts with b'GGUX'"),
    "no architecture": (header([]), "general.architecture is None"),
    "architecture is a number": (header([("general.architecture", 4, bytes(4))]), "general.architecture is 0"),
    "tensors": (header(num_tensors=HUGE), f"claims {HUGE} tensors"),
    "pairs": (header(num_pairs=2**40), f"claims {2**40} metadata pairs"),
    "key length": (
        header([("k", 4, b"")]).replace(string("k"), struct.pack("<Q", 2**40) + b"k"),
        "1099511627776 bytes",
    ),
    "string length": (header([("k", 8, struct.pack("<Q", 2**63))]), "the value of 'k' needs 9223372036854775808 bytes"),
    "array length": (header([("k", 9, struct.pack("<IQ", 6, 2**62))]), f"claims {2**62} elements of 'k'"),
    "strings": (
        header([("k", 9, struct.pack("<IQ", 8, 2) + string("a") + struct.pack("<Q", HUGE))]),
        "element 1 of 'k' ends",
    ),
    "array type": (header([("k", 9, struct.pack("<IQ", 13, 0))]), "array of unknown type 13"),
    "value type": (header([("k", 99, b"")]), "value of unknown type 99"),
    "nesting": (header([("k", 9, NESTED)]), "nested more than 4 deep"),
    "twice": (header([ARCHITECTURE, ARCHITECTURE]), "'general.architecture' occurs twice"),
    "not utf-8": (header([("k", 8, struct.pack("<Q", 2) + b"\xff\xfe")]), "'k' at offset 45 is not UTF-8"),
    "alignment 0": (header([ARCHITECTURE, ("general.alignment", 4, struct.pack("<I", 0))]), "general.alignment is 0"),
    "alignment 48": (
        header([ARCHITECTURE, ("general.alignment", 4, struct.pack("<I", 48))]),
        "general.alignment is 48",
    ),
    "alignment huge": (header([ARCHITECTURE, ("general.alignment", 4, struct.pack("<I", 2**31))]), "is 2147483648"),
    "alignment text": (header([ARCHITECTURE, ("general.alignment", 8, string("32"))]), "general.alignment is '32'"),
    "rank": (header(entries=[("w", (1,) * 5, 0, 0)], data=DATA), "'w' has 5 dimensions"),
    "no elements": (header(entries=[("w", (4, 0), 0, 0)], data=DATA), r"'w' of shape \[0, 4\] has no elements"),
    "overflow": (header(entries=[("w", (2**62, 2**62, 2**62), 0, 0)], data=DATA), "truncated or its header is wrong"),
    "outside": (
        header(entries=[("w", (1025,), 0, 0)], data=DATA),
        "'w' .* takes bytes 128 to 4228, the file ends at 4224",
    ),
    "offset": (header(entries=[("w", (1,), 0, 2**64 - 32)], data=DATA), "truncated or its header is wrong"),
    "misaligned": (header(entries=[("w", (1,), 0, 33)], data=DATA), "'w' is at offset 33, not a multiple of 32"),
    "overlap": (header(entries=[("a", (16,), 0, 0), ("b", (4,), 0, 32)], data=DATA), "'a' and 'b' overlap at byte"),
    "same name": (header(entries=[("a", (1,), 0, 0), ("a", (1,), 0, 32)], data=DATA), "tensor 'a' occurs twice"),
    "half a block": (header(entries=[("w", (33,), 8, 0)], data=DATA), "not whole Q8_0 blocks of 32"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_headers_are_rejected_with_name_and_numbers(tmp_path: Path, case: str) -> None:
    content, message = HOSTILE[case]
    path = tmp_path / "hostile.gguf"
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(CheckpointError, match=message) as error:
        GGUFCheckpoint(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert str(path) in str(error.value)
    assert peak < 2_000_000


def test_arrays_are_limited_in_all(tmp_path: Path) -> None:
    """A file full of zeros can claim as many one-byte elements as it has bytes; that is rejected before any is read."""
    path = tmp_path / "large.gguf"
    value = struct.pack("<IQ", 0, MAX_ARRAY_ELEMENTS + 1)
    with path.open("wb") as file:
        file.write(header([ARCHITECTURE, ("k", 9, value)]))
        file.truncate(MAX_ARRAY_ELEMENTS + 1000)
    with pytest.raises(CheckpointError, match="more than 8388608 elements"):
        GGUFCheckpoint(path)


def test_unknown_tensor_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "new.gguf"
    path.write_bytes(header(entries=[("blk.0.w", (32,), 77, 0)], data=DATA))
    with pytest.raises(UnsupportedError, match=r"tensor 'blk.0.w' has the unknown type 77"):
        GGUFCheckpoint(path)


@pytest.mark.parametrize(
    ("version", "message"), [(1, "version 1"), (4, "version 4"), (0, "version 0"), (0x03000000, "big-endian")]
)
def test_other_versions_are_rejected(tmp_path: Path, version: int, message: str) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(header(version=version))
    with pytest.raises(UnsupportedError, match=message):
        GGUFCheckpoint(path)


def test_version_2_custom_alignment_scalars_and_no_tensors(tmp_path: Path) -> None:
    path = tmp_path / "two.gguf"
    path.write_bytes(header(version=2))
    assert GGUFCheckpoint(path).tensors() == {}
    alignment: Pair = ("general.alignment", 4, struct.pack("<I", 64))
    value = np.arange(16, dtype="<f4")
    content = header(
        [ARCHITECTURE, alignment],
        [("s", (), 0, 0), ("w", (16,), 0, 64)],
        alignment=64,
        data=bytes(64) + value.tobytes(),
    )
    path.write_bytes(content)
    checkpoint = GGUFCheckpoint(path)
    assert checkpoint.tensor("s", ()).item() == 0
    assert checkpoint.tensor("w", (16,)).tolist() == list(range(16))
    assert GGUFFile(path).version == 3


def test_unreadable_paths(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name, message in (("empty", "is empty"), ("absent", "No such file"), (".", "Is a directory")):
        with pytest.raises(AntiphonError, match=message):
            GGUFCheckpoint(tmp_path / name)


@pytest.mark.weights
def test_smollm2_equals_the_gguf_package(model_path: Callable[[str], Path]) -> None:
    path = model_path("smollm2-135m")
    checkpoint = GGUFCheckpoint(path)
    assert checkpoint.architecture == "llama" and len(checkpoint.tensors()) == 272
    reader = gguf.GGUFReader(path)
    assert_equals_reader(checkpoint, reader)
    for tensor in reader.tensors[:12]:
        theirs = quants.dequantize(tensor.data, tensor.tensor_type).reshape(-1)
        ours = checkpoint.stored(tensor.name)
        assert np.array_equal(dequantize(ours.data, ours.type).numpy(), theirs)
