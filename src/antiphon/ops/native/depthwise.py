"""Convolutions of each channel by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from antiphon.ops.native.extension import default_threads, extension

_taps_first: Any = WeakTensorKeyDictionary()


def depthwise(x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, int], dilation: int) -> Tensor:
    """x [B, T, C] with a weight [C, 1, taps], whose padding keeps the number of frames."""
    taps = _taps_first.get(weight)
    if taps is None:
        taps = _taps_first[weight] = weight.detach()[:, 0].T.contiguous()
    x = x.contiguous()
    out = torch.empty_like(x)
    extension().depthwise(
        x.data_ptr(), *x.shape, taps.data_ptr(), len(taps), dilation, padding[0],
        0 if bias is None else bias.data_ptr(), out.data_ptr(), default_threads(), 0,
    )  # fmt: skip
    return out
