"""Convolution without copies: the inputs of an output's taps are contiguous in [B, T, C]."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.derived import Derived
from antiphon.ops.native.extension import available, extension
from antiphon.ops.native.tables import ACTIVATIONS
from antiphon.ops.reference import convolution as reference
from antiphon.ops.threads import default_threads
from antiphon.ops.types import Activation

#: Number of output channels in a panel.
PANEL = 8

_made: Derived[Tensor] = Derived()


def panels(weight: Tensor) -> Tensor:
    """Return a weight [C_out, C_in, kernel] as the extension reads it, [C_out / 8, kernel * C_in, 8], made once."""

    def make() -> Tensor:
        rows = weight.detach().transpose(1, 2).flatten(1)  # [C_out, kernel * C_in]
        padded = torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % PANEL))
        return padded.unflatten(0, (-1, PANEL)).transpose(1, 2).contiguous()

    return _made.get(weight, make)


def supports(weight: Tensor, bias: Tensor | None, dilation: int, groups: int, activation: Activation) -> bool:
    """Return whether there is a kernel: only for fp32, neither dilated nor grouped nor gated."""
    plain = all(t is None or (t.dtype is torch.float32 and t.is_cpu) for t in (weight, bias))
    return available() and plain and dilation == 1 and groups == 1 and not ACTIVATIONS[activation][1]


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
    dilation: int = 1,
    groups: int = 1,
    activation: Activation = "none",
    state: Tensor | None = None,
    threads: int | None = None,
    variant: int = 0,
) -> Tensor:
    outputs, channels, kernel = weight.shape
    frames = x.shape[1] + sum(padding)
    fits = x.dtype is torch.float32 and x.is_cpu and x.shape[2] == channels and frames >= kernel and min(padding) >= 0
    if state is not None or not fits or not supports(weight, bias, dilation, groups, activation):
        return reference.conv1d(x, weight, bias, stride, padding, dilation, groups, activation, state)
    x, bias = x.contiguous(), None if bias is None else bias.contiguous()
    length = (frames - kernel) // stride + 1
    out, packed = torch.empty(x.shape[0], length, outputs), panels(weight)
    extension().convolution(
        packed.data_ptr(), kernel, outputs, x.data_ptr(), *x.shape, length, stride, padding[0],
        0 if bias is None else bias.data_ptr(), ACTIVATIONS[activation][0], out.data_ptr(),
        threads or default_threads(), variant,
    )  # fmt: skip
    return out
