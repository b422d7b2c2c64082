"""Norms that the kernels around them compute: how a product reads one, and what it leaves for the next."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Normed:
    """A norm that the product computes: x in fp32, or scaled already, with its sums of squares."""

    x: Tensor
    gain: Tensor
    eps: float
    squares: Tensor | None = None
    parts: int = 0


@dataclass(frozen=True)
class NextNorm:
    """What a kernel leaves for the norm after it: its result times `gain` in `scaled`, and sums of its squares."""

    gain: Tensor
    scaled: Tensor
    squares: Tensor  # fp32 [parts, padded rows]
