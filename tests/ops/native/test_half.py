"""Native convolutions in 16-bit floats: what they keep of weights, and that threads change nothing."""

from __future__ import annotations

import pytest
import torch

from antiphon.ops.native import half

needs_half = pytest.mark.skipif(not half.computes_in_half(), reason="this processor does not compute in 16-bit floats")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


@needs_half
def test_a_weight_that_changes_is_made_anew(generator: torch.Generator) -> None:
    x, weight = torch.randn(1, 90, 64, generator=generator), torch.randn(64, 64, 3, generator=generator)
    first = half.half_conv1d(x, weight)
    weight.mul_(2)
    torch.testing.assert_close(half.half_conv1d(x, weight), 2 * first)


@needs_half
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads: int, generator: torch.Generator) -> None:
    x, weight = torch.randn(2, 500, 64, generator=generator), torch.randn(64, 64, 7, generator=generator)
    for transform in (0, 4) if half.half_format().dtype is torch.float16 else (0,):
        panels = half.HalfPanels.of(weight, transform=transform)
        arguments = (x, panels, None, 1, (3, 3), 1, "none", None, False)
        assert torch.equal(half.convolve(*arguments, threads=threads), half.convolve(*arguments, threads=1))


@needs_half
def test_a_residual_of_another_shape_is_refused(generator: torch.Generator) -> None:
    x, weight = torch.randn(1, 9, 8, generator=generator), torch.randn(16, 8, 1, generator=generator)
    with pytest.raises(ValueError, match=r"residual is torch.float32 \(1, 9, 8\), not float32 \(1, 9, 16\)"):
        half.half_conv1d(x, weight, residual=torch.zeros(1, 9, 8))
