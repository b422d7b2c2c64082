"""Heads whose channels are all rotated: norms, rotary embedding and the store to the pages, each value read once."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.attention.heads import store_heads


@triton.jit
def _rotated(x, gain, cos, sin, count, eps, D: tl.constexpr, HALFB: tl.constexpr, HB: tl.constexpr,
             NORM: tl.constexpr):  # fmt: skip
    """Return both halves [HB, HALFB] of the `count` heads at x, normalised and rotated, in fp32."""
    HALF: tl.constexpr = D // 2
    heads = tl.arange(0, HB)[:, None]
    channels = tl.arange(0, HALFB)[None, :]
    inside = (heads < count) & (channels < HALF)
    source = x + heads * D + channels
    low = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(source + HALF, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        factor = 1.0 / tl.sqrt(tl.sum(low * low + high * high, 1) / D + eps)
        low *= tl.load(gain + channels, mask=channels < HALF, other=0.0).to(tl.float32) * factor[:, None]
        high *= tl.load(gain + HALF + channels, mask=channels < HALF, other=0.0).to(tl.float32) * factor[:, None]
    return low * cos - high * sin, high * cos + low * sin


@triton.jit
def rotate_heads(
    q, k, v, q_gain, k_gain, angles, positions, slots, keys, values, key_scales, value_scales, balance, q_out,
    q_stride, k_stride, v_stride, key_base, value_base, key_scale_base, value_scale_base, q_eps, k_eps,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, HALFB: tl.constexpr, HB: tl.constexpr,
    HKB: tl.constexpr, PAGE: tl.constexpr, Q_NORM: tl.constexpr, K_NORM: tl.constexpr, BALANCED: tl.constexpr,
):  # fmt: skip
    """Write one token's queries to `q_out` [T, H, D], and its keys and values to the pages.

    A token with a negative slot is not stored. The heads of a token are contiguous in q, k and v. `angles` [positions,
    D] has the cosines, then the sines.
    """
    HALF: tl.constexpr = D // 2
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token)
    channels = tl.arange(0, HALFB)[None, :]
    angle = angles + tl.load(positions + token).to(tl.int64) * D + channels
    cos = tl.load(angle, mask=channels < HALF, other=1.0)
    sin = tl.load(angle + HALF, mask=channels < HALF, other=0.0)
    low, high = _rotated(q + token * q_stride, q_gain, cos, sin, H, q_eps, D, HALFB, HB, Q_NORM)
    heads = tl.arange(0, HB)[:, None]
    inside = (heads < H) & (channels < HALF)
    target = q_out + token * (H * D) + heads * D + channels
    tl.store(target, low.to(q_out.dtype.element_ty), mask=inside)
    tl.store(target + HALF, high.to(q_out.dtype.element_ty), mask=inside)
    if slot >= 0:
        k_low, k_high = _rotated(k + token * k_stride, k_gain, cos, sin, HK, k_eps, D, HALFB, HKB, K_NORM)
        rk = tl.arange(0, HKB)[:, None]
        if BALANCED:
            k_inside = (rk < HK) & (channels < HALF)
            k_low /= tl.load(balance + rk * D + channels, mask=k_inside, other=1.0)
            k_high /= tl.load(balance + rk * D + HALF + channels, mask=k_inside, other=1.0)
        store_heads(keys, key_scales, slot, key_base, key_scale_base, k_low, HK, 0, HALF, PAGE, D, HALFB, HKB)
        store_heads(keys, key_scales, slot, key_base, key_scale_base, k_high, HK, HALF, HALF, PAGE, D, HALFB, HKB)
        rd = tl.arange(0, DB)[None, :]
        source = v + token * v_stride + rk * D + rd
        v_heads = tl.load(source, mask=(rk < HK) & (rd < D), other=0.0).to(tl.float32)
        store_heads(values, value_scales, slot, value_base, value_scale_base, v_heads, HK, 0, D, PAGE, D, DB, HKB)
