"""Decoders of GGML's IQ types, whose elements are rows of a fixed codebook, or of a non-linear 4-bit table.

Each takes uint8 [blocks, block bytes] and gives float32 [blocks, block elements]. The codebooks are data of the
format; they are read from the `gguf` package when first needed.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.weights.dequantize.bits import halves, nibbles, uint16, uint32, unpack
from antiphon.weights.types import TensorType

#: What the sixteen codes of IQ4_NL and IQ4_XS stand for.
IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)

#: Added to, or taken from, every codebook value of IQ1_S and IQ1_M.
IQ1_DELTA = 0.125


@cache
def iq_grid(type: TensorType) -> Tensor:
    """The codebook of an IQ type, int8 [entries, 8] (IQ3 types: [entries, 4]). Callers must not write to it."""
    try:
        from gguf import quants
    except ImportError as error:
        raise UnsupportedError(f"{type.name} tensors need the codebooks in the `gguf` package: install it") from error
    holder = getattr(quants, type.name, None)
    if holder is None or getattr(holder, "grid_hex", None) is None:
        raise UnsupportedError(f"{type.name} has no codebook")
    holder.init_grid()
    return torch.from_numpy(holder.grid.reshape(holder.grid_shape)).to(torch.int8)


def iq2_xxs(blocks: Tensor) -> Tensor:
    """scale f16; per 32 elements four 8-bit grid rows, then four 7-bit sign codes and a 4-bit scale."""
    count = blocks.shape[0]
    words = blocks[:, 2:].reshape(count, 8, 8)
    control = uint32(words[:, :, 4:])  # [blocks, 8, 1]
    scale = halves(blocks[:, :2]) * (0.5 + (control >> 28).float().view(count, 8)) * 0.25
    values = _rows(TensorType.IQ2_XXS, words[:, :, :4]) * _parity_signs(control)  # [blocks, 8, 32]
    return (scale.unsqueeze(-1) * values.float()).view(count, 256)


def iq2_xs(blocks: Tensor) -> Tensor:
    """scale f16, 32 codes of a 9-bit grid row and 7-bit signs, 8 bytes of 4-bit scales; sub-blocks of 16."""
    codes = uint16(blocks[:, 2:66])
    values = _rows(TensorType.IQ2_XS, codes & 0x1FF) * _sign_rows(_with_parity(codes >> 9))
    return _by_nibble_scale(blocks[:, :2], blocks[:, 66:], values)


def iq2_s(blocks: Tensor) -> Tensor:
    """scale f16, 32 low bytes of grid rows, 32 sign bytes, 8 bytes of high bits, 8 bytes of 4-bit scales."""
    count = blocks.shape[0]
    high = unpack(blocks[:, 66:74].unsqueeze(-1), (0, 2, 4, 6), 0x03).reshape(count, 32)
    rows = blocks[:, 2:34].to(torch.int32) | high.to(torch.int32) << 8
    values = _rows(TensorType.IQ2_S, rows) * _sign_rows(blocks[:, 34:66])
    return _by_nibble_scale(blocks[:, :2], blocks[:, 74:], values)


def iq3_xxs(blocks: Tensor) -> Tensor:
    """scale f16, 64 grid rows of 4; per 32 elements four 7-bit sign codes and a 4-bit scale."""
    count = blocks.shape[0]
    control = uint32(blocks[:, 66:]).unsqueeze(-1)  # [blocks, 8, 1]
    scale = halves(blocks[:, :2]) * (0.5 + (control >> 28).float().view(count, 8)) * 0.5
    values = _rows(TensorType.IQ3_XXS, blocks[:, 2:66]).view(count, 8, 32) * _parity_signs(control)
    return (scale.unsqueeze(-1) * values.float()).view(count, 256)


def iq3_s(blocks: Tensor) -> Tensor:
    """scale f16, 64 low bytes of grid rows of 4, 8 bytes of ninth bits, 32 sign bytes, 4 bytes of 4-bit scales."""
    count = blocks.shape[0]
    scales = unpack(blocks[:, 106:].unsqueeze(-1), (0, 4), 0x0F).reshape(count, 8)
    scale = halves(blocks[:, :2]) * (1 + 2 * scales.float())
    ninth = unpack(blocks[:, 66:74].unsqueeze(-1), range(8), 0x01).reshape(count, 64)
    rows = blocks[:, 2:66].to(torch.int32) | ninth.to(torch.int32) << 8
    values = _rows(TensorType.IQ3_S, rows) * _sign_rows(blocks[:, 74:106])
    return (scale.unsqueeze(-1) * values.view(count, 8, 32).float()).view(count, 256)


def iq1_s(blocks: Tensor) -> Tensor:
    """scale f16, 32 low bytes of grid rows; per 32 elements four 3-bit high fields, a 3-bit scale, the delta's sign."""
    count = blocks.shape[0]
    control = uint16(blocks[:, 34:])  # [blocks, 8]
    scale = halves(blocks[:, :2]) * (2 * (control >> 12 & 7) + 1).float()
    delta = torch.where(control >= 0x8000, -IQ1_DELTA, IQ1_DELTA)
    high = torch.stack([control >> shift & 7 for shift in (0, 3, 6, 9)], dim=-1).view(count, 32)
    values = _rows(TensorType.IQ1_S, blocks[:, 2:34].to(torch.int32) | high << 8).view(count, 8, 32)
    return (scale.unsqueeze(-1) * (values.float() + delta.unsqueeze(-1))).view(count, 256)


