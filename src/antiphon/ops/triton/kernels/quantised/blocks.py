"""Decoding of repacked blocks (`ops/triton/quantised`): codes as floats without conversions, and scales.

A mask brings a field of a word into the mantissa of a float between 1 and 2: 1 + code * 2^(AT - 8), where AT is the
field's first bit in its byte. `_value` subtracts the 1 again.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Blocks along a row, and rows, of a tile.
GROUP = tl.constexpr(8)
WIDTH = tl.constexpr(8)

#: Kinds of scales: f16; f16 with a minimum; 6-bit multiples; two signed bytes.
HALF = tl.constexpr(0)
HALF_MINIMUM = tl.constexpr(1)
SIX_BITS = tl.constexpr(2)
SIGNED = tl.constexpr(3)

_ONE = tl.constexpr(0x3F800000)
_WHOLE = tl.constexpr(0x4B000000)  # 2^23, whose mantissa counts ones


@triton.jit
def byte_view(w, BYTE: tl.constexpr):
    """Return the word with byte BYTE in its bits 15 to 22; words are stored rotated left by 15 bits."""
    if BYTE == 0:
        v = w
    elif BYTE == 1:
        v = w >> 8
    elif BYTE == 2:
        v = (w << 16) | (w >> 16)
    else:
        v = w << 8
    return v


@triton.jit
def field(v, AT: tl.constexpr, BITS: tl.constexpr):
    """Return 1 + code * 2^(AT - 8) for the code of BITS bits, from bit AT on, of the byte in view."""
    MASK: tl.constexpr = ((1 << BITS) - 1) << (15 + AT)
    return ((v & MASK) | _ONE).to(tl.float32, bitcast=True)


@triton.jit
def small_number(bits):
    """Return an integer below 2^23 as fp32."""
    return (bits | _WHOLE).to(tl.float32, bitcast=True) - 8388608.0


@triton.jit
def low_half(word):
    """Return the f16 in the low bits of a 32-bit word, as fp32."""
    return (word & 0xFFFF).to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def block_scale(scale, factor, PART: tl.constexpr, SCALE: tl.constexpr):
    """Return the scale of a block (of its half PART if SIGNED), fp32."""
    if SCALE == HALF:
        s = scale.to(tl.float32)
    elif SCALE == HALF_MINIMUM:
        s = low_half(scale.to(tl.uint32, bitcast=True))
    elif SCALE == SIX_BITS:
        s = low_half(factor.to(tl.uint32, bitcast=True)) * small_number(scale.to(tl.uint32) & 0xFF)
    else:
        s = factor.to(tl.float32) * (small_number((scale.to(tl.uint32) >> (8 * PART)) & 0xFF) - 128.0)
    return s


@triton.jit
def block_minimum(scale, factor, SCALE: tl.constexpr):
    """Return the minimum that is added to every element of a block, fp32, for HALF_MINIMUM and SIX_BITS."""
    if SCALE == HALF_MINIMUM:
        m = low_half(scale.to(tl.uint32, bitcast=True) >> 16)
    else:
        multiple = small_number((scale.to(tl.uint32) >> 8) & 0xFF)
        m = -low_half(factor.to(tl.uint32, bitcast=True) >> 16) * multiple
    return m


@triton.jit
def load_blocks(words, scales, factors, block, row, inside, TILES: tl.constexpr, PLANES: tl.constexpr,
                SCALE: tl.constexpr):  # fmt: skip
    """Load the words, scales and factors of blocks [blocks, rows].

    There are always eight words; those that the type does not have repeat the first. TILES is the number of tiles along
    a row.
    """
    tile = row // WIDTH
    lane = row % WIDTH
    group = block // GROUP
    within = (block % GROUP) * WIDTH + lane
    at = words + ((tile.to(tl.int64) * TILES + group) * (PLANES * GROUP * WIDTH) + within)
    w0 = _plane(at, 0, inside)
    w1 = _plane(at, 1, inside)
    w2 = _plane(at, 2, inside)
    w3 = _plane(at, 3, inside)
    w4 = w0
    w5 = w0
    w6 = w0
    w7 = w0
    if PLANES > 4:
        w4 = _plane(at, 4, inside)
    if PLANES > 5:
        w5 = _plane(at, 5, inside)
    if PLANES > 6:
        w6 = _plane(at, 6, inside)
        w7 = _plane(at, 7, inside)
    index = tile.to(tl.int64) * TILES + group
    scale = tl.load(scales + (index * (GROUP * WIDTH) + within), mask=inside, other=0, eviction_policy="evict_first")
    factor = scale
    if (SCALE == SIX_BITS) | (SCALE == SIGNED):
        factor = tl.load(factors + (index * WIDTH + lane), mask=inside, other=0, eviction_policy="evict_first")
    return w0, w1, w2, w3, w4, w5, w6, w7, scale, factor


@triton.jit
def _plane(at, PLANE: tl.constexpr, inside):
    loaded = tl.load(at + PLANE * (GROUP * WIDTH), mask=inside, other=0, eviction_policy="evict_first")
    return loaded.to(tl.uint32, bitcast=True)


@triton.jit
def eight_values(tile, EIGHTH: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr,
                 SCALE: tl.constexpr):  # fmt: skip
    """Return the decoded elements from 8 * EIGHTH on of blocks: fp32 [blocks, rows, 8]."""
    PART: tl.constexpr = EIGHTH // 2
    scale = block_scale(tile[8], tile[9], PART, SCALE)
    added = -OFFSET * scale
    if (SCALE == HALF_MINIMUM) | (SCALE == SIX_BITS):
        added = block_minimum(tile[8], tile[9], SCALE)
    FIRST: tl.constexpr = EIGHTH * 8
    v04 = tl.join(_value(tile, FIRST, scale, added, LOW, HIGH), _value(tile, FIRST + 4, scale, added, LOW, HIGH))
    v15 = tl.join(_value(tile, FIRST + 1, scale, added, LOW, HIGH), _value(tile, FIRST + 5, scale, added, LOW, HIGH))
    v26 = tl.join(_value(tile, FIRST + 2, scale, added, LOW, HIGH), _value(tile, FIRST + 6, scale, added, LOW, HIGH))
    v37 = tl.join(_value(tile, FIRST + 3, scale, added, LOW, HIGH), _value(tile, FIRST + 7, scale, added, LOW, HIGH))
    joined = tl.join(tl.join(v04, v26), tl.join(v15, v37))  # [blocks, rows, 2, 2, 2]
    return tl.reshape(joined, (joined.shape[0], joined.shape[1], 8))


@triton.jit
def all_values(tile, LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr, SCALE: tl.constexpr):
    """Return decoded blocks: fp32 [blocks, rows, 32]."""
    first = tl.join(eight_values(tile, 0, LOW, HIGH, OFFSET, SCALE), eight_values(tile, 1, LOW, HIGH, OFFSET, SCALE))
    second = tl.join(eight_values(tile, 2, LOW, HIGH, OFFSET, SCALE), eight_values(tile, 3, LOW, HIGH, OFFSET, SCALE))
    joined = tl.permute(tl.join(first, second), (0, 1, 4, 3, 2))  # [blocks, rows, 2, 2, 8]
    return tl.reshape(joined, (joined.shape[0], joined.shape[1], 32))


@triton.jit
def _value(tile, ELEMENT: tl.constexpr, scale, added, LOW: tl.constexpr, HIGH: tl.constexpr):
    """Return scale * code + added for element ELEMENT of each block; the code is exact."""
    BIT: tl.constexpr = ELEMENT * LOW
    AT: tl.constexpr = BIT % 8
    code = field(byte_view(tile[BIT // 32], BIT % 32 // 8), AT, LOW) * (256.0 / (1 << AT)) - 256.0 / (1 << AT)
    if HIGH > 0:
        HIGH_BIT: tl.constexpr = ELEMENT * HIGH
        HIGH_AT: tl.constexpr = HIGH_BIT % 8
        factor: tl.constexpr = 4096.0 / (1 << HIGH_AT)
        code += field(byte_view(tile[4 + HIGH_BIT // 32], HIGH_BIT % 32 // 8), HIGH_AT, HIGH) * factor - factor
    return code * scale + added
