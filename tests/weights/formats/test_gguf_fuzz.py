"""Damaged GGUF files: each ends in our own error or in a load that the `gguf` package agrees with."""

from __future__ import annotations

import math
import random
import resource
import struct
import sys
import tempfile
import time
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.errors import AntiphonError, CheckpointError
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.formats.gguf import GGUFCheckpoint

#: No damaged copy of a sample of a few kilobytes may keep the processor longer, or let the process grow by more.
MOST_SECONDS = 1.0
MOST_BYTES = 64 << 20

INTERESTING = [
    0,
    1,
    7,
    8,
    9,
    31,
    32,
    255,
    256,
    2**16,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**40,
    2**62,
    2**63,
    2**64 - 1,
]


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def load(path: Path, content: bytes) -> GGUFCheckpoint | None:
    """The checkpoint, every tensor of it touched and decoded where its type can be; None if it was rejected."""
    path.unlink(missing_ok=True)  # an earlier file may still be mapped
    path.write_bytes(content)
    start = time.thread_time()
    try:
        checkpoint = GGUFCheckpoint(path)
    except AntiphonError as error:
        assert str(path) in str(error)
        return None
    finally:
        assert time.thread_time() - start < MOST_SECONDS
    for name, tensor in checkpoint.tensors().items():
        assert tensor.nbytes == math.prod(tensor.shape) // tensor.type.block.elements * tensor.type.block.size, name
        tensor.data.sum()
        try:
            assert dequantize(tensor.data, tensor.type).numel() == math.prod(tensor.shape)
        except AntiphonError:
            assert tensor.type.name in ("Q8_1", "Q8_K", "I8", "I16", "I32", "I64", "F64")
    return checkpoint


def assert_reader_agrees(checkpoint: GGUFCheckpoint, path: Path) -> None:
    """Where the `gguf` package's stricter reader takes the file too, it finds the same in it."""
    try:
        reader = GGUFReader(path)
    except Exception:
        return
    assert list(checkpoint.tensors()) == [tensor.name for tensor in reader.tensors]
    for tensor in reader.tensors:
        ours = checkpoint.stored(tensor.name)
        assert int(ours.type) == int(tensor.tensor_type)
        assert ours.shape == tuple(int(size) for size in reversed(tensor.shape))
        assert np.array_equal(ours.data.numpy(), tensor.data.reshape(-1).view(np.uint8))
    for key in checkpoint.metadata:
        field = reader.fields[key]
        if field.types[:2] != [GGUFValueType.ARRAY] * 2:
            np.testing.assert_equal(checkpoint.metadata[key], field.contents())


def data_start(path: Path) -> int:
    return min(int(tensor.data_offset) for tensor in GGUFReader(path).tensors)


@pytest.fixture
def memory_stays_bounded() -> object:
    before = peak_memory()
    yield
    assert peak_memory() - before < MOST_BYTES


@pytest.mark.usefixtures("memory_stays_bounded")
def test_truncated_anywhere(sample_gguf: Path, tmp_path: Path) -> None:
    content = sample_gguf.read_bytes()
    end = max(int(tensor.data_offset) + int(tensor.n_bytes) for tensor in GGUFReader(sample_gguf).tensors)
    path = tmp_path / "truncated.gguf"
    start = data_start(sample_gguf)
    for length in [*range(start), *range(start, end, 37), end - 1]:
        assert load(path, content[:length]) is None, length
    assert load(path, content[:end]) is not None


@pytest.mark.usefixtures("memory_stays_bounded")
def test_bits_flipped_in_the_header(sample_gguf: Path, tmp_path: Path) -> None:
    content = sample_gguf.read_bytes()
    start = data_start(sample_gguf)
    chance = random.Random(1)
    path = tmp_path / "flipped.gguf"
    flips = [*range(64 * 8), *(chance.randrange(start * 8) for _ in range(400))]
    loaded = 0
    for bit in flips:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        checkpoint = load(path, bytes(damaged))
        if checkpoint is not None:
            loaded += 1
            if loaded % 8 == 0:
                assert_reader_agrees(checkpoint, path)
    assert 0 < loaded < len(flips)


