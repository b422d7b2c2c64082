"""Decoders of GGML's one-level types: blocks with one scale, and at most one minimum.

Each decodes uint8 [blocks, block bytes] to float32 [blocks, block elements].
"""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.weights.dequantize.bits import halves, int8, nibbles, unpack

#: Values of the sixteen 4-bit floats with two exponent bits and one mantissa bit (OCP Microscaling, E2M1), doubled.
E2M1_DOUBLED = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def q4_0(blocks: Tensor) -> Tensor:
    """Decode blocks of scale f16, 16 bytes of nibbles; value = scale * (q - 8)."""
    return halves(blocks[:, :2]) * (nibbles(blocks[:, 2:], 16).float() - 8)


def q4_1(blocks: Tensor) -> Tensor:
    """Decode blocks of scale f16, minimum f16, 16 bytes of nibbles; value = scale * q + minimum."""
    return halves(blocks[:, :2]) * nibbles(blocks[:, 4:], 16).float() + halves(blocks[:, 2:4])


def q5_0(blocks: Tensor) -> Tensor:
    """Decode blocks of scale f16, 32 fifth bits, 16 bytes of nibbles; value = scale * (q - 16)."""
    return halves(blocks[:, :2]) * (_five_bits(blocks[:, 2:6], blocks[:, 6:]).float() - 16)


def q5_1(blocks: Tensor) -> Tensor:
    """Decode blocks of scale f16, minimum f16, 32 fifth bits, 16 bytes of nibbles; value = scale * q + minimum."""
    return halves(blocks[:, :2]) * _five_bits(blocks[:, 4:8], blocks[:, 8:]).float() + halves(blocks[:, 2:4])


def q8_0(blocks: Tensor) -> Tensor:
    """Decode blocks of scale f16, 32 signed bytes; value = scale * q."""
    return halves(blocks[:, :2]) * int8(blocks[:, 2:]).float()


def tq1_0(blocks: Tensor) -> Tensor:
    """Decode blocks of 48 + 4 bytes of five base-3 digits each, scale f16; value = scale * (digit - 1)."""
    digits = torch.cat(
        (_trits(blocks[:, :32], 5), _trits(blocks[:, 32:48], 5), _trits(blocks[:, 48:52], 4)), dim=1
    )  # [blocks, 160 + 80 + 16]
    return halves(blocks[:, 52:54]) * (digits.float() - 1)


def tq2_0(blocks: Tensor) -> Tensor:
    """Decode blocks of 64 bytes of 2-bit fields, scale f16; value = scale * (q - 1)."""
    count = blocks.shape[0]
    fields = unpack(blocks[:, :64].reshape(count, 2, 32), (0, 2, 4, 6), 0x03).reshape(count, 256)
    return halves(blocks[:, 64:66]) * (fields.float() - 1)


def mxfp4(blocks: Tensor) -> Tensor:
    """Decode blocks of exponent byte (E8M0), 16 bytes of E2M1 nibbles; value = 2^(exponent - 127) * e2m1."""
    exponent = blocks[:, :1].to(torch.int32)
    # The table is doubled, so the scale is halved; the two smallest scales are then subnormal.
    bits = torch.where(exponent < 2, 0x00200000 << exponent.clamp(max=1), (exponent - 1).clamp(min=0) << 23)
    return bits.view(torch.float32) * _e2m1(nibbles(blocks[:, 1:], 16))


def nvfp4(blocks: Tensor) -> Tensor:
    """Decode blocks of four scales in unsigned E4M3, one per 16 elements, then 4 x 8 bytes of E2M1 nibbles."""
    count = blocks.shape[0]
    code = blocks[:, :4]
    exponent, mantissa = (code >> 3 & 0x0F).to(torch.int32), (code & 0x07).float()
    normal = torch.ldexp(1 + mantissa / 8, exponent - 7)
    scale = torch.where(exponent == 0, mantissa * 2**-9, normal) * 0.5  # the table is doubled
    scale = torch.where(code == 0x7F, torch.zeros_like(scale), scale)
    values = _e2m1(nibbles(blocks[:, 4:], 8)).view(count, 4, 16)
    return (scale.unsqueeze(-1) * values).view(count, 64)


def _five_bits(high: Tensor, low: Tensor) -> Tensor:
    """Return five-bit fields, uint8 [blocks, 32], from 32 packed high bits and 16 bytes of nibbles."""
    fifth = unpack(high.unsqueeze(-1), range(8), 0x01).reshape(high.shape[0], 32)
    return nibbles(low, 16) | fifth << 4


def _trits(packed: Tensor, digits: int) -> Tensor:
    """Return the leading base-3 digits of bytes that are fractions of 256, by digit: uint8 [blocks, digits * bytes]."""
    power = torch.tensor([3**digit for digit in range(digits)], dtype=torch.int32, device=packed.device).view(-1, 1)
    fraction = packed.unsqueeze(1).to(torch.int32) * power & 0xFF  # [blocks, digits, bytes]
    return (fraction * 3 >> 8).flatten(1)


def _e2m1(codes: Tensor) -> Tensor:
    return torch.tensor(E2M1_DOUBLED, dtype=torch.float32, device=codes.device)[codes.to(torch.int32)]
