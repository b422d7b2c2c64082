"""Norms over rows, and the sum with an optional residual before the norm."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait


@triton.jit(do_not_specialize=["rows"])
def norm_rows(
    x, residual, gain, bias, y, total,
    rows, x_stride, x_inner_stride, residual_stride, residual_inner_stride, inner, eps,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, CENTRED: tl.constexpr, BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Compute y = norm(x + residual) * gain + bias over rows of WIDTH, and total = x + residual, in fp32.

    A program computes ROWS of the `rows` rows, which are [outer, inner] with strides; y and total are contiguous.
    """
    release(PDL)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    outer, within = row // inner, row % inner
    columns = tl.arange(0, BLOCK)[None, :]
    in_width = columns < WIDTH
    inside = (row < rows)[:, None] & in_width
    scale = tl.load(gain + columns, mask=in_width, other=0.0).to(tl.float32)
    wait(PDL)
    source = x + (outer * x_stride + within * x_inner_stride)[:, None] + columns
    wide = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    if RESIDUAL:
        beside = residual + (outer * residual_stride + within * residual_inner_stride)[:, None] + columns
        wide += tl.load(beside, mask=inside, other=0.0).to(tl.float32)
        tl.store(total + row[:, None] * WIDTH + columns, wide.to(total.dtype.element_ty), mask=inside)
    if CENTRED:
        wide = tl.where(inside, wide - (tl.sum(wide, 1) / WIDTH)[:, None], 0.0)
    wide *= (1.0 / tl.sqrt(tl.sum(wide * wide, 1) / WIDTH + eps))[:, None]
    wide *= scale
    if BIAS:
        wide += tl.load(bias + columns, mask=in_width, other=0.0).to(tl.float32)
    tl.store(y + row[:, None] * WIDTH + columns, wide.to(y.dtype.element_ty), mask=inside)
