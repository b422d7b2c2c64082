"""Convolutions over padded frames [B, T, channels], with weights from a checkpoint."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon import ops
from antiphon.layers.module import Halvable
from antiphon.ops import Activation
from antiphon.weights.source import Source


class Convolution(Halvable):
    """A convolution of odd width that keeps the number of frames if its stride is 1.

    In a model with a 16-bit compute type, the convolution computes in 16 bits too.
    """

    is_narrow = False

    def __init__(
        self,
        source: Source,
        name: str,
        inputs: int,
        outputs: int,
        width: int,
        *,
        stride: int = 1,
        padding: int | None = None,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        activation: Activation = "none",
    ) -> None:
        self.weight = source.tensor(f"{name}.weight", (outputs, inputs // groups, width))
        self.bias = source.tensor(f"{name}.bias", (outputs,)) if bias else None
        self.stride = stride
        self.padding = (width - 1) * dilation // 2 if padding is None else padding
        self.dilation = dilation
        self.groups = groups
        self.activation: Activation = activation

    def set_compute_type(self, dtype: torch.dtype | None) -> None:
        self.is_narrow = dtype is not None

    def prepare(self) -> None:
        if not self.half:
            ops.prepare_convolution(self.weight, self.stride, self.groups)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        form = (self.weight, self.bias, self.stride, (self.padding, self.padding), self.dilation)
        if (self.half or self.is_narrow) and self.groups == 1:
            return ops.half_conv1d(x, *form, activation=self.activation, residual=residual)
        y = ops.conv1d(x, *form, self.groups, self.activation)
        return y if residual is None else ops.add(y, residual)


class TransposedConvolution(Halvable):
    """A transposed convolution that returns `stride` frames per input frame."""

    def __init__(
        self, source: Source, name: str, inputs: int, outputs: int, width: int, stride: int, *, groups: int = 1
    ) -> None:
        self.weight = source.tensor(f"{name}.weight", (inputs, outputs // groups, width))
        self.bias = source.tensor(f"{name}.bias", (outputs,))
        self.stride = stride
        self.padding = (width - stride + 1) // 2
        self.output_padding = stride + 2 * self.padding - width
        self.groups = groups

    def __call__(self, x: Tensor) -> Tensor:
        if self.half and self.groups == 1 and not self.output_padding:
            return ops.half_conv_transpose1d(x, self.weight, self.bias, self.stride, self.padding)
        return ops.conv_transpose1d(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups
        )
