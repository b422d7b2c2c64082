"""A new operation in a single file: its declaration is its reference implementation."""

from __future__ import annotations

from torch import Tensor


def mirror_rows(x: Tensor, times: int = 1) -> Tensor:
    """Reverse the channels of x [T, H] `times` times → [T, H]."""
    return x.flip(-1) if times % 2 else x.clone()
