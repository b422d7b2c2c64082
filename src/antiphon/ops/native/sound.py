"""The norm of synthesis in two passes over memory."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops import reference
from antiphon.ops.native.extension import available, default_threads, extension
from antiphon.ops.native.half import computes_in_half

_NONE, _LEAKY, _SNAKE = range(3)


def adaptive_norm(
    x: Tensor,
    lengths: Tensor,
    scale: Tensor,
    shift: Tensor,
    eps: float,
    slope: float | None = None,
    alpha: Tensor | None = None,
    half: bool = False,
    threads: int | None = None,
    variant: int = 0,
) -> Tensor:
    plain = available() and x.is_cpu and x.dtype is torch.float32 and x.is_contiguous()
    if not plain or (slope is not None and alpha is not None):
        return reference.adaptive_norm(x, lengths, scale, shift, eps, slope, alpha)
    half = half and computes_in_half(variant)
    scale, shift = scale.contiguous(), shift.contiguous()
    out = torch.empty(x.shape, dtype=torch.float16 if half else torch.float32)
    function = _LEAKY if slope is not None else _SNAKE if alpha is not None else _NONE
    for row, length in enumerate(lengths.tolist()):
        extension().adaptive_norm(
            x[row].data_ptr(), length, x.shape[2], scale[row].data_ptr(), shift[row].data_ptr(),
            0 if alpha is None else alpha.data_ptr(), eps, function, slope or 0.0,
            0 if half else out[row].data_ptr(), out[row].data_ptr() if half else 0, threads or default_threads(),
            variant,
        )  # fmt: skip
        out[row, length:] = 0.0
    return out
