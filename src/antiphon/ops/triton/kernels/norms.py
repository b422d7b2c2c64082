"""Norms over rows, with the sum of a residual where there is one."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait


@triton.jit
def norm_rows(
    x, residual, gain, bias, y, total,
    x_stride, x_inner_stride, residual_stride, residual_inner_stride, inner, eps,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, CENTRED: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """y = norm(x + residual) * gain + bias over rows of WIDTH, and total = x + residual; computed in fp32.

    A program does one row. Rows are [outer, inner] with strides; y and total are contiguous.
    """
    release(PDL)
    row = tl.program_id(0).to(tl.int64)
    outer, within = row // inner, row % inner
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    scale = tl.load(gain + columns, mask=inside, other=0.0).to(tl.float32)
    wait(PDL)
    wide = tl.load(x + outer * x_stride + within * x_inner_stride + columns, mask=inside, other=0.0).to(tl.float32)
    if RESIDUAL:
        place = residual + outer * residual_stride + within * residual_inner_stride + columns
        wide += tl.load(place, mask=inside, other=0.0).to(tl.float32)
        tl.store(total + row * WIDTH + columns, wide.to(total.dtype.element_ty), mask=inside)
    if CENTRED:
        wide = tl.where(inside, wide - tl.sum(wide, 0) / WIDTH, 0.0)
    wide *= 1.0 / tl.sqrt(tl.sum(wide * wide, 0) / WIDTH + eps)
    wide *= scale
    if BIAS:
        wide += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * WIDTH + columns, wide.to(y.dtype.element_ty), mask=inside)
