"""Means over sequences of rows."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mean_rows(x, starts, y, x_stride, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Compute y [R, WIDTH], fp32: the mean of rows starts[r] to starts[r + 1] of x; 0 for an empty sequence.

    A program adds up BLOCK columns of one sequence, ROWS rows at a time.
    """
    sequence = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    in_width = columns < WIDTH
    begin, end = tl.load(starts + sequence).to(tl.int64), tl.load(starts + sequence + 1).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(begin, end, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < end)[:, None] & in_width[None, :]
        values = tl.load(x + row[:, None] * x_stride + columns[None, :], mask=inside, other=0.0)
        total += tl.sum(values.to(tl.float32), 0)
    mean = total / tl.maximum(end - begin, 1).to(tl.float32)
    tl.store(y + sequence.to(tl.int64) * WIDTH + columns, mean, mask=in_width)
