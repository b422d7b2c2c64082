"""A kernel that writes where no memory is."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

#: In elements of four bytes; no allocation is so large.
DISTANCE = 1 << 42


@triton.jit
def _write(pointer, distance):
    tl.store(pointer + distance, 1.0)


def write_out_of_bounds(device: str) -> None:
    """Returns before the card has found out."""
    target = torch.zeros(1, device=device)
    _write[(1,)](target, DISTANCE)
