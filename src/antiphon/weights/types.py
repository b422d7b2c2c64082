"""Types of stored tensors, numbered as in GGML where GGUF has them."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Self

import torch


class Block(NamedTuple):
    """The elements that are encoded together: their number, and their size in bytes."""

    elements: int
    size: int


class TensorType(IntEnum):
    """The encoding of a stored tensor's elements. A member's value is GGUF's type id, and it has a `block`."""

    block: Block

    def __new__(cls, number: int, elements: int, size: int) -> Self:
        member = int.__new__(cls, number)
        member._value_ = number
        member.block = Block(elements, size)
        return member

    F32 = 0, 1, 4
    F16 = 1, 1, 2
    Q4_0 = 2, 32, 18
    Q4_1 = 3, 32, 20
    Q5_0 = 6, 32, 22
    Q5_1 = 7, 32, 24
    Q8_0 = 8, 32, 34
    Q8_1 = 9, 32, 40
    Q2_K = 10, 256, 84
    Q3_K = 11, 256, 110
    Q4_K = 12, 256, 144
    Q5_K = 13, 256, 176
    Q6_K = 14, 256, 210
    Q8_K = 15, 256, 292
    IQ2_XXS = 16, 256, 66
    IQ2_XS = 17, 256, 74
    IQ3_XXS = 18, 256, 98
    IQ1_S = 19, 256, 50
    IQ4_NL = 20, 32, 18
    IQ3_S = 21, 256, 110
    IQ2_S = 22, 256, 82
    IQ4_XS = 23, 256, 136
    I8 = 24, 1, 1
    I16 = 25, 1, 2
    I32 = 26, 1, 4
    I64 = 27, 1, 8
    F64 = 28, 1, 8
    IQ1_M = 29, 256, 56
    BF16 = 30, 1, 2
    TQ1_0 = 34, 256, 54
    TQ2_0 = 35, 256, 66
    MXFP4 = 39, 32, 17
    NVFP4 = 40, 64, 36
    F8_E4M3 = 1 << 32, 1, 1  # 8-bit floats with a scale per row; the value is beyond any id in a file

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats that PyTorch can view without decoding."""
        return self in TORCH_DTYPES

    def row_bytes(self, columns: int) -> int:
        """Return the bytes of a row of `columns` elements; `columns` must be a multiple of the block's elements."""
        elements, size = self.block
        if columns % elements:
            raise ValueError(f"{columns} columns are not a multiple of {self.name}'s block of {elements}")
        return columns // elements * size


TORCH_DTYPES: dict[TensorType, torch.dtype] = {
    TensorType.F32: torch.float32,
    TensorType.F16: torch.float16,
    TensorType.BF16: torch.bfloat16,
}

TYPE_OF_DTYPE: dict[torch.dtype, TensorType] = {dtype: type_ for type_, dtype in TORCH_DTYPES.items()}