def iq1_m(blocks: Tensor) -> Tensor:
    """32 low bytes of grid rows, 16 bytes of 3-bit high fields with the delta's sign, four words of 3-bit scales.

    The f16 scale of the block is spread over the top nibbles of the four words, lowest nibble first.
    """
    count = blocks.shape[0]
    words = uint16(blocks[:, 48:])  # [blocks, 4]
    nibble = words >> 12
    bits = nibble[:, 0] | nibble[:, 1] << 4 | nibble[:, 2] << 8 | nibble[:, 3] << 12
    factor = bits.to(torch.int16).view(torch.float16).float().view(count, 1)
    scales = torch.stack([words >> shift & 7 for shift in (0, 3, 6, 9)], dim=-1).view(count, 16)
    scale = factor * (2 * scales + 1).float()
    control = unpack(blocks[:, 32:48].unsqueeze(-1), (0, 4), 0x0F).reshape(count, 32)
    delta = torch.where(control >= 8, -IQ1_DELTA, IQ1_DELTA)
    rows = blocks[:, :32].to(torch.int32) | (control & 7).to(torch.int32) << 8
    values = _rows(TensorType.IQ1_M, rows).view(count, 32, 8).float() + delta.unsqueeze(-1)
    return (scale.unsqueeze(-1) * values.view(count, 16, 16)).view(count, 256)


def iq4_nl(blocks: Tensor) -> Tensor:
    """scale f16, 16 bytes of nibbles into a fixed table."""
    return halves(blocks[:, :2]) * _iq4_values(nibbles(blocks[:, 2:], 16))


def iq4_xs(blocks: Tensor) -> Tensor:
    """scale f16, 16 high scale bits, 4 bytes of low scale nibbles, 128 bytes of nibbles; sub-blocks of 32."""
    count = blocks.shape[0]
    low = unpack(blocks[:, 4:8].unsqueeze(-1), (0, 4), 0x0F).reshape(count, 8)
    high = uint16(blocks[:, 2:4]) >> torch.arange(0, 16, 2, device=blocks.device) & 3
    scale = halves(blocks[:, :2]) * ((low.to(torch.int32) | high << 4).float() - 32)
    return (scale.unsqueeze(-1) * _iq4_values(nibbles(blocks[:, 8:], 16)).view(count, 8, 32)).view(count, 256)


def _iq4_values(codes: Tensor) -> Tensor:
    return torch.tensor(IQ4_VALUES, dtype=torch.float32, device=codes.device)[codes.to(torch.int32)]


def _by_nibble_scale(factor: Tensor, packed: Tensor, values: Tensor) -> Tensor:
    """int8 `values` [blocks, 256] times factor * (1/2 + scale) / 4, one 4-bit scale for each 16 of them."""
    count = packed.shape[0]
    scales = unpack(packed.unsqueeze(-1), (0, 4), 0x0F).reshape(count, 16)
    scale = halves(factor) * (0.5 + scales.float()) * 0.25
    return (scale.unsqueeze(-1) * values.view(count, 16, 16).float()).view(count, 256)


def _rows(type: TensorType, index: Tensor) -> Tensor:
    """Codebook rows end to end: int8 [blocks, ..., last * row length] of an index [blocks, ..., last]."""
    grid = iq_grid(type).to(index.device)
    # A row of 8 (or 4) bytes is gathered as one integer.
    word = torch.int64 if grid.shape[1] == 8 else torch.int32
    return grid.view(word).view(-1)[index.to(torch.int32)].view(torch.int8)


@cache
def _sign_table() -> Tensor:
    """For each byte eight int8 factors, -1 where its bit is set, as one int64: [256]."""
    bits = torch.arange(256).unsqueeze(1) >> torch.arange(8) & 1
    return (1 - 2 * bits).to(torch.int8).view(torch.int64).view(-1)


def _sign_rows(signs: Tensor) -> Tensor:
    """Factors of +1 and -1, int8 [blocks, ..., last * 8], of sign bytes [blocks, ..., last]."""
    return _sign_table().to(signs.device)[signs.to(torch.int32)].view(torch.int8)


def _with_parity(codes: Tensor) -> Tensor:
    """Sign bytes of 7-bit codes: the eighth bit makes the number of set bits even."""
    parity = codes ^ codes >> 4
    parity = parity ^ parity >> 2
    parity = (parity ^ parity >> 1) & 1
    return codes | parity << 7


def _parity_signs(control: Tensor) -> Tensor:
    """Factors of the four 7-bit sign codes in the low bits of words [blocks, 8, 1]: int8 [blocks, 8, 32]."""
    shift = torch.tensor((0, 7, 14, 21), device=control.device)
    return _sign_rows(_with_parity(control >> shift & 0x7F))
