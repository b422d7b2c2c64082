"""Convolutions that may compute in 16-bit floats: near the exact ones, and each row as it would be alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon import ops
from antiphon.ops.native import half
from support.kernels.conformance import checks

#: Of the size of what is added up: products of 8 bits, or 16-bit sums of 128 of 11 bits and what Winograd's algorithm
#: makes of their errors.
TOLERANCE = 0.01


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def exact(x: Tensor, weight: Tensor, bias: Tensor, padding: tuple[int, int], dilation: int, stride: int) -> Tensor:
    rows = F.pad(x.double().transpose(1, 2), padding)
    y = F.conv1d(rows, weight.double(), bias.double(), stride, dilation=dilation)
    return y.transpose(1, 2)


def error(got: Tensor, expected: Tensor) -> float:
    return float((got.double() - expected).norm() / expected.norm())


@checks("half_conv1d")
@pytest.mark.parametrize(
    ("outputs", "inputs", "width", "dilation", "stride", "frames"),
    [
        (64, 64, 3, 1, 1, 130),
        (80, 72, 3, 3, 1, 101),
        (64, 66, 7, 5, 1, 200),
        (64, 128, 11, 1, 1, 193),
        (72, 64, 11, 6, 1, 97),
        (64, 64, 5, 7, 1, 80),
        (22, 128, 7, 1, 1, 70),
        (64, 22, 12, 1, 6, 90),
        (48, 30, 1, 1, 1, 9),
    ],
)
def test_convolution(
    outputs: int, inputs: int, width: int, dilation: int, stride: int, frames: int, backend: str,
    generator: torch.Generator,
) -> None:  # fmt: skip
    x = torch.randn(2, frames, inputs, generator=generator)
    weight = torch.randn(outputs, inputs, width, generator=generator) / (inputs * width) ** 0.5
    bias = torch.randn(outputs, generator=generator)
    padding = ((width - 1) * dilation // 2, (width - 1) * dilation - (width - 1) * dilation // 2)
    expected = exact(x, weight, bias, padding, dilation, stride)
    residual = torch.randn(expected.shape, generator=generator)
    got = ops.half_conv1d(x, weight, bias, stride, padding, dilation, "relu", residual)
    assert error(got, expected.relu() + residual) < TOLERANCE
    alone = ops.half_conv1d(x[1:], weight, bias, stride, padding, dilation, "relu", residual[1:])
    exactly = backend == "native" and half.computes_in_half()
    rounded = 4e-3 if backend == "triton" else 1e-4  # a last bit of fp16, which the sum is rounded to
    torch.testing.assert_close(got[1:], alone, rtol=0, atol=0 if exactly else rounded)
    narrow = ops.half_conv1d(x, weight, bias, stride, padding, dilation, narrow=True)
    assert error(narrow, expected) < TOLERANCE


@checks("half_conv_transpose1d")
@pytest.mark.parametrize(("width", "stride", "padding"), [(20, 10, 5), (12, 6, 3), (4, 4, 0), (9, 3, 2)])
def test_transposed_convolution(width: int, stride: int, padding: int, generator: torch.Generator) -> None:
    x = torch.randn(2, 31, 40, generator=generator)
    weight, bias = torch.randn(40, 24, width, generator=generator), torch.randn(24, generator=generator)
    expected = F.conv_transpose1d(x.double().transpose(1, 2), weight.double(), bias.double(), stride, padding)
    got = ops.half_conv_transpose1d(x, weight, bias, stride, padding)
    assert got.shape == expected.transpose(1, 2).shape
    assert error(got, expected.transpose(1, 2)) < TOLERANCE
