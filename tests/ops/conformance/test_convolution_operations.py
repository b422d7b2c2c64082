"""Convolutions, channel by channel and tap by tap against float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from antiphon import ops
from ops.conformance.test_product_operations import gelu
from support.kernels.conformance import TOLERANCE, checks, relative


def naive_conv(x: Tensor, w: Tensor, b: Tensor, stride: int, dilation: int, groups: int) -> Tensor:
    """[B, T, C] channel by channel, tap by tap."""
    batch, frames, _ = x.shape
    outputs, per_group, kernel = w.shape
    length = (frames - (kernel - 1) * dilation - 1) // stride + 1
    out = b.double().repeat(batch, length, 1)
    for o in range(outputs):
        group = o // (outputs // groups)
        for c in range(per_group):
            for tap in range(kernel):
                start = tap * dilation
                taps = x[:, start : start + (length - 1) * stride + 1 : stride, group * per_group + c].double()
                out[:, :, o] += w[o, c, tap].double() * taps
    return out


@checks("conv1d")
@pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 1), (1, 3, 2), (3, 2, 6)])
def test_conv1d(stride: int, dilation: int, groups: int, generator: torch.Generator) -> None:
    x = torch.randn(2, 30, 6, generator=generator)
    w, b = torch.randn(12, 6 // groups, 4, generator=generator), torch.randn(12, generator=generator)
    got = ops.conv1d(x, w, b, stride, (2, 1), dilation, groups, "gelu")
    padded = torch.nn.functional.pad(x, (0, 0, 2, 1))
    assert got.is_contiguous()
    assert relative(got, gelu(naive_conv(padded, w, b, stride, dilation, groups))) < TOLERANCE


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (1, 2), (2, 1)])
def test_conv1d_state_leaves_no_seam(stride: int, dilation: int, generator: torch.Generator) -> None:
    x = torch.randn(2, 24, 3, generator=generator)
    w, b = torch.randn(5, 3, 4, generator=generator), torch.randn(5, generator=generator)
    left = 3 * dilation + 1 - stride
    whole = ops.conv1d(x, w, b, stride, (left, 0), dilation)
    state = torch.zeros(2, left, 3)
    sizes = (2, 4, 10, 8)
    chunks = [ops.conv1d(part, w, b, stride, (0, 0), dilation, state=state) for part in x.split(sizes, dim=1)]
    torch.testing.assert_close(torch.cat(chunks, 1), whole, atol=1e-5, rtol=1e-5)


@checks("conv_transpose1d")
def test_conv_transpose1d(generator: torch.Generator) -> None:
    x = torch.randn(2, 9, 4, generator=generator)
    w, b = torch.randn(4, 6, 5, generator=generator), torch.randn(6, generator=generator)
    expected = torch.zeros(2, 8 * 2 + 5, 6, dtype=torch.float64)
    for t in range(9):
        for tap in range(5):
            expected[:, 2 * t + tap] += x[:, t].double() @ w[:, :, tap].double()
    got = ops.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1)
    full = torch.cat([expected, torch.zeros(2, 1, 6)], dim=1) + b.double()
    assert relative(got, full[:, 1:-1]) < TOLERANCE
    state = torch.zeros(2, 3, 6)
    chunks = [ops.conv_transpose1d(part, w, b, stride=2, state=state) for part in x.split((1, 2, 5, 1), dim=1)]
    assert relative(torch.cat(chunks, 1), expected[:, :18] + b.double()) < TOLERANCE


@checks("prepare_convolution", "conv1d")
def test_a_prepared_weight_changes_no_result(generator: torch.Generator) -> None:
    x = torch.randn(1, 80, 64, generator=generator)
    weight = torch.randn(64, 64, 3, generator=generator)
    fresh = ops.conv1d(x, weight.clone(), padding=(1, 1))
    ops.prepare_convolution(weight)
    assert torch.equal(ops.conv1d(x, weight, padding=(1, 1)), fresh)
