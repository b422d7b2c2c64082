"""Convolutions as matrix products, with fewer multiplications for kernels of three or more taps (Winograd).

Four outputs of a kernel of r taps need 3 + r products instead of 4 r (arXiv:1509.09308). Longer kernels are split into
groups of four taps, whose products are added before the inverse transform. The relative difference from the plain sum
is about 1e-6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.ops.native import direct_convolution
from antiphon.ops.native.depthwise import depthwise
from antiphon.ops.native.extension import available
from antiphon.ops.reference import convolution as reference
from antiphon.ops.reference.activation import activate
from antiphon.ops.types import Activation

OUTPUTS = 4
#: Finite evaluation points in the order of use; each algorithm's last point is infinity.
_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5)
MIN_CHANNELS = 64
MIN_FRAMES = 64
MAX_WIDTH = 16
#: Maximum elements of a weight to transform: transforming doubles the size, and larger weights see few frames.
MAX_WEIGHTS = 1 << 20
_CACHE = "_antiphon_winograd"


@dataclass(frozen=True)
class _Matrices:
    """Winograd transforms for one number of taps: of the kernel, of the input, and the inverse."""

    kernel: Tensor  # [points, taps], float64
    input: Tensor  # [points, points]
    output: Tensor  # [OUTPUTS, points]


@cache
def _matrices(taps: int) -> _Matrices:
    points = OUTPUTS + taps - 1

    def powers(columns: int) -> Tensor:
        finite = torch.tensor(_POINTS[: points - 1], dtype=torch.float64)
        rows = finite[:, None] ** torch.arange(columns)
        infinity = torch.zeros(1, columns, dtype=torch.float64)
        infinity[0, -1] = 1.0
        return torch.cat([rows, infinity])

    transform = torch.linalg.inv(powers(points)).T
    size = transform.abs().amax(1, keepdim=True)
    return _Matrices(powers(taps) * size, (transform / size).float(), powers(OUTPUTS).T.contiguous().float())


@dataclass(frozen=True)
class _Kernel:
    """Transformed weight of a convolution, by group of taps."""

    groups: list[Tensor]  # [points, inputs, outputs] each
    matrices: _Matrices

    @classmethod
    def of(cls, weight: Tensor) -> _Kernel:
        width = weight.shape[2]
        taps = 3 if width == 3 else OUTPUTS
        padded = F.pad(weight.double(), (0, -width % taps))
        matrices = _matrices(taps)
        groups = [
            torch.einsum("pt,oit->pio", matrices.kernel, part).float().contiguous() for part in padded.split(taps, 2)
        ]
        return cls(groups, matrices)


def has_fewer_products(weight: Tensor) -> bool:
    """Return whether a convolution of stride 1 and enough frames uses Winograd's algorithm for a weight."""
    outputs, inputs, width = weight.shape
    return min(inputs, outputs) >= MIN_CHANNELS and weight.numel() <= MAX_WEIGHTS and 3 <= width <= MAX_WIDTH


def _kernel(weight: Tensor) -> _Kernel:
    """Return the transformed weight, made once and stored as an attribute of the weight."""
    kernel: _Kernel | None = getattr(weight, _CACHE, None)
    if kernel is None:
        kernel = _Kernel.of(weight)
        setattr(weight, _CACHE, kernel)
    return kernel


def prepare_convolution(weight: Tensor, stride: int = 1, groups: int = 1) -> None:
    plain = stride == 1 and groups == 1 and weight.is_cpu and weight.dtype is torch.float32
    if plain and has_fewer_products(weight):
        _kernel(weight)


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
    outputs, _, width = weight.shape
    plain = stride == 1 and groups == 1 and state is None and x.dtype is torch.float32 and x.is_cpu
    if plain and width == 1 and padding == (0, 0):
        y = F.linear(x, weight[:, :, 0], bias)
        return activate(y, activation)
    frames = x.shape[1] + sum(padding) - (width - 1) * dilation
    if plain_depthwise(x, weight, stride, groups, state) and frames == x.shape[1] and min(padding) >= 0:
        return activate(depthwise(x, weight, bias, padding, dilation), activation)
    if not plain or frames < MIN_FRAMES * dilation or not has_fewer_products(weight):
        return direct_convolution.conv1d(x, weight, bias, stride, padding, dilation, groups, activation, state)
    kernel = _kernel(weight)
    out = torch.stack([_row(row, kernel, bias, padding[0], dilation, frames, outputs) for row in x])
    return activate(out, activation)


def plain_depthwise(x: Tensor, weight: Tensor, stride: int, groups: int, state: Tensor | None) -> bool:
    """Return whether this is a depthwise convolution that has a kernel."""
    single = x.dtype is weight.dtype is torch.float32 and x.is_cpu and available()
    return single and stride == 1 and groups > 1 and weight.shape[:2] == (groups, 1) and state is None


def _row(
    x: Tensor, kernel: _Kernel, bias: Tensor | None, before: int, dilation: int, frames: int, outputs: int
) -> Tensor:
    """Convolve one row [T, inputs] → [frames, outputs]. With dilation d it is split into d rows of every d-th frame."""
    matrices, groups = kernel.matrices, kernel.groups
    points, inputs = len(matrices.input), x.shape[1]
    tiles = -(-frames // (OUTPUTS * dilation))
    all_tiles = tiles + len(groups) - 1
    length = dilation * (OUTPUTS * (all_tiles - 1) + points)
    padded = F.pad(x, (0, 0, before, max(0, length - before - len(x))))
    windows = padded.as_strided(
        (points, dilation, all_tiles, inputs), (dilation * inputs, inputs, dilation * OUTPUTS * inputs, 1)
    )
    transformed = (matrices.input @ windows.reshape(points, -1)).view(points, dilation, all_tiles, inputs)
    rows = transformed.flatten(0, 1)  # [points * dilation, all_tiles, inputs]
    weights = [group[:, None].expand(-1, dilation, -1, -1).flatten(0, 1) for group in groups]
    product = torch.bmm(rows[:, :tiles], weights[0])
    for shift, weight in enumerate(weights[1:], start=1):
        torch.baddbmm(product, rows[:, shift : shift + tiles], weight, out=product)
    inverse = (matrices.output @ product.view(points, -1)).view(OUTPUTS, dilation, tiles, outputs)
    out = torch.empty(tiles * OUTPUTS * dilation, outputs)
    target = out.view(tiles, OUTPUTS, dilation, outputs).permute(1, 2, 0, 3)
    if bias is None:
        target.copy_(inverse)
    else:
        torch.add(inverse, bias, out=target)
    return out[:frames]


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
    inputs, outputs, width = weight.shape
    plain = groups == 1 and state is None and not width % stride and x.dtype is torch.float32 and x.is_cpu
    if not plain or output_padding:
        return reference.conv_transpose1d(x, weight, bias, stride, padding, output_padding, groups, state)
    # One product computes all contributions of each frame; contributions to the same output are then added.
    rows, frames = x.shape[:2]
    parts = (x @ weight.permute(0, 2, 1).reshape(inputs, width * outputs)).view(rows, frames, -1, stride * outputs)
    overlap = parts.shape[2]
    out = torch.zeros(rows, frames + overlap - 1, stride * outputs)
    for shift in range(overlap):
        out[:, shift : shift + frames] += parts[:, :, shift]
    y = out.view(rows, -1, outputs)[:, padding : (frames - 1) * stride + width - padding]
    return y.contiguous() if bias is None else y + bias
