"""Philox4x32-10, a counter-based generator: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011)."""

from __future__ import annotations

import torch
from torch import Tensor

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF


def _multiply(a: Tensor, constant: int) -> tuple[Tensor, Tensor]:
    """Return the high and low 32 bits of a 32 x 32 bit product, without overflow of int64."""
    low = (a & 0xFFFF) * constant
    high = (a >> 16) * constant + (low >> 16)
    return high >> 16, ((high & 0xFFFF) << 16) | (low & 0xFFFF)


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]) -> list[Tensor]:
    """Generate four words of 32 random bits (as int64) for each counter and key, broadcast together."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = _multiply(c0, _MULTIPLIERS[0])
        high1, low1 = _multiply(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return [c0, c1, c2, c3]


def uniform(seed: Tensor, index: Tensor, columns: int) -> Tensor:
    """Generate uniform numbers in (0, 1), fp32 [R, columns]: element (r, v) depends only on seed[r], index[r], v."""
    device = seed.device
    blocks = torch.arange(-(-columns // 4), device=device)[None, :]
    seed, index = seed[:, None], index[:, None]
    zero = torch.zeros_like(seed)
    counter = (blocks, index & _MASK, (index >> 32) & _MASK, zero)
    words = torch.stack(philox(counter, (seed & _MASK, (seed >> 32) & _MASK)), dim=-1)  # [R, blocks, 4]
    bits = words.view(len(seed), -1)[:, :columns] >> 9  # 23 bits plus 0.5 fit fp32's mantissa: no rounding to 1
    return (bits.to(torch.float32) + 0.5) * 2.0**-23
