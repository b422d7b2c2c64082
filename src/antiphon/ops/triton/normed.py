"""Norms fused into products: the norm that a product computes, and what a kernel writes for the next norm."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Normed:
    """Norm that the kernel of a product computes.

    Without `squares`, x is fp32 and the kernel computes the whole norm. Otherwise x was multiplied by `gain` already,
    and the kernel divides by the root mean square, from `parts` partial sums of squares per row.
    """

    x: Tensor
    gain: Tensor
    eps: float
    squares: Tensor | None = None  # fp32 [parts, padded rows]
    parts: int = 0


@dataclass(frozen=True)
class NextNorm:
    """Outputs that a kernel writes for the next norm: its result times `gain` in `scaled`, and sums of its squares."""

    gain: Tensor
    scaled: Tensor
    squares: Tensor  # fp32 [parts, padded rows]
