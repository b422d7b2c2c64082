"""Convolutions of each channel by itself, against torch in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from antiphon import ops


@pytest.mark.parametrize("frames", [1, 6, 150])
@pytest.mark.parametrize("channels", [3, 64, 77])
@pytest.mark.parametrize(("taps", "dilation"), [(3, 1), (5, 1), (5, 4), (7, 1), (7, 8), (9, 2)])
def test_depthwise(taps: int, dilation: int, channels: int, frames: int) -> None:
    generator = torch.Generator().manual_seed(taps * channels + frames)
    x = torch.randn(2, frames, channels, generator=generator)
    weight, bias = (torch.randn(*shape, generator=generator) for shape in ((channels, 1, taps), (channels,)))
    span = (taps - 1) * dilation
    for left in (span // 2, span, 0):
        wide = F.pad(x.double().transpose(1, 2), (left, span - left))
        sums = F.conv1d(wide, weight.double(), None, 1, 0, dilation, channels).transpose(1, 2)
        for own in (bias, None):
            expected = sums if own is None else sums + own.double()
            got = ops.conv1d(x, weight, own, 1, (left, span - left), dilation, channels)
            torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)
