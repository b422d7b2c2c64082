"""Kernel that writes where no memory is."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

#: Offset in elements of four bytes, larger than any allocation.
DISTANCE = 1 << 42


@triton.jit
def _write(pointer, distance):
    tl.store(pointer + distance, 1.0)


def write_out_of_bounds(device: str) -> None:
    """Launch the write; it returns before the card reports the error."""
    target = torch.zeros(1, device=device)
    _write[(1,)](target, DISTANCE)
