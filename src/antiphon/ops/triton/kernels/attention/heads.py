"""Queries, keys and values of many tokens: norms, rotary embedding and the store to the pages, in one pass."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.attention.fp8 import to_e4m3
from antiphon.ops.triton.kernels.attention.pages import SCALE_CHANNELS, token_elements


@triton.jit
def _prepared(x, gain, angles, position, stride, first, count, eps, D: tl.constexpr, DB: tl.constexpr,
              HB: tl.constexpr, ROTATED: tl.constexpr, NORM: tl.constexpr):  # fmt: skip
    """Return `count` heads [HB, DB] from element `first` on, normalised and rotated, in fp32."""
    HALF: tl.constexpr = ROTATED // 2
    rh = tl.arange(0, HB)
    rd = tl.arange(0, DB)
    inside = (rh < count)[:, None] & (rd < D)[None, :]
    source = x + first + rh[:, None] * stride
    wide = tl.load(source + rd[None, :], mask=inside, other=0.0).to(tl.float32)
    factor = tl.full((HB,), 1.0, tl.float32)
    if NORM:
        factor = 1.0 / tl.sqrt(tl.sum(wide * wide, 1) / D + eps)
        wide *= tl.load(gain + rd, mask=rd < D, other=0.0).to(tl.float32)[None, :]
    if ROTATED > 0:
        pair = tl.where(rd < HALF, rd + HALF, tl.where(rd < ROTATED, rd - HALF, rd))
        turned = tl.load(source + pair[None, :], mask=inside, other=0.0).to(tl.float32)
        if NORM:
            turned *= tl.load(gain + pair, mask=rd < D, other=0.0).to(tl.float32)[None, :]
        angle = angles + position * ROTATED + tl.where(rd < HALF, rd, rd - HALF)
        cos = tl.load(angle, mask=rd < ROTATED, other=1.0)
        sin = tl.load(angle + HALF, mask=rd < ROTATED, other=0.0)
        sin = tl.where(rd < HALF, -sin, sin)
        wide = wide * cos[None, :] + turned * sin[None, :]
    return wide * factor[:, None]


@triton.jit
def store_heads(pages, scales, slot, base, scale_base, x, count, FIRST: tl.constexpr, WIDTH: tl.constexpr,
                PAGE: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, HB: tl.constexpr):  # fmt: skip
    """Store x [HB, DB], the WIDTH channels from FIRST on of one token's `count` heads, in the token's slot.

    In int8 pages FIRST and WIDTH are multiples of SCALE_CHANNELS.
    """
    BYTES: tl.constexpr = pages.dtype.element_ty.primitive_bitwidth // 8
    rh = tl.arange(0, HB)
    rd = tl.arange(0, DB)
    entry, token = slot // PAGE, slot % PAGE
    inside = (rh < count)[:, None] & (rd < WIDTH)[None, :]
    at = pages + token_elements(entry, token, rh, base, PAGE, D, BYTES)[:, None] + FIRST + rd[None, :]
    if pages.dtype.element_ty == tl.int8:
        grouped = tl.reshape(x, (HB, DB // SCALE_CHANNELS, SCALE_CHANNELS))
        scale = (tl.max(tl.abs(grouped), 2) / 127.0).to(tl.float16)
        wide = scale.to(tl.float32)
        inverse = tl.where(wide > 0, 1.0 / wide, 0.0)
        # Adding and subtracting 1.5 * 2 ** 23 rounds to the nearest whole number, ties to even.
        rounded = (grouped * inverse[:, :, None] + 12582912.0) - 12582912.0
        rounded = tl.minimum(tl.maximum(rounded, -127.0), 127.0)
        tl.store(at, tl.reshape(rounded, (HB, DB)).to(tl.int8), mask=inside)
        groups = tl.arange(0, DB // SCALE_CHANNELS)
        known = (rh < count)[:, None] & (groups < WIDTH // SCALE_CHANNELS)[None, :]
        target = scales + token_elements(entry, token, rh, scale_base, PAGE, D // SCALE_CHANNELS, 2)[:, None]
        tl.store(target + FIRST // SCALE_CHANNELS + groups[None, :], scale, mask=known)
    elif pages.dtype.element_ty == tl.uint8:
        tl.store(at, to_e4m3(x), mask=inside)
    else:
        tl.store(at, x.to(pages.dtype.element_ty), mask=inside)


@triton.jit
def prepare_heads(
    q, k, v, q_gain, k_gain, angles, positions, slots, keys, values, key_scales, value_scales, balance, q_out, k_out,
    q_stride, q_head_stride, k_stride, k_head_stride, v_stride, v_head_stride,
    key_base, value_base, key_scale_base, value_scale_base, q_eps, k_eps,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, HB: tl.constexpr, HKB: tl.constexpr,
    ROTATED: tl.constexpr, PAGE: tl.constexpr, Q_NORM: tl.constexpr, K_NORM: tl.constexpr, BALANCED: tl.constexpr,
    STORE: tl.constexpr,
):  # fmt: skip
    """Write one token's queries to `q_out` [T, H, D], and its keys and values to the pages.

    A token with a negative slot is not stored. Without STORE, keys are written to `k_out` and values are ignored, as in
    `ops.rotary`.
    """
    token = tl.program_id(0).to(tl.int64)
    position = tl.load(positions + token) if ROTATED > 0 else 0
    rd = tl.arange(0, DB)
    rh = tl.arange(0, HB)
    heads = _prepared(
        q, q_gain, angles, position, q_head_stride, token * q_stride, H, q_eps, D, DB, HB, ROTATED, Q_NORM
    )
    inside = (rh < H)[:, None] & (rd < D)[None, :]
    target = q_out + token * (H * D) + rh[:, None] * D + rd[None, :]
    tl.store(target, heads.to(q_out.dtype.element_ty), mask=inside)
    rk = tl.arange(0, HKB)
    k_inside = (rk < HK)[:, None] & (rd < D)[None, :]
    k_heads = _prepared(
        k, k_gain, angles, position, k_head_stride, token * k_stride, HK, k_eps, D, DB, HKB, ROTATED, K_NORM
    )
    if STORE:
        slot = tl.load(slots + token)
        if slot >= 0:
            if BALANCED:
                k_heads /= tl.load(balance + rk[:, None] * D + rd[None, :], mask=k_inside, other=1.0)
            store_heads(keys, key_scales, slot, key_base, key_scale_base, k_heads, HK, 0, D, PAGE, D, DB, HKB)
            source = v + token * v_stride + rk[:, None] * v_head_stride + rd[None, :]
            v_heads = tl.load(source, mask=k_inside, other=0.0).to(tl.float32)
            store_heads(values, value_scales, slot, value_base, value_scale_base, v_heads, HK, 0, D, PAGE, D, DB, HKB)
    else:
        k_target = k_out + token * (HK * D) + rk[:, None] * D + rd[None, :]
        tl.store(k_target, k_heads.to(k_out.dtype.element_ty), mask=k_inside)
