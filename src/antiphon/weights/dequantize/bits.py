"""Unpacking of bit fields for the dequantisers. The first dimension of all tensors is blocks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def unpack(packed: Tensor, shifts: Sequence[int], mask: int) -> Tensor:
    """Return the fields `(byte >> shift) & mask` of [blocks, groups, bytes] as [blocks, groups, shifts, bytes]."""
    shift = torch.tensor(shifts, dtype=torch.uint8, device=packed.device).view(-1, 1)
    return (packed.unsqueeze(-2) >> shift) & mask


def nibbles(packed: Tensor, group: int) -> Tensor:
    """Return the nibbles of uint8 [blocks, bytes]: per `group` bytes first their low halves, then their high ones."""
    blocks = packed.shape[0]
    return unpack(packed.reshape(blocks, -1, group), (0, 4), 0x0F).reshape(blocks, -1)


def halves(data: Tensor) -> Tensor:
    """Return the little-endian float16 values in uint8 [blocks, 2 * n] as float32 [blocks, n]."""
    return data.clone(memory_format=torch.contiguous_format).view(torch.float16).float()


def uint16(data: Tensor) -> Tensor:
    """Return the little-endian unsigned 16-bit numbers in uint8 [blocks, 2 * n] as int32 [blocks, n]."""
    return data.clone(memory_format=torch.contiguous_format).view(torch.int16).to(torch.int32) & 0xFFFF


def int8(data: Tensor) -> Tensor:
    return data.view(torch.int8)
