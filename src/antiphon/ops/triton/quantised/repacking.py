"""Block-quantised rows in the order that the kernels read: words of codes, scales and factors in separate arrays.

Eight rows and eight blocks of 32 elements make a tile. In a tile the words lie as [plane, block, row], so that a warp
reads planes of tiles with contiguous loads and each thread has whole blocks of its rows. Nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.ops.triton.quantised.forms import BLOCK, FORMS, GROUP, WIDTH, BlockForm
from antiphon.weights.dequantize.bits import nibbles, unpack
from antiphon.weights.types import TensorType

#: Elements repacked at a time, so that temporaries stay small beside the weights.
CHUNK_ELEMENTS = 1 << 25


@dataclass(frozen=True)
class BlockRows:
    """Repacked rows of one quantised type, padded with zeros to whole tiles.

    A word of codes is rotated left by 15 bits, so that one shift or rotation brings any of its bytes into the upper
    bits of a float's mantissa.
    """

    type: TensorType
    rows: int
    columns: int
    words: Tensor  # int32 [row tiles, column tiles, planes, GROUP, WIDTH]
    scales: Tensor  # [row tiles, column tiles, GROUP, WIDTH]: f16, two of them as int32, or two bytes as int16
    factors: Tensor  # [row tiles, column tiles, WIDTH]: f16 (Q6_K), two of them as int32 (Q4_K, Q5_K), else empty

    @property
    def form(self) -> BlockForm:
        return FORMS[self.type]

    @property
    def column_tiles(self) -> int:
        return self.words.shape[1]

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.scales.nbytes + self.factors.nbytes

    def to(self, device: torch.device | str) -> BlockRows:
        moved = (array.to(device) for array in (self.words, self.scales, self.factors))
        return BlockRows(self.type, self.rows, self.columns, *moved)


def repacked_bytes(type: TensorType, rows: int, columns: int) -> int:
    """Return the bytes of `BlockRows` of this type and shape."""
    form = FORMS[type]
    tiles = -(-rows // WIDTH) * -(-columns // (BLOCK * GROUP))
    scale_type, factor_type = _array_types(form)
    factors = WIDTH * factor_type.itemsize if form.is_super else 0
    return tiles * (GROUP * WIDTH * (4 * form.planes + scale_type.itemsize) + factors)


def _array_types(form: BlockForm) -> tuple[torch.dtype, torch.dtype]:
    """Return the element types of the arrays of scales and of factors."""
    scale_type = {"half": torch.float16, "half_minimum": torch.int32}.get(form.scale, torch.int16)
    return scale_type, torch.float16 if form.scale == "signed" else torch.int32


def repack(data: Tensor, type: TensorType, columns: int) -> BlockRows:
    """Repack uint8 [rows, row bytes] of a type in `FORMS`, on the device of the data."""
    form = FORMS[type]
    rows, size = data.shape[0], type.block.size
    row_tiles, column_tiles = -(-rows // WIDTH), -(-columns // (BLOCK * GROUP))
    scale_type, factor_type = _array_types(form)
    words = torch.zeros(row_tiles, column_tiles, form.planes, GROUP, WIDTH, dtype=torch.int32, device=data.device)
    scales = torch.zeros(row_tiles, column_tiles, GROUP, WIDTH, dtype=scale_type, device=data.device)
    factors = torch.zeros(
        (row_tiles, column_tiles, WIDTH) if form.is_super else (0,), dtype=factor_type, device=data.device
    )
    for first, count in _chunks(rows, columns):
        blocks = data[first : first + count].reshape(-1, size)
        codes, scale, factor = _take_apart(blocks, type)
        tiles = slice(first // WIDTH, first // WIDTH + -(-count // WIDTH))
        padded = _tiled(_words(codes, form).view(count, columns // BLOCK, form.planes), column_tiles, GROUP)
        words[tiles] = padded.permute(0, 2, 4, 3, 1)  # [row tiles, column tiles, planes, GROUP, WIDTH]
        scales[tiles] = _tiled(scale.view(count, columns // BLOCK, 1), column_tiles, GROUP)[..., 0].permute(0, 2, 3, 1)
        if factor is not None:
            factors[tiles] = _tiled(factor.view(count, column_tiles, 1), column_tiles, 1)[..., 0, 0].permute(0, 2, 1)
    return BlockRows(type, rows, columns, words, scales, factors)


def _chunks(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Yield the first row and the number of rows of each chunk; all but the last are whole tiles."""
    step = max(1, CHUNK_ELEMENTS // columns // WIDTH) * WIDTH
    for first in range(0, rows, step):
        yield first, min(step, rows - first)


def _tiled(values: Tensor, column_tiles: int, group: int) -> Tensor:
    """Return values [rows, blocks, n] padded to whole tiles: [row tiles, WIDTH, column tiles, group, n]."""
    rows, blocks, width = values.shape
    row_tiles = -(-rows // WIDTH)
    if rows % WIDTH or blocks != column_tiles * group:
        padded = values.new_zeros(row_tiles * WIDTH, column_tiles * group, width)
        padded[:rows, :blocks] = values
        values = padded
    return values.view(row_tiles, WIDTH, column_tiles, group, width)


def _words(codes: Tensor, form: BlockForm) -> Tensor:
    """Return uint8 codes [n] as words int32 [n / 32, planes], low bits first."""
    if form.low_bits == 8:
        return _rotated(codes.view(-1, BLOCK))
    pairs = (codes & 0x0F).view(-1, BLOCK // 2, 2)
    low = _rotated(pairs[..., 0] | pairs[..., 1] << 4)
    if not form.high_bits:
        return low
    per_byte = 8 // form.high_bits
    fields = (codes >> 4).view(-1, BLOCK // per_byte, per_byte)
    high = fields[..., 0].clone()
    for index in range(1, per_byte):
        high |= fields[..., index] << index * form.high_bits
    return torch.cat((low, _rotated(high)), dim=1)


def _rotated(data: Tensor) -> Tensor:
    """Return uint8 [n, 4 * words] as int32 [n, words], rotated left by 15 bits."""
    words = data.contiguous().view(torch.int32)
    return words << 15 | words >> 17 & 0x7FFF


def _take_apart(blocks: Tensor, type: TensorType) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the codes (uint8 [n]), scales (one per 32 codes) and factors (None, or one per 256 codes) of blocks."""
    form = FORMS[type]
    if type is TensorType.Q8_0:
        return (blocks[:, 2:] ^ 0x80).reshape(-1), _as(blocks[:, :2], torch.float16), None
    if form.scale == "half":
        return _one_level(blocks[:, 2:], form), _as(blocks[:, :2], torch.float16), None
    if form.scale == "half_minimum":
        return _one_level(blocks[:, 4:], form), _as(blocks[:, :4], torch.int32), None
    if form.scale == "six_bits":
        return _six_bits(blocks, form)
    high = unpack(blocks[:, 128:192].reshape(-1, 2, 32), (0, 2, 4, 6), 0x03).reshape(-1, 256)
    codes = nibbles(blocks[:, :128], 64) | high << 4
    return codes.reshape(-1), _as(blocks[:, 192:208] ^ 0x80, torch.int16), _as(blocks[:, 208:210], torch.float16)


def _one_level(data: Tensor, form: BlockForm) -> Tensor:
    """Return the codes of Q4_0, Q4_1, Q5_0 or Q5_1 blocks from the bytes after their scales."""
    if not form.high_bits:
        return nibbles(data, 16).reshape(-1)
    fifth = unpack(data[:, :4].unsqueeze(-1), range(8), 0x01).reshape(-1, BLOCK)
    return (nibbles(data[:, 4:], 16) | fifth << 4).reshape(-1)


def _six_bits(blocks: Tensor, form: BlockForm) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes, scales and factors of Q4_K or Q5_K blocks.

    The low byte of a scale is the multiple of the factor's scale, the high byte that of its minimum.
    """
    first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scale = torch.cat((first & 0x3F, (third & 0x0F) | (first >> 2 & 0x30)), dim=1)
    minimum = torch.cat((second & 0x3F, (third >> 4) | (second >> 2 & 0x30)), dim=1)
    codes = nibbles(blocks[:, 48 if form.high_bits else 16 :], 32)
    if form.high_bits:
        codes = codes | unpack(blocks[:, 16:48].reshape(-1, 1, 32), range(8), 0x01).reshape(-1, 256) << 4
    packed = torch.stack((scale, minimum), dim=-1).view(-1, 16)
    return codes.reshape(-1), _as(packed, torch.int16), _as(blocks[:, :4], torch.int32)


def _as(data: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bytes of uint8 [blocks, n] as flat elements of another type."""
    return data.contiguous().view(dtype).reshape(-1)
