"""Convolutions and products in 16-bit floats, for processors that compute in these at twice the rate of fp32."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.ops.derived import Derived
from antiphon.ops.native import convolution
from antiphon.ops.native.extension import available, extension
from antiphon.ops.native.tables import ACTIVATIONS
from antiphon.ops.reference import rows as reference
from antiphon.ops.threads import default_threads
from antiphon.ops.types import Activation

#: Number of output channels in a panel.
PANEL = 16
#: Minimum channels and frames for which Winograd's algorithm is faster, and the maximum dilation that it supports.
MIN_CHANNELS, MIN_FRAMES, MAX_DILATION = 64, 64, 6
#: Finite points of Winograd's algorithm (csrc/half/winograd.h), and the number of outputs of a tile.
_POINTS, _OUTPUTS = (0.0, 1.0, -1.0, 0.5, -2.0, 2.0), 4


_TYPES = (None, torch.float16, torch.bfloat16)  # indexed by the extension's numbers


@dataclass(frozen=True)
class HalfFormat:
    """Number format of a set of kernels."""

    dtype: torch.dtype
    columns: int  # input channels are padded to a multiple of this


@cache
def half_format(variant: int = 0) -> HalfFormat | None:
    """Return the format of this processor's 16-bit kernels: fp16 on ARM, bf16 with AMX; None without such kernels."""
    if not available():
        return None
    number, columns = extension().half_format(variant)
    dtype = _TYPES[number]
    return None if dtype is None else HalfFormat(dtype, columns)


def half_type() -> torch.dtype | None:
    found = half_format()
    return None if found is None else found.dtype


def computes_in_half(variant: int = 0) -> bool:
    """Return whether this processor has kernels for 16-bit floats."""
    return half_format(variant) is not None


def _known_format(variant: int = 0) -> HalfFormat:
    found = half_format(variant)
    if found is None:
        raise ValueError("this processor has no kernels for 16-bit floats")
    return found


@dataclass(frozen=True)
class HalfPanels:
    """Weight [outputs, inputs, taps] as the extension reads it.

    `values` are [outputs / 16, taps, inputs, 16] in fp16, or [outputs / 16, taps, inputs / 2, 16, 2] in bf16. With a
    `transform`, which only fp16 has, the second dimension is points and groups of taps instead.
    """

    values: Tensor
    outputs: int
    inputs: int  # padding included
    taps: int
    transform: int = 0  # taps of a group in Winograd's algorithm; 0 for the plain sum

    @classmethod
    def of(cls, weight: Tensor, transform: int = 0) -> HalfPanels:
        outputs, inputs, taps = weight.shape
        form = _known_format()
        filled = F.pad(weight.detach(), (0, 0, 0, -inputs % form.columns, 0, -outputs % PANEL))
        if transform:
            groups = F.pad(filled.double(), (0, -taps % transform)).unflatten(2, (-1, transform))
            filled = torch.einsum("pt,oigt->oipg", _kernel_matrix(transform), groups).flatten(2).float()
        values = filled.unflatten(0, (-1, PANEL)).permute(0, 3, 2, 1).to(form.dtype)
        if form.dtype is torch.bfloat16:
            values = values.unflatten(2, (-1, 2)).transpose(3, 4)
        return cls(values.contiguous(), outputs, filled.shape[1], taps, transform)


@cache
def _kernel_matrix(taps: int) -> Tensor:
    """Return the transform [points, taps] of a group of taps, divided by the factors of the input's transform."""
    finite = torch.tensor(_POINTS[: _OUTPUTS + taps - 2], dtype=torch.float64)
    differences = finite[:, None] - finite
    scale = differences.masked_fill(differences == 0, 1.0).prod(1, keepdim=True)
    infinity = torch.eye(taps, dtype=torch.float64)[-1:]
    return torch.cat([finite[:, None] ** torch.arange(taps) / scale, infinity])


_made: Derived[HalfPanels] = Derived()


def panels(weight: Tensor, transform: int = 0) -> HalfPanels:
    """Return the panels of a weight, made once."""
    return _made.get(weight, lambda: HalfPanels.of(weight, transform), transform)


