"""Quantisation of float matrices to blocks of Q8_0 and Q4_1, on their device; the bytes are those of a GGUF file."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops.triton.quantised.forms import BLOCK
from antiphon.weights.types import TensorType

#: Elements quantised at a time, to bound temporary memory.
CHUNK_ELEMENTS = 1 << 25


def quantise(matrix: Tensor, type: TensorType) -> Tensor:
    """Quantise floats [rows, columns] to uint8 [rows, row bytes] of Q8_0 or Q4_1."""
    rows, columns = matrix.shape
    encode = {TensorType.Q8_0: _q8_0, TensorType.Q4_1: _q4_1}.get(type)
    if encode is None:
        raise UnsupportedError(f"float weights become Q8_0, Q4_1 or fp8 on the GPU, not {type.name}")
    out = torch.empty(rows, type.row_bytes(columns), dtype=torch.uint8, device=matrix.device)
    step = max(1, CHUNK_ELEMENTS // columns)
    for first in range(0, rows, step):
        blocks = matrix[first : first + step].float().reshape(-1, BLOCK)
        out[first : first + step] = encode(blocks).view(-1, out.shape[1])
    return out


def _q8_0(blocks: Tensor) -> Tensor:
    scale = blocks.abs().amax(dim=1, keepdim=True) / 127
    codes = (blocks * _inverse(scale)).round().to(torch.int8)
    return torch.cat((scale.half().view(torch.uint8), codes.view(torch.uint8)), dim=1)


def _q4_1(blocks: Tensor) -> Tensor:
    low, high = blocks.amin(dim=1, keepdim=True), blocks.amax(dim=1, keepdim=True)
    scale = (high - low) / 15
    codes = ((blocks - low) * _inverse(scale)).round().clamp(0, 15).to(torch.uint8)
    packed = codes[:, : BLOCK // 2] | codes[:, BLOCK // 2 :] << 4
    return torch.cat((scale.half().view(torch.uint8), low.half().view(torch.uint8), packed), dim=1)


def _inverse(scale: Tensor) -> Tensor:
    """Return 1 / scale, or 0 where the scale is 0."""
    return torch.where(scale > 0, 1 / scale, 0.0)