def mutate(content: bytes, header_size: int, chance: random.Random) -> bytes:
    """One to four changes to the header: bytes, numbers, bits, insertions, deletions, transplants."""
    damaged = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        position = chance.randrange(4, header_size)
        length = chance.randint(1, 16)
        kind = chance.randrange(7)
        if kind == 0:
            damaged[position] = chance.randrange(256)
        elif kind == 1:
            damaged[position : position + 8] = struct.pack("<Q", chance.choice(INTERESTING))
        elif kind == 2:
            damaged[position : position + 4] = struct.pack("<I", chance.choice(INTERESTING) & 0xFFFFFFFF)
        elif kind == 3:
            damaged[position] ^= 1 << chance.randrange(8)
        elif kind == 4:
            damaged[position:position] = chance.randbytes(length)
        elif kind == 5:
            del damaged[position : position + length]
        else:
            source = chance.randrange(header_size)
            damaged[position : position + length] = damaged[source : source + length]
    return bytes(damaged)


@pytest.mark.usefixtures("memory_stays_bounded")
@pytest.mark.parametrize("seed", range(4))
def test_metadata_mutated(sample_gguf: Path, tmp_path: Path, seed: int) -> None:
    content = sample_gguf.read_bytes()
    start = data_start(sample_gguf)
    chance = random.Random(seed)
    path = tmp_path / "mutated.gguf"
    loaded = 0
    for _ in range(500):
        checkpoint = load(path, mutate(content, start, chance))
        if checkpoint is not None:
            loaded += 1
            assert_reader_agrees(checkpoint, path)
    assert loaded < 500


VALUES = st.one_of(
    st.booleans().map(lambda value: (value, GGUFValueType.BOOL)),
    st.integers(0, 2**64 - 1).map(lambda value: (value, GGUFValueType.UINT64)),
    st.integers(-(2**31), 2**31 - 1).map(lambda value: (value, GGUFValueType.INT32)),
    st.floats(allow_nan=False).map(lambda value: (value, GGUFValueType.FLOAT64)),
    st.text().map(lambda value: (value, GGUFValueType.STRING)),
    st.lists(st.text(), min_size=1, max_size=5).map(lambda value: (value, GGUFValueType.ARRAY)),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5).map(lambda value: (value, GGUFValueType.ARRAY)),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(metadata=st.dictionaries(st.text(min_size=1), VALUES, max_size=6), shape=st.lists(st.integers(1, 5), max_size=4))
def test_what_the_gguf_package_writes_is_read(
    metadata: dict[str, tuple[object, GGUFValueType]], shape: list[int]
) -> None:
    keys = {key: value for key, value in metadata.items() if not key.startswith(("general.", "split."))}
    weight = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "written.gguf"
        writer = GGUFWriter(path, "llama")
        for key, (value, type) in keys.items():
            writer.add_key_value(key, value, type)
        writer.add_tensor("weight", weight)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        checkpoint = GGUFCheckpoint(path)
        assert checkpoint.metadata == {"general.architecture": "llama"} | {
            key: value for key, (value, _) in keys.items()
        }
        assert np.array_equal(checkpoint.tensor("weight", tuple(shape)).numpy(), weight)


@settings(max_examples=200, deadline=None)
@given(
    version=st.sampled_from((2, 3)),
    tail=st.binary(max_size=200),
    counts=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_any_bytes_after_the_preamble(version: int, tail: bytes, counts: tuple[int, int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        load(
            Path(folder) / "any.gguf",
            gguf.GGUF_MAGIC.to_bytes(4, "little") + struct.pack("<IQQ", version, *counts) + tail,
        )


def test_a_rejection_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot read .*nowhere\.gguf"):
        GGUFCheckpoint(tmp_path / "nowhere.gguf")
