"""The native convolution equals PyTorch's for every shape, and its bits depend on neither threads nor company."""

from __future__ import annotations

import pytest
import torch

from antiphon.ops import native
from antiphon.ops.native import direct_convolution
from antiphon.ops.reference import convolution as reference

pytestmark = pytest.mark.skipif(not native.available(), reason="the native extension was not built")

#: frames, channels in and out, kernel, stride, padding; more than 512 columns are added up in several passes.
SHAPES = [
    (40, 8, 16, 3, 1, (1, 1)),
    (41, 5, 13, 3, 2, (1, 1)),
    (300, 200, 24, 3, 1, (2, 0)),
    (9, 3, 7, 9, 1, (0, 0)),
    (9, 3, 9, 7, 3, (6, 6)),
    (4, 6, 8, 5, 1, (4, 4)),
    (1, 1, 1, 1, 1, (0, 0)),
    (17, 33, 65, 4, 4, (3, 5)),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variant", range(len(native.variants())))
def test_equals_pytorch(shape: tuple[int, int, int, int, int, tuple[int, int]], variant: int) -> None:
    frames, inputs, outputs, kernel, stride, padding = shape
    generator = torch.Generator().manual_seed(frames)
    x = torch.randn(2, frames, inputs, generator=generator)
    weight, bias = torch.randn(outputs, inputs, kernel, generator=generator), torch.randn(outputs, generator=generator)
    for activation in ("none", "gelu"):
        arguments = (weight, bias, stride, padding, 1, 1, activation)
        found = [direct_convolution.conv1d(x, *arguments, threads=threads, variant=variant) for threads in (1, 2, 3)]
        expected = reference.conv1d(x, *arguments)
        assert found[0].shape == expected.shape
        torch.testing.assert_close(found[0], expected, atol=2e-5 * (inputs * kernel) ** 0.5, rtol=1e-5)
        assert all(torch.equal(other, found[0]) for other in found[1:])
        alone = direct_convolution.conv1d(x[1:], *arguments, variant=variant)
        assert torch.equal(alone[0], found[0][1])


def test_a_changed_weight_is_read_anew() -> None:
    x, weight = torch.randn(1, 9, 4), torch.randn(8, 4, 3)
    first = direct_convolution.conv1d(x, weight)
    weight.mul_(2)
    torch.testing.assert_close(direct_convolution.conv1d(x, weight), 2 * first)


def test_what_has_no_kernel_falls_to_the_reference() -> None:
    x, weight = torch.randn(1, 20, 8), torch.randn(8, 8, 3)
    assert torch.equal(direct_convolution.conv1d(x, weight, dilation=2), reference.conv1d(x, weight, dilation=2))
    grouped = torch.randn(8, 2, 3)
    assert torch.equal(direct_convolution.conv1d(x, grouped, groups=4), reference.conv1d(x, grouped, groups=4))
