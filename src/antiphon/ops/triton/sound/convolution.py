"""Convolutions by cuDNN, without moving frames: [B, T, C] is an image of one line whose channels come last.

In 32 bits, PyTorch's setting for cuDNN decides whether factors are rounded to TF32. In 16 bits, factors and results are
fp16 and sums fp32: fp16 has as many mantissa bits as TF32, at twice the rate and half the bytes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.ops.derived import Derived
from antiphon.ops.reference import convolution as reference
from antiphon.ops.triton.epilogue import finish
from antiphon.ops.types import Activation

_KERNELS: Derived[Tensor] = Derived()


def half_type() -> torch.dtype | None:
    return torch.float16


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
) -> Tensor:
    if state is not None or groups > 1 or x.dtype is not weight.dtype or activation.endswith("_gate"):
        return reference.conv1d(x, weight, bias, stride, padding, dilation, groups, activation, state)
    y = _convolve(x, weight, stride, padding, dilation, x.dtype)
    return _finished(y, bias, activation, None, x.dtype)


def half_conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
    dilation: int = 1,
    activation: Activation = "none",
    residual: Tensor | None = None,
    narrow: bool = False,
) -> Tensor:
    y = _convolve(x, weight, stride, padding, dilation, torch.float16)
    return _finished(y, bias, activation, residual, torch.float16 if narrow else torch.float32)


def conv_transpose1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    groups: int = 1,
    state: Tensor | None = None,
) -> Tensor:
    if state is not None or x.dtype is not weight.dtype or (groups > 1 and weight.shape[:2] != (groups, 1)):
        return reference.conv_transpose1d(x, weight, bias, stride, padding, output_padding, groups, state)
    if groups > 1:
        return _channel_by_channel(x, weight, bias, stride, padding, output_padding)
    y = _transposed(x, weight, stride, padding, output_padding, x.dtype)
    return _finished(y, bias, "none", None, x.dtype)


def half_conv_transpose1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0
) -> Tensor:
    return _finished(_transposed(x, weight, stride, padding, 0, torch.float16), bias, "none", None, torch.float32)


def _kernel(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the weight as cuDNN reads it, created once: [outputs, inputs, 1, taps] with inputs last in memory."""
    return _KERNELS.get(
        weight, lambda: weight[:, :, None].to(dtype).contiguous(memory_format=torch.channels_last), dtype
    )


def _convolve(
    x: Tensor, weight: Tensor, stride: int, padding: tuple[int, int], dilation: int, dtype: torch.dtype
) -> Tensor:
    """Convolve x [B, T, C_in] → [B, T', C_out] in `dtype`, without bias."""
    before, after = padding
    if before != after:
        x, before = F.pad(x, (0, 0, before, after)), 0
    image, kernel = _operands(x, weight, dtype)
    y = F.conv2d(image, kernel, None, (1, stride), (0, before), (1, dilation))
    return y[:, :, 0].transpose(1, 2).to(dtype).contiguous()


def _transposed(
    x: Tensor, weight: Tensor, stride: int, padding: int, output_padding: int, dtype: torch.dtype
) -> Tensor:
    image, kernel = _operands(x, weight, dtype)
    y = F.conv_transpose2d(image, kernel, None, (1, stride), (0, padding), (0, output_padding))
    return y[:, :, 0].transpose(1, 2).to(dtype).contiguous()


def _operands(x: Tensor, weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    image, kernel = x.to(dtype).contiguous().transpose(1, 2)[:, :, None], _kernel(weight, dtype)
    # On the CPU, multiply the same fp16 factors in fp32, since a GPU sums in fp32.
    return (image.float(), kernel.float()) if dtype is torch.float16 and not x.is_cuda else (image, kernel)


def _channel_by_channel(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int, output_padding: int
) -> Tensor:
    """Compute a transposed convolution of each channel by itself, tap by tap, since libraries are slow at these."""
    batch, frames, channels = x.shape
    taps = weight.shape[2]
    span = (frames - 1) * stride + 1
    y = x.new_zeros(batch, span - 1 + taps + output_padding, channels)
    for tap in range(taps):
        y[:, tap : tap + span : stride].addcmul_(x, weight[:, 0, tap])
    y = y[:, padding : y.shape[1] - padding]
    return y.contiguous() if bias is None else y + bias


def _finished(
    y: Tensor, bias: Tensor | None, activation: Activation, residual: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Add bias, apply the activation and add the residual in one kernel; return the result in `dtype`."""
    if bias is None and activation == "none" and residual is None:
        return y.to(dtype)
    beside = None if residual is None else residual.flatten(0, 1)
    return finish(y.flatten(0, 1), bias, activation, beside, dtype).view(y.shape)