def suited_transform(weight: Tensor, stride: int, dilation: int, frames: int) -> int:
    """Return the number of taps in a group of Winograd's algorithm; 0 for the plain sum."""
    outputs, inputs, taps = weight.shape
    large = min(outputs, inputs) >= MIN_CHANNELS and frames >= MIN_FRAMES and taps >= 3
    if not large or stride != 1 or dilation > MAX_DILATION or _known_format().dtype is not torch.float16:
        return 0
    return 3 if taps == 3 else 4


def transposed_panels(weight: Tensor, stride: int) -> HalfPanels:
    """Return panels of a transposed weight [inputs, outputs, taps] as a convolution with outputs * stride outputs."""

    def make() -> HalfPanels:
        taps = weight.detach().unflatten(2, (-1, stride)).flip(2)  # [inputs, outputs, taps / stride, stride]
        return HalfPanels.of(taps.permute(3, 1, 0, 2).flatten(0, 1))

    return _made.get(weight, make, "transposed", stride)


def _rounded(x: Tensor, threads: int, variant: int) -> Tensor:
    form = _known_format(variant)
    if x.dtype is not torch.float32:
        return x.to(form.dtype)
    out = torch.empty(x.shape, dtype=form.dtype)
    extension().round_to_half(x.data_ptr(), out.data_ptr(), x.numel(), threads, variant)
    return out


def convolve(
    x: Tensor,
    weight: HalfPanels,
    bias: Tensor | None,
    stride: int,
    padding: tuple[int, int],
    dilation: int,
    activation: Activation,
    residual: Tensor | None,
    narrow: bool = False,
    threads: int | None = None,
    variant: int = 0,
) -> Tensor:
    """Convolve x [B, T, C] → [B, frames, outputs], in fp32, or in 16 bits if `narrow`."""
    rows, frames, channels = x.shape
    out_frames = (frames + sum(padding) - (weight.taps - 1) * dilation - 1) // stride + 1
    x = F.pad(x, (0, weight.inputs - channels)) if channels != weight.inputs else x.contiguous()
    x = _rounded(x, threads or default_threads(), variant)
    out = torch.empty(rows, out_frames, weight.outputs, dtype=x.dtype if narrow else torch.float32)
    residual = None if residual is None else residual.contiguous()
    if residual is not None and (residual.shape != out.shape or residual.dtype is not torch.float32):
        raise ValueError(f"the residual is {residual.dtype} {tuple(residual.shape)}, not float32 {tuple(out.shape)}")
    extension().half_convolution(
        weight.values.data_ptr(), weight.taps, weight.outputs, x.data_ptr(), rows, frames, weight.inputs, out_frames,
        stride, padding[0], dilation, weight.transform, 0 if bias is None else bias.data_ptr(),
        ACTIVATIONS[activation][0], 0 if residual is None else residual.data_ptr(), 0 if narrow else out.data_ptr(),
        out.data_ptr() if narrow else 0, threads or default_threads(), variant,
    )  # fmt: skip
    return out


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
    frames = x.shape[1] + sum(padding)
    plain = x.is_cpu and frames > (weight.shape[2] - 1) * dilation and min(padding) >= 0
    if not plain or not computes_in_half() or ACTIVATIONS[activation][1]:
        y = convolution.conv1d(x.float(), weight, bias, stride, padding, dilation, activation=activation)
        return y if residual is None else reference.add(y, residual)
    transform = suited_transform(weight, stride, dilation, frames)
    return convolve(x, panels(weight, transform), bias, stride, padding, dilation, activation, residual, narrow)


def half_conv_transpose1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0
) -> Tensor:
    _, outputs, width = weight.shape
    if not x.is_cpu or not computes_in_half() or width % stride:
        return convolution.conv_transpose1d(x.float(), weight, bias, stride, padding)
    overlap = width // stride - 1
    # Frame t of this convolution holds `stride` outputs from t * stride, computed from inputs t - overlap to t.
    wide = None if bias is None else bias.repeat(stride)
    y = convolve(x, transposed_panels(weight, stride), wide, 1, (overlap, overlap), 1, "none", None)
    length = (x.shape[1] - 1) * stride + width - 2 * padding
    return y.view(len(x), -1, outputs)[:, padding : padding + length]
