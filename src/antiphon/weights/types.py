"""The storage types of tensors in files, with GGML's numbers for those that GGUF has."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import torch


class TensorType(IntEnum):
    """How the elements of a stored tensor are encoded; values are GGUF's type ids."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    F8_E4M3 = 1 << 32  # 8-bit floats with a scale for each row; beyond the ids that a file can have

    @property
    def block(self) -> Block:
        return BLOCKS[self]

    @property
    def is_float(self) -> bool:
        """Whether the elements are plain floats that PyTorch can view without decoding."""
        return self in TORCH_DTYPES

    def row_bytes(self, columns: int) -> int:
        """Bytes of one row of `columns` elements; `columns` must be a multiple of the block."""
        elements, size = BLOCKS[self]
        if columns % elements:
            raise ValueError(f"{columns} columns are not a multiple of {self.name}'s block of {elements}")
        return columns // elements * size


class Block(NamedTuple):
    """The smallest run of elements that is encoded together."""

    elements: int
    size: int  # bytes


BLOCKS: dict[TensorType, Block] = {
    TensorType.F32: Block(1, 4),
    TensorType.F16: Block(1, 2),
    TensorType.BF16: Block(1, 2),
    TensorType.F64: Block(1, 8),
    TensorType.I8: Block(1, 1),
    TensorType.I16: Block(1, 2),
    TensorType.I32: Block(1, 4),
    TensorType.I64: Block(1, 8),
    TensorType.Q4_0: Block(32, 18),
    TensorType.Q4_1: Block(32, 20),
    TensorType.Q5_0: Block(32, 22),
    TensorType.Q5_1: Block(32, 24),
    TensorType.Q8_0: Block(32, 34),
    TensorType.Q8_1: Block(32, 40),
    TensorType.Q2_K: Block(256, 84),
    TensorType.Q3_K: Block(256, 110),
    TensorType.Q4_K: Block(256, 144),
    TensorType.Q5_K: Block(256, 176),
    TensorType.Q6_K: Block(256, 210),
    TensorType.Q8_K: Block(256, 292),
    TensorType.IQ2_XXS: Block(256, 66),
    TensorType.IQ2_XS: Block(256, 74),
    TensorType.IQ2_S: Block(256, 82),
    TensorType.IQ3_XXS: Block(256, 98),
    TensorType.IQ3_S: Block(256, 110),
    TensorType.IQ1_S: Block(256, 50),
    TensorType.IQ1_M: Block(256, 56),
    TensorType.IQ4_NL: Block(32, 18),
    TensorType.IQ4_XS: Block(256, 136),
    TensorType.TQ1_0: Block(256, 54),
    TensorType.TQ2_0: Block(256, 66),
    TensorType.MXFP4: Block(32, 17),
    TensorType.NVFP4: Block(64, 36),
    TensorType.F8_E4M3: Block(1, 1),
}

TORCH_DTYPES: dict[TensorType, torch.dtype] = {
    TensorType.F32: torch.float32,
    TensorType.F16: torch.float16,
    TensorType.BF16: torch.bfloat16,
}

TYPE_OF_DTYPE: dict[torch.dtype, TensorType] = {dtype: type_ for type_, dtype in TORCH_DTYPES.items()}
