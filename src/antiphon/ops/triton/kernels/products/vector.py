"""Products with few rows of activations: weights are read once, by loads that do not wait for the previous kernel."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.products.activations import activate


@triton.jit
def vector_product(
    x, gain, w, bias, residual, y,
    eps,
    ROWS: tl.constexpr, K: tl.constexpr, N: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    NORM: tl.constexpr, GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr,
    LOOP: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Compute y [ROWS, N] = activation(norm(x) [ROWS, K] · wᵀ + bias) + residual, with w [N, K], or [2 N, K] if GATED.

    With NORM, x is normalised by its root mean square and multiplied by `gain`; every program computes the norm again,
    which costs less than a separate kernel. ROWS is a power of two; a program computes BN columns of all rows. Sums are
    kept by element and added up once, at the end, so that the loads of all tiles may be in flight. With a LOOP, for
    which BK must divide K, tiles are loaded one after another (1), or the next while one is computed (2).
    """
    release(PDL)
    EVEN_K: tl.constexpr = K % BK == 0
    rm = tl.arange(0, ROWS)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    in_n = rn < N
    wp = w + rn[:, None].to(tl.int64) * K + rk[None, :]
    first = in_n[:, None] & (rk < K)[None, :]
    w_tile = tl.load(wp, mask=first, other=0.0, eviction_policy="evict_first")
    u_tile = w_tile
    if GATED:
        u_tile = tl.load(wp + N * K, mask=first, other=0.0, eviction_policy="evict_first")
    g_tile = tl.zeros((BK,), tl.float32)
    if NORM:
        g_tile = tl.load(gain + rk, mask=rk < K, other=0.0).to(tl.float32)
    b_tile = tl.zeros((BN,), tl.float32)
    b_up = b_tile
    if BIAS:
        b_tile = tl.load(bias + rn, mask=in_n, other=0.0).to(tl.float32)
        if GATED:
            b_up = tl.load(bias + N + rn, mask=in_n, other=0.0).to(tl.float32)
    wait(PDL)
    element = rm[:, None] * N + rn[None, :]
    added = tl.zeros((ROWS, BN), tl.float32)
    if RESIDUAL:
        added = tl.load(residual + element, mask=in_n[None, :], other=0.0)
    squares = tl.zeros((ROWS, BK), tl.float32)
    sums = tl.zeros((ROWS, BN, BK), tl.float32)
    up_sums = tl.zeros((ROWS, BN, BK), tl.float32)
    if LOOP > 0:
        for k in range(0, K, BK):
            at = k + rk
            more = in_n[:, None] & (k + BK < K)
            w_next = w_tile
            u_next = u_tile
            if LOOP == 2:
                w_next = tl.load(wp + (k + BK), mask=more, other=0.0, eviction_policy="evict_first")
                if GATED:
                    u_next = tl.load(wp + (N * K + k + BK), mask=more, other=0.0, eviction_policy="evict_first")
            x_tile = tl.load(x + rm[:, None] * K + at[None, :]).to(tl.float32)
            if NORM:
                squares += x_tile * x_tile
                x_tile *= tl.load(gain + at).to(tl.float32)[None, :]
            sums += w_tile.to(tl.float32)[None, :, :] * x_tile[:, None, :]
            if GATED:
                up_sums += u_tile.to(tl.float32)[None, :, :] * x_tile[:, None, :]
            if LOOP == 1:
                w_next = tl.load(wp + (k + BK), mask=more, other=0.0, eviction_policy="evict_first")
                if GATED:
                    u_next = tl.load(wp + (N * K + k + BK), mask=more, other=0.0, eviction_policy="evict_first")
            w_tile = w_next
            u_tile = u_next
    else:
        for k in tl.static_range(0, K, BK):
            at = k + rk
            in_k = at < K
            if k > 0:
                if EVEN_K:
                    mask = in_n[:, None]
                else:
                    mask = in_n[:, None] & in_k[None, :]
                w_tile = tl.load(wp + k, mask=mask, other=0.0, eviction_policy="evict_first")
                if GATED:
                    u_tile = tl.load(wp + (N * K + k), mask=mask, other=0.0, eviction_policy="evict_first")
                if NORM:
                    g_tile = tl.load(gain + at, mask=in_k, other=0.0).to(tl.float32)
            x_tile = tl.load(x + rm[:, None] * K + at[None, :], mask=in_k[None, :], other=0.0).to(tl.float32)
            if NORM:
                squares += x_tile * x_tile
                x_tile *= g_tile[None, :]
            sums += w_tile.to(tl.float32)[None, :, :] * x_tile[:, None, :]
            if GATED:
                up_sums += u_tile.to(tl.float32)[None, :, :] * x_tile[:, None, :]
    acc = tl.sum(sums, 2)
    up = acc
    if GATED:
        up = tl.sum(up_sums, 2)
    if NORM:
        factor = 1.0 / tl.sqrt(tl.sum(squares, 1) / K + eps)
        acc *= factor[:, None]
        up *= factor[:, None]
    if BIAS:
        acc += b_tile[None, :]
        up += b_up[None, :]
    acc = activate(acc, ACTIVATION)
    if GATED:
        acc *= up
    if RESIDUAL:
        acc += added
    tl.store(y + element, acc.to(y.dtype.element_ty), mask=in_n[None, :])
