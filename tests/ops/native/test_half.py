"""Convolutions that may compute in 16-bit floats: near the exact ones, and each row as it would be alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon import ops
from antiphon.ops.native import half, recurrent
from antiphon.ops.native.extension import available
from antiphon.ops.sound import native as sound

needs_half = pytest.mark.skipif(not half.computes_in_half(), reason="this processor does not compute in 16-bit floats")

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


@pytest.mark.parametrize("backend", ops.available_backends())
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
    with ops.use_backend(backend):
        got = ops.half_conv1d(x, weight, bias, stride, padding, dilation, "relu", residual)
        assert error(got, expected.relu() + residual) < TOLERANCE
        alone = ops.half_conv1d(x[1:], weight, bias, stride, padding, dilation, "relu", residual[1:])
        exactly = backend == "native" and half.computes_in_half()
        torch.testing.assert_close(got[1:], alone, rtol=0, atol=0 if exactly else 1e-4)
        narrow = ops.half_conv1d(x, weight, bias, stride, padding, dilation, narrow=True)
        assert error(narrow, expected) < TOLERANCE


@pytest.mark.parametrize("backend", ops.available_backends())
@pytest.mark.parametrize(("width", "stride", "padding"), [(20, 10, 5), (12, 6, 3), (4, 4, 0), (9, 3, 2)])
def test_transposed_convolution(
    width: int, stride: int, padding: int, backend: str, generator: torch.Generator
) -> None:
    x = torch.randn(2, 31, 40, generator=generator)
    weight, bias = torch.randn(40, 24, width, generator=generator), torch.randn(24, generator=generator)
    expected = F.conv_transpose1d(x.double().transpose(1, 2), weight.double(), bias.double(), stride, padding)
    with ops.use_backend(backend):
        got = ops.half_conv_transpose1d(x, weight, bias, stride, padding)
    assert got.shape == expected.transpose(1, 2).shape
    assert error(got, expected.transpose(1, 2)) < TOLERANCE


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


@pytest.mark.skipif(not available(), reason="without native kernels")
def test_recurrence_by_rows_and_threads(generator: torch.Generator) -> None:
    def weights() -> ops.LSTMWeights:
        shapes = ((64, 20), (64, 16), (64,), (64,))
        return ops.LSTMWeights(*(torch.randn(*shape, generator=generator) * 0.4 for shape in shapes))

    forward, backward = weights(), weights()
    x, lengths = torch.randn(3, 12, 20, generator=generator), torch.tensor([12, 1, 7])
    with ops.use_backend("reference"):
        expected = ops.lstm(x, lengths, forward, backward)
    for threads in (1, 2):
        got = recurrent.lstm(x, lengths, forward, backward, threads=threads)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
        assert torch.equal(got[2:, :7], recurrent.lstm(x[2:, :7], lengths[2:], forward, backward))
