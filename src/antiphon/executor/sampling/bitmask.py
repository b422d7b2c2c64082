"""Packed masks of allowed tokens, applied to logits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def apply_bitmask(logits: Tensor, masks: Sequence[NDArray[Any] | None]) -> None:
    """Set the logits of disallowed tokens to minus infinity, in place; the others keep their value.

    `logits` is [rows, vocabulary] and `masks` has one entry per row: bits of any integer type, the lowest bit of the
    first byte for token 0, or None for a row left as it is. Tokens past the end of a mask are disallowed.
    """
    if len(masks) != len(logits):
        raise ValueError(f"{len(masks)} masks for {len(logits)} rows of logits")
    rows = [row for row, mask in enumerate(masks) if mask is not None]
    if not rows:
        return
    vocab_size = logits.shape[1]
    packed = np.zeros((len(rows), -(-vocab_size // 8)), dtype=np.uint8)
    for target, mask in zip(packed, (mask for mask in masks if mask is not None), strict=True):
        data = np.ascontiguousarray(mask).view(np.uint8)[: len(target)]
        target[: len(data)] = data
    index = torch.from_numpy(packed).to(logits.device).to(torch.int32).view(-1)
    caps = _caps(logits.dtype, logits.device).index_select(0, index).view(len(rows), -1)[:, :vocab_size]
    if len(rows) == len(logits):
        torch.minimum(logits, caps, out=logits)
    else:
        chosen = torch.tensor(rows, device=logits.device)
        logits.index_copy_(0, chosen, torch.minimum(logits.index_select(0, chosen), caps))


@cache
def _caps(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Upper bounds [256, 8] of the eight logits of each mask byte: infinity where allowed, else minus infinity."""
    bits = torch.arange(256, device=device)[:, None] >> torch.arange(8, device=device) & 1  # [256, 8]
    return torch.where(bits.bool(), torch.inf, -torch.inf).to(dtype)
