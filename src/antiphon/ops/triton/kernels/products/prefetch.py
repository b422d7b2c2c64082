"""Bringing memory into the L2 cache ahead of its use."""

from __future__ import annotations

import triton
import triton.language as tl

#: Bytes of a cache line.
LINE = tl.constexpr(128)


@triton.jit
def prefetch_rows(base, first, stride, ROWS: tl.constexpr, WIDTH: tl.constexpr, ON: tl.constexpr):
    """Ask for `WIDTH` elements from each of `ROWS` rows of a matrix, which lie `stride` elements apart.

    `first` is the element at which they begin. It changes nothing but time.
    """
    if ON:
        STEP: tl.constexpr = LINE // (base.dtype.element_ty.primitive_bitwidth // 8)
        COUNT: tl.constexpr = triton.next_power_of_2((WIDTH + STEP - 1) // STEP)
        rows = tl.arange(0, ROWS)
        lines = tl.minimum(tl.arange(0, COUNT) * STEP, WIDTH - 1)
        pointers = base + first + rows[:, None].to(tl.int64) * stride + lines[None, :]
        tl.inline_asm_elementwise(
            "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [pointers], dtype=tl.int32, is_pure=False, pack=1
        )
