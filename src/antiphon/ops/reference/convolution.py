"""Convolutions over time of [B, T, C], plain and transposed, with or without state."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.ops.reference.activation import activate
from antiphon.ops.types import Activation


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
    """Convolve x [B, T, C_in] with weight [C_out, C_in / groups, kernel] → [B, T', C_out], contiguous.

    `state` [B, S, C_in] holds the last S inputs of the previous call: it is prepended to x and then overwritten with
    the last S inputs, so that the results of chunks, joined, equal the result of the whole.
    """
    if state is not None:
        x = torch.cat([state, x], dim=1)
        state.copy_(x[:, x.shape[1] - state.shape[1] :])
    channels_first = F.pad(x.transpose(1, 2), padding)
    y = F.conv1d(channels_first, weight, bias, stride=stride, dilation=dilation, groups=groups)
    return activate(y.transpose(1, 2), activation).contiguous()


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
    """Convolve x [B, T, C_in], transposed, with weight [C_in, C_out / groups, kernel] → [B, T', C_out].

    `state` [B, kernel - stride, C_out] is the unfinished tail of the previous call: it is added to the start, then
    overwritten with this call's tail. With a state, T' is T * stride and both paddings must be 0.
    """
    channels_first = x.transpose(1, 2)
    if state is None:
        y = F.conv_transpose1d(channels_first, weight, bias, stride, padding, output_padding, groups)
        return y.transpose(1, 2).contiguous()
    y = F.conv_transpose1d(channels_first, weight, None, stride, groups=groups).transpose(1, 2).contiguous()
    tail = state.shape[1]
    y[:, :tail] += state
    state.copy_(y[:, y.shape[1] - tail :])
    y = y[:, : y.shape[1] - tail]
    return y if bias is None else y + bias


def half_type() -> torch.dtype | None:
    """Return None: the reference of the `half_*` operations computes in 32 bits."""
    return None


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
    """Compute activation(x [B, T, C_in] convolved + bias) + residual, in 16-bit floats if the backend has them.

    A backend may round x and the weight to 16 bits, and add up to 128 products in 16 bits. x may have 16 bits already.
    The result is fp32; with `narrow` it may have 16 bits.
    """
    y = conv1d(x.float(), weight, bias, stride, padding, dilation, activation=activation)
    return y if residual is None else y + residual


def half_conv_transpose1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0
) -> Tensor:
    """Compute `conv_transpose1d`, in 16-bit floats if the backend has them, as for `half_conv1d`."""
    return conv_transpose1d(x.float(), weight, bias, stride, padding)


def prepare_convolution(weight: Tensor, stride: int = 1, groups: int = 1) -> None:
    """Prepare the forms that `conv1d` caches for a weight [C_out, C_in / groups, kernel]; results stay the same."""
