"""Depthwise convolution."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.derived import Derived
from antiphon.ops.native.extension import extension
from antiphon.ops.threads import default_threads

_taps_first: Derived[Tensor] = Derived()


def depthwise(x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, int], dilation: int) -> Tensor:
    """Convolve x [B, T, C] with a weight [C, 1, taps]; the padding must keep the number of frames."""
    taps = _taps_first.get(weight, lambda: weight.detach()[:, 0].T.contiguous())
    x = x.contiguous()
    out = torch.empty_like(x)
    extension().depthwise(
        x.data_ptr(), *x.shape, taps.data_ptr(), len(taps), dilation, padding[0],
        0 if bias is None else bias.data_ptr(), out.data_ptr(), default_threads(), 0,
    )  # fmt: skip
    return out
