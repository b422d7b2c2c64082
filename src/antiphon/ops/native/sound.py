"""The norm of synthesis in two passes over memory."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops import reference
from antiphon.ops.native.extension import available, default_threads, extension
from antiphon.ops.native.half import half_format

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
    form = half_format(variant) if half else None
    scale, shift = scale.contiguous(), shift.contiguous()
    out = torch.empty(x.shape, dtype=torch.float32 if form is None else form.dtype)
    function = _LEAKY if slope is not None else _SNAKE if alpha is not None else _NONE
    for row, length in enumerate(lengths.tolist()):
        extension().adaptive_norm(
            x[row].data_ptr(), length, x.shape[2], scale[row].data_ptr(), shift[row].data_ptr(),
            0 if alpha is None else alpha.data_ptr(), eps, function, slope or 0.0,
            out[row].data_ptr() if form is None else 0, 0 if form is None else out[row].data_ptr(),
            threads or default_threads(), variant,
        )  # fmt: skip
        out[row, length:] = 0.0
    return out
