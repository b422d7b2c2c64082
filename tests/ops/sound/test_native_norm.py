"""The native norm of synthesis: in 16 bits, and with large arguments of its sine."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from antiphon.ops.native import half
from antiphon.ops.native.extension import available
from antiphon.ops.sound import native as sound

needs_half = pytest.mark.skipif(not half.computes_in_half(), reason="this processor does not compute in 16-bit floats")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


@needs_half
def test_a_norm_in_16_bits_is_the_rounded_one(generator: torch.Generator) -> None:
    x, lengths = torch.randn(2, 150, 70, generator=generator) * 3 + 5, torch.tensor([150, 40])
    scale, shift, alpha = torch.rand(2, 70), torch.randn(2, 70, generator=generator), torch.rand(70) + 0.5
    full = sound.adaptive_norm(x, lengths, scale, shift, 1e-5, None, alpha)
    narrow = sound.adaptive_norm(x, lengths, scale, shift, 1e-5, None, alpha, half=True)
    assert narrow.dtype is half.half_format().dtype
    assert torch.equal(narrow, full.to(narrow.dtype))


@pytest.mark.skipif(not available(), reason="without native kernels")
def test_the_squared_sine_of_large_arguments(generator: torch.Generator) -> None:
    x = torch.randn(1, 400, 16, generator=generator) * 300
    ones, zeros = torch.ones(1, 16), torch.zeros(1, 16)
    got = sound.adaptive_norm(x, torch.tensor([400]), ones, zeros, 1e-5, None, torch.full((16,), 200.0))
    y = 200 * F.instance_norm(x.double().transpose(1, 2), eps=1e-5).transpose(1, 2)
    # The norm itself is rounded to 1e-7 of some 600.
    torch.testing.assert_close(got.double(), y + y.sin() ** 2, rtol=1e-6, atol=1e-3)
