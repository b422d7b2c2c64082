"""Keys and values in the pages of the cache: reading tiles, and writing the channels of one token."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.attention.fp8 import from_e4m3, to_e4m3

#: Channels per fp16 scale in int8 pages; the same as `ops.cache.SCALE_CHANNELS`.
SCALE_CHANNELS = tl.constexpr(32)
#: Bytes per unit of a table entry; the same as `ops.cache.OFFSET_UNIT`.
UNIT = tl.constexpr(256)


@triton.jit
def token_elements(entry, token, head, base, PAGE: tl.constexpr, WIDTH: tl.constexpr, BYTES: tl.constexpr):
    """Return the element at which a head's WIDTH values of a token begin, for a region at `base` in its block."""
    return entry.to(tl.int64) * (UNIT // BYTES) + base + (head * PAGE + token % PAGE) * WIDTH


@triton.jit
def load_tile(
    pages, scales, entry, token, head, base, scale_base, mask, channels, to: tl.constexpr,
    PAGE: tl.constexpr, D: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Return the values [tokens, channels] of a head for `token` in the blocks `entry`, as type `to`; 0 where masked.

    Pages of uint8 are e4m3 on GPUs that cannot convert e4m3.
    """
    BYTES: tl.constexpr = pages.dtype.element_ty.primitive_bitwidth // 8
    start = token_elements(entry, token, head, base, PAGE, D, BYTES)
    inside = mask[:, None]
    if not EVEN:
        inside = inside & (channels < D)[None, :]
    tile = tl.load(pages + start[:, None] + channels[None, :], mask=inside, other=0.0)
    if pages.dtype.element_ty == tl.int8:
        group = token_elements(entry, token, head, scale_base, PAGE, D // SCALE_CHANNELS, 2)
        scale = tl.load(scales + group[:, None] + (channels // SCALE_CHANNELS)[None, :], mask=inside, other=0.0)
        return (tile.to(tl.float32) * scale.to(tl.float32)).to(to)
    if pages.dtype.element_ty == tl.uint8:
        return from_e4m3(tile).to(to)
    return tile.to(to)


@triton.jit
def store_token(
    pages, scales, entry, token, head, base, scale_base, x, channels,
    PAGE: tl.constexpr, D: tl.constexpr, DB: tl.constexpr,
):  # fmt: skip
    """Write the channels x [DB] of one token and head, and return them in fp32 as they will be read."""
    BYTES: tl.constexpr = pages.dtype.element_ty.primitive_bitwidth // 8
    target = pages + token_elements(entry, token, head, base, PAGE, D, BYTES) + channels
    if pages.dtype.element_ty == tl.int8:
        grouped = tl.reshape(x, (DB // SCALE_CHANNELS, SCALE_CHANNELS))
        scale = (tl.max(tl.abs(grouped), 1) / 127.0).to(tl.float16)
        wide = scale.to(tl.float32)
        inverse = tl.where(wide > 0, 1.0 / wide, 0.0)
        # Adding and subtracting 1.5 * 2 ** 23 rounds to the nearest whole number, ties to even.
        rounded = (grouped * inverse[:, None] + 12582912.0) - 12582912.0
        rounded = tl.minimum(tl.maximum(rounded, -127.0), 127.0)
        tl.store(target, tl.reshape(rounded, (DB,)).to(tl.int8), mask=channels < D)
        groups = tl.arange(0, DB // SCALE_CHANNELS)
        scale_target = scales + token_elements(entry, token, head, scale_base, PAGE, D // SCALE_CHANNELS, 2) + groups
        tl.store(scale_target, scale, mask=groups < D // SCALE_CHANNELS)
        return tl.reshape(rounded * wide[:, None], (DB,))
    if pages.dtype.element_ty == tl.uint8:
        codes = to_e4m3(x)
        tl.store(target, codes, mask=channels < D)
        return from_e4m3(codes)
    stored = x.to(pages.dtype.element_ty)
    tl.store(target, stored, mask=channels < D)
    return stored.to(tl.float32)
