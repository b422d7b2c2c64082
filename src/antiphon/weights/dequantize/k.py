"""Decoders of GGML's K types: super-blocks of 256 elements whose sub-blocks have their own quantised scales.

Each decodes uint8 [blocks, block bytes] to float32 [blocks, 256].
"""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.weights.dequantize.bits import halves, int8, nibbles, unpack


def q2_k(blocks: Tensor) -> Tensor:
    """Decode blocks of 16 bytes of 4-bit scale and minimum, 64 bytes of 2-bit fields, scale f16, minimum f16.

    Sub-blocks have 16 elements.
    """
    count = blocks.shape[0]
    scale = halves(blocks[:, 80:82]) * (blocks[:, :16] & 0x0F).float()
    minimum = halves(blocks[:, 82:84]) * (blocks[:, :16] >> 4).float()
    fields = unpack(blocks[:, 16:80].reshape(count, 2, 32), (0, 2, 4, 6), 0x03).reshape(count, 16, 16)
    return (scale.unsqueeze(-1) * fields.float() - minimum.unsqueeze(-1)).view(count, 256)


def q3_k(blocks: Tensor) -> Tensor:
    """Decode blocks of 32 bytes of third bits, 64 bytes of 2-bit fields, 12 bytes of 6-bit scales, scale f16.

    Sub-blocks have 16 elements.
    """
    count = blocks.shape[0]
    low = unpack(blocks[:, 96:104].reshape(count, 1, 8), (0, 4), 0x0F).reshape(count, 16)
    high = unpack(blocks[:, 104:108].reshape(count, 1, 4), (0, 2, 4, 6), 0x03).reshape(count, 16)
    scale = halves(blocks[:, 108:110]) * ((low | high << 4).float() - 32)
    fields = unpack(blocks[:, 32:96].reshape(count, 2, 32), (0, 2, 4, 6), 0x03).reshape(count, 16, 16)
    third = unpack(blocks[:, :32].reshape(count, 1, 32), range(8), 0x01).reshape(count, 16, 16)
    return (scale.unsqueeze(-1) * ((fields | third << 2).float() - 4)).view(count, 256)


def q4_k(blocks: Tensor) -> Tensor:
    """Decode blocks of scale f16, minimum f16, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.

    Sub-blocks have 32 elements.
    """
    count = blocks.shape[0]
    scale, minimum = _scales_and_minima(blocks)
    fields = nibbles(blocks[:, 16:], 32).view(count, 8, 32)
    return (scale * fields.float() - minimum).view(count, 256)


def q5_k(blocks: Tensor) -> Tensor:
    """Decode blocks laid out as for `q4_k`, with 32 bytes of fifth bits before the nibbles."""
    count = blocks.shape[0]
    scale, minimum = _scales_and_minima(blocks)
    fifth = unpack(blocks[:, 16:48].reshape(count, 1, 32), range(8), 0x01).reshape(count, 8, 32)
    fields = nibbles(blocks[:, 48:], 32).view(count, 8, 32) | fifth << 4
    return (scale * fields.float() - minimum).view(count, 256)


def q6_k(blocks: Tensor) -> Tensor:
    """Decode blocks of 128 bytes of nibbles, 64 bytes of 2-bit high fields, 16 signed scales, scale f16.

    Sub-blocks have 16 elements.
    """
    count = blocks.shape[0]
    scale = halves(blocks[:, 208:210]) * int8(blocks[:, 192:208]).float()
    high = unpack(blocks[:, 128:192].reshape(count, 2, 32), (0, 2, 4, 6), 0x03).reshape(count, 256)
    fields = nibbles(blocks[:, :128], 64) | high << 4
    return (scale.unsqueeze(-1) * (fields.float() - 32).view(count, 16, 16)).view(count, 256)


def _scales_and_minima(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eight scales and minima of Q4_K or Q5_K blocks, each float32 [blocks, 8, 1].

    Of the 12 bytes, the first 4 hold scales 0-3 in their low six bits, and the next 4 hold minima 0-3 likewise. The
    last 4 hold the low nibbles of scales and minima 4-7, whose two high bits are the high bits of the first eight
    bytes.
    """
    first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scale = torch.cat((first & 0x3F, (third & 0x0F) | (first >> 2 & 0x30)), dim=1)
    minimum = torch.cat((second & 0x3F, (third >> 4) | (second >> 2 & 0x30)), dim=1)
    factors = halves(blocks[:, :4])
    return (factors[:, :1] * scale.float()).unsqueeze(-1), (factors[:, 1:] * minimum.float()).unsqueeze(-1)
