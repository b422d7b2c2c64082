"""Every decoder against the `gguf` package's, bit for bit."""

from __future__ import annotations

import sys

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, quants

from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.weights.dequantize import iq as dequantize_iq
from antiphon.weights.dequantize.dequantize import CHUNK_ELEMENTS, DECODERS, dequantize, iq_grid
from antiphon.weights.types import TORCH_DTYPES, TensorType

READABLE = [*TORCH_DTYPES, *DECODERS]

#: Byte offsets of the float16 fields of a block, which random bytes would make infinite or NaN.
HALVES = {
    TensorType.Q4_0: (0,),
    TensorType.Q4_1: (0, 2),
    TensorType.Q5_0: (0,),
    TensorType.Q5_1: (0, 2),
    TensorType.Q8_0: (0,),
    TensorType.Q2_K: (80, 82),
    TensorType.Q3_K: (108,),
    TensorType.Q4_K: (0, 2),
    TensorType.Q5_K: (0, 2),
    TensorType.Q6_K: (208,),
    TensorType.TQ1_0: (52,),
    TensorType.TQ2_0: (64,),
    TensorType.IQ2_XXS: (0,),
    TensorType.IQ2_XS: (0,),
    TensorType.IQ2_S: (0,),
    TensorType.IQ3_XXS: (0,),
    TensorType.IQ3_S: (0,),
    TensorType.IQ1_S: (0,),
    TensorType.IQ4_NL: (0,),
    TensorType.IQ4_XS: (0,),
}


def random_blocks(type: TensorType, count: int, seed: int = 0) -> np.ndarray:
    """Random bytes of `count` blocks with finite scales, uint8 [count, block bytes]."""
    random = np.random.default_rng(seed)
    blocks = random.integers(0, 256, (count, type.block.size), dtype=np.uint8)
    for offset in HALVES.get(type, ()):
        bits = random.integers(0, 0x7C00, count, dtype=np.uint16) | random.integers(0, 2, count, dtype=np.uint16) << 15
        blocks[:, offset : offset + 2] = bits[:, None].view(np.uint8)
    if (
        type is TensorType.IQ1_M
    ):  # the float16's top nibble is the top nibble of the last word: keep its exponent finite
        blocks[:, 55] &= 0xBF
    if type is TensorType.MXFP4:
        blocks[:, 0] = np.minimum(blocks[:, 0], 250)
    if type in TORCH_DTYPES:
        values = random.standard_normal(count).astype(np.float32)
        return torch.from_numpy(values).to(TORCH_DTYPES[type]).view(torch.uint8).view(count, -1).numpy()
    return blocks


def test_covers_every_type_the_gguf_package_decodes() -> None:
    theirs = {
        int(GGMLQuantizationType.F32),
        int(GGMLQuantizationType.F16),
        *(int(type) for type in quants._type_traits),
    }
    assert {int(type) for type in READABLE} == theirs


def test_block_sizes_are_those_of_the_gguf_package() -> None:
    for type in TensorType:
        if type is TensorType.F8_E4M3:  # in no file
            continue
        assert tuple(type.block) == gguf.GGML_QUANT_SIZES[GGMLQuantizationType(int(type))], type.name


@pytest.mark.parametrize("type", READABLE, ids=lambda type: type.name)
@pytest.mark.parametrize("count", [1, 2, 333])
def test_equals_the_gguf_package_bit_for_bit(type: TensorType, count: int) -> None:
    blocks = random_blocks(type, count, seed=count)
    ours = dequantize(torch.from_numpy(blocks), type)
    theirs = quants.dequantize(blocks, GGMLQuantizationType(int(type))).astype(np.float32).reshape(-1)
    assert ours.dtype == torch.float32 and ours.shape == (count * type.block.elements,)
    assert np.isfinite(theirs).all()
    np.testing.assert_array_equal(ours.numpy().view(np.uint32), theirs.view(np.uint32))


@pytest.mark.parametrize("type", [TensorType.Q4_K, TensorType.Q5_0, TensorType.IQ2_XXS], ids=lambda type: type.name)
def test_more_than_one_chunk(type: TensorType) -> None:
    count = 2 * CHUNK_ELEMENTS // type.block.elements + 3
    blocks = random_blocks(type, count)
    ours = dequantize(torch.from_numpy(blocks.reshape(-1)), type).numpy()
    theirs = quants.dequantize(blocks, GGMLQuantizationType(int(type))).reshape(-1)
    np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))


@pytest.mark.parametrize("type", [TensorType.MXFP4, TensorType.NVFP4], ids=lambda type: type.name)
def test_every_scale_byte_of_the_small_floats(type: TensorType) -> None:
    blocks = np.repeat(random_blocks(type, 1), 256, axis=0)
    blocks[:, : 1 if type is TensorType.MXFP4 else 4] = np.arange(256, dtype=np.uint8)[:, None]
    ours = dequantize(torch.from_numpy(blocks), type).numpy()
    with np.errstate(over="ignore"):
        theirs = quants.dequantize(blocks, GGMLQuantizationType(int(type))).astype(np.float32).reshape(-1)
    np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))


@pytest.mark.parametrize("type", READABLE, ids=lambda type: type.name)
def test_result_is_memory_of_its_own_and_may_start_anywhere(type: TensorType) -> None:
    blocks = random_blocks(type, 4)
    storage = torch.zeros(blocks.size + 1, dtype=torch.uint8)
    storage[1:] = torch.from_numpy(blocks.reshape(-1))
    ours = dequantize(storage[1:], type)
    expected = dequantize(torch.from_numpy(blocks.copy()), type)
    storage.zero_()
    assert torch.equal(ours, expected)


def test_empty() -> None:
    for type in READABLE:
        assert dequantize(torch.empty(0, dtype=torch.uint8), type).shape == (0,)


def test_a_broken_block_is_rejected() -> None:
    with pytest.raises(CheckpointError, match=r"143 bytes .* Q4_K blocks of 144"):
        dequantize(torch.zeros(143, dtype=torch.uint8), TensorType.Q4_K)


@pytest.mark.parametrize("type", [TensorType.I32, TensorType.Q8_K, TensorType.Q8_1], ids=lambda type: type.name)
def test_types_without_a_decoder_are_rejected_by_name(type: TensorType) -> None:
    with pytest.raises(UnsupportedError, match=type.name):
        dequantize(torch.zeros(type.block.size, dtype=torch.uint8), type)


def test_codebooks() -> None:
    assert iq_grid(TensorType.IQ2_XXS).shape == (256, 8)
    assert iq_grid(TensorType.IQ3_S).shape == (512, 4)
    assert iq_grid(TensorType.IQ1_M).dtype == torch.int8
    with pytest.raises(UnsupportedError, match="IQ4_XS has no codebook"):
        iq_grid(TensorType.IQ4_XS)


def test_without_the_gguf_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setattr(dequantize_iq, "iq_grid", iq_grid.__wrapped__)
    with pytest.raises(UnsupportedError, match=r"IQ2_XS tensors need .* `gguf`"):
        dequantize(torch.zeros(TensorType.IQ2_XS.block.size, dtype=torch.uint8), TensorType.IQ2_XS)
