"""Convolution as a product: in [B, T, C] the taps of an output lie end to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from antiphon.ops import reference
from antiphon.ops.native.extension import available, default_threads, extension
from antiphon.ops.native.product import _ACTIVATIONS
from antiphon.ops.types import Activation
from antiphon.weights.types import TensorType


@dataclass(frozen=True)
class Taps:
    """A weight as the extension reads it: [C_out, kernel * C_in], tap by tap."""

    matrix: Any
    rows: Tensor
    version: int  # of the weight that this was made of


_made: Any = WeakTensorKeyDictionary()


def taps(weight: Tensor) -> Taps:
    """The extension's view of a weight [C_out, C_in, kernel], made once."""
    found: Taps | None = _made.get(weight)
    if found is None or found.version != weight._version:
        rows = weight.detach().transpose(1, 2).flatten(1).contiguous()
        matrix = extension().Matrix(rows.shape[1])
        matrix.append(TensorType.F32, rows.data_ptr(), rows.shape[1] * 4, rows.shape[0], 0)
        found = _made[weight] = Taps(matrix, rows, weight._version)
    return found


def supports(weight: Tensor, bias: Tensor | None, dilation: int, groups: int, activation: Activation) -> bool:
    """Whether there is a kernel: fp32, neither dilated nor grouped nor gated."""
    plain = all(t is None or (t.dtype is torch.float32 and t.is_cpu) for t in (weight, bias))
    return available() and plain and dilation == 1 and groups == 1 and not _ACTIVATIONS[activation][1]


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
    frames = x.shape[1] + sum(padding)
    if state is not None or x.dtype is not torch.float32 or frames < weight.shape[2] or min(padding) < 0:
        return reference.conv1d(x, weight, bias, stride, padding, dilation, groups, activation, state)
    if not supports(weight, bias, dilation, groups, activation) or x.shape[2] != weight.shape[1]:
        return reference.conv1d(x, weight, bias, stride, padding, dilation, groups, activation, state)
    x, bias = x.contiguous(), None if bias is None else bias.contiguous()
    outputs, channels, kernel = weight.shape
    length = (frames - kernel) // stride + 1
    out = torch.empty(x.shape[0], length, outputs)
    extension().convolution(
        taps(weight).matrix.address, x.data_ptr(), *x.shape, length, stride, *padding,
        0 if bias is None else bias.data_ptr(), _ACTIVATIONS[activation][0], out.data_ptr(),
        threads or default_threads(), variant,
    )  # fmt: skip
    return out
